/* BF16 rounding, over every BF16 number; an element stored and loaded again; Philox against published vectors. */
#include "tests/op_cases.h"

#include <math.h>

#include "kernels/element.h"

START_TEST(bf16_of_every_bf16_number_is_itself)
{
    for (uint32_t half = 0; half < 0x10000; half++) {
        const uint16_t again = bf16_of_f32(bf16_to_f32((uint16_t)half));
        const bool nan = (half & 0x7fff) > 0x7f80;
        ck_assert_uint_eq(again, nan ? half | 0x40 : half);
    }
}
END_TEST

START_TEST(bf16_rounds_every_gap_to_nearest_and_ties_to_even)
{
    /* From 0 over the denormals to the largest finite number, whose upper neighbour is infinity; both signs. */
    for (uint32_t half = 0; half < 0x7f80; half++)
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            const uint32_t low = half | sign, middle = low << 16 | 0x8000;
            ck_assert_uint_eq(bf16_of_f32(f32_of_bits(middle - 1)), low);
            ck_assert_uint_eq(bf16_of_f32(f32_of_bits(middle)), low + (low & 1));
            ck_assert_uint_eq(bf16_of_f32(f32_of_bits(middle + 1)), low + 1);
        }
}
END_TEST

START_TEST(bf16_of_nan_is_a_quiet_nan_of_the_same_sign)
{
    for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + (payload & 1)) {
        ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0x7f800000 | payload)) & 0xffc0, 0x7fc0);
        ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0xff800000 | payload)) & 0xffc0, 0xffc0);
    }
    ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0x7f800001)), 0x7fc0);
    ck_assert_uint_eq(bf16_of_f32(f32_of_bits(0x7fff1234)), 0x7fff);
}
END_TEST

START_TEST(view_slices_address_the_same_elements)
{
    const struct view whole = case_uniform(F32, 6, 10);
    const struct view columns = view_cols(&whole, 3, 4), part = view_rows(&columns, 2, 3);
    for (int64_t r = 0; r < 3; r++)
        for (int64_t c = 0; c < 4; c++)
            ck_assert_ptr_eq(view_at(&part, r, c), view_at(&whole, 2 + r, 3 + c));
}
END_TEST

START_TEST(element_of_one_operation_has_the_bits_of_binary32)
{
    const struct view stored = case_view(F32, 1, 4), operands = case_uniform(F32, 2, 1000);
    for (int64_t i = 0; i < 1000; i++) {
        const float a = *(float *)view_at(&operands, 0, i), b = *(float *)view_at(&operands, 1, i);
        element_store(&stored, 0, 0, (double)a + (double)b);
        element_store(&stored, 0, 1, (double)a * (double)b);
        element_store(&stored, 0, 2, (double)a / (double)b);
        element_store(&stored, 0, 3, sqrt(fabs((double)a)));
        const float expected[] = {a + b, a * b, a / b, sqrtf(fabsf(a))};
        ck_assert_mem_eq(stored.data, expected, sizeof expected);
    }
}
END_TEST

START_TEST(philox_gives_the_vectors_of_random123)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT(known); i++) {
        uint32_t out[4];
        philox4x32(out, known[i].counter, known[i].key);
        ck_assert_mem_eq(out, known[i].expected, sizeof out);
    }
}
END_TEST

START_TEST(philox_site_fills_counter_and_key_as_documented)
{
    const struct random_site where = {.seed = 0x299f31d0a4093822, .step = 0x03707344, .layer = 0x13198a, .site = 0x2e};
    const uint32_t expected[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    uint32_t out[4];
    philox_block(out, &where, 0x85a308d3243f6a88);
    ck_assert_mem_eq(out, expected, sizeof out);
    ck_assert_uint_eq(philox_u64(&where, 0x85a308d3243f6a88), 0x94fdccebd16cfe09);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {bf16_of_every_bf16_number_is_itself, 1},
        {bf16_rounds_every_gap_to_nearest_and_ties_to_even, 1},
        {bf16_of_nan_is_a_quiet_nan_of_the_same_sign, 1},
        {view_slices_address_the_same_elements, 1},
        {element_of_one_operation_has_the_bits_of_binary32, 1},
        {philox_gives_the_vectors_of_random123, 1},
        {philox_site_fills_counter_and_key_as_documented, 1},
    };
    return cases_run("tensor", tests, COUNT(tests), NULL);
}
