/* Logs of other trainers: what may stand in a file beside the lines that matter, and files that are no logs. */
#include <stdlib.h>

#include "data/file.h"
#include "tests/small_log.h"
#include "tests/suite.h"

/* ---- what may stand in a text ---- */

static const struct {
    const char *what, *text;
    size_t size; /* 0: to its NUL */
} odd_texts[] = {
    {"CRLF", "step,loss\r\n1,5.5\r\n2,4.5\r\n", 0},
    {"carriage returns of a progress bar", "x\rstep:1/2 train_loss:5.5\rstep:2/2 train_loss:4.5\r", 0},
    {"no newline at the end", "step,loss\n1,5.5\n2,4.5", 0},
    {"empty lines", "\n\nstep,loss\n\n1,5.5\n\n2,4.5\n\n", 0},
    {"a byte-order mark of UTF-8", "\xef\xbb\xbfstep,loss\n1,5.5\n2,4.5\n", 0},
    {"semicolons", "step;loss\n1;5.5\n2;4.5\n", 0},
    {"quotes", "\"step\",\"lo\"\"ss\",\"loss\"\n\"1\",\"a,b\",\"5.5\"\n\"2\",\"\",\"4.5\"\n", 0},
    {"a NUL in a line", "step:1/2 train_loss:5.5\n\0\0\0\0x\nstep:2/2 train_loss:4.5\n", 54},
    {"bytes that are not UTF-8", "\xc3\x28\xff\nstep:1/2 train_loss:5.5\nstep:2/2 train_loss:4.5\n", 0},
    {"text around the lines", "Loading...\nstep:1/2 train_loss:5.5 \nWARNING step: 9\nstep:2/2 train_loss:4.5 x\n", 0},
    {"capitals", "Step,Loss\n1,5.5\n2,4.5\n", 0},
    {"steps as reals", "step,loss\n1.0,5.5\n2.0,4.5\n", 0},
};

START_TEST(odd_text_is_read)
{
    struct logs l;
    size_t size = odd_texts[_i].size ? odd_texts[_i].size : strlen(odd_texts[_i].text);
    ck_assert_msg(logs_read(&l, small_log_write("odd.log", odd_texts[_i].text, size)) == OK, "%s: %s",
                  odd_texts[_i].what, status_text());
    const struct log_series *loss = log_run_series(&l.run[0], LOG_LOSS);
    ck_assert_int_eq(l.runs, 1);
    ck_assert_int_eq(loss->count, 2);
    small_log_check(loss, 0, 1, 5.5);
    small_log_check(loss, 1, 2, 4.5);
    logs_free(&l);
}
END_TEST

static const struct {
    const char *what, *text, *said;
    size_t size;
} bad_texts[] = {
    {"an empty file", "", "not recognised", 0},
    {"prose", "It was the best of times, it was the worst of times.\n",
     "not recognised as a log or a record. Tried:", 0},
    {"UTF-16", "\xff\xfes\0t\0e\0p\0", "is UTF-16; make it UTF-8: iconv", 10},
    {"a cut gzip", "\x1f\x8b\x08\0\0\0\0\0\0\3", "cannot unpack", 10},
    {"a table without steps", "a,b\n1,2\n", "not recognised", 0},
    {"a table without numbers", "step,loss\nx,y\n", "holds no values", 0},
    {"a cut document", "{\"log_history\": [{\"step\": 1, \"loss\": 2.5}, {\"st", "is not JSON from here on", 0},
    {"a document and more", "{\"log_history\": [{\"step\": 1, \"loss\": 2.5}]} x", "is not JSON from here on", 0},
    {"steps that begin anew and anew", NULL, "its steps begin anew more than 256 times", 0},
};

START_TEST(bad_text_is_refused)
{
    struct logs l;
    char text[4096] = "step,loss\n";
    for (int i = 0; i < 600 && !bad_texts[_i].text; i++)
        strcat(text, i % 2 ? "1,2\n" : "1,2\n2,2\n");
    if (bad_texts[_i].text)
        memcpy(text, bad_texts[_i].text, bad_texts[_i].size ? bad_texts[_i].size : strlen(bad_texts[_i].text) + 1);
    const char *path = small_log_write("bad.log", text, bad_texts[_i].size ? bad_texts[_i].size : strlen(text));
    ck_assert_msg(logs_read(&l, path) == ERR_INPUT, "%s was read", bad_texts[_i].what);
    ck_said(bad_texts[_i].said);
    ck_said(path);
    ck_assert_int_eq(l.runs, 0);
}
END_TEST

START_TEST(missing_file_and_folder_are_named)
{
    struct logs l;
    ck_assert_int_eq(logs_read(&l, "no/such.log"), ERR_IO);
    ck_said("'no/such.log': cannot open: No such file or directory");
    ck_assert_int_eq(logs_read(&l, "tests/logs"), ERR_INPUT);
    ck_said("is no file; give the log itself");
}
END_TEST

START_TEST(damaged_event_is_refused_and_a_cut_one_left_out)
{
    struct logs l;
    char *bytes;
    size_t size;
    ck_ok(file_read(SMALL_LOGS "events.tfevents", 1 << 16, &bytes, &size));
    ck_ok(logs_read(&l, small_log_write("cut.tfevents", bytes, size - 5)));
    ck_assert_ptr_null(log_run_series(&l.run[0], LOG_HELD_OUT));
    ck_assert_int_eq(log_run_series(&l.run[0], LOG_LOSS)->count, 5);
    ck_assert(small_log_notes(&l.run[0], "the file ends within record 7, which is left out"));
    logs_free(&l);
    bytes[size / 2] ^= 1;
    ck_assert_int_eq(logs_read(&l, small_log_write("damaged.tfevents", bytes, size)), ERR_INPUT);
    ck_said("does not have its checksum");
    free(bytes);
}
END_TEST

/* A writer that goes on in the same file after a restart. */
START_TEST(events_that_come_again_replace_those_before)
{
    struct logs l;
    char *bytes;
    size_t size;
    ck_ok(file_read(SMALL_LOGS "events.tfevents", 1 << 16, &bytes, &size));
    char *twice = malloc(2 * size);
    memcpy(twice, bytes, size);
    memcpy(twice + size, bytes, size);
    ck_ok(logs_read(&l, small_log_write("twice.tfevents", twice, 2 * size)));
    ck_assert_int_eq(log_run_series(&l.run[0], LOG_LOSS)->count, 5);
    ck_assert(small_log_notes(&l.run[0], "10 values of steps that came again later; the later stand"));
    logs_free(&l);
    free(twice);
    free(bytes);
}
END_TEST

/* ---- size ---- */

START_TEST(line_of_100_mb_is_passed_over)
{
    enum { LONG = 100 << 20 };
    static const char begin[] = "step:1/2 train_loss:5.5\n", end[] = "\nstep:2/2 train_loss:4.5\n";
    struct logs l;
    char *text = malloc(LONG + sizeof begin + sizeof end);
    ck_assert_ptr_nonnull(text);
    memcpy(text, begin, sizeof begin - 1);
    memset(text + sizeof begin - 1, 'x', LONG);
    memcpy(text + sizeof begin - 1 + LONG, end, sizeof end - 1);
    const char *path = small_log_write("long.log", text, sizeof begin - 1 + LONG + sizeof end - 1);
    free(text);
    ck_ok(logs_read(&l, path));
    ck_assert_int_eq(log_run_series(&l.run[0], LOG_LOSS)->count, 2);
    logs_free(&l);
}
END_TEST

START_TEST(long_log_is_read_whole)
{
    enum { STEPS = 20000 };
    struct logs l;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int i = 1; i <= STEPS; i++)
        fprintf(out,
                " iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): 356.0 | learning rate: "
                "%.3E | global batch size: %5d | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f | number of "
                "skipped iterations: %3d | number of nan iterations: %3d |\n",
                i, STEPS, 16 * i, 1e-4, 16, 3 + 1.0 / i, 1 + 1.0 / i, 0, 0);
    fclose(out);
    ck_ok(logs_read(&l, small_log_write("20000.log", text, size)));
    free(text);
    const struct log_series *loss = log_run_series(&l.run[0], LOG_LOSS);
    ck_assert_int_eq(loss->count, STEPS);
    small_log_check(loss, STEPS - 1, STEPS, 3.00005);
    logs_free(&l);
}
END_TEST

START_TEST(record_is_an_archive_and_a_log_is_none)
{
    bool archive;
    ck_ok(logs_is_archive(&archive, SMALL_LOGS "nanogpt.log.zst"));
    ck_assert(!archive);
    char tar[1024] = "member";
    memcpy(tar + 257, "ustar", 5);
    ck_ok(logs_is_archive(&archive, small_log_write("any-name", tar, sizeof tar)));
    ck_assert(archive);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {odd_text_is_read, COUNT(odd_texts)},
        {bad_text_is_refused, COUNT(bad_texts)},
        {missing_file_and_folder_are_named, 1},
        {damaged_event_is_refused_and_a_cut_one_left_out, 1},
        {events_that_come_again_replace_those_before, 1},
        {line_of_100_mb_is_passed_over, 1},
        {long_log_is_read_whole, 1},
        {record_is_an_archive_and_a_log_is_none, 1},
    };
    return suite_run("log texts", tests, COUNT(tests));
}
