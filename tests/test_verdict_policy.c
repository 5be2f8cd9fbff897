/* Verdicts about a policy: runs against runs, and slopes against the baseline's own. */
#include <math.h>

#include "stages/student.h"
#include "stages/verdict.h"
#include "tests/suite.h"

static struct judgement judge(int baselines, const double *baseline, int candidates, const double *candidate)
{
    struct judgement j;
    verdict_policy(&j, &(struct policy_runs){baselines, baseline, NULL},
                   &(struct policy_runs){candidates, candidate, NULL}, 101, 200, 0.01);
    return j;
}

/* ---- gaps ---- */

/* Welch by hand: baseline 1, 2, 3 (mean 2, s^2 1, /3), candidate 4, 6 (mean 5, s^2 2, /2).
 * SE^2 = 1/3 + 1 = 4/3; his dof = (4/3)^2 / ((1/3)^2/2 + 1^2/1) = (16/9) / (19/18) = 32/19; the smaller side has 1;
 * 2 / (19/32 + 1) = 64/51, and two sides of 2 would have 4/3. */
START_TEST(policy_welch_matches_hand_computation)
{
    double baseline[] = {1, 2, 3}, candidate[] = {4, 6};
    struct judgement j = judge(3, baseline, 2, candidate);
    double half_width = student_quantile(0.95, 64.0 / 51) * sqrt(4.0 / 3);
    ck_assert_double_eq(j.gap, 3);
    ck_assert_double_eq_tol(j.dof, 64.0 / 51, 1e-13);
    ck_assert_double_eq_tol(j.low, 3 - half_width, 1e-12);
    ck_assert_double_eq_tol(j.high, 3 + half_width, 1e-12);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(j.baselines, 3);
    ck_assert_int_eq(j.candidates, 2);
    ck_assert_int_gt(j.runs_needed, 3);
    ck_assert_int_eq(j.first, 101);
    ck_assert_int_eq(j.last, 200);
}
END_TEST

/* `make crosscheck` made these with scipy 1.17.1: t of ttest_ind(candidate, baseline, equal_var=False); p is
 * t.sf((0.01 - gap) / error, dof) with dof the harmonic mean of its df and 2. */
START_TEST(policy_p_equals_other_implementation)
{
    double baseline[] = {2.1000, 2.1004, 2.0998, 2.1002, 2.1010}, candidate[] = {2.1030, 2.1076, 2.1043};
    struct judgement j = judge(5, baseline, 3, candidate);
    ck_assert_double_eq_tol(j.gap / j.error, 3.38509320258203, 1e-10);
    ck_assert_double_eq_tol(j.dof, 2.04447286002314, 1e-10);
    ck_assert_double_eq_tol(j.inside.p, 0.0297806671613784, 1e-11);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
}
END_TEST

START_TEST(policy_replicates_decide_both_ways)
{
    double baseline[] = {2.1000, 2.1004, 2.0998, 2.1002}, near[] = {2.1010, 2.1006, 2.1013, 2.1009},
           far[] = {2.1300, 2.1306, 2.1303, 2.1299};
    struct judgement j = judge(4, baseline, 4, near);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
    ck_assert_int_eq(j.runs_needed, 0);
    ck_assert_str_eq(j.reason, "");
    ck_assert_int_eq(judge(4, baseline, 4, far).verdict, VERDICT_DIVERGED);
}
END_TEST

START_TEST(policy_without_replicates_is_inconclusive)
{
    double baseline[] = {2.1, 2.11, 2.09}, candidate[] = {2.3};
    struct judgement j = judge(1, baseline, 1, candidate);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "no replicates");
    ck_assert(isnan(j.low));
    ck_assert(isnan(j.inside.p));
    ck_assert_int_eq(j.runs_needed, 0);
    /* The spread 0.01 of the baseline runs is as large as the margin. With the normal limit,
     * n >= 2 (1.645 + 1.282)^2 = 17.1; with t at 4/3 (n - 1) degrees of freedom it is 19 (scipy 1.17.1). */
    j = judge(3, baseline, 1, candidate);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(j.runs_needed, 19);
}
END_TEST

START_TEST(runs_needed_follow_the_spread)
{
    ck_assert_int_eq(verdict_runs_needed(1e-4, 0.01), 19);
    ck_assert_int_eq(verdict_runs_needed(1e-12, 0.01), 2); /* fewer know no spread */
    ck_assert_int_eq(verdict_runs_needed(1e9, 0.01), 0);   /* no reasonable number */
}
END_TEST

START_TEST(policy_equal_replicates_show_no_spread)
{
    double baseline[] = {2.1, 2.1}, candidate[] = {2.1, 2.1};
    struct judgement j = judge(2, baseline, 2, candidate);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "no run-to-run spread");
}
END_TEST

START_TEST(policy_nan_runs_are_judged)
{
    double baseline[] = {2.1, 2.2}, candidate[] = {2.1, NAN};
    ck_assert_int_eq(judge(2, baseline, 2, candidate).verdict, VERDICT_DIVERGED);
    ck_assert_int_eq(judge(2, baseline, 1, candidate + 1).verdict, VERDICT_INCONCLUSIVE);
    struct judgement j = judge(2, candidate, 2, baseline);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "baseline run itself");
}
END_TEST

/* ---- drift ---- */

static const double means[] = {2.1000, 2.1004, 2.0998};
static const double near_means[] = {2.1010, 2.1014}; /* gap 0.00113 */

static struct judgement judge_slopes(const double *baseline, const double *candidate, const double *candidate_means)
{
    struct judgement j;
    verdict_policy(&j, &(struct policy_runs){3, means, baseline}, &(struct policy_runs){2, candidate_means, candidate},
                   101, 200, 0.01);
    return j;
}

/* Slopes of the baselines 1, 2, 3 (mean 2, s 1), of the candidates 9 and 11, all in 1e-5 a step: the gap's is 8,
 * SE = sqrt(1/3 + 1/2), 2 degrees of freedom: p = 0.0127719162523 (scipy 1.17.1: 2 t.sf(8 / SE, 2)).
 * The gap is 0.00113 in the middle of steps 101 to 200 and reaches 0.01 after (0.01 - 0.00113) / 8e-5 = 110.83 steps. */
START_TEST(drift_matches_hand_computation)
{
    double baseline[] = {1e-5, 2e-5, 3e-5}, candidate[] = {9e-5, 11e-5};
    struct judgement j = judge_slopes(baseline, candidate, near_means);
    double half = 2.91998558035 * 1e-5 * sqrt(1.0 / 3 + 1.0 / 2);
    ck_assert_double_eq_tol(j.drift.slope, 8e-5, 1e-18);
    ck_assert_double_eq_tol(j.drift.low, 8e-5 - half, 1e-15);
    ck_assert_double_eq_tol(j.drift.high, 8e-5 + half, 1e-15);
    ck_assert_double_eq_tol(j.drift.grows.p, 0.0127719162523, 1e-11);
    ck_assert_int_eq(j.verdict, VERDICT_DRIFTING);
    ck_assert_int_eq(j.drift.horizon, (int64_t)ceil(150.5 + (0.01 - j.gap) / 8e-5));
    ck_assert_int_eq(j.drift.horizon, 262);
    ck_contains(j.reason, "at step 262");
}
END_TEST

/* The same slopes among the baselines: nothing that they do not show themselves. */
START_TEST(drift_of_the_baselines_own_is_none)
{
    double baseline[] = {-8e-5, 2e-5, 9e-5}, candidate[] = {9e-5, 11e-5};
    struct judgement j = judge_slopes(baseline, candidate, near_means);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
    ck_assert_double_gt(j.drift.grows.p, 0.05);
}
END_TEST

/* A gap that shrinks, and has not crossed 0 at the end of the window, drifts nowhere. */
START_TEST(drift_towards_zero_is_none)
{
    double baseline[] = {1e-6, 2e-6, 3e-6}, candidate[] = {-15e-6, -17e-6};
    struct judgement j = judge_slopes(baseline, candidate, near_means); /* 0.00113 - 49.5 x 18e-6 > 0 */
    ck_assert_double_lt(j.drift.high, 0);
    ck_assert_int_eq(j.drift.horizon, 0);
    ck_assert_double_eq(j.drift.grows.p, 1);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
    double steep[] = {-5e-5, -6e-5}; /* this one has: it leaves on the other side */
    j = judge_slopes(baseline, steep, near_means);
    ck_assert_int_eq(j.verdict, VERDICT_DRIFTING);
    ck_assert_int_eq(j.drift.horizon, (int64_t)ceil(150.5 + (-0.01 - j.gap) / j.drift.slope));
}
END_TEST

/* DIVERGED says more, and comes first. */
START_TEST(drift_beyond_the_margin_is_diverged)
{
    double baseline[] = {1e-5, 2e-5, 3e-5}, candidate[] = {9e-5, 11e-5}, far[] = {2.2000, 2.2004};
    ck_assert_int_eq(judge_slopes(baseline, candidate, far).verdict, VERDICT_DIVERGED);
}
END_TEST

START_TEST(drift_needs_a_spread)
{
    double baseline[] = {1e-5, 1e-5, 1e-5}, candidate[] = {9e-5, 11e-5};
    struct judgement j = judge_slopes(baseline, candidate, near_means);
    ck_assert(isnan(j.drift.grows.p));
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
}
END_TEST

/* ---- corrected ---- */

START_TEST(policy_says_what_the_correction_leaves)
{
    double baseline[] = {1e-5, 2e-5, 3e-5}, candidate[] = {9e-5, 11e-5};
    struct judgement j = judge_slopes(baseline, candidate, near_means);
    j.drift.grows.adjusted = 0.06;
    verdict_policy_decide(&j, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_EQUIVALENT);
    j.inside.adjusted = 0.07;
    j.inside.tests = 5;
    verdict_policy_decide(&j, 0.01);
    ck_assert_int_eq(j.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(j.reason, "EQUIVALENT alone");
    ck_contains(j.reason, "one of 5 tests (Holm: p = 0.07)");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {policy_welch_matches_hand_computation, 1},
        {policy_p_equals_other_implementation, 1},
        {policy_replicates_decide_both_ways, 1},
        {policy_without_replicates_is_inconclusive, 1},
        {runs_needed_follow_the_spread, 1},
        {policy_equal_replicates_show_no_spread, 1},
        {policy_nan_runs_are_judged, 1},
        {drift_matches_hand_computation, 1},
        {drift_of_the_baselines_own_is_none, 1},
        {drift_towards_zero_is_none, 1},
        {drift_beyond_the_margin_is_diverged, 1},
        {drift_needs_a_spread, 1},
        {policy_says_what_the_correction_leaves, 1},
    };
    return suite_run("verdict_policy", tests, COUNT(tests));
}
