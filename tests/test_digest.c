/* The digest's promises: it adds up, sees every bit, and depends on values and global positions alone. */
#include "tests/op_cases.h"

#include "kernels/element.h"

static struct digest digest_sum(const struct view *x, enum dtype as, const int64_t *row_id)
{
    struct digest tiles[8], sum = {{0, 0}};
    ck_assert_int_le(digest_tiles(x->rows), 8);
    ck_ok(reference_ops.digest(NULL, tiles, x, as, row_id));
    for (int64_t i = 0; i < digest_tiles(x->rows); i++) {
        sum.lane[0] += tiles[i].lane[0];
        sum.lane[1] += tiles[i].lane[1];
    }
    return sum;
}

/* Ragged columns: 5 BF16 leave 3 elements of padding in the last word, 5 F32 leave one. */
static const enum dtype types[] = {BF16, F32, F64};
enum { TYPES = COUNT(types), COLS = 5 };

START_TEST(digest_of_one_word_follows_the_definition)
{
    const uint16_t row[3] = {0x1111, 0x2222, 0x3333};
    const struct view x = view_of((void *)row, BF16, 1, 3);
    const int64_t row_id = 41;
    const uint64_t word = 0x0000333322221111, key = digest_mix(42) ^ digest_mix(~(uint64_t)0);
    const uint64_t a = word ^ key, b = word ^ (key << 17 | key >> 47);
    const struct digest got = digest_sum(&x, BF16, &row_id);
    ck_assert_uint_eq(got.lane[0], (uint64_t)(uint32_t)a * (a >> 32) + word);
    ck_assert_uint_eq(got.lane[1], (uint64_t)(uint32_t)b * (b >> 32) + (word << 32 | word >> 32));
}
END_TEST

START_TEST(digest_of_row_parts_adds_up_to_the_whole)
{
    enum { ROWS = 200 };
    const int64_t *row_id = case_row_ids(ROWS, 1000, 3);
    for (int t = 0; t < TYPES; t++) {
        const struct view x = case_uniform(types[t], ROWS, COLS);
        const struct digest whole = digest_sum(&x, types[t], row_id);
        for (int64_t cut = 1; cut < ROWS; cut += 7) {
            const struct view top = view_rows(&x, 0, cut), bottom = view_rows(&x, cut, ROWS - cut);
            const struct digest first = digest_sum(&top, types[t], row_id);
            const struct digest second = digest_sum(&bottom, types[t], row_id + cut);
            ck_assert_uint_eq(first.lane[0] + second.lane[0], whole.lane[0]);
            ck_assert_uint_eq(first.lane[1] + second.lane[1], whole.lane[1]);
        }
    }
}
END_TEST

START_TEST(digest_tiles_hold_64_rows_each)
{
    const struct view x = case_uniform(F32, 130, COLS);
    const int64_t *row_id = case_row_ids(130, 0, 1);
    struct digest tiles[3];
    ck_ok(reference_ops.digest(NULL, tiles, &x, F32, row_id));
    for (int64_t i = 0; i < 3; i++) {
        const struct view part = view_rows(&x, 64 * i, i < 2 ? 64 : 2);
        const struct digest alone = digest_sum(&part, F32, row_id + 64 * i);
        ck_assert(digest_equal(&alone, &tiles[i]));
    }
}
END_TEST

START_TEST(digest_changes_with_every_single_bit)
{
    enum { ROWS = 4 };
    const int64_t *row_id = case_row_ids(ROWS, 7, 2);
    for (int t = 0; t < TYPES; t++) {
        const struct view x = case_uniform(types[t], ROWS, COLS);
        const struct digest before = digest_sum(&x, types[t], row_id);
        for (int64_t r = 0; r < ROWS; r++)
            for (size_t bit = 0; bit < COLS * dtype_bytes(types[t]) * 8; bit++) {
                unsigned char *byte = (unsigned char *)view_at(&x, r, 0) + bit / 8;
                *byte ^= (unsigned char)(1u << bit % 8);
                const struct digest after = digest_sum(&x, types[t], row_id);
                ck_assert_msg(!digest_equal(&before, &after), "%s row %d bit %zu", dtype_name(types[t]), (int)r, bit);
                *byte ^= (unsigned char)(1u << bit % 8);
            }
    }
}
END_TEST

START_TEST(digest_sees_where_a_value_lies)
{
    const struct view x = case_view(F32, 2, 4), y = case_view(F32, 2, 4);
    const int64_t *row_id = case_row_ids(2, 0, 1), *other_rows = case_row_ids(2, 1, 1);
    case_fill(&x, 0);
    element_store(&x, 0, 0, 1);
    const struct digest there = digest_sum(&x, F32, row_id), moved = digest_sum(&x, F32, other_rows);
    ck_assert(!digest_equal(&there, &moved));
    for (int64_t i = 1; i < 8; i++) {
        case_fill(&y, 0);
        element_store(&y, i / 4, i % 4, 1);
        const struct digest elsewhere = digest_sum(&y, F32, row_id);
        ck_assert(!digest_equal(&there, &elsewhere));
    }
}
END_TEST

START_TEST(digest_ignores_stride_and_neighbouring_columns)
{
    const struct view wide = case_uniform(BF16, 9, 20), slice = view_cols(&wide, 3, 7);
    const struct view copy = case_copy(&slice, BF16);
    const int64_t *row_id = case_row_ids(9, 0, 1);
    const struct digest a = digest_sum(&slice, BF16, row_id), b = digest_sum(&copy, BF16, row_id);
    ck_assert(digest_equal(&a, &b));
}
END_TEST

START_TEST(digest_as_another_type_is_that_of_the_rounded_tensor)
{
    const struct view x = case_uniform(F32, 9, COLS), rounded = case_copy(&x, BF16);
    const int64_t *row_id = case_row_ids(9, 0, 1);
    const struct digest a = digest_sum(&x, BF16, row_id), b = digest_sum(&rounded, BF16, row_id);
    const struct digest exact = digest_sum(&x, F32, row_id);
    ck_assert(digest_equal(&a, &b));
    ck_assert(!digest_equal(&a, &exact));
}
END_TEST

START_TEST(digest_tells_apart_nan_payloads_and_zeros)
{
    static const uint32_t bits[] = {0x7fc00000, 0x7fc00001, 0x7f800001, 0x00000000, 0x80000000};
    const int64_t row_id = 0;
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++) {
            const struct view a = view_of((void *)&bits[i], F32, 1, 1), b = view_of((void *)&bits[j], F32, 1, 1);
            const struct digest first = digest_sum(&a, F32, &row_id), second = digest_sum(&b, F32, &row_id);
            ck_assert(!digest_equal(&first, &second));
        }
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {digest_of_one_word_follows_the_definition, 1},
        {digest_of_row_parts_adds_up_to_the_whole, 1},
        {digest_tiles_hold_64_rows_each, 1},
        {digest_changes_with_every_single_bit, 1},
        {digest_sees_where_a_value_lies, 1},
        {digest_ignores_stride_and_neighbouring_columns, 1},
        {digest_as_another_type_is_that_of_the_rounded_tensor, 1},
        {digest_tells_apart_nan_payloads_and_zeros, 1},
    };
    return cases_run("digest", tests, COUNT(tests), NULL);
}
