/* Verdicts: intervals against hand computations and theory, and what each kind of evidence decides. */
#include <math.h>
#include <string.h>

#include "stages/verdict.h"
#include "tests/suite.h"

/* ---- pairs over steps ---- */

enum { STEPS = 400 };
static const double whole[2] = {0, 1}, half[2] = {0.5, 1};

/* Deterministic noise in (-1, 1) without correlation, from a multiplicative generator. */
static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

struct pair {
    int64_t step[STEPS];
    double baseline[STEPS], candidate[STEPS];
};

/* A falling loss and a candidate that is `gap` + AR(1) noise away. */
static void make_pair(struct pair *pair, double gap, double size, double rho, uint64_t seed)
{
    double x = 0;
    for (int i = 0; i < STEPS; i++) {
        pair->step[i] = 101 + i;
        pair->baseline[i] = 2 + exp(-i / 50.0);
        x = rho * x + sqrt(1 - rho * rho) * size * noise(&seed);
        pair->candidate[i] = pair->baseline[i] + gap + x;
    }
}

static struct judgement judge_steps(const struct pair *pair, int64_t count, double margin, const double window[2])
{
    struct judgement j;
    struct paired_series series = {count, pair->step, pair->baseline, pair->candidate, 0};
    ck_ok(verdict_pair_steps(&j, &series, GAP_DIFFERENCE, margin, window));
    return j;
}

START_TEST(pair_equal_bits_is_identical)
{
    struct pair pair;
    make_pair(&pair, 0, 0, 0, 1);
    memcpy(pair.candidate, pair.baseline, sizeof pair.baseline);
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_IDENTICAL);
    ck_assert_double_eq(j.gap, 0);
    ck_assert_double_eq(j.low, 0);
    ck_assert_double_eq(j.high, 0);
    ck_assert_int_eq(j.first, 301);
    ck_assert_int_eq(j.last, 500);
    ck_assert_str_eq(j.reason, "");
}
END_TEST

/* One ulp at one step before the window: not identical, and a gap of 0 inside it. */
START_TEST(pair_one_ulp_outside_window_agrees)
{
    struct pair pair;
    make_pair(&pair, 0, 0, 0, 1);
    memcpy(pair.candidate, pair.baseline, sizeof pair.baseline);
    pair.candidate[3] = nextafter(pair.candidate[3], 10);
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_AGREES);
    ck_assert_double_eq(j.gap, 0);
    ck_assert_double_eq(j.high, 0);
}
END_TEST

START_TEST(pair_negative_zero_is_not_identical)
{
    struct pair pair = {.step = {1, 2}, .baseline = {0.0, 1.0}, .candidate = {-0.0, 1.0}};
    ck_assert_int_eq(judge_steps(&pair, 2, 0.01, whole).verdict, VERDICT_UNDECIDED);
}
END_TEST

/* 8 batches of 10 values: the batch means are 0, 1, ..., 7 thousandths. Mean 3.5e-3; their variance is 6e-6, so
 * the error is at least sqrt(6e-6 / 8), and test_series.c has the rest of it; the 90 % interval uses t_{0.95, 7}. */
START_TEST(pair_interval_matches_hand_computation)
{
    struct pair pair;
    for (int i = 0; i < 80; i++) {
        pair.step[i] = i + 1;
        pair.baseline[i] = 0;
        pair.candidate[i] = 1e-3 * (i / 10);
    }
    struct judgement j = judge_steps(&pair, 80, 0.01, whole);
    double error = sqrt(6e-6 / 8);
    ck_assert_double_eq_tol(j.gap, 3.5e-3, 1e-15);
    ck_assert_double_gt(j.error, error); /* a staircase hangs together: more than independent batches would have */
    ck_assert_double_eq_tol(j.low, 3.5e-3 - 1.894578605061305 * j.error, 1e-12);
    ck_assert_double_eq_tol(j.high, 3.5e-3 + 1.894578605061305 * j.error, 1e-12);
    ck_assert_double_eq_tol(j.detectable, (2.364624251592785 + 0.896029644197990) * j.error, 1e-9);
    /* A staircase is all trend: few effective values, so it decides nothing although the interval is inside. */
    ck_assert_double_lt(j.effective, VERDICT_EFFECTIVE);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
}
END_TEST

START_TEST(pair_small_gap_agrees)
{
    struct pair pair;
    make_pair(&pair, 0.002, 0.01, 0, 7);
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_AGREES);
    ck_assert_double_lt(j.low, j.gap);
    ck_assert_double_gt(j.high, j.gap);
    ck_assert_double_eq_tol(j.gap, 0.002, 0.002); /* 5 errors of a mean of 200: 0.01 / sqrt(3 * 200) each */
}
END_TEST

START_TEST(pair_large_gap_differs_on_both_sides)
{
    struct pair pair;
    make_pair(&pair, 0.03, 0.01, 0, 7);
    ck_assert_int_eq(judge_steps(&pair, STEPS, 0.01, half).verdict, VERDICT_DIFFERS);
    make_pair(&pair, -0.03, 0.01, 0, 7);
    ck_assert_int_eq(judge_steps(&pair, STEPS, 0.01, half).verdict, VERDICT_DIFFERS);
}
END_TEST

START_TEST(pair_interval_across_margin_is_undecided)
{
    struct pair pair;
    make_pair(&pair, 0.01, 0.01, 0, 7);
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_assert_double_ge(j.effective, VERDICT_EFFECTIVE);
    ck_contains(j.reason, "neither inside the margin");
}
END_TEST

START_TEST(pair_few_steps_is_undecided)
{
    struct pair pair;
    make_pair(&pair, 0.002, 0.0001, 0, 7);
    struct judgement j = judge_steps(&pair, 29, 0.01, whole);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_contains(j.reason, "at least 30");
    ck_assert(!isnan(j.low));
    j = judge_steps(&pair, 7, 0.01, whole);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_assert(isnan(j.low));
    j = judge_steps(&pair, 0, 0.01, whole);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_contains(j.reason, "0 steps");
    ck_contains(judge_steps(&pair, 1, 0.01, whole).reason, "1 step in the window");
}
END_TEST

START_TEST(pair_nan_is_never_dropped)
{
    struct pair pair;
    make_pair(&pair, 0, 0.001, 0, 7);
    pair.candidate[5] = NAN; /* before the window */
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    ck_contains(j.reason, "step 106");
    pair.baseline[9] = INFINITY;
    j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_contains(j.reason, "baseline itself diverged");
    ck_contains(j.reason, "step 110");
    memcpy(pair.candidate, pair.baseline, sizeof pair.baseline);
    j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_contains(j.reason, "baseline itself diverged");
    ck_assert(isnan(j.gap));
}
END_TEST

/* Two runs that become NaN alike have equal bits from there on, and prove nothing. */
START_TEST(pair_both_nan_is_undecided)
{
    struct pair pair;
    make_pair(&pair, 0, 0, 0, 1);
    memcpy(pair.candidate, pair.baseline, sizeof pair.baseline);
    for (int i = 300; i < STEPS; i++)
        pair.baseline[i] = pair.candidate[i] = NAN;
    struct judgement j = judge_steps(&pair, STEPS, 0.01, half);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    ck_contains(j.reason, "step 401");
    verdict_pair_sequences(&j, STEPS, pair.baseline, pair.candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
}
END_TEST

/* A norm of zero has no logarithm, but it is finite: equal bits are equal. */
START_TEST(pair_equal_zero_norms_are_identical)
{
    struct judgement j;
    double zero[STEPS] = {0};
    struct pair pair;
    make_pair(&pair, 0, 0, 0, 1);
    struct paired_series series = {STEPS, pair.step, zero, zero, 0};
    ck_ok(verdict_pair_steps(&j, &series, GAP_LOG_RATIO, 0.05, half));
    ck_assert_int_eq(j.verdict, VERDICT_IDENTICAL);
}
END_TEST

START_TEST(pair_log_ratio_of_scaled_norms_is_exact)
{
    struct pair pair;
    struct judgement j;
    for (int i = 0; i < STEPS; i++) {
        pair.step[i] = i + 1;
        pair.baseline[i] = 1 + i;
        pair.candidate[i] = 2 * pair.baseline[i];
    }
    struct paired_series series = {STEPS, pair.step, pair.baseline, pair.candidate, 0};
    ck_ok(verdict_pair_steps(&j, &series, GAP_LOG_RATIO, 0.05, half));
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    ck_assert_double_eq_tol(j.gap, log(2), 1e-14);
    pair.candidate[2] = 0;
    ck_ok(verdict_pair_steps(&j, &series, GAP_LOG_RATIO, 0.05, half));
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    ck_contains(j.reason, "step 3");
}
END_TEST

/* The nominal 90 % interval over AR(1) noise with rho 0.8 covers the truth in 85 to 95 % of 1,000 pairs; an interval
 * that took the values for independent would cover it in about 40 %. */
START_TEST(pair_interval_covers_under_autocorrelation)
{
    enum { PAIRS = 1000 };
    int covered = 0;
    struct pair pair;
    for (int k = 0; k < PAIRS; k++) {
        make_pair(&pair, 0.004, 0.01, 0.8, (uint64_t)k + 1);
        struct judgement j = judge_steps(&pair, STEPS, 0.01, whole);
        covered += j.low <= 0.004 && 0.004 <= j.high;
    }
    ck_assert_int_ge(covered, 850);
    ck_assert_int_le(covered, 950);
}
END_TEST

/* A gap exactly at the margin is called AGREES, or DIFFERS, in about 5 % of pairs each: the tests' size. Of 1,000 pairs
 * that is 50, with a standard deviation of 7; batch means are not quite normal. */
START_TEST(pair_at_the_margin_errs_at_the_level)
{
    enum { PAIRS = 1000 };
    int agrees = 0, differs = 0;
    struct pair pair;
    for (int k = 0; k < PAIRS; k++) {
        make_pair(&pair, 0.01, 0.005, 0, (uint64_t)k + 1);
        struct judgement j = judge_steps(&pair, STEPS, 0.01, whole);
        agrees += j.verdict == VERDICT_AGREES;
        differs += j.verdict == VERDICT_DIFFERS;
    }
    ck_assert_int_ge(agrees, 25);
    ck_assert_int_le(agrees, 80);
    ck_assert_int_ge(differs, 25);
    ck_assert_int_le(differs, 80);
}
END_TEST

/* With an error of ten margins, both tails of a gap of 0 lie beyond the margin: together they may be 5 %. */
START_TEST(pair_without_a_gap_differs_at_the_level)
{
    enum { PAIRS = 1000 };
    int differs = 0;
    struct pair pair;
    for (int k = 0; k < PAIRS; k++) {
        make_pair(&pair, 0, 0.2 * sqrt(3), 0, (uint64_t)k + 1); /* SE 0.2 / sqrt(400) */
        differs += judge_steps(&pair, STEPS, 0.001, whole).verdict == VERDICT_DIFFERS;
    }
    ck_assert_int_ge(differs, 25);
    ck_assert_int_le(differs, 72); /* 50 and 3 standard deviations */
}
END_TEST

/* Twice the margin's error needs 4 x the steps, and more for the power. */
START_TEST(pair_undecided_names_the_steps_that_decide)
{
    struct pair pair;
    make_pair(&pair, 0.01, 0.05, 0, 7);
    struct judgement j = judge_steps(&pair, STEPS, 0.01, whole);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    double times = (1.894578605061305 + 1.414923927650870) * j.error / 0.01; /* t_0.95 + t_0.9, 7 degrees of freedom */
    ck_assert_int_eq(j.steps_needed, (int64_t)ceil(STEPS * fmax(times * times, VERDICT_EFFECTIVE / j.effective)));
    make_pair(&pair, 0, 0.001, 0, 7);
    ck_assert_int_eq(judge_steps(&pair, STEPS, 0.01, whole).steps_needed, 0);
}
END_TEST

/* ---- pairs over sequences ---- */

/* d alternates 0.001 and 0.003: mean 0.002, variance 1e-6 * n / (n - 1). */
START_TEST(sequences_paired_t_matches_hand_computation)
{
    enum { N = 32 };
    double baseline[N], candidate[N];
    for (int i = 0; i < N; i++) {
        baseline[i] = 0;
        candidate[i] = i % 2 ? 0.003 : 0.001;
    }
    struct judgement j;
    verdict_pair_sequences(&j, N, baseline, candidate, 0.01);
    double error = sqrt(1e-6 * N / (N - 1) / N);
    ck_assert_int_eq(j.verdict, VERDICT_AGREES);
    ck_assert_double_eq_tol(j.gap, 0.002, 1e-15);
    ck_assert_double_eq_tol(j.high, 0.002 + 1.695518782945 * error, 1e-12);
    ck_assert_double_eq(j.effective, N);
    verdict_pair_sequences(&j, N, baseline, candidate, 0.001);
    /* scipy 1.17.1: stats.t.sf(0.001 / error, 31) + stats.t.sf(0.003 / error, 31) */
    ck_assert_double_eq_tol(j.outside.p, 2.10834501532939e-06, 1e-15);
    ck_assert_double_eq_tol(j.inside.p, 1 - 2.10834501532939e-06, 1e-15);
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    verdict_pair_sequences(&j, 8, baseline, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    verdict_pair_sequences(&j, N, candidate, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_IDENTICAL);
    verdict_pair_sequences(&j, 0, baseline, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {pair_equal_bits_is_identical, 1},
        {pair_one_ulp_outside_window_agrees, 1},
        {pair_negative_zero_is_not_identical, 1},
        {pair_interval_matches_hand_computation, 1},
        {pair_small_gap_agrees, 1},
        {pair_large_gap_differs_on_both_sides, 1},
        {pair_interval_across_margin_is_undecided, 1},
        {pair_few_steps_is_undecided, 1},
        {pair_nan_is_never_dropped, 1},
        {pair_both_nan_is_undecided, 1},
        {pair_equal_zero_norms_are_identical, 1},
        {pair_log_ratio_of_scaled_norms_is_exact, 1},
        {pair_interval_covers_under_autocorrelation, 1},
        {pair_at_the_margin_errs_at_the_level, 1},
        {pair_without_a_gap_differs_at_the_level, 1},
        {pair_undecided_names_the_steps_that_decide, 1},
        {sequences_paired_t_matches_hand_computation, 1},
    };
    return suite_run("verdict", tests, COUNT(tests));
}
