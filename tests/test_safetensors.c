/* Safetensors: exact round trips, the documented layout, and a reader that refuses what does not tile the file. */
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/little_endian.h"
#include "data/safetensors.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static float weights[2][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}};
static uint16_t halves[3] = {0x3f80, 0x4000, 0xbf80};
static int32_t steps[1] = {250};
static double wide[2] = {0.1, 0x1p-1074};

static const char *write_all(const char *file)
{
    static const char *const metadata[] = {"step", "250", "digest", "ab\"cd", NULL};
    const char *path = temporary_path(file);
    struct named_tensor tensors[] = {
        {.name = "model.norm.weight", .view = view_of(halves, BF16, 1, 3), .vector = true},
        {.name = "strided", .view = {weights, F32, 2, 3, 8}},
        {.name = "step", .view = view_of(steps, I32, 1, 1)},
        {.name = "wide", .view = view_of(wide, F64, 2, 1)},
        {.name = "empty", .view = view_of(weights, F32, 0, 8)},
    };
    ck_ok(safetensors_write(path, tensors, 5, metadata));
    return path;
}

START_TEST(safetensors_round_trip_is_exact)
{
    struct safetensors *s;
    ck_ok(safetensors_open(&s, write_all("round.safetensors")));
    ck_assert_int_eq(safetensors_count(s), 5);
    const struct named_tensor *t = safetensors_find(s, "strided");
    ck_assert_int_eq(t->view.rows, 2);
    ck_assert_int_eq(t->view.cols, 3);
    ck_assert(!t->vector);
    for (int row = 0; row < 2; row++)
        ck_assert_mem_eq(view_at(&t->view, row, 0), weights[row], 3 * sizeof(float));
    t = safetensors_find(s, "model.norm.weight");
    ck_assert(t->vector && t->view.type == BF16 && t->view.cols == 3);
    ck_assert_mem_eq(t->view.data, halves, sizeof halves);
    ck_assert_mem_eq(safetensors_find(s, "wide")->view.data, wide, sizeof wide);
    ck_assert_int_eq(*(int32_t *)safetensors_find(s, "step")->view.data, 250);
    ck_assert_int_eq(safetensors_find(s, "empty")->view.rows, 0);
    ck_assert_ptr_null(safetensors_find(s, "absent"));
    ck_assert_str_eq(safetensors_metadata(s, "digest"), "ab\"cd");
    ck_assert_ptr_null(safetensors_metadata(s, "absent"));
    safetensors_close(s);
    safetensors_close(NULL);
}
END_TEST

START_TEST(safetensors_layout_is_aligned_and_without_holes)
{
    char *bytes;
    size_t size;
    struct safetensors *s;
    ck_ok(file_read(write_all("layout.safetensors"), 1 << 20, &bytes, &size));
    uint64_t header = le64_get(bytes);
    ck_assert_uint_eq((8 + header) % 64, 0);
    ck_assert_uint_eq(size, 8 + header + 16 + 24 + 4 + 6);
    ck_assert_int_eq(bytes[8], '{');
    ck_ok(safetensors_parse(&s, "memory", bytes, size));
    const char *next = bytes + 8 + header;
    for (int i = 0; i < safetensors_count(s); i++) {
        const struct view *v = &safetensors_at(s, i)->view;
        ck_assert_ptr_eq(v->data, next);
        ck_assert_uint_eq((uintptr_t)v->data % dtype_bytes(v->type), 0);
        next += view_bytes(v);
    }
    safetensors_close(s);
    free(bytes);
}
END_TEST

START_TEST(safetensors_any_flipped_byte_breaks_the_seal)
{
    char *bytes;
    size_t size;
    struct safetensors *s;
    ck_ok(file_read(write_all("flipped.safetensors"), 1 << 20, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 1;
        ck_assert_msg(safetensors_parse(&s, "flipped", bytes, size) == ERR_INPUT, "byte %zu", i);
        bytes[i] ^= 1;
    }
    free(bytes);
}
END_TEST

START_TEST(safetensors_doubled_or_reserved_name_not_written)
{
    struct named_tensor tensors[] = {{.name = "a", .view = view_of(steps, I32, 1, 1)},
                                     {.name = "a", .view = view_of(wide, F64, 1, 1)}};
    const char *path = temporary_path("never.safetensors");
    ck_assert_int_eq(safetensors_write(path, tensors, 2, NULL), ERR_ARGUMENT);
    strcpy(tensors[1].name, "__metadata__");
    ck_assert_int_eq(safetensors_write(path, tensors, 2, NULL), ERR_ARGUMENT);
    ck_assert(!file_exists(path));
}
END_TEST

/* ---- files of others ---- */

static status parse_foreign(struct safetensors **s, const char *header, size_t data_bytes, char **bytes)
{
    size_t length = (strlen(header) + 7) / 8 * 8, size = 8 + length + data_bytes;
    *bytes = calloc(1, size);
    le64_put(*bytes, length);
    memset(*bytes + 8, ' ', length);
    memcpy(*bytes + 8, header, strlen(header));
    return safetensors_parse(s, "foreign.safetensors", *bytes, size);
}

START_TEST(safetensors_foreign_shapes_are_folded)
{
    char *bytes;
    struct safetensors *s;
    const char *header = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3,4],\"data_offsets\":[8,104]},"
                         "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                         "\"c\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]}}  ";
    ck_ok(parse_foreign(&s, header, 104, &bytes));
    ck_assert_str_eq(safetensors_at(s, 0)->name, "a");
    ck_assert_int_eq(safetensors_at(s, 0)->view.cols, 1);
    ck_assert_str_eq(safetensors_at(s, 2)->name, "b");
    ck_assert_int_eq(safetensors_at(s, 2)->view.rows, 6);
    ck_assert_int_eq(safetensors_at(s, 2)->view.cols, 4);
    safetensors_close(s);
    free(bytes);
}
END_TEST

#define ONE(type, shape, offsets) "{\"w\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data;
    const char *says;
} malformed[] = {
    {ONE("F32", "[2]", "[0,8]"), 12, "bytes follow"},
    {ONE("F32", "[2]", "[0,8]"), 4, "outside the file"},
    {ONE("F32", "[2]", "[4,12]"), 12, "hole"},
    {ONE("F32", "[2]", "[8,0]"), 8, "outside the file"},
    {ONE("F32", "[2]", "[-8,0]"), 8, "outside the file"},
    {ONE("F32", "[3]", "[0,8]"), 8, "do not match its shape"},
    {ONE("F16", "[4]", "[0,8]"), 8, "'F16' is not one of"},
    {ONE("F32", "[4611686018427387904,4]", "[0,8]"), 8, "does not fit"},
    {ONE("F32", "[-1,-2]", "[0,8]"), 8, "does not fit"},
    {ONE("F32", "[1.0,2]", "[0,8]"), 8, "does not fit"},
    {ONE("F32", "2", "[0,8]"), 8, "not an array"},
    {ONE("F32", "[2]", "[0]"), 8, "not a pair"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "expected dtype"},
    {"{\"w\":7}", 8, "expected dtype"},
    {"{\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "duplicate"},
    {"{\"v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "overlaps"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "not a text"},
    {"{\"__metadata__\":[]}", 0, "not an object"},
    {" {}", 0, "begin with '{'"},
    {"{} x", 0, "JSON"},
    {"{\"w\"", 0, "JSON"},
};

START_TEST(safetensors_malformed_header_refused)
{
    char *bytes;
    struct safetensors *s;
    ck_assert_int_eq(parse_foreign(&s, malformed[_i].header, malformed[_i].data, &bytes), ERR_INPUT);
    ck_said("foreign.safetensors");
    ck_said(malformed[_i].says);
    free(bytes);
}
END_TEST

START_TEST(safetensors_impossible_length_refused)
{
    static const uint64_t lengths[] = {9, 1 << 20, (100 << 20) + 1, INT64_MAX, UINT64_MAX};
    char bytes[16] = {0};
    struct safetensors *s;
    memcpy(bytes + 8, "{}      ", 8);
    for (int i = 0; i < COUNT(lengths); i++) {
        le64_put(bytes, lengths[i]);
        ck_assert_int_eq(safetensors_parse(&s, "long", bytes, sizeof bytes), ERR_INPUT);
    }
    ck_assert_int_eq(safetensors_parse(&s, "short", bytes, 7), ERR_INPUT);
    ck_assert_int_eq(safetensors_parse(&s, "nothing", NULL, 0), ERR_INPUT);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {safetensors_round_trip_is_exact, 1},
        {safetensors_layout_is_aligned_and_without_holes, 1},
        {safetensors_any_flipped_byte_breaks_the_seal, 1},
        {safetensors_doubled_or_reserved_name_not_written, 1},
        {safetensors_foreign_shapes_are_folded, 1},
        {safetensors_malformed_header_refused, COUNT(malformed)},
        {safetensors_impossible_length_refused, 1},
    };
    return suite_run("safetensors", tests, COUNT(tests));
}
