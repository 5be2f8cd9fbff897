/* 500 mutations of each format: none may crash a reader, none may pass for the original.
 *
 * A mutation is a function of (format, number): a failure names both and can be repeated. Where a file is compressed,
 * a mutation of the frame that unpacks to the same bytes changes nothing that anyone reads; it is counted, and few.
 * JSON lines carry no hash of their own (the record's manifest has it): there a mutation of a digit may be another valid
 * file, but then every value has been parsed and is in its range; these are few too.
 */
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "data/live.h"
#include "data/record.h"
#include "data/safetensors.h"
#include "data/shards.h"
#include "tests/mutate.h"
#include "tests/suite.h"
#include "tests/temporary.h"

enum { MUTATIONS = 500 };

/* Runs all mutations of the file through `opens`, which says whether the reader took it. Gives the number of changed
 * files that were taken. */
static int accepted(const char *file, bool (*opens)(const char *path))
{
    struct mutant original;
    char path[4200];
    snprintf(path, sizeof path, "%s", file); /* `file` may be borrowed, and `opens` borrows too */
    int taken = 0;
    ck_ok(file_read(path, 1 << 24, &original.bytes, &original.size));
    ck_assert_msg(opens(path), "the original is refused: %s", status_text());
    for (uint64_t number = 0, tried = 0; tried < MUTATIONS; number++) {
        struct mutant t = mutated(&original, number);
        if (!mutant_same(&t, &original)) {
            struct file_draft draft;
            ck_ok(file_draft_open(&draft, path));
            ck_ok(file_draft_write(&draft, t.bytes, t.size));
            ck_ok(file_draft_commit(&draft, false));
            taken += opens(path);
            tried++;
        }
        free(t.bytes);
    }
    free(original.bytes);
    return taken;
}

/* A refusal must be of the content and name the file. */
static bool judged(status st, const char *path)
{
    if (st == OK)
        return true;
    ck_assert_msg(st == ERR_INPUT, "code %d: %s", (int)st, status_text());
    ck_said(strrchr(path, '/') + 1);
    return false;
}

/* ---- records ---- */

static const char *write_record(const char *name)
{
    char numbers[4000];
    struct record_writer *w;
    const char *path = temporary_path(name);
    for (size_t i = 0; i < sizeof numbers; i++)
        numbers[i] = (char)(i * i >> 3);
    ck_ok(record_create(&w, path));
    ck_ok(record_add(w, "config.json", "{\"name\":\"h800-r0\"}\n", 19, false));
    ck_ok(record_add(w, "final.safetensors", numbers, sizeof numbers, false));
    ck_ok(record_add(w, "timing.jsonl", "{\"seconds\":1}\n", 14, true));
    ck_ok(record_seal(w));
    return path;
}

/* Taken only with the original's members: anything else fails here, not in the count. */
static bool record_opens(const char *path)
{
    struct record *r, *original;
    const char *first;
    if (!judged(record_open(&r, path), path))
        return false;
    ck_ok(record_open(&original, temporary_path("original.rematch.tar")));
    ck_assert_msg(record_identical(r, original, &first), "%s is other", first);
    ck_assert_int_eq(record_count(r), 3);
    ck_assert(record_find(r, "timing.jsonl")->measured);
    record_close(original);
    record_close(r);
    return true;
}

START_TEST(mutations_record_plain_all_refused)
{
    write_record("original.rematch.tar");
    ck_assert_int_eq(accepted(write_record("plain.rematch.tar"), record_opens), 0);
}
END_TEST

/* The zstd frame has bits that decoders pass over (a reserved bit, an empty frame behind): the same tar comes out. */
START_TEST(mutations_record_packed_refused_or_same_content)
{
    write_record("original.rematch.tar");
    int taken = accepted(write_record("packed.rematch.tar.zst"), record_opens);
    ck_assert_msg(taken <= MUTATIONS / 50, "%d mutations unpack to the same content", taken);
}
END_TEST

/* ---- shards ---- */

static bool shard_opens(const char *path)
{
    struct shard *s;
    if (!judged(shard_open(&s, path), path))
        return false;
    shard_close(s);
    return true;
}

START_TEST(mutations_shard_all_refused)
{
    struct shard_writer *w;
    const char *path = temporary_path("mutated.shard");
    ck_ok(shard_create(&w, path, "byte", 256));
    for (int i = 0; i < 30; i++) {
        char name[16], text[64];
        snprintf(name, sizeof name, "%d.py", i);
        snprintf(text, sizeof text, "def f%d(x):\n    return x + %d\n", i, i * i);
        ck_ok(shard_add_document(w, name, text, strlen(text)));
    }
    ck_ok(shard_seal(w));
    ck_assert_int_eq(accepted(path, shard_opens), 0);
}
END_TEST

/* ---- safetensors ---- */

static bool safetensors_opens(const char *path)
{
    struct safetensors *s;
    if (!judged(safetensors_open(&s, path), path))
        return false;
    safetensors_close(s);
    return true;
}

START_TEST(mutations_safetensors_all_refused)
{
    float values[100];
    const char *path = temporary_path("mutated.safetensors");
    for (int i = 0; i < 100; i++)
        values[i] = (float)i / 7;
    const struct named_tensor tensors[] = {{.name = "a", .view = view_of(values, F32, 10, 10)},
                                           {.name = "b", .view = view_of(values, BF16, 1, 7), .vector = true}};
    ck_ok(safetensors_write(path, tensors, 2, NULL));
    ck_assert_int_eq(accepted(path, safetensors_opens), 0);
}
END_TEST

/* ---- commit.json ---- */

static bool commit_opens(const char *path)
{
    int64_t step;
    const char *folder;
    struct live *l;
    struct live_offset offset = {"metrics.jsonl", 0};
    (void)path;
    ck_ok(live_open(&l, temporary_path("point")));
    ck_ok(live_checkpoint_find(l, "{}", &step, &folder, &offset, 1));
    live_close(l);
    ck_assert_uint_eq(offset.offset, step ? 123 : 0);
    return step != 0;
}

START_TEST(mutations_commit_never_makes_a_checkpoint)
{
    struct live *l;
    const char *folder;
    char path[4200];
    const struct live_offset offset = {"metrics.jsonl", 123};
    ck_ok(live_open(&l, temporary_path("point")));
    ck_ok(live_checkpoint_begin(l, 50, &folder));
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    ck_ok(file_write(path, "state", 5));
    ck_ok(live_checkpoint_commit(l, 50, "{}", &offset, 1));
    live_close(l);
    ck_assert_int_eq(accepted(temporary_path("point/checkpoint-50/commit.json"), commit_opens), 0);
}
END_TEST

/* ---- JSON lines ---- */

static bool metrics_open(const char *path)
{
    char *text;
    size_t size;
    struct metric *metrics;
    int64_t count;
    ck_ok(file_read(path, 1 << 20, &text, &size));
    bool taken = judged(metrics_read(&metrics, &count, path, text, size), path);
    if (taken) {
        for (int64_t i = 0; i < count; i++) {
            ck_assert_int_eq(metrics[i].step, metrics[0].step + i);
            ck_assert_int_ge(metrics[i].tokens, 0);
        }
        free(metrics);
    }
    free(text);
    return taken;
}

START_TEST(mutations_metrics_refused_or_fully_parsed)
{
    struct jsonl *j;
    const char *path = temporary_path("mutated-metrics.jsonl");
    ck_ok(jsonl_open(&j, path, 0));
    for (int64_t step = 1; step <= 20; step++) {
        struct metric m = {step, 5.0 / (double)step, 0.3, 1e-3, 1024};
        ck_ok(metric_append(j, &m));
    }
    jsonl_close(j);
    int taken = accepted(path, metrics_open);
    ck_assert_msg(taken <= MUTATIONS / 20, "%d mutations were taken", taken);
}
END_TEST

static bool evaluations_open(const char *path)
{
    char *text;
    size_t size;
    struct evaluations all;
    ck_ok(file_read(path, 1 << 20, &text, &size));
    bool taken = judged(evaluations_read(&all, path, text, size), path);
    for (int i = 0; taken && i < all.scores; i++)
        ck_assert_int_le(all.score[i].tokens_right, all.score[i].tokens);
    evaluations_free(&all);
    free(text);
    return taken;
}

START_TEST(mutations_evaluations_refused_or_fully_parsed)
{
    struct jsonl *j;
    double loss[4] = {1.5, 2.25, 1.0 / 3, 4};
    const char *path = temporary_path("mutated-evaluations.jsonl");
    ck_ok(jsonl_open(&j, path, 0));
    for (int64_t step = 50; step <= 250; step += 50) {
        struct evaluation e = {step, 4, loss};
        struct score s = {step, "a.py", 1000, 500, 40, 10};
        ck_ok(evaluation_append(j, &e));
        ck_ok(score_append(j, &s));
    }
    jsonl_close(j);
    int taken = accepted(path, evaluations_open);
    ck_assert_msg(taken <= MUTATIONS / 20, "%d mutations were taken", taken);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {mutations_record_plain_all_refused, 1},
        {mutations_record_packed_refused_or_same_content, 1},
        {mutations_shard_all_refused, 1},
        {mutations_safetensors_all_refused, 1},
        {mutations_commit_never_makes_a_checkpoint, 1},
        {mutations_metrics_refused_or_fully_parsed, 1},
        {mutations_evaluations_refused_or_fully_parsed, 1},
    };
    return suite_run("mutations", tests, COUNT(tests));
}
