/* JSON lines: exact numbers survive, files are cut to an offset, damaged lines are refused with their number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static double through_json(double value)
{
    double back;
    json_t *object = json_pack("{so}", "x", json_exact(value));
    ck_ok(json_exact_read(&back, object, "x", "test"));
    json_decref(object);
    return back;
}

START_TEST(exact_every_kind_of_double_survives)
{
    static const double values[] = {0.0,       -0.0,      1.0,     -1.5,     0x1.8p+1, 0x1.fffffffffffffp+1023,
                                    0x1p-1022, 0x1p-1074, 1.0 / 3, INFINITY, -INFINITY};
    for (int i = 0; i < COUNT(values); i++) {
        double back = through_json(values[i]);
        ck_assert_mem_eq(&back, &values[i], sizeof back);
    }
    ck_assert(isnan(through_json(NAN)));
    ck_assert(isnan(through_json(-NAN)));
}
END_TEST

START_TEST(exact_other_texts_refused)
{
    static const char *const texts[] = {"",          "1.5",  "0x1.80p+1", "0X1.8P+1", " 0x1.8p+1",
                                        "0x1.8p+1 ", "-nan", "NAN",       "1e400"};
    double back;
    for (int i = 0; i < COUNT(texts); i++) {
        json_t *object = json_pack("{ss}", "loss", texts[i]);
        ck_assert_int_eq(json_exact_read(&back, object, "loss", "m.jsonl:3"), ERR_INPUT);
        ck_said("m.jsonl:3: \"loss\"");
        json_decref(object);
    }
    json_t *number = json_pack("{sf}", "loss", 1.5);
    ck_assert_int_eq(json_exact_read(&back, number, "loss", "m"), ERR_INPUT);
    ck_assert_int_eq(json_exact_read(&back, number, "absent", "m"), ERR_INPUT);
    json_decref(number);
}
END_TEST

static void write_metrics(const char *path, uint64_t offset, int64_t first, int64_t last, uint64_t *end)
{
    struct jsonl *j;
    ck_ok(jsonl_open(&j, path, offset));
    for (int64_t step = first; step <= last; step++) {
        struct metric m = {step, 5.0 / (double)step, 0.25, 1e-3, 1024};
        ck_ok(metric_append(j, &m));
    }
    ck_ok(jsonl_sync(j));
    *end = jsonl_offset(j);
    jsonl_close(j);
}

START_TEST(jsonl_cut_and_continued_equals_undisturbed)
{
    uint64_t end, at_five;
    char *whole, *resumed;
    size_t size_whole, size_resumed;
    const char *a = temporary_path("whole.jsonl"), *b = temporary_path("resumed.jsonl");
    write_metrics(a, 0, 1, 10, &end);
    write_metrics(b, 0, 1, 5, &at_five);
    write_metrics(b, at_five, 6, 9, &end); /* lost: killed before a checkpoint */
    write_metrics(b, at_five, 6, 10, &end);
    ck_ok(file_read(a, 1 << 20, &whole, &size_whole));
    ck_ok(file_read(b, 1 << 20, &resumed, &size_resumed));
    ck_assert_uint_eq(end, size_whole);
    ck_assert_uint_eq(size_whole, size_resumed);
    ck_assert_mem_eq(whole, resumed, size_whole);
    free(whole);
    free(resumed);
}
END_TEST

START_TEST(jsonl_shorter_than_offset_refused)
{
    struct jsonl *j;
    uint64_t end;
    const char *path = temporary_path("short.jsonl");
    write_metrics(path, 0, 1, 2, &end);
    ck_assert_int_eq(jsonl_open(&j, path, end + 1), ERR_INPUT);
    ck_said("short.jsonl");
}
END_TEST

/* As on the ranks that do not keep the files: the line is taken, its reference too. */
START_TEST(jsonl_of_another_process_takes_lines)
{
    json_t *object = json_pack("{s:i}", "step", 1);
    json_incref(object);
    ck_ok(jsonl_append(NULL, object));
    ck_assert_uint_eq(object->refcount, 1);
    json_decref(object);
    ck_ok(metric_append(NULL, &(const struct metric){.step = 1, .loss = 2}));
}
END_TEST

START_TEST(metrics_round_trip_is_exact)
{
    uint64_t end;
    char *text;
    size_t size;
    struct metric *metrics;
    int64_t count;
    const char *path = temporary_path("metrics.jsonl");
    write_metrics(path, 0, 151, 350, &end); /* a branch does not begin at 1 */
    ck_ok(file_read(path, 1 << 20, &text, &size));
    ck_ok(metrics_read(&metrics, &count, "metrics.jsonl", text, size));
    ck_assert_int_eq(count, 200);
    for (int64_t i = 0; i < count; i++) {
        ck_assert_int_eq(metrics[i].step, 151 + i);
        ck_assert(metrics[i].loss == 5.0 / (double)(151 + i));
        ck_assert(metrics[i].grad_norm == 0.25 && metrics[i].learning_rate == 1e-3);
        ck_assert_int_eq(metrics[i].tokens, 1024);
    }
    free(metrics);
    free(text);
}
END_TEST

#define LINE(step) \
    "{\"step\":" step ",\"loss\":\"0x1p+0\",\"grad_norm\":\"0x1p+0\",\"learning_rate\":\"0x1p+0\",\"tokens\":4}"

START_TEST(metrics_wrong_lines_refused_with_their_number)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {LINE("1") "\n" LINE("3") "\n", "m:2: step 3 follows step 1"},
        {LINE("1") "\n" LINE("1") "\n", "m:2: step 1 follows step 1"},
        {LINE("1") "\n" LINE("2"), "m:2: the last line does not end"},
        {LINE("1") "\n\n", "m:2: is not JSON"},
        {LINE("1") "\n[]\n", "m:2: expected a JSON object"},
        {LINE("0") "\n", "m:1: \"step\""},
        {LINE("1.0") "\n", "m:1: \"step\""},
        {"{\"step\":1}\n", "m:1: has 1 fields"},
        {"{\"step\":1,\"step\":1}\n", "m:1: is not JSON: duplicate"},
    };
    struct metric *metrics;
    int64_t count;
    for (int i = 0; i < COUNT(wrong); i++) {
        ck_assert_int_eq(metrics_read(&metrics, &count, "m", wrong[i].text, strlen(wrong[i].text)), ERR_INPUT);
        ck_said(wrong[i].says);
    }
    ck_ok(metrics_read(&metrics, &count, "m", "", 0));
    ck_assert_int_eq(count, 0);
    free(metrics);
}
END_TEST

START_TEST(evaluations_round_trip_is_exact)
{
    char *text;
    size_t size;
    struct jsonl *j;
    struct evaluations all;
    double loss[3] = {1.0 / 3, 0x1.23456789abcdep-3, NAN};
    const struct evaluation e = {50, 3, loss};
    const struct score s = {
        .step = 50, .file = "a/b \"c\".py", .tokens = 100, .tokens_right = 60, .lines = 10, .lines_right = 3};
    const char *path = temporary_path("evaluations.jsonl");
    ck_ok(jsonl_open(&j, path, 0));
    ck_ok(evaluation_append(j, &e));
    ck_ok(score_append(j, &s));
    jsonl_close(j);
    ck_ok(file_read(path, 1 << 20, &text, &size));
    ck_ok(evaluations_read(&all, "evaluations.jsonl", text, size));
    ck_assert_int_eq(all.count, 1);
    ck_assert_int_eq(all.at[0].sequences, 3);
    ck_assert(all.at[0].loss[0] == loss[0] && all.at[0].loss[1] == loss[1] && isnan(all.at[0].loss[2]));
    ck_assert_int_eq(all.scores, 1);
    ck_assert_str_eq(all.score[0].file, s.file);
    ck_assert_int_eq(all.score[0].lines_right, 3);
    evaluations_free(&all);
    free(text);
}
END_TEST

START_TEST(evaluations_impossible_score_refused)
{
    static const char line[] =
        "{\"kind\":\"score\",\"step\":1,\"file\":\"f\",\"tokens\":1,\"tokens_right\":2,\"lines\":1,"
        "\"lines_right\":1}\n";
    struct evaluations all;
    ck_assert_int_eq(evaluations_read(&all, "e", line, strlen(line)), ERR_INPUT);
    evaluations_free(&all);
    ck_assert_int_eq(evaluations_read(&all, "e", "{\"kind\":\"guess\"}\n", 17), ERR_INPUT);
    ck_said("guess");
    evaluations_free(&all);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {exact_every_kind_of_double_survives, 1},           {exact_other_texts_refused, 1},
        {jsonl_cut_and_continued_equals_undisturbed, 1},    {jsonl_shorter_than_offset_refused, 1},
        {jsonl_of_another_process_takes_lines, 1},          {metrics_round_trip_is_exact, 1},
        {metrics_wrong_lines_refused_with_their_number, 1}, {evaluations_round_trip_is_exact, 1},
        {evaluations_impossible_score_refused, 1},
    };
    return suite_run("jsonl", tests, COUNT(tests));
}
