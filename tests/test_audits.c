/* audits.jsonl: read as it was written, and what is damaged is refused. */
#include <stdlib.h>

#include "data/file.h"
#include "stages/audits.h"
#include "tests/audit_arrays.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static const char *write_audits(const struct audit_arrays *a, struct audit *two[2])
{
    const char *path = temporary_path("audits.jsonl");
    struct jsonl *j;
    ck_ok(jsonl_open(&j, path, 0));
    for (int k = 0; k < 2; k++) {
        audit_arrays_fill(a, (uint32_t)k, 0.1);
        two[k] = audit_arrays_measure(a, 1);
        two[k]->step = 151 + k;
        two[k]->frozen = k == 0;
        two[k]->expected = 78;
        two[k]->proof = (struct control_proof){78, (uint64_t)k};
        two[k]->group_square[1] = 0.1 + k;
        ck_ok(audits_append(j, two[k]));
    }
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    return path;
}

START_TEST(audits_are_read_as_they_were_written)
{
    struct audit_arrays a = audit_arrays_new();
    struct audit *two[2];
    struct audits all;
    char *text;
    size_t size;
    ck_ok(file_read(write_audits(&a, two), 1 << 24, &text, &size));
    ck_ok(audits_read(&all, &a.shape, 2, "audits", text, size));
    ck_assert_int_eq(all.count, 2);
    for (int k = 0; k < 2; k++) {
        const struct audit *x = two[k], *y = all.at[k];
        ck_assert_int_eq(x->step, y->step);
        ck_assert_int_eq(x->frozen, y->frozen);
        ck_assert_int_eq(audit_proven(y), k == 0);
        ck_assert_mem_eq(x->parameter, y->parameter, (size_t)x->parameters * sizeof *x->parameter);
        ck_assert_mem_eq(x->sketch, y->sketch, sizeof x->sketch);
        ck_assert_mem_eq(x->layer_sketch, y->layer_sketch,
                         (size_t)x->layers * AUDIT_LAYER_BUCKETS * sizeof *x->layer_sketch);
        ck_assert_mem_eq(x->group_square, y->group_square, 2 * sizeof *x->group_square);
        audit_free(two[k]);
    }
    audits_free(&all);
    free(text);
    audit_arrays_free(&a);
}
END_TEST

static const struct {
    const char *from, *to, *said;
} damages[] = {
    {"\"step\":151", "\"step\":152", NULL}, /* an audit of the step that has one at frozen weights is right */
    {"\"frozen\":false", "\"frozen\":true", NULL},
    {"\"frozen\":true", "\"frozen\":false", NULL},
    {"\"step\":152", "\"step\":000", "audits:2"},
    {"\"frozen\":false", "\"frozen\":1    ", "\"frozen\": expected true or false"},
    {"\"compared\":78", "\"compared\":-8", "compared"},
    {"\"g0_g0\"", "\"g0_gO\"", "\"g0_g0\": expected an array"},
    {"\"layer_sketches\":[\"", "\"layer_sketches\":[1,\"", "\"layer_sketches\": expected an array of 160 values"},
    {"\"e_e\":[\"0x", "\"e_e\":[\"1x", "e_e"},
    {"\"missing\":[0", "\"missing\":[-1", "\"missing\" of parameter 0: expected a whole number from 0 to 2048"},
    {"\"same_sign\":[", "\"same_sign\":[2049,", "\"same_sign\": expected an array"},
    {"\"group_squares\":[", "\"group_squares\":[\"0x0p+0\",", "\"group_squares\": expected an array of 2 values"},
    {"\"control\":{", "\"control\":{\"a\":1,", "audits:1"},
    {"\"step\":151", "\"steP\":151", "audits:1"},
};

START_TEST(damaged_audits_are_refused)
{
    struct audit_arrays a = audit_arrays_new();
    struct audit *two[2];
    struct audits all;
    char *text;
    size_t size;
    ck_ok(file_read(write_audits(&a, two), 1 << 24, &text, &size));
    size_t from = strlen(damages[_i].from), to = strlen(damages[_i].to);
    char *place = memmem(text, size, damages[_i].from, from), *damaged = malloc(size + to);
    ck_assert(place != NULL);
    size_t before = (size_t)(place - text);
    memcpy(damaged, text, before);
    memcpy(damaged + before, damages[_i].to, to);
    memcpy(damaged + before + to, place + from, size - before - from);
    status st = audits_read(&all, &a.shape, 2, "audits", damaged, size - from + to);
    if (damages[_i].said) {
        ck_assert_int_eq(st, ERR_INPUT);
        ck_said(damages[_i].said);
    } else {
        ck_ok(st);
    }
    audits_free(&all);
    audit_free(two[0]);
    audit_free(two[1]);
    free(damaged);
    free(text);
    audit_arrays_free(&a);
}
END_TEST

START_TEST(audits_out_of_order_are_refused)
{
    struct audit_arrays a = audit_arrays_new();
    struct audit *two[2];
    struct audits all;
    char *text;
    size_t size;
    ck_ok(file_read(write_audits(&a, two), 1 << 24, &text, &size));
    size_t first = (size_t)((char *)memchr(text, '\n', size) - text) + 1, second = size - first;
    char *turned = malloc(2 * size);
    memcpy(turned, text + first, second);
    memcpy(turned + second, text, first);
    ck_assert_int_eq(audits_read(&all, &a.shape, 2, "audits", turned, size), ERR_INPUT);
    ck_said("an audit of step 151 at frozen weights follows one of step 152");
    audits_free(&all);
    memcpy(turned, text, first);
    memcpy(turned + first, text, first);
    ck_assert_int_eq(audits_read(&all, &a.shape, 2, "audits", turned, 2 * first), ERR_INPUT);
    ck_said("lost or doubled");
    audits_free(&all);
    ck_assert_int_eq(audits_read(&all, &a.shape, 3, "audits", text, size), ERR_INPUT);
    audits_free(&all);
    audit_free(two[0]);
    audit_free(two[1]);
    free(turned);
    free(text);
    audit_arrays_free(&a);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {audits_are_read_as_they_were_written, 1},
        {damaged_audits_are_refused, COUNT(damages)},
        {audits_out_of_order_are_refused, 1},
    };
    return suite_run("audits", tests, COUNT(tests));
}
