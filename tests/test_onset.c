/* Since when a pair differs. */
#include <math.h>

#include "stages/onset.h"
#include "tests/suite.h"
#include "tests/verdict/noise.h"

enum { STEPS = 400, CHANGE = 250 };

static int64_t step[STEPS];
static double baseline[STEPS], candidate[STEPS];

static struct onset find(enum gap_kind kind)
{
    struct onset onset;
    struct paired_series series = {STEPS, step, baseline, candidate, 0};
    ck_ok(onset_find(&onset, &series, kind));
    return onset;
}

/* Steps from 101; the candidate is x above, and `after` more from index CHANGE on. */
static void make(const struct shape *shape, double error, double after)
{
    double x[STEPS];
    noise_fill(x, STEPS, shape, error, 5);
    for (int i = 0; i < STEPS; i++) {
        step[i] = 101 + i;
        baseline[i] = 2 + exp(-i / 50.0);
        candidate[i] = baseline[i] + x[i] + (i < CHANGE ? 0 : after);
    }
}

/* The statistic of the definition, without prefix sums, in numpy: `make crosscheck`. */
START_TEST(statistic_equals_other_implementation)
{
    double x = 0;
    for (int i = 0; i < STEPS; i++) {
        x = 0.8 * x + sin((double)(i + 1) * (i + 1));
        step[i] = 1 + i;
        baseline[i] = 2 + exp(-i / 50.0);
        candidate[i] = baseline[i] + 0.002 * x + (i < CHANGE ? 0 : 0.02);
    }
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert_double_eq_tol(onset.statistic, 3338.6619591048, 1e-4);
    ck_assert(onset.found);
    ck_assert_int_eq(onset.step, 251);
}
END_TEST

START_TEST(equal_bits_have_no_onset)
{
    make(&(struct shape){.name = "white"}, 0, 0);
    for (int i = 0; i < STEPS; i++)
        candidate[i] = baseline[i];
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert_int_eq(onset.first_bits, 0);
    ck_assert(!onset.tested);
}
END_TEST

/* Bits differ from one step on and the mean does not: that is rounding, and no onset. */
START_TEST(rounding_has_a_first_step_and_no_onset)
{
    make(&(struct shape){.name = "white"}, 1e-6, 0);
    for (int i = 0; i < 30; i++)
        candidate[i] = baseline[i];
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert_int_eq(onset.first_bits, 131);
    ck_assert(onset.tested);
    ck_assert(!onset.found);
}
END_TEST

/* A value's deviation is 0.02 (its mean's error 0.001 x sqrt(400)), the change as large: Bai's interval is 7.687 steps
 * to each side for independent values, and one more, rounded up. */
START_TEST(change_is_found_with_its_interval)
{
    make(&(struct shape){.name = "white"}, 0.001, 0.02);
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert(onset.found);
    ck_assert_int_le(onset.low, 101 + CHANGE);
    ck_assert_int_ge(onset.high, 101 + CHANGE);
    ck_assert_int_ge(onset.high - onset.low, 2 * 6);
    ck_assert_int_le(onset.high - onset.low, 2 * 14);
    ck_assert_double_eq_tol(onset.before, 0, 0.005);
    ck_assert_double_eq_tol(onset.after, 0.02, 0.005);
}
END_TEST

/* Noise that wanders is not tested: its excursions look like changes. */
START_TEST(random_walk_is_not_tested)
{
    make(&(struct shape){.name = "walk", .rho = 1}, 0.01, 0);
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert(!onset.tested);
    ck_assert(!onset.found);
}
END_TEST

START_TEST(values_that_are_not_finite_are_not_tested)
{
    make(&(struct shape){.name = "white"}, 0.001, 0.02);
    candidate[300] = NAN;
    struct onset onset = find(GAP_DIFFERENCE);
    ck_assert(!onset.tested);
    ck_assert_int_eq(onset.first_bits, 101);
    candidate[300] = 0; /* no logarithm */
    ck_assert(!find(GAP_LOG_RATIO).tested);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {statistic_equals_other_implementation, 1},
        {equal_bits_have_no_onset, 1},
        {rounding_has_a_first_step_and_no_onset, 1},
        {change_is_found_with_its_interval, 1},
        {random_walk_is_not_tested, 1},
        {values_that_are_not_finite_are_not_tested, 1},
    };
    return suite_run("onset", tests, COUNT(tests));
}
