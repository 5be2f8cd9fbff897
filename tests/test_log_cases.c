/* Real logs, where the folder that holds them lies beside the source: ../shared/cases. They are not part of the project;
 * without them these checks are skipped, loudly. Expected values are those of the files' own description. */
#include <math.h>
#include <stdlib.h>

#include "data/file.h"
#include "stages/report/log.h"
#include "tests/small_log.h"
#include "tests/suite.h"

#define CASES "../shared/cases/"

static bool is_there(void)
{
    bool there = file_exists(CASES "README.md");
    if (!there)
        printf("SKIP %s is not there, so no real log was read\n", CASES);
    return there;
}

/* ---- reading ---- */

static const struct {
    const char *file;
    int64_t losses, held_out;
    int64_t last_step;
    double last;
} read_cases[] = {
    {"llmc_main.log", 19560, 80, 19559, 3.2217},
    {"nanogpt_console.log", 2156, 11, 2155, 0.0276},
    {"speedrun_torch24.log", 5100, 42, 5100, 3.2718},
    {"megatron_deepspeed_off.log", 62, 0, 62, 20.43871},
    {"megatron_deepspeed_on.log", 49, 0, 49, 7.747273},
    {"megatron_t5_h100.json", 2001, 0, 10000, 2.79722},
    {"llamafactory_trainer_log.jsonl", 1742, 0, 8710, 1.3703},
    {"hf_trainer_state.json", 1742, 0, 8710, 1.3703},
    {"lightning_metrics.csv", 2814, 10, 140699, 3.565943479537964},
    {"lightning.tfevents", 7691, 29, 384549, 0.23888538777828217},
};

START_TEST(real_log_is_read)
{
    struct logs l;
    const struct log_run *run;
    char path[256];
    if (!is_there())
        return;
    snprintf(path, sizeof path, CASES "%s", read_cases[_i].file);
    ck_ok(logs_read(&l, path));
    ck_ok(logs_choose(&run, &l, NULL));
    const struct log_series *loss = log_run_series(run, LOG_LOSS), *held_out = log_run_series(run, LOG_HELD_OUT);
    ck_assert_int_eq(loss->count, read_cases[_i].losses);
    small_log_check(loss, loss->count - 1, read_cases[_i].last_step, read_cases[_i].last);
    ck_assert_int_eq(held_out ? held_out->count : 0, read_cases[_i].held_out);
    logs_free(&l);
}
END_TEST

START_TEST(real_export_asks_which_run)
{
    struct logs l;
    const struct log_run *run;
    if (!is_there())
        return;
    ck_ok(logs_read(&l, CASES "wandb_chart_export.csv"));
    ck_assert_int_eq(l.runs, 8);
    ck_assert_int_eq(logs_choose(&run, &l, NULL), ERR_USAGE);
    ck_said("holds 8 runs");
    ck_ok(logs_choose(&run, &l, "gpt2"));
    ck_assert_int_eq(log_run_series(run, LOG_LOSS)->count, 386);
    logs_free(&l);
}
END_TEST

START_TEST(other_real_files_are_no_logs)
{
    static const char *const files[] = {"object_dtype.npy", "ag_news_prompt_inputs_document.bin",
                                        "ag_news_prompt_inputs_document.idx", "README.md"};
    struct logs l;
    for (int i = 0; i < COUNT(files) && is_there(); i++) {
        char path[256];
        snprintf(path, sizeof path, CASES "%s", files[i]);
        ck_assert_msg(logs_read(&l, path) == ERR_INPUT, "%s is read as %s", path, l.format);
        ck_said("not recognised");
    }
}
END_TEST

/* ---- judging ---- */

/* The verdict about loss of this pair must be one of two; what the single differences are is exact. */
static const struct {
    const char *baseline, *candidate;
    enum verdict verdict, or ;
    int64_t first, largest_at;
    double largest, mean; /* per cent, to the digits that are given; 0: not checked */
} judged_cases[] = {
    {"megatron_no_recompute_h100.json", "megatron_full_recompute_h100.json", VERDICT_AGREES, VERDICT_AGREES, 7, 26,
     0.00075, 0},
    {"megatron_t5_h100.json", "megatron_t5_gb200.json", VERDICT_DIFFERS, VERDICT_UNDECIDED, 1, 0, 0, 0},
    {"megatron_fp8_h100.json", "megatron_fp8_gb200.json", VERDICT_UNDECIDED, VERDICT_DIFFERS, 1, 1972, 0.57, 0},
    {"speedrun_torch24.log", "speedrun_torch25.log", VERDICT_AGREES, VERDICT_AGREES, 1, 2817, 3.84, 0},
    {"run760m_A.csv", "run760m_B.csv", VERDICT_UNDECIDED, VERDICT_AGREES, 3, 12, 5.52, 0.375},
    {"megatron_deepspeed_off.log", "megatron_deepspeed_on.log", VERDICT_UNDECIDED, VERDICT_DIFFERS, 3, 0, 0, 0},
    {"llamafactory_trainer_log.jsonl", "hf_trainer_state.json", VERDICT_IDENTICAL, VERDICT_IDENTICAL, 0, 0, 0, 0},
};

static void check_percent(double value, double expected, const char *what)
{
    /* Half a unit of the third digit. */
    if (expected)
        ck_assert_msg(fabs(100 * value - expected) < 0.01 * expected, "%s: %g %%, expected %g %%", what, 100 * value,
                      expected);
}

static void judge_case(struct report *r, const char *baseline, const char *candidate)
{
    char a[256], b[256];
    snprintf(a, sizeof a, CASES "%s", baseline);
    snprintf(b, sizeof b, CASES "%s", candidate);
    const struct report_file files[] = {{a, NULL}, {b, "candidate"}};
    ck_ok(report_load_files(r, &files[0], 1, &files[1], 1));
    ck_ok(report_judge(r));
}

START_TEST(real_pair_is_judged)
{
    struct report r;
    if (!is_there())
        return;
    judge_case(&r, judged_cases[_i].baseline, judged_cases[_i].candidate);
    const struct judgement *loss = &r.run[1].against_baseline.metric[METRIC_LOSS].pair;
    ck_assert_msg(loss->verdict == judged_cases[_i].verdict || loss->verdict == judged_cases[_i].or, "%s: %s %s",
                  judged_cases[_i].candidate, verdict_name(loss->verdict), loss->reason);
    struct log_contrast c = log_contrast_of(&r.run[0], &r.run[1]);
    ck_assert_int_eq(c.first, judged_cases[_i].first);
    if (judged_cases[_i].largest_at)
        ck_assert_int_eq(c.largest_at, judged_cases[_i].largest_at);
    check_percent(c.largest, judged_cases[_i].largest, "largest");
    check_percent(c.mean, judged_cases[_i].mean, "mean");
    report_free(&r);
}
END_TEST

START_TEST(real_held_out_losses_are_shown)
{
    struct report r;
    if (!is_there())
        return;
    judge_case(&r, "speedrun_torch24.log", "speedrun_torch25.log");
    ck_contains(r.run[1].against_baseline.metric[METRIC_HELD_OUT].pair.reason, "3.2755 against 3.2747");
    report_free(&r);
}
END_TEST

/* Two reruns are noise to a third run, never a failure of it. */
START_TEST(real_replicates_decide_nothing_with_one_candidate)
{
    struct report r;
    if (!is_there())
        return;
    const struct report_file baseline[] = {{CASES "run760m_A.csv", NULL}, {CASES "run760m_B.csv", NULL}};
    const struct report_file candidate = {CASES "run760m_C.csv", "C"};
    ck_ok(report_load_files(&r, baseline, 2, &candidate, 1));
    ck_ok(report_judge(&r));
    const struct contrast *c = &r.run[2].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.baselines, 2);
    report_free(&r);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {real_log_is_read, COUNT(read_cases)}, {real_export_asks_which_run, 1},
        {other_real_files_are_no_logs, 1},     {real_pair_is_judged, COUNT(judged_cases)},
        {real_held_out_losses_are_shown, 1},   {real_replicates_decide_nothing_with_one_candidate, 1},
    };
    return suite_run("log cases", tests, COUNT(tests));
}
