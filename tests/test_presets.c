/* Other people's gates, at their edges. */
#include <math.h>

#include "stages/presets.h"
#include "tests/suite.h"

enum { STEPS = 100 };

static int64_t step[STEPS];
static double baseline[STEPS], candidate[STEPS], norm[STEPS], other_norm[STEPS];
static struct preset_result result[PRESETS];

/* A loss that falls from 4 to 2.02 in equal steps. */
static void make(void)
{
    for (int i = 0; i < STEPS; i++) {
        step[i] = 1 + i;
        candidate[i] = baseline[i] = 4 - 0.02 * i;
        other_norm[i] = norm[i] = 1;
    }
}

static enum preset_outcome apply(enum preset p)
{
    struct preset_runs runs = {{STEPS, step, baseline, candidate, 0}, {STEPS, step, norm, other_norm, 0}, {0.5, 1}};
    ck_ok(presets_apply(result, &runs));
    return result[p].outcome;
}

START_TEST(equal_runs_pass_every_gate)
{
    make();
    for (int p = 0; p < PRESETS; p++)
        if (p != PRESET_RCP)
            ck_assert_msg(apply(p) == PRESET_PASSES, "%s: %s", preset_rule(p)->name, result[p].text);
}
END_TEST

START_TEST(nats_gate_is_a_level_and_a_direction)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = baseline[i] + (i < 75 ? 0.019 : 0.018);
    ck_assert_int_eq(apply(PRESET_NATS), PRESET_PASSES);
    candidate[99] += 0.05; /* the mean stays below 0.02; the second half is higher */
    ck_assert_int_eq(apply(PRESET_NATS), PRESET_FAILS);
    for (int i = 0; i < STEPS; i++)
        candidate[i] = baseline[i] - 0.021;
    ck_assert_int_eq(apply(PRESET_NATS), PRESET_FAILS);
}
END_TEST

START_TEST(mean_gates_look_at_level_start_and_norm)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = baseline[i] * 1.009;
    ck_assert_int_eq(apply(PRESET_MEAN_REL_1), PRESET_FAILS); /* the first loss is 0.9 % away */
    candidate[0] = baseline[0] * 1.004;
    ck_assert_int_eq(apply(PRESET_MEAN_REL_1), PRESET_PASSES);
    for (int i = 0; i < STEPS; i++)
        other_norm[i] = 1.11;
    ck_assert_int_eq(apply(PRESET_MEAN_REL_1), PRESET_FAILS);
    ck_assert_int_eq(apply(PRESET_MEAN_REL_2), PRESET_PASSES);
    for (int i = 0; i < STEPS; i++)
        candidate[i] = baseline[i] * 1.021;
    ck_assert_int_eq(apply(PRESET_MEAN_REL_2), PRESET_FAILS);
}
END_TEST

/* Every gate of the set has to hold: one step 0.6 away breaks the largest alone. */
START_TEST(xpu_gate_needs_all_of_its_parts)
{
    make();
    candidate[50] += 0.6;
    ck_assert_int_eq(apply(PRESET_XPU_GPU), PRESET_FAILS);
    ck_contains(result[PRESET_XPU_GPU].text, "MAE 0.0060, RMSE 0.0600, largest 0.6000");
    candidate[50] = baseline[50] + 0.4;
    ck_assert_int_eq(apply(PRESET_XPU_GPU), PRESET_PASSES);
}
END_TEST

/* 1 of 100 steps may fail. */
START_TEST(approx_gate_counts_steps)
{
    make();
    candidate[3] = 1.06 * baseline[3];
    ck_assert_int_eq(apply(PRESET_MEGATRON_APPROX), PRESET_PASSES);
    candidate[4] = 0.94 * baseline[4];
    ck_assert_int_eq(apply(PRESET_MEGATRON_APPROX), PRESET_FAILS);
    ck_assert_int_eq(apply(PRESET_LAST_STEP_5), PRESET_PASSES);
    candidate[99] = 1.06 * baseline[99];
    ck_assert_int_eq(apply(PRESET_LAST_STEP_5), PRESET_FAILS);
}
END_TEST

START_TEST(nan_passes_no_gate)
{
    make();
    candidate[99] = NAN;
    for (int p = 0; p < PRESETS; p++)
        if (p != PRESET_RCP && p != PRESET_MEGATRON_APPROX)
            ck_assert_msg(apply(p) == PRESET_FAILS, "%s: %s", preset_rule(p)->name, result[p].text);
    ck_assert_int_eq(apply(PRESET_MEGATRON_APPROX), PRESET_PASSES); /* one step of 100 */
}
END_TEST

/* scipy 1.17.1: ttest_ind(candidate, baseline, alternative="greater"): t = 3.97, p = 0.0053. */
START_TEST(rcp_is_a_pooled_t_test)
{
    double runs[] = {2.1000, 2.1004, 2.0998, 2.1002, 2.1010}, more[] = {2.1030, 2.1076}, less[] = {2.0930, 2.0976};
    struct preset_result rcp;
    preset_rcp(&rcp, 5, runs, 2, more);
    ck_assert_int_eq(rcp.outcome, PRESET_FAILS);
    ck_assert_str_eq(rcp.text, "2 against 5 runs, t = 3.97, p = 0.0053");
    preset_rcp(&rcp, 5, runs, 2, less);
    ck_assert_int_eq(rcp.outcome, PRESET_PASSES);
    preset_rcp(&rcp, 3, runs, 2, more);
    ck_assert_int_eq(rcp.outcome, PRESET_NOT_APPLICABLE);
    ck_contains(rcp.text, "at least twice as many");
}
END_TEST

START_TEST(gate_without_its_metric_is_not_applicable)
{
    make();
    struct preset_runs runs = {{STEPS, step, baseline, candidate, 0}, {.count = 0}, {0.5, 1}};
    ck_ok(presets_apply(result, &runs));
    ck_assert_int_eq(result[PRESET_MEAN_REL_1].outcome, PRESET_NOT_APPLICABLE);
    ck_assert_str_eq(result[PRESET_MEAN_REL_1].text, "no gradient norm");
    ck_assert_int_eq(result[PRESET_MEAN_REL_2].outcome, PRESET_PASSES);
}
END_TEST

START_TEST(nothing_in_common_is_not_applicable)
{
    struct preset_runs runs = {.window = {0.5, 1}};
    ck_ok(presets_apply(result, &runs));
    ck_assert_int_eq(result[PRESET_NATS].outcome, PRESET_NOT_APPLICABLE);
    ck_contains(result[PRESET_NATS].text, "no step");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {equal_runs_pass_every_gate, 1},
        {nats_gate_is_a_level_and_a_direction, 1},
        {mean_gates_look_at_level_start_and_norm, 1},
        {xpu_gate_needs_all_of_its_parts, 1},
        {approx_gate_counts_steps, 1},
        {nan_passes_no_gate, 1},
        {rcp_is_a_pooled_t_test, 1},
        {gate_without_its_metric_is_not_applicable, 1},
        {nothing_in_common_is_not_applicable, 1},
    };
    return suite_run("presets", tests, COUNT(tests));
}
