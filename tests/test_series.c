/* One series and its errors: against closed forms, and against figures of statsmodels and arch. */
#include <math.h>

#include "stages/crosscheck.h"
#include "stages/series.h"
#include "tests/suite.h"
#include "tests/verdict/noise.h"

enum { STEPS = 400 };

/* ---- effective values ---- */

START_TEST(effective_constant_and_alternating_is_count)
{
    double x[STEPS];
    for (int i = 0; i < STEPS; i++)
        x[i] = 3.25;
    ck_assert_double_eq(series_effective(x, STEPS), STEPS);
    for (int i = 0; i < STEPS; i++)
        x[i] = i % 2;
    ck_assert_double_eq(series_effective(x, STEPS), STEPS);
}
END_TEST

/* An AR(1) series of T values has T (1 - rho) / (1 + rho) effective ones: the mean over 200 series lies below, as the
 * smaller of two estimates does, by at most a third. */
START_TEST(effective_of_ar1_follows_theory)
{
    enum { T = 2000, SERIES = 200 };
    static double x[T];
    static const double rho[] = {0, 0.5, 0.8, 0.95};
    for (int r = 0; r < COUNT(rho); r++) {
        double sum = 0, expected = T * (1 - rho[r]) / (1 + rho[r]);
        for (uint64_t s = 0; s < SERIES; s++) {
            noise_fill(x, T, &(struct shape){.rho = rho[r]}, 1, noise_seed(7, s));
            sum += series_effective(x, T);
        }
        ck_assert_double_gt(sum / SERIES, 0.67 * expected);
        ck_assert_double_lt(sum / SERIES, 1.05 * expected);
    }
}
END_TEST

/* A straight line is one long excursion. */
START_TEST(effective_of_a_line_is_a_handful)
{
    double x[STEPS];
    for (int i = 0; i < STEPS; i++)
        x[i] = i;
    ck_assert_double_lt(series_effective(x, STEPS), 8);
    ck_assert_double_ge(series_effective(x, STEPS), 1);
}
END_TEST

/* ---- the error of the mean ---- */

/* 8 batches of 10 values with means 0, 1, ..., 7: their variance is 6, and with effective = T nothing is taken out. */
START_TEST(error_of_batches_matches_hand_computation)
{
    double x[80];
    for (int i = 0; i < 80; i++)
        x[i] = i / 10;
    ck_assert_double_eq_tol(series_error(x, 80, 80), sqrt(6.0 / 8), 1e-15);
    /* effective 20: time 4, c = (4 - 1/4) / 2 = 1.875 and c/T = 0.0234375; a batch mean's variance to the mean's is
     * 8 (1 - 0.1875) / (1 - 0.0234375) = 6.656, so (6.656 - 1) / 7 = 0.808 of it is shown; 1 + 3 / sqrt(20) 3/4. */
    double shown = (8 * (1 - 0.1875) / (1 - 0.0234375) - 1) / 7, doubt = 1 + 3 / sqrt(20) * 0.75;
    ck_assert_double_eq_tol(series_error(x, 80, 20), sqrt(6.0 / 8 / shown * doubt), 1e-14);
}
END_TEST

START_TEST(batches_share_what_is_left_over)
{
    double x[] = {1, 2, 3, 4, 5, 6, 7}, batch[3];
    series_batches(batch, 3, x, 7); /* 2, 2 and 3 values */
    ck_assert_double_eq(batch[0], 1.5);
    ck_assert_double_eq(batch[1], 3.5);
    ck_assert_double_eq(batch[2], 6);
}
END_TEST

START_TEST(slope_of_a_line_is_its_slope)
{
    double x[STEPS];
    for (int i = 0; i < STEPS; i++)
        x[i] = 3 - 0.25 * i;
    ck_assert_double_eq_tol(series_slope(x, STEPS), -0.25, 1e-14);
}
END_TEST

/* ---- the cross-checks ---- */

/* `make crosscheck` made these, with statsmodels 0.15.0: OLS(x, 1).fit(cov_type="HAC", cov_kwds={"maxlags": 5,
 * "use_correction": False}).bse, and arch 8.0.0: optimal_block_length(x)["circular"]; its CircularBlockBootstrap with
 * 40,000 draws of blocks of 20 gives 0.14877. */
START_TEST(cross_checks_equal_other_implementations)
{
    double x[STEPS], last = 0;
    for (int i = 0; i < STEPS; i++)
        x[i] = last = 0.8 * last + sin((double)(i + 1) * (i + 1));
    ck_assert_double_eq_tol(newey_west_error(x, STEPS), 0.115019052900395, 1e-13);
    ck_assert_double_eq_tol(block_length(x, STEPS), 19.235464999537, 1e-11);
    ck_assert_double_eq_tol(block_bootstrap_error(x, STEPS, 19.235464999537), 0.14877, 0.0015);
}
END_TEST

/* Blocks of one value are the usual bootstrap, whose error is that of independent values with 1/n. */
START_TEST(bootstrap_of_single_values_is_the_plain_error)
{
    double x[] = {1, 2, 4, 9}; /* mean 4, squares 9 + 4 + 0 + 25 = 38 */
    ck_assert_double_eq_tol(block_bootstrap_error(x, 4, 1), sqrt(38.0 / 4 / 4), 1e-15);
    ck_assert_double_eq(block_length(x, 4), 1);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {effective_constant_and_alternating_is_count, 1},
        {effective_of_ar1_follows_theory, 1},
        {effective_of_a_line_is_a_handful, 1},
        {error_of_batches_matches_hand_computation, 1},
        {batches_share_what_is_left_over, 1},
        {slope_of_a_line_is_its_slope, 1},
        {cross_checks_equal_other_implementations, 1},
        {bootstrap_of_single_values_is_the_plain_error, 1},
    };
    return suite_run("series", tests, COUNT(tests));
}
