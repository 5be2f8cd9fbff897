/* Reports on logs of other trainers: what is equal, what may be compared, what is said. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "stages/report/log.h"
#include "stages/report/words.h"
#include "tests/small_log.h"
#include "tests/suite.h"
#include "tests/synthetic_study.h"
#include "tests/temporary.h"

/* ---- helpers ---- */

/* Loads and judges a baseline and a candidate. */
static status compare_allowing(struct report *r, const char *baseline, const char *candidate, const char *allowed)
{
    const char *const list[] = {allowed};
    const struct report_file files[] = {{baseline, NULL}, {candidate, "candidate"}};
    TRY(report_load_files(r, &files[0], 1, &files[1], 1));
    r->allowed = list;
    r->allowed_count = allowed != NULL;
    status st = report_judge(r);
    if (st != OK)
        report_free(r);
    return st;
}

static status compare(struct report *r, const char *baseline, const char *candidate)
{
    return compare_allowing(r, baseline, candidate, NULL);
}

static const struct judgement *pair(const struct report *r, enum gap_metric m)
{
    return &r->run[1].against_baseline.metric[m].pair;
}

/* A table of `steps` losses 5 - step / 1000 + gap + noise, where noise is 1e-4 and changes its sign as `seed` says. */
static const char *noisy_log(const char *name, int steps, double gap, unsigned seed)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "step,loss,grad_norm\n");
    for (int i = 1; i <= steps; i++) {
        seed = seed * 1103515245u + 12345u;
        fprintf(out, "%d,%.6f,%.4f\n", i, 5 - i / 1000.0 + gap + (seed >> 16 & 1 ? 1e-4 : -1e-4), 1.5);
    }
    fclose(out);
    const char *path = small_log_write(name, text, size);
    free(text);
    return path;
}

/* ---- equal as printed ---- */

START_TEST(equal_prints_are_identical_at_their_precision)
{
    struct report r;
    ck_ok(compare(&r, SMALL_LOGS "megatron_r07.log", SMALL_LOGS "megatron_r07.log"));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_IDENTICAL);
    ck_assert_str_eq(pair(&r, METRIC_LOSS)->reason, "at the printed precision of 7 digits");
    ck_assert_int_eq(pair(&r, METRIC_GRAD_NORM)->verdict, VERDICT_IDENTICAL);
    ck_assert_str_eq(pair(&r, METRIC_GRAD_NORM)->reason, "at the printed precision of 4 digits");
    report_free(&r);
}
END_TEST

/* Four decimals of the one are rounded to the other's three. */
START_TEST(coarser_print_decides_what_is_equal)
{
    struct report r;
    ck_ok(compare(&r, SMALL_LOGS "speedrun.log", SMALL_LOGS "litgpt.log"));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_IDENTICAL);
    ck_assert_str_eq(pair(&r, METRIC_LOSS)->reason, "at the printed precision of 4 digits");
    report_free(&r);
}
END_TEST

START_TEST(one_unit_of_the_last_place_is_a_difference)
{
    struct report r;
    const char *a = small_log_write("a.csv", "step,loss\n1,5.50\n2,4.51\n", 24);
    const char *b = small_log_write("b.csv", "step,loss\n1,5.50\n2,4.52\n", 24);
    ck_ok(compare(&r, a, b));
    ck_assert_int_ne(pair(&r, METRIC_LOSS)->verdict, VERDICT_IDENTICAL);
    struct log_contrast c = log_contrast_of(&r.run[0], &r.run[1]);
    ck_assert_int_eq(c.common, 2);
    ck_assert_int_eq(c.differing, 1);
    ck_assert_int_eq(c.first, 2);
    ck_assert(c.first_baseline == 4.51 && c.first_candidate == 4.52);
    ck_assert(fabs(c.largest - 0.01 / 4.51) < 1e-12 && fabs(c.mean - c.largest / 2) < 1e-12);
    report_free(&r);
}
END_TEST

START_TEST(number_beyond_all_doubles_is_a_divergence)
{
    struct report r;
    const char *a = small_log_write("a.csv", "step,loss\n1,5.50\n2,4.51\n", 24);
    const char *b = small_log_write("b.csv", "step,loss\n1,5.50\n2,1e999\n", 25);
    ck_ok(compare(&r, a, b));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_DIFFERS);
    report_free(&r);
}
END_TEST

START_TEST(rounding_beyond_the_margin_decides_nothing)
{
    struct report r;
    const char *a = small_log_write("a.csv", "step,loss\n1,5.5012\n2,4.5133\n", 28);
    const char *b = small_log_write("b.csv", "step,loss\n1,6\n2,5\n", 18);
    ck_ok(compare(&r, a, b));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_UNDECIDED);
    ck_assert_ptr_nonnull(strstr(pair(&r, METRIC_LOSS)->reason, "in steps of 1,"));
    report_free(&r);
}
END_TEST

START_TEST(word_where_a_loss_should_stand_is_noted)
{
    struct logs l;
    ck_ok(small_log_text(&l, "step,loss,other\n1,5.5,1\n2,abc,1\n3,4.5,none\n"));
    ck_assert(small_log_notes(&l.run[0], "left out 1 line"));
    ck_assert(small_log_notes(&l.run[0], "first line 3"));
    logs_free(&l);
}
END_TEST

/* Step 3 of one log and the same step of a record are the same training, printed and exact. */
START_TEST(record_and_its_print_are_identical)
{
    struct report r, study;
    struct synthetic_run runs[2];
    const struct synthetic_study two = two_runs(runs, &demo_runs[R0]);
    const char *folder = synthetic_study_write(&two);
    char record[4200], *text = NULL;
    size_t size;
    ck_ok(report_load_study(&study, folder));
    snprintf(record, sizeof record, "%s", study.run[1].path);
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "step,loss\n");
    for (int64_t i = 0; i < study.run[1].metrics; i++)
        fprintf(out, "%lld,%.5f\n", (long long)study.run[1].metric[i].step, study.run[1].metric[i].loss);
    fclose(out);
    report_free(&study);
    ck_ok(compare(&r, record, small_log_write("print.csv", text, size)));
    free(text);
    ck_assert_ptr_null(r.run[0].log);
    ck_assert_ptr_nonnull(r.run[1].log);
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_IDENTICAL);
    ck_assert_str_eq(pair(&r, METRIC_LOSS)->reason, "at the printed precision of 6 digits");
    ck_contains(pair(&r, METRIC_GRAD_NORM)->reason, "candidate logs no gradient norm");
    report_free(&r);
}
END_TEST

/* ---- gaps ---- */

START_TEST(small_gap_agrees_and_a_large_one_differs)
{
    struct report r;
    char baseline[4200];
    snprintf(baseline, sizeof baseline, "%s", noisy_log("base.csv", 400, 0, 1));
    ck_ok(compare(&r, baseline, noisy_log("near.csv", 400, 0.002, 2)));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_AGREES);
    ck_assert(fabs(pair(&r, METRIC_LOSS)->gap - 0.002) < 5e-5);
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->first, 201);
    report_free(&r);
    ck_ok(compare(&r, baseline, noisy_log("far.csv", 400, 0.05, 2)));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_DIFFERS);
    report_free(&r);
}
END_TEST

/* A log that sums over two ranks, printed to 4 digits beside one of 7: no difference of training. */
START_TEST(doubled_log_looks_like_one)
{
    struct report r;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "step,loss\n");
    for (int i = 1; i <= 200; i++)
        fprintf(out, "%d,%.3f\n", i, 2 * (5 - i / 1000.0));
    fclose(out);
    ck_ok(compare(&r, noisy_log("single.csv", 200, 0, 1), small_log_write("doubled.csv", text, size)));
    ck_contains(pair(&r, METRIC_LOSS)->reason, "looks like: a factor of 2");
    ck_assert_double_eq_tol(log_resolution(&r.run[1], METRIC_LOSS), 1e-3, 1e-12);
    ck_assert_double_eq_tol(log_resolution(&r.run[0], METRIC_LOSS), 1e-6, 1e-12);
    ck_assert_int_eq(r.run[1].against_baseline.metric[METRIC_GRAD_NORM].onset.first_bits, 0); /* one has no norms */
    ck_assert_int_eq(r.run[1].against_baseline.preset[PRESET_MEAN_REL_1].outcome, PRESET_NOT_APPLICABLE);
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(nan_in_the_candidate_differs)
{
    struct report r;
    const char *a = small_log_write("a.csv", "step,loss\n1,5.5\n2,4.5\n", 22);
    const char *b = small_log_write("b.csv", "step,loss\n1,5.5\n2,nan\n", 22);
    ck_ok(compare(&r, a, b));
    ck_assert_int_eq(pair(&r, METRIC_LOSS)->verdict, VERDICT_DIFFERS);
    ck_contains(pair(&r, METRIC_LOSS)->reason, "step 2");
    ck_assert_int_eq(run_divergence(&r.run[1])->step, 2);
    ck_assert_ptr_null(run_divergence(&r.run[0])); /* it has no gradient norm, which is not one that is not finite */
    report_free(&r);
}
END_TEST

START_TEST(held_out_means_have_a_gap_and_no_verdict)
{
    struct report r;
    ck_ok(compare(&r, SMALL_LOGS "llmc_main.log", SMALL_LOGS "nanogpt.log"));
    ck_assert_int_eq(pair(&r, METRIC_HELD_OUT)->verdict, VERDICT_UNDECIDED);
    ck_assert(fabs(pair(&r, METRIC_HELD_OUT)->gap - 0.2) < 1e-12);
    ck_contains(pair(&r, METRIC_HELD_OUT)->reason, "5.95 against 5.75");
    report_free(&r);
}
END_TEST

START_TEST(bits_are_judged_in_nats)
{
    struct report r;
    ck_ok(compare(&r, SMALL_LOGS "bits.csv", SMALL_LOGS "bits.csv"));
    ck_assert(r.run[0].metric[0].loss == 2 * M_LN2);
    report_free(&r);
}
END_TEST

/* ---- the policy ---- */

static void judge_four(struct report *r, const unsigned seeds[4])
{
    char path[4][4200];
    struct report_file files[4];
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.csv", i);
        snprintf(path[i], sizeof path[i], "%s", noisy_log(name, 400, i < 2 ? 0 : 1e-3, seeds[i]));
        files[i] = (struct report_file){path[i], i < 2 ? NULL : "candidate"};
    }
    ck_ok(report_load_files(r, files, 2, files + 2, 2));
    ck_ok(report_judge(r));
}

START_TEST(replicated_logs_judge_the_policy)
{
    struct report r;
    judge_four(&r, (const unsigned[]){1, 2, 3, 4});
    const struct judgement *policy = &r.run[2].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->baselines, 2);
    ck_assert_int_eq(policy->candidates, 2);
    ck_assert_int_eq(policy->verdict, VERDICT_EQUIVALENT);
    report_free(&r);
}
END_TEST

START_TEST(same_log_twice_is_one_run)
{
    struct report r;
    judge_four(&r, (const unsigned[]){1, 1, 3, 4});
    const struct contrast *c = &r.run[2].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].repeats, 1);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.verdict, VERDICT_INCONCLUSIVE);
    ck_contains(c->metric[METRIC_LOSS].policy.reason, "the same values as another run");
    report_free(&r);
}
END_TEST

/* ---- what may be compared ---- */

#define TRAINED(batch, layers)                                                                                         \
    "--- arguments ----\n  global_batch_size ............ " #batch "\n  num_layers ........ " #layers                  \
    "\n--- end of arguments ----\n iteration 1/ 2 | lm loss: 5.5E+00 | loss scale: 1.0 |\n iteration 2/ 2 | lm loss: " \
    "4.5E+00 | loss scale: 1.0 |\n"
#define RATED(rate) "step,loss,lr\n1,5.5,0.1\n2,4.5," #rate "\n3,4.25," #rate "\n"

static const struct {
    const char *what, *baseline, *candidate, *said, *group; /* said NULL: compared */
} settings[] = {
    {"the same", TRAINED(8, 4), TRAINED(8, 4), NULL, NULL},
    {"another batch", TRAINED(8, 4), TRAINED(16, 4), "global_batch_size: 8 against 16", "global_batch"},
    {"another model", TRAINED(8, 4), TRAINED(8, 5), "num_layers: 4 against 5", "model"},
    {"another schedule", RATED(0.2), RATED(0.3), "learning rate: another at 2 of 3 steps", "schedule"},
    {"the same schedule", RATED(0.2), RATED(0.2), NULL, NULL},
    {"another unit", "step,loss\n1,5\n2,4\n", "step,bpb\n1,5\n2,4\n", "unit of the loss: nats against bits", "unit"},
    {"counted steps", "{'loss': 5.5, 'epoch': 0.5}\n{'loss': 4.5, 'epoch': 1}\n", "step,loss\n1,5.5\n2,4.5\n",
     "where steps come from: counted lines against printed steps", "steps"},
    {"another interval", "{\"current_steps\": 5, \"loss\": 4.5}\n{\"current_steps\": 10, \"loss\": 4}\n",
     "step,loss\n5,4.5\n10,4\n", "steps that a printed loss is the mean of: 5 against 1", "interval"},
    {"what only one tells", TRAINED(8, 4), "step,loss\n1,5.5\n2,4.5\n", NULL, NULL},
};

START_TEST(settings_that_differ_must_be_allowed)
{
    struct report r;
    char a[4200], b[4200];
    snprintf(a, sizeof a, "%s", small_log_write("a.log", settings[_i].baseline, strlen(settings[_i].baseline)));
    snprintf(b, sizeof b, "%s", small_log_write("b.log", settings[_i].candidate, strlen(settings[_i].candidate)));
    if (settings[_i].said) {
        ck_assert_msg(compare(&r, a, b) == ERR_INPUT, "%s was compared", settings[_i].what);
        ck_said(settings[_i].said);
        ck_said(settings[_i].group);
        ck_assert_int_eq(compare_allowing(&r, a, b, settings[_i].group[0] == 'm' ? "data" : "model"), ERR_INPUT);
    }
    ck_ok(compare_allowing(&r, a, b, settings[_i].group));
    report_free(&r);
}
END_TEST

START_TEST(only_groups_can_be_allowed)
{
    ck_ok(log_known_group("global_batch"));
    ck_ok(log_known_group("steps"));
    ck_assert_int_eq(log_known_group("batch"), ERR_USAGE);
    ck_said("expected one of model, data, sequence, global_batch");
    ck_assert_int_eq(log_known_group(""), ERR_USAGE);
    ck_assert_int_eq(log_known_group("data, sequence"), ERR_USAGE);
}
END_TEST

/* ---- files ---- */

START_TEST(run_of_a_file_is_named_behind_a_hash)
{
    struct report r;
    ck_assert_int_eq(compare(&r, SMALL_LOGS "megatron_two.log", SMALL_LOGS "megatron_two.log#2"), ERR_USAGE);
    ck_said("choose one with 'tests/logs/megatron_two.log#RUN'");
    ck_ok(compare(&r, SMALL_LOGS "megatron_two.log#1", SMALL_LOGS "megatron_two.log#2"));
    ck_assert(r.run[0].metric[0].loss == 9.5 && r.run[1].metric[0].loss == 9.25);
    report_free(&r);
    const char *text = "step,loss\n1,5.5\n";
    ck_ok(compare(&r, small_log_write("odd#name", text, strlen(text)), SMALL_LOGS "table.tsv"));
    report_free(&r);
}
END_TEST

START_TEST(log_without_a_loss_says_what_it_holds)
{
    struct report r;
    const char *path = small_log_write("a.csv", "step,reward,accuracy\n1,5.5,1\n", 30);
    ck_assert_int_eq(compare(&r, path, path), ERR_INPUT);
    ck_said("none of what it holds is known as the loss: 'reward', 'accuracy'; call the column of the loss 'loss'");
}
END_TEST

START_TEST(damaged_record_is_no_log)
{
    struct report r;
    const char *path = small_log_write("a.rematch.tar.zst", "step,loss\n1,5.5\n", 16);
    ck_assert_int_eq(compare(&r, path, SMALL_LOGS "table.tsv"), ERR_INPUT);
    ck_said("the record is damaged or foreign");
}
END_TEST

/* ---- what is written ---- */

START_TEST(report_says_where_numbers_come_from)
{
    struct report r;
    json_t *json;
    ck_ok(compare(&r, SMALL_LOGS "megatron_r07_none.log", SMALL_LOGS "megatron_r07.log"));
    char *text = synthetic_markdown(&r);
    ck_contains(text, "candidate against megatron\\_r07\\_none.log (logs, this pair): loss UNDECIDED");
    ck_contains(text, "first difference at step 3 (7.203456 against 7.203466)");
    ck_contains(text, "candidate and megatron\\_r07\\_none.log differ in recompute\\_granularity: full against None.");
    ck_contains(text, "|candidate|full, block, 6|");
    ck_contains(text, "|megatron\\_r07\\_none.log|nothing|");
    ck_assert_ptr_null(strstr(text, "Recommended settings"));
    ck_assert_ptr_null(strstr(text, "simulated"));
    ck_assert_ptr_null(strstr(text, "Certificates"));
    free(text);
    ck_ok(report_json(&json, &r));
    json_t *point = json_array_get(json_object_get(json, "points"), 1);
    ck_assert(json_is_null(json_object_get(point, "certificate")));
    ck_assert(json_is_null(json_object_get(point, "recompute")));
    ck_assert(json_is_null(json_object_get(point, "weights_digest")));
    ck_assert(json_is_null(json_object_get(point, "storage")));
    ck_assert(json_is_null(json_object_get(point, "fits")));
    ck_assert(json_is_false(json_object_get(point, "simulated")));
    json_t *log = json_object_get(point, "log");
    ck_assert_str_eq(json_string_value(json_object_get(log, "format")), "Megatron-LM, Megatron-DeepSpeed");
    ck_assert_str_eq(json_string_value(json_object_get(log, "loss")), "lm loss");
    ck_assert_int_eq(json_integer_value(json_object_get(log, "digits")), 7);
    ck_assert_str_eq(json_string_value(json_object_get(log, "held_out")), "lm loss validation");
    json_decref(json);
    report_free(&r);
}
END_TEST

START_TEST(allowed_differences_and_notes_are_repeated)
{
    struct report r;
    char a[4200];
    snprintf(a, sizeof a, "%s", small_log_write("a.log", TRAINED(8, 4), strlen(TRAINED(8, 4))));
    ck_ok(compare_allowing(&r, a, small_log_write("b.log", TRAINED(16, 4), strlen(TRAINED(16, 4))), "global_batch"));
    char *text = synthetic_markdown(&r);
    ck_contains(
        text, "candidate and a.log differ, as --allow global\\_batch admits, in global\\_batch\\_size: 16 against 8.");
    free(text);
    report_free(&r);
    ck_ok(compare(&r, SMALL_LOGS "megatron_resume.log", SMALL_LOGS "megatron_resume.log"));
    text = synthetic_markdown(&r);
    ck_contains(text, "candidate: resumed at step 3");
    free(text);
    report_free(&r);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {equal_prints_are_identical_at_their_precision, 1},
        {coarser_print_decides_what_is_equal, 1},
        {one_unit_of_the_last_place_is_a_difference, 1},
        {number_beyond_all_doubles_is_a_divergence, 1},
        {rounding_beyond_the_margin_decides_nothing, 1},
        {word_where_a_loss_should_stand_is_noted, 1},
        {record_and_its_print_are_identical, 1},
        {small_gap_agrees_and_a_large_one_differs, 1},
        {doubled_log_looks_like_one, 1},
        {nan_in_the_candidate_differs, 1},
        {held_out_means_have_a_gap_and_no_verdict, 1},
        {bits_are_judged_in_nats, 1},
        {replicated_logs_judge_the_policy, 1},
        {same_log_twice_is_one_run, 1},
        {settings_that_differ_must_be_allowed, COUNT(settings)},
        {only_groups_can_be_allowed, 1},
        {run_of_a_file_is_named_behind_a_hash, 1},
        {log_without_a_loss_says_what_it_holds, 1},
        {damaged_record_is_no_log, 1},
        {report_says_where_numbers_come_from, 1},
        {allowed_differences_and_notes_are_repeated, 1},
    };
    return suite_run("log report", tests, COUNT(tests));
}
