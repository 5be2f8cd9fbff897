/* Verdicts: intervals against hand computations and theory, and what each kind of evidence decides. */
#include <math.h>
#include <string.h>

#include "stages/student.h"
#include "stages/verdict.h"
#include "tests/suite.h"

/* ---- Student's t, against closed forms and tables ---- */

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
    struct paired_series series = {count, pair->step, pair->baseline, pair->candidate};
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
 * SE = sqrt(6e-6 / 8); the 90 % interval uses t_{0.95, 7}. */
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
    ck_assert_double_eq_tol(j.low, 3.5e-3 - 1.894578605061305 * error, 1e-12);
    ck_assert_double_eq_tol(j.high, 3.5e-3 + 1.894578605061305 * error, 1e-12);
    ck_assert_double_eq_tol(j.detectable, (2.364624251592785 + 0.896029644197990) * error, 1e-9);
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
    ck_contains(j.reason, "crosses the margin");
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
    struct paired_series series = {STEPS, pair.step, zero, zero};
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
    struct paired_series series = {STEPS, pair.step, pair.baseline, pair.candidate};
    ck_ok(verdict_pair_steps(&j, &series, GAP_LOG_RATIO, 0.05, half));
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    ck_assert_double_eq_tol(j.gap, log(2), 1e-14);
    pair.candidate[2] = 0;
    ck_ok(verdict_pair_steps(&j, &series, GAP_LOG_RATIO, 0.05, half));
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    ck_contains(j.reason, "step 3");
}
END_TEST

/* ---- autocorrelation ---- */

START_TEST(effective_constant_and_alternating_is_count)
{
    double x[STEPS];
    for (int i = 0; i < STEPS; i++)
        x[i] = 3.25;
    ck_assert_double_eq(verdict_effective(x, STEPS), STEPS);
    for (int i = 0; i < STEPS; i++)
        x[i] = i % 2;
    ck_assert_double_eq(verdict_effective(x, STEPS), STEPS);
}
END_TEST

/* An AR(1) series of T values has T (1 - rho) / (1 + rho) effective ones: the mean over many series, within a quarter;
 * more series where they scatter more. */
START_TEST(effective_of_ar1_follows_theory)
{
    enum { T = 2000 };
    static double x[T];
    static const double rho[] = {0, 0.5, 0.8, 0.95};
    static const int series[] = {50, 50, 50, 200};
    uint64_t seed = 5;
    for (int r = 0; r < 4; r++) {
        double sum = 0, expected = T * (1 - rho[r]) / (1 + rho[r]);
        for (int s = 0; s < series[r]; s++) {
            x[0] = noise(&seed);
            for (int i = 1; i < T; i++)
                x[i] = rho[r] * x[i - 1] + sqrt(1 - rho[r] * rho[r]) * noise(&seed);
            sum += verdict_effective(x, T);
        }
        double mean = sum / series[r];
        ck_assert_double_gt(mean, 0.8 * expected);
        ck_assert_double_lt(mean, 1.25 * expected);
    }
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
    ck_assert_int_eq(j.verdict, VERDICT_DIFFERS);
    verdict_pair_sequences(&j, 8, baseline, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
    verdict_pair_sequences(&j, N, candidate, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_IDENTICAL);
    verdict_pair_sequences(&j, 0, baseline, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_UNDECIDED);
}
END_TEST

/* ---- the policy ---- */

/* Welch by hand: baseline 1, 2, 3 (mean 2, s^2 1, /3), candidate 4, 6 (mean 5, s^2 2, /2).
 * SE^2 = 1/3 + 1 = 4/3; dof = (4/3)^2 / ((1/3)^2/2 + 1^2/1) = (16/9) / (19/18) = 32/19. */
START_TEST(policy_welch_matches_hand_computation)
{
    double baseline[] = {1, 2, 3}, candidate[] = {4, 6};
    struct judgement j;
    verdict_policy(&j, 3, baseline, 2, candidate, 0.01);
    double half_width = student_quantile(0.95, 32.0 / 19) * sqrt(4.0 / 3);
    ck_assert_double_eq(j.gap, 3);
    ck_assert_double_eq_tol(j.low, 3 - half_width, 1e-12);
    ck_assert_double_eq_tol(j.high, 3 + half_width, 1e-12);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(j.baselines, 3);
    ck_assert_int_eq(j.candidates, 2);
    ck_assert_int_gt(j.runs_needed, 3);
}
END_TEST

START_TEST(policy_replicates_decide_both_ways)
{
    double baseline[] = {2.1000, 2.1004, 2.0998, 2.1002}, near[] = {2.1010, 2.1006, 2.1013, 2.1009},
           far[] = {2.1300, 2.1306, 2.1303, 2.1299};
    struct judgement j;
    verdict_policy(&j, 4, baseline, 4, near, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
    verdict_policy(&j, 4, baseline, 4, far, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_DIVERGED);
}
END_TEST

START_TEST(policy_without_replicates_is_inconclusive)
{
    double baseline[] = {2.1, 2.11, 2.09}, candidate[] = {2.3};
    struct judgement j;
    verdict_policy(&j, 1, baseline, 1, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "no replicates");
    ck_assert(isnan(j.low));
    ck_assert_int_eq(j.runs_needed, 0);
    /* The spread 0.01 of the baseline runs is as large as the margin. With the normal limit,
     * n >= 2 (1.645 + 1.282)^2 = 17.1; with t at 2 (n - 1) degrees of freedom it is 18. */
    verdict_policy(&j, 3, baseline, 1, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(j.runs_needed, 18);
}
END_TEST

START_TEST(policy_equal_replicates_show_no_spread)
{
    double baseline[] = {2.1, 2.1}, candidate[] = {2.1, 2.1};
    struct judgement j;
    verdict_policy(&j, 2, baseline, 2, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "no run-to-run spread");
}
END_TEST

START_TEST(policy_nan_runs_are_judged)
{
    double baseline[] = {2.1, 2.2}, candidate[] = {2.1, NAN};
    struct judgement j;
    verdict_policy(&j, 2, baseline, 2, candidate, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_DIVERGED);
    verdict_policy(&j, 2, candidate, 2, baseline, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "baseline run itself");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {student_cdf_equals_closed_forms, 1},
        {student_quantile_equals_closed_forms, 1},
        {student_quantile_equals_tables, 1},
        {student_quantile_inverts_fractional_dof, 1},
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
        {effective_constant_and_alternating_is_count, 1},
        {effective_of_ar1_follows_theory, 1},
        {pair_interval_covers_under_autocorrelation, 1},
        {pair_at_the_margin_errs_at_the_level, 1},
        {sequences_paired_t_matches_hand_computation, 1},
        {policy_welch_matches_hand_computation, 1},
        {policy_replicates_decide_both_ways, 1},
        {policy_without_replicates_is_inconclusive, 1},
        {policy_equal_replicates_show_no_spread, 1},
        {policy_nan_runs_are_judged, 1},
    };
    return suite_run("verdict", tests, COUNT(tests));
}
