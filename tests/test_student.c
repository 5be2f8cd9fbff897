/* Student's t, against closed forms and tables. */
#include <math.h>

#include "stages/student.h"
#include "tests/suite.h"

START_TEST(student_cdf_equals_closed_forms)
{
    for (double t = -40; t <= 40; t += 0.37) {
        ck_assert_double_eq_tol(student_cdf(t, 1), 0.5 + atan(t) / M_PI, 1e-13);
        ck_assert_double_eq_tol(student_cdf(t, 2), 0.5 + t / (2 * sqrt(2 + t * t)), 1e-13);
        double x = t / sqrt(3);
        ck_assert_double_eq_tol(student_cdf(t, 3), 0.5 + (x / (1 + x * x) + atan(x)) / M_PI, 1e-13);
        double y = t * t / 4;
        ck_assert_double_eq_tol(student_cdf(t, 4), 0.5 + 0.375 * t / sqrt(1 + y) * (1 - y / (3 * (1 + y))), 1e-13);
    }
    ck_assert_double_eq(student_cdf(0, 7.5), 0.5);
}
END_TEST

/* Cauchy and dof 2 have quantiles in closed form; dof 4 too (Shaw 2006). */
START_TEST(student_quantile_equals_closed_forms)
{
    static const double p[] = {1e-9, 0.001, 0.05, 0.3, 0.5, 0.8, 0.95, 0.975, 0.9999};
    for (int i = 0; i < COUNT(p); i++) {
        double alpha = 4 * p[i] * (1 - p[i]);
        double q = cos(acos(sqrt(alpha)) / 3) / sqrt(alpha);
        double four = p[i] == 0.5 ? 0 : copysign(2 * sqrt(q - 1), p[i] - 0.5);
        double two = (2 * p[i] - 1) * sqrt(2 / alpha);
        double one = -cos(M_PI * p[i]) / sin(M_PI * p[i]);
        ck_assert_double_eq_tol(student_quantile(p[i], 1), one, 1e-9 * (1 + fabs(one)));
        ck_assert_double_eq_tol(student_quantile(p[i], 2), two, 1e-9 * (1 + fabs(two)));
        ck_assert_double_eq_tol(student_quantile(p[i], 4), four, 1e-9 * (1 + fabs(four)));
    }
}
END_TEST

/* Tables: three decimals, as printed; and z + (z^3 + z) / (4 dof) for a large dof, whose next term is below 1e-11. */
START_TEST(student_quantile_equals_tables)
{
    static const struct {
        double p, dof, t;
    } table[] = {{0.95, 7, 1.895},  {0.975, 7, 2.365},  {0.99, 7, 2.998},   {0.975, 10, 2.228}, {0.95, 30, 1.697},
                 {0.995, 5, 4.032}, {0.975, 31, 2.040}, {0.90, 120, 1.289}, {0.975, 120, 1.980}};
    for (int i = 0; i < COUNT(table); i++)
        ck_assert_double_eq_tol(student_quantile(table[i].p, table[i].dof), table[i].t, 0.0005);
    double z = 1.959963984540054;
    ck_assert_double_eq_tol(student_quantile(0.975, 1e6), z + (z * z * z + z) / 4e6, 1e-10);
    /* Both ways to take the gamma functions agree where they meet. */
    ck_assert_double_eq_tol(student_quantile(0.975, nextafter(100, 0)), student_quantile(0.975, 100), 1e-12);
}
END_TEST

START_TEST(student_quantile_inverts_fractional_dof)
{
    for (double dof = 1.3; dof < 200; dof *= 1.7)
        for (double p = 0.01; p < 1; p += 0.07)
            ck_assert_double_eq_tol(student_cdf(student_quantile(p, dof), dof), p, 1e-12);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {student_cdf_equals_closed_forms, 1},
        {student_quantile_equals_closed_forms, 1},
        {student_quantile_equals_tables, 1},
        {student_quantile_inverts_fractional_dof, 1},
    };
    return suite_run("student", tests, COUNT(tests));
}
