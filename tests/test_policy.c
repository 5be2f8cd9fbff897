/* Reports, whole runs: which are replicates of which, and what a family decides. */
#include "stages/report/report.h"
#include "tests/suite.h"
#include "tests/synthetic_study.h"

/* ---- families ---- */

/* An arithmetic replicate draws where its base does not; whatever else differs makes another run. */
START_TEST(replicates_differ_in_nothing_else)
{
    struct report r;
    enum { BASE = 1, OWN, DRAWN, BATCH, PRECISION, PROFILE, BROKEN, START, RUNS };
    struct synthetic_run runs[RUNS] = {demo_runs[BASELINE], demo_runs[R2]}, replicate = demo_runs[R2];
    replicate.replicate = "a1";
    for (int i = OWN; i < RUNS; i++)
        runs[i] = replicate;
    runs[OWN].name = "own-a1";
    runs[DRAWN].name = "drawn-a1", runs[DRAWN].draws = true;
    runs[BATCH].name = "batch-a1", runs[BATCH].micro_batch = 4;
    runs[PRECISION].name = "precision-a1", runs[PRECISION].fp32 = true;
    runs[PROFILE].name = "profile-a1", runs[PROFILE].profile = "h800-sim";
    runs[BROKEN].name = "broken-a1", runs[BROKEN].fault = "rng-redrawn";
    runs[START].name = "start-a1", runs[START].scratch = true;
    for (int i = BASE; i < RUNS; i++)
        runs[i].absent = true;
    struct synthetic_study study = {"replicates", LAST, FIRST - 1, runs, RUNS};
    ck_ok(report_load_study(&r, synthetic_study_write(&study)));
    ck_assert_int_eq(r.run[OWN].family, BASE);
    for (int i = DRAWN; i < RUNS; i++)
        ck_assert_msg(r.run[i].family == i, "%s is in family %d", r.run[i].name, r.run[i].family);
    report_free(&r);
}
END_TEST

START_TEST(files_with_one_name_are_replicates)
{
    struct report r;
    const char *folder = synthetic_study_write(&demo);
    char path[5][LAYOUT_PATH];
    layout_record(path[0], folder, "h800-r0");
    layout_record(path[1], folder, "h800-r0-a1");
    layout_record(path[2], folder, "l40s-r0");
    layout_record(path[3], folder, "h800-r0-a2");
    layout_record(path[4], folder, "l40s-r4");
    struct report_file baseline[] = {{path[0], NULL}, {path[1], NULL}};
    struct report_file candidate[] = {{path[2], "mine"}, {path[3], "mine"}, {path[4], NULL}};
    ck_ok(report_load_files(&r, baseline, 2, candidate, 3));
    ck_ok(report_judge(&r));
    ck_assert_int_eq(r.run[1].family, 0);
    ck_assert_int_eq(r.run[3].family, 2);
    ck_assert_int_eq(r.run[4].family, 4);
    ck_assert_str_eq(r.run[2].name, "mine");
    ck_assert_str_eq(r.run[3].name, "mine #2");
    ck_assert_str_eq(r.run[4].name, "l40s-r4");
    const struct judgement *policy = &r.run[2].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->baselines, 2);
    ck_assert_int_eq(policy->candidates, 2);
    report_free(&r);
}
END_TEST

/* ---- verdicts ---- */

START_TEST(policies_count_runs_of_a_family)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    const struct judgement *policy = &r.run[R0].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(policy->baselines, 3);
    ck_assert_int_eq(policy->candidates, 1);
    ck_assert_int_gt(policy->runs_needed, 0);
    report_free(&r);
}
END_TEST

START_TEST(policies_with_replicates_decide)
{
    struct report r;
    struct synthetic_run runs[5] = {demo_runs[BASELINE], demo_runs[A1], demo_runs[A2], demo_runs[R0], demo_runs[R0]};
    runs[4].name = "l40s-r0-a1";
    runs[4].replicate = "a1";
    runs[4].gap = 0.0014;
    runs[4].weights = NULL;
    struct synthetic_study study = {"five", LAST, FIRST - 1, runs, 5};
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.run[4].family, 3);
    const struct judgement *policy = &r.run[3].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->candidates, 2);
    ck_assert_int_eq(policy->verdict, VERDICT_EQUIVALENT);
    ck_assert_int_eq(r.run[3].against_baseline.metric[METRIC_LOSS].floor, FLOOR_ARITHMETIC);
    ck_assert_double_eq_tol(policy->gap, 0.0012, 0.0003);
    report_free(&r);
    runs[3].gap = runs[4].gap = 0.05;
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.run[3].against_baseline.metric[METRIC_LOSS].policy.verdict, VERDICT_DIVERGED);
    report_free(&r);
}
END_TEST

/* Two runs of each kind a side besides the replicated ones: seeds decide, and no arithmetic run is in their sample. */
START_TEST(policies_never_mix_floors)
{
    struct report r;
    struct synthetic_run runs[6] = {demo_runs[BASELINE], demo_runs[A1], {0}, demo_runs[R0], {0}, {0}};
    runs[2] = (struct synthetic_run){.name = "h800-r0-s1", .target = "h800", .replicate = "s1", .seed = 8, .gap = 0.2};
    runs[4] = (struct synthetic_run){.name = "l40s-r0-s1", .target = "l40s", .replicate = "s1", .seed = 8, .gap = 0.3};
    runs[5] = (struct synthetic_run){.name = "l40s-r0-a1", .target = "l40s", .replicate = "a1", .gap = 0.0012};
    struct synthetic_study study = {"six", LAST, FIRST - 1, runs, 6};
    synthetic_study_judge(&r, &study);
    const struct contrast *c = &r.run[3].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].floor, FLOOR_SEED);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.baselines, 2);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.candidates, 2);
    ck_assert_double_eq_tol(c->metric[METRIC_LOSS].policy.gap, (0.001 + 0.3) / 2 - 0.2 / 2, 0.002);
    report_free(&r);

    runs[4].absent = true; /* one seed is too few: the arithmetic ones decide */
    synthetic_study_judge(&r, &study);
    c = &r.run[3].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].floor, FLOOR_ARITHMETIC);
    ck_assert_double_eq_tol(c->metric[METRIC_LOSS].policy.gap, 0.001, 0.001);
    report_free(&r);

    runs[5].absent = true;
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.run[3].against_baseline.metric[METRIC_LOSS].floor, FLOOR_NONE);
    ck_assert_int_eq(r.run[3].against_baseline.metric[METRIC_LOSS].policy.verdict, VERDICT_INCONCLUSIVE);
    report_free(&r);
}
END_TEST

/* A run with the weights of another is that run again, on its own side or on the other one. */
START_TEST(policies_count_equal_weights_once)
{
    struct report r;
    struct synthetic_run runs[4] = {demo_runs[BASELINE], demo_runs[A1], demo_runs[R0], demo_runs[R0]};
    runs[3].name = "l40s-r0-a1";
    runs[3].replicate = "a1";
    struct synthetic_study study = {"four", LAST, FIRST - 1, runs, 4};
    synthetic_study_judge(&r, &study);
    const struct contrast *c = &r.run[2].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.candidates, 1);
    ck_assert_int_eq(c->metric[METRIC_LOSS].repeats, 1);
    ck_contains(c->metric[METRIC_LOSS].policy.reason, "1 run not counted: the same weights");
    report_free(&r);

    runs[2].weights = runs[0].weights;
    runs[3].weights = NULL;
    synthetic_study_judge(&r, &study);
    c = &r.run[2].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.candidates, 1);
    ck_assert_int_eq(c->metric[METRIC_LOSS].floor, FLOOR_NONE);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.verdict, VERDICT_INCONCLUSIVE);
    report_free(&r);
}
END_TEST

/* ---- drift and corrections ---- */

static void make_five(struct synthetic_run runs[5])
{
    runs[0] = demo_runs[BASELINE], runs[1] = demo_runs[A1], runs[2] = demo_runs[A2], runs[3] = demo_runs[R0];
    runs[4] = demo_runs[R0];
    runs[4].name = "l40s-r0-a1";
    runs[4].replicate = "a1";
    runs[4].weights = NULL;
}

/* 2e-5 nat a step over 75 steps stays inside the margin, and outside what the baseline's runs show. The gap is
 * 0.001 + 2e-5 (t - 51) at step t, and reaches 0.01 at step 501. */
START_TEST(policies_that_drift_name_the_horizon)
{
    struct report r;
    struct synthetic_run runs[5];
    make_five(runs);
    runs[3].drift = runs[4].drift = 2e-5;
    for (int i = 0; i < 5; i++)
        runs[i].noise = 1e-5;
    runs[1].drift = 1e-7, runs[2].drift = -2e-7;
    struct synthetic_study study = {"five", LAST, FIRST - 1, runs, 5};
    synthetic_study_judge(&r, &study);
    const struct judgement *policy = &r.run[3].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->verdict, VERDICT_DRIFTING);
    ck_assert_double_eq_tol(policy->drift.slope, 2e-5, 4e-7);
    ck_assert_int_ge(policy->drift.horizon, 480);
    ck_assert_int_le(policy->drift.horizon, 522);
    ck_assert_int_eq(report_fail_on(&r, "DRIFTING"), ERR_RESULT);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "loss DRIFTING from h800-r0");
    report_free(&r);
}
END_TEST

/* 5 runs: pairs h800-a1, -a2, r0 and r0-a1 against the baseline, r0-a1 against r0 too, each with 3 metrics. The policy is
 * compared once, however many runs it has: 3 metrics, of which 2 have slopes. */
START_TEST(tests_are_counted_once)
{
    struct report r;
    struct synthetic_run runs[5];
    make_five(runs);
    struct synthetic_study study = {"five", LAST, FIRST - 1, runs, 5};
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.multiplicity[TESTS_DIFFERS].tests, r.multiplicity[TESTS_AGREES].tests);
    ck_assert_int_eq(r.multiplicity[TESTS_AGREES].tests, 5 * GAP_METRICS);
    ck_assert_int_eq(r.multiplicity[TESTS_EQUIVALENT].tests, 3);
    ck_assert_int_eq(r.multiplicity[TESTS_DIVERGED].tests, 5);
    const struct contrast *first = &r.run[3].against_baseline, *again = &r.run[4].against_baseline;
    for (int m = 0; m < GAP_METRICS; m++)
        ck_assert_double_eq(first->metric[m].policy.inside.adjusted, again->metric[m].policy.inside.adjusted);
    report_free(&r);
}
END_TEST

/* A policy that is EQUIVALENT by itself at p = 0.04 is not when it is one of three. */
START_TEST(policies_say_only_what_survives)
{
    struct report r;
    struct synthetic_run runs[5];
    make_five(runs);
    runs[1].gap = 0.0035, runs[2].gap = -0.0035, runs[3].gap = 0.001, runs[4].gap = 0.0015;
    struct synthetic_study study = {"five", LAST, FIRST - 1, runs, 5};
    synthetic_study_judge(&r, &study);
    const struct judgement *policy = &r.run[3].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_double_lt(policy->inside.p, 0.05);
    ck_assert_double_gt(policy->inside.adjusted, 0.05);
    ck_assert_int_eq(policy->verdict, VERDICT_INCONCLUSIVE);
    ck_contains(policy->reason, "EQUIVALENT alone");
    ck_contains(policy->reason, "3 tests");
    report_free(&r);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {replicates_differ_in_nothing_else, 1},
        {files_with_one_name_are_replicates, 1},
        {policies_count_runs_of_a_family, 1},
        {policies_with_replicates_decide, 1},
        {policies_never_mix_floors, 1},
        {policies_count_equal_weights_once, 1},
        {policies_that_drift_name_the_horizon, 1},
        {tests_are_counted_once, 1},
        {policies_say_only_what_survives, 1},
    };
    return suite_run("policy", tests, COUNT(tests));
}
