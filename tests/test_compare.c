/* Comparison of two tensors: ULP distances, buckets, sums. */
#include "tests/op_cases.h"

#include <math.h>
#include <stdio.h>

#include "kernels/compare.h"

static struct view floats(float *values, int64_t count) { return view_of(values, F32, 1, count); }

static struct comparison compare(const struct view *a, const struct view *b, enum dtype unit)
{
    struct comparison c;
    comparison_clear(&c);
    ck_ok(comparison_add(&c, a, b, unit));
    return c;
}

/* The bucket that one pair of binary32 numbers, given by their bits, falls into. */
static int bucket_of_pair(uint32_t a_bits, uint32_t b_bits)
{
    const struct view a = view_of(&a_bits, F32, 1, 1), b = view_of(&b_bits, F32, 1, 1);
    const struct comparison c = compare(&a, &b, F32);
    for (int i = 0; i < ULP_BUCKETS; i++)
        if (c.ulp[i])
            return i;
    ck_abort_msg("no bucket counted a pair");
}

START_TEST(comparison_of_equal_tensors_counts_no_difference)
{
    const struct view a = case_uniform(BF16, 7, 9);
    const struct comparison c = compare(&a, &a, BF16);
    ck_assert_uint_eq(c.elements, 63);
    ck_assert_uint_eq(c.ulp[0], 63);
    ck_assert_uint_eq(c.differing, 0);
    ck_assert_uint_eq(c.first_differing, UINT64_MAX);
    ck_assert_double_eq(comparison_relative_l2(&c), 0);
    ck_assert_double_eq_tol(comparison_cosine(&c), 1, 1e-15);
}
END_TEST

START_TEST(bucket_borders_lie_at_powers_of_two)
{
    const uint32_t one = 0x3f800000;
    ck_assert_int_eq(bucket_of_pair(one, one), 0);
    ck_assert_int_eq(bucket_of_pair(one, one + 1), 1);
    ck_assert_int_eq(bucket_of_pair(one, one - 2), 2);
    for (int i = 3; i <= 15; i++) {
        ck_assert_int_eq(bucket_of_pair(one, one + (1u << (i - 2)) + 1), i);
        ck_assert_int_eq(bucket_of_pair(one + (1u << (i - 1)), one), i);
    }
    ck_assert_int_eq(bucket_of_pair(one, one + 16384), 15);
    ck_assert_int_eq(bucket_of_pair(one, one + 16385), 16);
    ck_assert_int_eq(bucket_of_pair(0x7f800000, 0xff800000), 16);
}
END_TEST

START_TEST(bucket_names_match_borders)
{
    ck_assert_str_eq(comparison_bucket_name(0), "0");
    ck_assert_str_eq(comparison_bucket_name(2), "2");
    for (int i = 3; i <= 15; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d-%d", (1 << (i - 2)) + 1, 1 << (i - 1));
        ck_assert_str_eq(comparison_bucket_name(i), name);
    }
    ck_assert_str_eq(comparison_bucket_name(16), ">16384");
    ck_assert_str_eq(comparison_bucket_name(17), "NaN");
}
END_TEST

START_TEST(distance_across_zero_counts_every_number_between)
{
    ck_assert_int_eq(bucket_of_pair(0x00000000, 0x80000000), 1); /* +0, -0: different bits */
    ck_assert_int_eq(bucket_of_pair(0x00000001, 0x80000001), 3); /* two denormals, both zeros between: 3 */
    ck_assert_int_eq(bucket_of_pair(0x00000001, 0x00000000), 1);
}
END_TEST

START_TEST(nan_on_one_side_has_its_own_bucket)
{
    ck_assert_int_eq(bucket_of_pair(0x7fc00000, 0x3f800000), 17);
    ck_assert_int_eq(bucket_of_pair(0x3f800000, 0xffc00000), 17);
    ck_assert_int_eq(bucket_of_pair(0x7fc00000, 0x7fc00000), 0);
    ck_assert_int_eq(bucket_of_pair(0x7fc00000, 0x7fc00001), 1);
}
END_TEST

START_TEST(sums_and_balance_are_exact_on_small_integers)
{
    float a_values[] = {1, -2, 3, INFINITY, NAN, 4}, b_values[] = {1, -4, 6, 1, 2, 3};
    const struct view a = floats(a_values, 6), b = floats(b_values, 6);
    const struct comparison c = compare(&a, &b, F32);
    ck_assert_uint_eq(c.elements, 6);
    ck_assert_uint_eq(c.differing, 5);
    ck_assert_uint_eq(c.first_differing, 1);
    ck_assert_uint_eq(c.larger, 1);
    ck_assert_uint_eq(c.smaller, 3);
    ck_assert_uint_eq(c.grown, 2);
    ck_assert_uint_eq(c.shrunk, 2);
    ck_assert_double_eq(c.largest, 3);
    ck_assert_double_eq(c.sum_aa, 1 + 4 + 9 + 16);
    ck_assert_double_eq(c.sum_bb, 1 + 16 + 36 + 9);
    ck_assert_double_eq(c.sum_ab, 1 + 8 + 18 + 12);
    ck_assert_double_eq(c.sum_dd, 0 + 4 + 9 + 1);
    ck_assert_double_eq(comparison_relative_l2(&c), sqrt(14.0 / 30));
}
END_TEST

START_TEST(unit_rounds_the_other_type_first)
{
    float wide = 1 + 0x1p-9f; /* rounds to 1 in BF16 */
    uint16_t narrow = 0x3f80;
    const struct view a = view_of(&wide, F32, 1, 1), b = view_of(&narrow, BF16, 1, 1);
    const struct comparison in_bf16 = compare(&a, &b, BF16), in_f32 = compare(&a, &b, F32);
    ck_assert_uint_eq(in_bf16.differing, 0);
    ck_assert_double_eq(in_bf16.largest, 0);
    ck_assert_uint_eq(in_f32.differing, 1);
    ck_assert_uint_eq(in_f32.ulp[15], 1); /* 2^14 units of 2^-23 */
    ck_assert_double_eq(in_f32.largest, 0x1p-9);
}
END_TEST

START_TEST(parts_added_in_turn_equal_the_whole)
{
    const struct view a = case_uniform(F32, 8, 5), b = case_copy(&a, F32);
    ((float *)view_at(&b, 6, 3))[0] += 1;
    const struct comparison whole = compare(&a, &b, F32);
    struct comparison parts;
    comparison_clear(&parts);
    for (int64_t r = 0; r < 8; r += 4) {
        const struct view a_part = view_rows(&a, r, 4), b_part = view_rows(&b, r, 4);
        ck_ok(comparison_add(&parts, &a_part, &b_part, F32));
    }
    ck_assert_uint_eq(whole.first_differing, 6 * 5 + 3);
    ck_assert_uint_eq(parts.first_differing, whole.first_differing);
    ck_assert_uint_eq(parts.elements, whole.elements);
    ck_assert_mem_eq(parts.ulp, whole.ulp, sizeof whole.ulp);
    ck_assert_double_eq(parts.sum_dd, whole.sum_dd);
}
END_TEST

START_TEST(zero_tensors_have_defined_ratios)
{
    float zero = 0, two = 2;
    const struct view none = floats(&zero, 1), some = floats(&two, 1);
    const struct comparison both = compare(&none, &none, F32), only_a = compare(&none, &some, F32);
    ck_assert_double_eq(comparison_relative_l2(&both), 0);
    ck_assert_double_eq(comparison_cosine(&both), 1);
    ck_assert(isinf(comparison_relative_l2(&only_a)));
    ck_assert_double_eq(comparison_cosine(&only_a), 0);
}
END_TEST

START_TEST(different_shapes_are_refused_by_name)
{
    const struct view a = case_uniform(F32, 2, 3), b = case_uniform(F32, 3, 2);
    struct comparison c;
    comparison_clear(&c);
    ck_assert_int_eq(comparison_add(&c, &a, &b, F32), ERR_ARGUMENT);
    ck_said("(2,3) against (3,2)");
    ck_assert_uint_eq(c.elements, 0);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {comparison_of_equal_tensors_counts_no_difference, 1},
        {bucket_borders_lie_at_powers_of_two, 1},
        {bucket_names_match_borders, 1},
        {distance_across_zero_counts_every_number_between, 1},
        {nan_on_one_side_has_its_own_bucket, 1},
        {sums_and_balance_are_exact_on_small_integers, 1},
        {unit_rounds_the_other_type_first, 1},
        {parts_added_in_turn_equal_the_whole, 1},
        {zero_tensors_have_defined_ratios, 1},
        {different_shapes_are_refused_by_name, 1},
    };
    return cases_run("compare", tests, COUNT(tests), NULL);
}
