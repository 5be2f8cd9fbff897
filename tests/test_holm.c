/* Several tests at once. */
#include "stages/holm.h"
#include "tests/suite.h"

static void adjust(struct evidence *test, int count)
{
    struct evidence *tests[8];
    for (int i = 0; i < count; i++)
        tests[i] = &test[i];
    ck_ok(holm_adjust(tests, count));
}

/* statsmodels 0.15.0: multipletests([0.01, 0.04, 0.03, 0.005, 0.6], method="holm")[1]. By hand: 5 x 0.005 = 0.025;
 * 4 x 0.01; 3 x 0.03; then 2 x 0.04 = 0.08, which may not be less than 0.09; 0.6. */
START_TEST(adjusted_p_equals_other_implementation)
{
    struct evidence test[] = {{0.01, 0, 0}, {0.04, 0, 0}, {0.03, 0, 0}, {0.005, 0, 0}, {0.6, 0, 0}};
    static const double expected[] = {0.04, 0.09, 0.09, 0.025, 0.6};
    adjust(test, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq_tol(test[i].adjusted, expected[i], 1e-15);
        ck_assert_int_eq(test[i].tests, 5);
    }
}
END_TEST

START_TEST(adjusted_p_is_at_most_one)
{
    struct evidence test[] = {{0.9, 0, 0}, {0.5, 0, 0}, {1, 0, 0}};
    adjust(test, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(test[i].adjusted, 1);
}
END_TEST

START_TEST(one_test_stays_as_it_is)
{
    struct evidence test[] = {{0.03, 0, 0}};
    adjust(test, 1);
    ck_assert_double_eq(test[0].adjusted, 0.03);
    adjust(test, 0);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {adjusted_p_equals_other_implementation, 1}, {adjusted_p_is_at_most_one, 1}, {one_test_stays_as_it_is, 1}};
    return suite_run("holm", tests, COUNT(tests));
}
