/* Truncating and to-zero results, against sums written out by hand, and the bias that they have and nearest has not. */
#include <float.h>
#include <math.h>

#include "kernels/element.h"
#include "tests/conform.h"

static status multiply(struct device *d, enum plan_rounding rounding, const struct view *c, const struct view *a,
                       const struct view *b)
{
    struct arithmetic how;
    const struct plan *plan;
    TRY(arithmetic_find(&how, "exact"));
    how.rounding = rounding;
    TRY(device_plan(d, &how, PLAN_GEMM_NT, (int64_t[6]){a->rows, b->rows, a->cols}, &plan));
    return d->ops->gemm(d, plan, 0, c, a, b, false);
}

/* ---- by hand ---- */

/* `count` terms: the first, the last, and all between. A quantum is 2^-25 of the largest term's power of two. */
static const struct {
    int count;
    float first, between, last, expected;
} sums[] = {
    /* 1 + 7.5 units: whole quanta, then cut to binary32. */
    {16, 1, 0x1p-24f, 0x1p-24f, 1 + 7 * 0x1p-23f},
    {16, -1, -0x1p-24f, -0x1p-24f, -1 - 7 * 0x1p-23f},
    /* 1.5 quanta each, of which 1 stays: 15 quanta are 3.75 units above 1, and 7.5 below. */
    {16, 1, 0x1.8p-25f, 0x1.8p-25f, 1 + 3 * 0x1p-23f},
    {16, 1, -0x1.8p-25f, -0x1.8p-25f, 1 - 8 * 0x1p-24f},
    /* Less than a quantum. */
    {16, 1, 0x1.fep-26f, 0x1.fep-26f, 1},
    /* A second group: the sum so far is cut to what binary32 holds, and to the quantum of a larger term. */
    {17, 1, 0x1p-24f, 0x1p-24f, 1 + 7 * 0x1p-23f},
    {17, 1, 0x1p-24f, 0x1p10f, 1025},
    {18, 0x1p30f, -0x1p26f, 3, 2},
    /* No quantum is less than 2^-126; a total of 0 is +0. */
    {16, 0x1.8p-126f, 0x1.fcp-127f, 0x1.fcp-127f, 0x1p-126f},
    {16, -0x1p-127f, -0x1p-127f, -0x1p-127f, 0.0f},
    {2, 1, 0, -1, 0.0f},
    {1, 0, 0, -0.0f, 0.0f},
    {2, FLT_MAX, 0, FLT_MAX, INFINITY},
    {40, 1, -INFINITY, 2, -INFINITY},
    {40, INFINITY, 1, -INFINITY, NAN},
};

START_TEST(truncating_sum_is_the_one_written_out)
{
    const int count = sums[_i].count;
    const struct view a = case_view(F32, 1, count), one = case_view(F32, 1, count), c = case_view(F32, 1, 1);
    case_fill(&one, 1);
    for (int i = 0; i < count; i++)
        element_store(&a, 0, i, i == count - 1 ? sums[_i].last : i ? sums[_i].between : sums[_i].first);
    struct device *const devices[] = {conform_cpu(), conform_reference()};
    for (int d = 0; d < 2; d++) {
        ck_ok(multiply(devices[d], ROUND_TRUNCATE, &c, &a, &one));
        const float got = (float)element_load(&c, 0, 0), expected = sums[_i].expected;
        ck_assert_msg(isnan(expected) ? isnan(got) : f32_bits(got) == f32_bits(expected), "%s: sum %d is %a, not %a",
                      devices[d]->ops->name, _i, (double)got, (double)expected);
    }
}
END_TEST

/* Toward zero is what binary32 holds without its lower half; -0, infinities and NaNs stay. */
static const struct {
    uint32_t result;
    uint16_t stored;
} cuts[] = {
    {0x3f80ffff, 0x3f80}, {0xbf80ffff, 0xbf80}, {0x3f808000, 0x3f80}, {0x7f7fffff, 0x7f7f}, {0xff7fffff, 0xff7f},
    {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x0000}, {0x0001ffff, 0x0001}, {0x00000001, 0x0000},
};

START_TEST(to_zero_cuts_what_is_stored_as_bf16)
{
    const struct view a = case_view(F32, 1, 1), one = case_view(F32, 1, 1), c = case_view(BF16, 1, 1);
    struct device *const devices[] = {conform_cpu(), conform_reference()};
    case_fill(&one, 1);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < COUNT(cuts); i++) {
            *(float *)a.data = f32_of_bits(cuts[i].result);
            ck_ok(multiply(devices[d], ROUND_TO_ZERO, &c, &a, &one));
            ck_assert_uint_eq(*(uint16_t *)c.data, cuts[i].stored);
        }
    *(float *)a.data = f32_of_bits(0x7f800001); /* a NaN whose upper half is that of an infinity */
    for (int d = 0; d < 2; d++) {
        ck_ok(multiply(devices[d], ROUND_TO_ZERO, &c, &a, &one));
        ck_assert(isnan(element_load(&c, 0, 0)));
    }
}
END_TEST

/* ---- to-zero, of every op with a plan ---- */

struct attention {
    struct attention_shape shape;
    struct view q, k, v, d_out;
};

/* out, dq, dk, dv */
static void attend(struct device *d, const struct attention *a, enum plan_rounding rounding, enum dtype type,
                   struct view result[4])
{
    const struct attention_shape *s = &a->shape;
    const int64_t dims[6] = {s->batch, s->heads, s->kv_heads, s->q_tokens, s->k_tokens, s->head_dim};
    const struct arithmetic how = {.name = "test", .attention_block = 20, .rounding = rounding};
    const struct view *const like[] = {&a->q, &a->q, &a->k, &a->v};
    const struct view lse = case_view(F32, s->batch * s->heads, s->q_tokens);
    const struct view wide_out = case_view(F32, a->q.rows, a->q.cols);
    const struct arithmetic nearest = {.name = "test", .attention_block = 20};
    const struct plan *plan, *plain;
    ck_ok(device_plan(d, &how, PLAN_ATTENTION, dims, &plan));
    ck_ok(device_plan(d, &nearest, PLAN_ATTENTION, dims, &plain));
    for (int i = 0; i < 4; i++)
        result[i] = case_view(type, like[i]->rows, like[i]->cols);
    ck_ok(d->ops->attention_forward(d, plan, s, &result[0], &lse, &a->q, &a->k, &a->v));
    /* The backward of both roundings begins from the same forward. */
    ck_ok(d->ops->attention_forward(d, plain, s, &wide_out, &lse, &a->q, &a->k, &a->v));
    ck_ok(d->ops->attention_backward(d, plan, s, &result[1], &result[2], &result[3], &a->d_out, &a->q, &a->k, &a->v,
                                     &wide_out, &lse, false));
}

/* Elements of `cut` that are not those of `wide` without their lower halves. */
static int differing_from_cut(const struct view *cut, const struct view *wide)
{
    int differing = 0;
    for (int64_t r = 0; r < cut->rows; r++)
        for (int64_t c = 0; c < cut->cols; c++)
            differing += *(uint16_t *)view_at(cut, r, c) != f32_bits(*(float *)view_at(wide, r, c)) >> 16;
    return differing;
}

START_TEST(to_zero_changes_nothing_but_the_last_rounding)
{
    static const uint8_t causal[] = {CHUNK_CAUSAL};
    const int32_t *position = case_positions(50, 0, 1);
    const struct attention a = {{1, 50, 50, 2, 1, 24, 1, 1, causal, 0.2f, position, position},
                                case_uniform(BF16, 50, 48),
                                case_uniform(BF16, 50, 24),
                                case_uniform(BF16, 50, 24),
                                case_uniform(BF16, 50, 48)};
    struct device *const devices[] = {conform_cpu(), conform_reference()};
    for (int d = 0; d < 2; d++) {
        struct view wide[5], cut[5], still_wide[5];
        attend(devices[d], &a, ROUND_NEAREST, F32, wide);
        attend(devices[d], &a, ROUND_TO_ZERO, BF16, cut);
        attend(devices[d], &a, ROUND_TO_ZERO, F32, still_wide);
        wide[4] = case_view(F32, 50, 50), cut[4] = case_view(BF16, 50, 50), still_wide[4] = case_view(F32, 50, 50);
        ck_ok(multiply(devices[d], ROUND_NEAREST, &wide[4], &a.q, &a.d_out));
        ck_ok(multiply(devices[d], ROUND_TO_ZERO, &cut[4], &a.q, &a.d_out));
        ck_ok(multiply(devices[d], ROUND_TO_ZERO, &still_wide[4], &a.q, &a.d_out));
        for (int i = 0; i < 5; i++) {
            ck_assert_int_eq(differing_from_cut(&cut[i], &wide[i]), 0);
            ck_assert_uint_eq(case_differing(&still_wide[i], &wide[i]), 0);
        }
    }
}
END_TEST

/* ---- bias ---- */

enum { SIDE = 64, ELEMENTS = SIDE * SIDE, K = 512, GROUPS = K / TRUNCATE_GROUP };

/* C on the CPU, and the exact sums, or as good as exact: u^2 beside u. */
static void both(enum plan_rounding rounding, const struct view *a, const struct view *b, struct view *c,
                 struct view *exact)
{
    *c = case_view(F32, SIDE, SIDE);
    *exact = case_view(F64, SIDE, SIDE);
    ck_ok(multiply(conform_cpu(), rounding, c, a, b));
    ck_ok(multiply(conform_reference(), ROUND_NEAREST, exact, a, b));
}

/* Up to 8 bits, times 2^-7 to 1: products have 16 bits, and a sum of 512 of them is exact in binary64. */
static struct view positive_numbers(void)
{
    const struct view x = case_view(BF16, SIDE, K);
    for (int64_t r = 0; r < SIDE; r++)
        for (int64_t c = 0; c < K; c++)
            element_store(&x, r, c, ldexp((double)(1 + case_below(255)), -(int)case_below(8)));
    return x;
}

static double unit_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, exponent - 24);
}

/* Mean of what is missing from positive sums, in units of the last place of each; the extremes. */
static double mean_loss(enum plan_rounding rounding, double *least, double *most)
{
    const struct view a = positive_numbers(), b = positive_numbers();
    struct view c, exact;
    double sum = 0;
    both(rounding, &a, &b, &c, &exact);
    *least = INFINITY, *most = -INFINITY;
    for (int64_t i = 0; i < ELEMENTS; i++) {
        const double value = element_load(&exact, i / SIDE, i % SIDE);
        const double loss = (value - element_load(&c, i / SIDE, i % SIDE)) / unit_of(value);
        *least = fmin(*least, loss);
        *most = fmax(*most, loss);
        sum += loss;
    }
    return sum / ELEMENTS;
}

/* A group loses at most a quantum, a quarter of a unit, for each of its 17 terms, and a unit. Its last cut alone takes 3/8
 * of a unit on average (0, 1/4, 1/2 and 3/4 of it being as likely); in the second half of the groups a unit is at least
 * half of the last one. */
START_TEST(truncating_loses_of_positive_sums_what_its_cuts_take)
{
    double least, most;
    const double mean = mean_loss(ROUND_TRUNCATE, &least, &most);
    ck_assert_double_ge(least, 0);
    ck_assert_double_le(most, GROUPS * (17 / 4.0 + 1));
    ck_assert_double_ge(mean, GROUPS / 2.0 * 3 / 8 / 2);
}
END_TEST

/* K roundings of at most half a unit each way: a standard deviation of sqrt(K / 12) units. Five of the mean's. */
START_TEST(nearest_loses_nothing_of_positive_sums_on_average)
{
    double least, most;
    const double mean = mean_loss(ROUND_NEAREST, &least, &most);
    ck_assert_double_lt(least, 0);
    ck_assert_double_gt(most, 0);
    ck_assert_double_le(fabs(mean), 5 * sqrt(K / 12.0) / sqrt(ELEMENTS));
}
END_TEST

/* Of sums of either sign: how much more often a result is too small in magnitude than too large, and the mean error
 * toward zero relative to |a| |b|; both in standard deviations. */
struct bias {
    double count, size;
};

static struct bias bias_of(enum plan_rounding rounding)
{
    const struct view a = case_uniform(BF16, SIDE, K), b = case_uniform(BF16, SIDE, K);
    const struct view a_size = case_magnitude(&a, F64), b_size = case_magnitude(&b, F64);
    const struct view scale = case_view(F64, SIDE, SIDE);
    struct view c, exact;
    double balance = 0, sum = 0, squares = 0;
    both(rounding, &a, &b, &c, &exact);
    ck_ok(multiply(conform_reference(), ROUND_NEAREST, &scale, &a_size, &b_size));
    for (int64_t i = 0; i < ELEMENTS; i++) {
        const int64_t row = i / SIDE, col = i % SIDE;
        const double missing = fabs(element_load(&exact, row, col)) - fabs(element_load(&c, row, col));
        const double error = missing / element_load(&scale, row, col);
        balance += (missing > 0) - (missing < 0);
        sum += error;
        squares += error * error;
    }
    const double mean = sum / ELEMENTS, deviation = sqrt(squares / ELEMENTS - mean * mean);
    return (struct bias){balance / sqrt(ELEMENTS), mean / (deviation / sqrt(ELEMENTS))};
}

START_TEST(truncating_shrinks_and_nearest_does_not)
{
    const struct bias truncating = bias_of(ROUND_TRUNCATE), nearest = bias_of(ROUND_NEAREST);
    ck_assert_msg(truncating.count > 10 && truncating.size > 10, "truncating: %.1f and %.1f standard deviations",
                  truncating.count, truncating.size);
    ck_assert_msg(fabs(nearest.count) < 5 && fabs(nearest.size) < 5, "nearest: %.1f and %.1f standard deviations",
                  nearest.count, nearest.size);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {truncating_sum_is_the_one_written_out, COUNT(sums)},
        {to_zero_cuts_what_is_stored_as_bf16, 1},
        {to_zero_changes_nothing_but_the_last_rounding, 1},
        {truncating_loses_of_positive_sums_what_its_cuts_take, 1},
        {nearest_loses_nothing_of_positive_sums_on_average, 1},
        {truncating_shrinks_and_nearest_does_not, 1},
    };
    return cases_run("rounding", tests, COUNT(tests), conform_close);
}
