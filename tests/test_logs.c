/* Logs of other trainers: every format, and what its lines mean.
 *
 * The fixtures in tests/logs/ have the shape of each program's log and values of our own: most lose 9.512345, 8.101,
 * 7.203456, 6.504321 and 5.905 nats in five steps, rounded as the program rounds.
 */
#include <math.h>
#include <stdlib.h>

#include "data/file.h"
#include "stages/logs/readers.h"
#include "tests/small_log.h"
#include "tests/suite.h"

/* ---- every format ---- */

struct ends {
    int64_t count, first_step, last_step;
    double first, last;
};

static const struct fixture {
    const char *file, *format, *loss;
    struct ends losses;
    int digits;       /* of the first loss */
    int64_t interval; /* of the losses */
    bool mean;
    int64_t held_out_count; /* 0: none */
    double held_out;        /* the last */
    double grad_norm;       /* the first; NaN: none */
    int64_t planned;
} fixtures[] = {
    {"megatron_v1.log", "Megatron-LM", "lm loss", {5, 10, 50, 9.512345, 5.905}, 7, 10, true, 0, 0, NAN, 50},
    {"megatron_r07.log", "Megatron-LM", "lm loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, true, 2, 6.754321, 2.25, 5},
    {"megatron_main.log", "Megatron-LM", "lm loss", {5, 1, 40, 9.512345, 6.504321}, 7, 10, true, 0, 0, 1.5, 250000000},
    {"megatron_deepspeed.log", "Megatron-LM", "lm loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, true, 0, 0, NAN, 100},
    {"megatron_torchrun.log", "Megatron-LM", "lm loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, true, 0, 0, 1.5, 5},
    {"megatron_values.json", "Megatron-LM functional", "lm loss", {5, 1, 5, 9.51234, 5.905}, 6, 1, false, 0, 0, NAN, 0},
    {"megatron_values_old.json", "Megatron-LM functional", "lm loss", {5, 0, 20, 9.5, 5.5}, 4, 5, false, 0, 0, NAN, 0},
    {"nemo.log", "NeMo 2", "loss", {5, 0, 4, 9.512, 5.905}, 4, 1, true, 2, 7.5, NAN, 0},
    {"torchtitan.log", "torchtitan", "loss", {5, 1, 5, 9.5123, 5.905}, 5, 1, false, 1, 6.125, 2.5, 0},
    {"llmc_main.log", "llm.c main.log", "loss", {5, 0, 4, 9.5123, 5.905}, 5, 1, false, 2, 5.75, 2.5, 0},
    {"llmc_console.log", "llm.c console", "loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, false, 1, 5.75, 2.5, 5},
    {"nanogpt.log", "nanoGPT", "loss", {5, 0, 4, 9.5123, 5.905}, 5, 1, false, 2, 5.95, NAN, 0},
    {"nanogpt.log.gz", "nanoGPT", "loss", {5, 0, 4, 9.5123, 5.905}, 5, 1, false, 2, 5.95, NAN, 0},
    {"nanogpt.log.zst", "nanoGPT", "loss", {5, 0, 4, 9.5123, 5.905}, 5, 1, false, 2, 5.95, NAN, 0},
    {"speedrun.log", "modded-nanogpt", "loss", {5, 1, 5, 9.5123, 5.905}, 5, 1, false, 2, 5.75, NAN, 5},
    {"litgpt.log", "litgpt", "loss", {5, 1, 5, 9.512, 5.905}, 4, 1, false, 1, 5.75, NAN, 0},
    {"maxtext.log", "MaxText", "loss", {5, 0, 4, 9.512, 5.905}, 4, 1, false, 1, 5.75, NAN, 0},
    {"paddlenlp.log", "PaddleNLP", "loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, true, 1, 5.75, NAN, 0},
    {"mindformers.log", "MindFormers", "loss", {5, 1, 5, 9.512, 5.905}, 4, 1, false, 0, 0, 2.5, 0},
    {"olmo.log", "OLMo", "loss", {5, 1, 5, 10.51, 6.905}, 4, 1, false, 0, 0, 1234, 5},
    {"trainer_console.log",
     "Hugging Face Trainer, console",
     "loss",
     {5, 1, 5, 9.512, 5.905},
     4,
     1,
     true,
     1,
     7.125,
     2.5,
     0},
    {"trainer_state.json",
     "Hugging Face Trainer, trainer",
     "loss",
     {5, 5, 25, 9.5123, 5.905},
     5,
     5,
     true,
     1,
     6,
     2.5,
     25},
    {"llamafactory.jsonl", "LLaMA-Factory", "loss", {4, 5, 20, 9.5123, 6.5043}, 5, 5, true, 1, 8.25, NAN, 25},
    {"swift.jsonl", "ms-swift", "loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, true, 1, 5.75, 2.5, 5},
    {"rows.jsonl", "JSON lines", "train/loss", {5, 1, 5, 9.512345, 5.905}, 7, 1, false, 0, 0, 2.5, 0},
    {"metrics.jsonl", "Rematch", "loss", {3, 1, 3, 9.5, 2.25}, 17, 1, false, 0, 0, 2, 0},
    {"lightning.csv",
     "CSV with named columns",
     "train_loss_step",
     {4, 49, 199, 9.5, 7.25},
     3,
     50,
     false,
     2,
     7.625,
     NAN,
     0},
    {"table.tsv", "CSV with named columns", "lm loss", {5, 1, 5, 9.51234, 5.905}, 6, 1, false, 0, 0, 2.5, 0},
    {"bits.csv", "CSV with named columns", "bpb", {3, 1, 3, 2, 1.25}, 3, 1, false, 0, 0, NAN, 0},
    {"events.tfevents", "TensorBoard", "train/loss", {5, 1, 5, 9.512345f, 5.905f}, 7, 1, false, 1, 5.75, 2.5, 0},
};

START_TEST(format_is_recognised_and_read)
{
    struct logs l;
    const struct fixture *f = &fixtures[_i];
    const struct log_run *run = small_log_read(&l, f->file);
    ck_assert_msg(!strncmp(l.format, f->format, strlen(f->format)), "%s is read as %s", f->file, l.format);
    const struct log_series *loss = log_run_series(run, LOG_LOSS);
    ck_assert_ptr_nonnull(loss);
    ck_assert_str_eq(loss->name, f->loss);
    ck_assert_int_eq(loss->count, f->losses.count);
    small_log_check(loss, 0, f->losses.first_step, f->losses.first);
    small_log_check(loss, loss->count - 1, f->losses.last_step, f->losses.last);
    ck_assert_int_eq(log_digits(&loss->point[0]), f->digits);
    ck_assert_int_eq(loss->interval, f->interval);
    ck_assert_int_eq(loss->mean, f->mean);
    ck_assert_int_eq(run->planned_steps, f->planned);
    const struct log_series *held_out = log_run_series(run, LOG_HELD_OUT);
    ck_assert_int_eq(held_out ? held_out->count : 0, f->held_out_count);
    if (held_out)
        ck_assert_msg(held_out->point[held_out->count - 1].value == f->held_out, "held out: %.17g",
                      held_out->point[held_out->count - 1].value);
    const struct log_series *norm = log_run_series(run, LOG_GRAD_NORM);
    ck_assert_msg(small_log_same(norm ? norm->point[0].value : NAN, f->grad_norm), "gradient norm");
    logs_free(&l);
}
END_TEST

START_TEST(every_recognised_program_is_in_the_documentation)
{
    char *list = NULL, *formats, *rest = NULL;
    size_t size, formats_size;
    FILE *out = open_memstream(&list, &size);
    logs_print_formats(out);
    fclose(out);
    ck_ok(file_read("data/FORMATS.md", 1 << 20, &formats, &formats_size));
    int programs = 0;
    for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), programs++) {
        line[strcspn(line, "\t")] = '\0';
        ck_assert_msg(strstr(formats, line) != NULL, "data/FORMATS.md does not list '%s'", line);
    }
    ck_assert_int_gt(programs, 20);
    free(list);
    free(formats);
}
END_TEST

/* ---- numbers ---- */

static const struct {
    const char *text;
    bool thousands;
    size_t size;
    double value, half_unit;
} numbers[] = {
    {"10.93341,", false, 8, 10.93341, 5e-6},
    {"1.244238E+01 |", false, 12, 12.44238, 5e-6},
    {"1e-05", false, 5, 1e-5, 5e-6},
    {"-3", false, 2, -3, 0.5},
    {"+.5", false, 3, 0.5, 0.05},
    {"76,631", true, 6, 76631, 0.5},
    {"76,631", false, 2, 76, 0.5},
    {"76,63", true, 2, 76, 0.5},
    {"1,2,3", true, 1, 1, 0.5},
    {"nan", false, 3, NAN, 0},
    {"-Infinity", false, 9, -INFINITY, 0},
    {"nanometre", false, 0, 0, 0},
    {"0x10", false, 0, 0, 0},
    {"1.2.3", false, 0, 0, 0},
    {"e5", false, 0, 0, 0},
    {".", false, 0, 0, 0},
    {"", false, 0, 0, 0},
};

START_TEST(number_is_read_with_its_place)
{
    struct log_point p = {0};
    ck_assert_uint_eq(text_number(text_of(numbers[_i].text), numbers[_i].thousands, &p), numbers[_i].size);
    if (!numbers[_i].size)
        return;
    ck_assert_msg(small_log_same(p.value, numbers[_i].value), "%s: %.17g", numbers[_i].text, p.value);
    ck_assert_msg(fabs(p.half_unit - numbers[_i].half_unit) <= 1e-12 * numbers[_i].half_unit, "%s: place %g",
                  numbers[_i].text, p.half_unit);
}
END_TEST

/* ---- Megatron-LM ---- */

START_TEST(megatron_arguments_are_settings)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_r07.log");
    ck_assert_str_eq(log_run_setting(run, "num_layers"), "8");
    ck_assert_str_eq(log_run_setting(run, "recompute_granularity"), "full");
    ck_assert_str_eq(log_run_setting(run, "global_batch_size"), "16");
    ck_assert_ptr_null(log_run_setting(run, "no_such_argument"));
    logs_free(&l);
}
END_TEST

START_TEST(megatron_memory_is_the_largest_of_any_rank)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_r07.log");
    ck_assert_str_eq(log_run_setting(run, "max allocated memory (MB)"), "2048.2");
    logs_free(&l);
}
END_TEST

/* NeMo repeats what the last evaluation gave on every line. */
START_TEST(nemo_evaluation_is_taken_once)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "nemo.log");
    const struct log_series *held_out = log_run_series(run, LOG_HELD_OUT);
    ck_assert_int_eq(held_out->count, 2);
    small_log_check(held_out, 0, 2, 8.125);
    small_log_check(held_out, 1, 4, 7.5);
    logs_free(&l);
}
END_TEST

START_TEST(megatron_validation_at_the_end_is_apart)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_r07.log");
    const struct log_series *held_out = log_run_series(run, LOG_HELD_OUT);
    small_log_check(held_out, 0, 2, 8.351);
    small_log_check(held_out, 1, 4, 6.754321);
    ck_assert_int_eq(held_out->count, 2);
    logs_free(&l);
}
END_TEST

/* A loss that is absent: skipped iterations leave no value, NaN is one. */
START_TEST(megatron_absent_loss_is_nan_unless_skipped)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_nan.log");
    const struct log_series *loss = log_run_series(run, LOG_LOSS);
    ck_assert_int_eq(loss->count, 4);
    small_log_check(loss, 0, 10, 9.512345);
    small_log_check(loss, 1, 30, 8.101);
    small_log_check(loss, 2, 40, NAN);
    small_log_check(loss, 3, 50, NAN);
    ck_assert(small_log_notes(run, "left out 1 line without a loss, as all iterations were skipped"));
    ck_assert(small_log_notes(run, "2 lines without a loss although iterations were not skipped, first at step 40"));
    logs_free(&l);
}
END_TEST

START_TEST(megatron_glued_and_split_lines_are_read_and_cut_ones_left_out)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_srun.log");
    const struct log_series *loss = log_run_series(run, LOG_LOSS);
    ck_assert_str_eq(run->name, "3");
    ck_assert_int_eq(loss->count, 4);
    small_log_check(loss, 0, 1, 9.512345);
    small_log_check(loss, 1, 2, 8.101);
    small_log_check(loss, 2, 3, 7.203456);
    small_log_check(loss, 3, 5, 5.905);
    ck_assert(small_log_notes(run, "left out 1 line of a training that could not be read, first line 5"));
    logs_free(&l);
}
END_TEST

START_TEST(megatron_gradient_norm_of_zeros_was_not_computed)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_deepspeed.log");
    ck_assert_ptr_null(log_run_series(run, LOG_GRAD_NORM));
    ck_assert(small_log_notes(run, "grad norm is 0 at every step"));
    logs_free(&l);
}
END_TEST

/* ---- steps that go back ---- */

START_TEST(resumed_run_keeps_the_later_values_and_says_so)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "megatron_resume.log");
    const struct log_series *loss = log_run_series(run, LOG_LOSS);
    ck_assert_int_eq(loss->count, 6);
    small_log_check(loss, 2, 3, 7.5);
    small_log_check(loss, 3, 4, 6.25);
    small_log_check(loss, 5, 6, 5);
    ck_assert(small_log_notes(
        run, "resumed at step 3: steps up to 4 had been printed before, and the later values stand; 1 of "
             "2 that overlap differ, first at step 4"));
    logs_free(&l);
}
END_TEST

START_TEST(second_run_in_a_file_must_be_chosen)
{
    struct logs l;
    const struct log_run *run;
    ck_ok(logs_read(&l, SMALL_LOGS "megatron_two.log"));
    ck_assert_int_eq(l.runs, 2);
    ck_assert_int_eq(logs_choose(&run, &l, NULL), ERR_USAGE);
    ck_said("holds 2 runs; choose one with 'tests/logs/megatron_two.log#RUN', where RUN is one of '1', '2'");
    ck_assert_int_eq(logs_choose(&run, &l, "3"), ERR_USAGE);
    ck_said("has no run '3'; choose one of '1', '2'");
    ck_ok(logs_choose(&run, &l, "2"));
    small_log_check(log_run_series(run, LOG_LOSS), 0, 1, 9.25);
    logs_free(&l);
}
END_TEST

START_TEST(ranks_that_print_the_same_are_one_run_and_others_are_not)
{
    struct logs l;
    ck_ok(small_log_text(&l, "[rank0]:step:1/2 train_loss:5.5000\n[rank1]:step:1/2 train_loss:5.5000\n"
                             "[rank0]:step:2/2 train_loss:4.5000\n[rank1]:step:2/2 train_loss:4.5000\n"));
    ck_assert_int_eq(l.runs, 1);
    ck_assert(small_log_notes(&l.run[0], "rank1 printed the same values"));
    logs_free(&l);
    ck_ok(small_log_text(&l, "[rank0]:step:1/2 train_loss:5.5000\n[rank1]:step:1/2 train_loss:5.7500\n"));
    ck_assert_int_eq(l.runs, 2);
    ck_assert_str_eq(l.run[1].name, "rank1");
    logs_free(&l);
}
END_TEST

START_TEST(step_printed_twice_with_other_values_is_noted)
{
    struct logs l;
    ck_ok(small_log_text(&l, "step,loss\n1,5.5\n2,5.25\n2,5.75\n3,5\n"));
    ck_assert_int_eq(log_run_series(&l.run[0], LOG_LOSS)->count, 3);
    small_log_check(log_run_series(&l.run[0], LOG_LOSS), 1, 2, 5.75);
    ck_assert(small_log_notes(
        &l.run[0], "1 value printed again for the same step and different, first at step 2; the later stand"));
    logs_free(&l);
}
END_TEST

/* ---- tables and rows ---- */

START_TEST(wandb_export_has_a_run_a_column)
{
    struct logs l;
    const struct log_run *run;
    ck_ok(logs_read(&l, SMALL_LOGS "wandb.csv"));
    ck_assert_int_eq(l.runs, 2);
    ck_assert_int_eq(logs_choose(&run, &l, NULL), ERR_USAGE);
    ck_said("'run - a', 'b'");
    ck_ok(logs_choose(&run, &l, "b"));
    ck_assert_int_eq(run->series_count, 1);
    ck_assert_int_eq(run->series[0].count, 3); /* empty cells are not zeros */
    small_log_check(&run->series[0], 0, 1, 10.012345);
    logs_free(&l);
}
END_TEST

START_TEST(nan_in_json_is_a_value)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "trainer_state.json");
    small_log_check(log_run_series(run, LOG_LOSS), 3, 20, NAN);
    logs_free(&l);
}
END_TEST

START_TEST(counted_steps_are_said_to_be)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "trainer_console.log");
    ck_assert(run->counted_steps);
    ck_assert(small_log_notes(run, "its lines carry no step"));
    small_log_check(log_run_series(run, LOG_LOSS), 3, 4, NAN);
    small_log_check(log_run_series(run, LOG_HELD_OUT), 0, 3, 7.125);
    logs_free(&l);
}
END_TEST

START_TEST(bits_are_marked)
{
    struct logs l;
    const struct log_run *run = small_log_read(&l, "bits.csv");
    ck_assert_int_eq(log_run_series(run, LOG_LOSS)->unit, LOG_BITS);
    logs_free(&l);
}
END_TEST

START_TEST(headerless_table_asks_for_names)
{
    struct logs l;
    ck_assert_int_eq(logs_read(&l, SMALL_LOGS "nameless.csv"), ERR_INPUT);
    ck_said("its first line, '1,9.5', names no columns; put one above it, such as 'step,loss,grad_norm'");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {format_is_recognised_and_read, COUNT(fixtures)},
        {every_recognised_program_is_in_the_documentation, 1},
        {number_is_read_with_its_place, COUNT(numbers)},
        {megatron_arguments_are_settings, 1},
        {megatron_memory_is_the_largest_of_any_rank, 1},
        {nemo_evaluation_is_taken_once, 1},
        {megatron_validation_at_the_end_is_apart, 1},
        {megatron_absent_loss_is_nan_unless_skipped, 1},
        {megatron_glued_and_split_lines_are_read_and_cut_ones_left_out, 1},
        {megatron_gradient_norm_of_zeros_was_not_computed, 1},
        {resumed_run_keeps_the_later_values_and_says_so, 1},
        {second_run_in_a_file_must_be_chosen, 1},
        {ranks_that_print_the_same_are_one_run_and_others_are_not, 1},
        {step_printed_twice_with_other_values_is_noted, 1},
        {wandb_export_has_a_run_a_column, 1},
        {nan_in_json_is_a_value, 1},
        {counted_steps_are_said_to_be, 1},
        {bits_are_marked, 1},
        {headerless_table_asks_for_names, 1},
    };
    return suite_run("logs", tests, COUNT(tests));
}
