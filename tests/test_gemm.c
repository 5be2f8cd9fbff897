/* GEMM of the CPU table: within its rounding bound, and in exactly the order that plan.h defines. */
#include "tests/conform.h"

#include <math.h>
#include <stdio.h>

#include "kernels/element.h"

static const char *const profiles[] = {"exact", "h800-sim", "l40s-sim", "random"};
enum { PROFILES = COUNT(profiles) };

static const enum plan_op orientations[] = {PLAN_GEMM_NT, PLAN_GEMM_NN, PLAN_GEMM_TN};

/* Odd sizes, single elements, more than one chunk of every profile, enough work for several threads; behind them
 * one that is cut into blocks of k and passes over columns. */
static const int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 7},     {33, 17, 64},  {67, 45, 130},
                                    {16, 48, 257}, {130, 70, 33}, {1, 260, 4100}};
enum { SHAPES_WITH_LONG = COUNT(shapes), SHAPES = SHAPES_WITH_LONG - 1 };

static const struct mix {
    enum dtype a, b, c;
    bool accumulate;
} mixes[] = {{BF16, BF16, BF16, false}, {BF16, F32, F32, false}, {F32, BF16, F32, true}, {F32, F32, BF16, false}};
enum { MIXES = COUNT(mixes) };

struct product {
    struct arithmetic how;
    enum plan_op op;
    int64_t m, n, k;
    uint64_t draw;
    bool accumulate;
    struct view a, b;
};

static status multiply(struct device *d, const void *self, const struct view *out)
{
    const struct product *p = self;
    const int64_t dims[6] = {p->m, p->n, p->k};
    const struct plan *plan;
    TRY(device_plan(d, &p->how, p->op, dims, &plan));
    return d->ops->gemm(d, plan, p->draw, &out[0], &p->a, &p->b, p->accumulate);
}

/* Operands from `fill`, which is case_uniform, or integers. */
typedef struct view fill_matrix(enum dtype type, int64_t rows, int64_t cols);

static struct view small_integers(enum dtype type, int64_t rows, int64_t cols)
{
    return case_integers(type, rows, cols, 8);
}

static struct product product_of(fill_matrix *fill, const char *profile, enum plan_op op, const int64_t shape[3],
                                 const struct mix *mix)
{
    struct product p = {.op = op, .m = shape[0], .n = shape[1], .k = shape[2], .draw = 5};
    p.accumulate = mix->accumulate;
    p.a = op == PLAN_GEMM_TN ? fill(mix->a, p.k, p.m) : fill(mix->a, p.m, p.k);
    p.b = op == PLAN_GEMM_NT ? fill(mix->b, p.n, p.k) : fill(mix->b, p.k, p.n);
    ck_ok(arithmetic_find(&p.how, profile));
    return p;
}

static const char *describe(const struct product *p)
{
    static char text[128];
    snprintf(text, sizeof text, "gemm op %d %s %lldx%lldx%lld %s %s", p->op, p->how.name, (long long)p->m,
             (long long)p->n, (long long)p->k, dtype_name(p->a.type), dtype_name(p->b.type));
    return text;
}

/* Each product takes part in at most one rounding per addition that follows it: those of its own chunk, and one per
 * chunk; never more than k + chunks + 1 of them. So |error| <= gamma(k + chunks + 1) (|A| |B| + |C|). */
static struct view rounding_bound(const struct product *p, const struct view *start)
{
    struct product magnitude = *p;
    magnitude.a = case_magnitude(&p->a, F64);
    magnitude.b = case_magnitude(&p->b, F64);
    const struct view bound = start ? case_magnitude(start, F64) : case_view(F64, p->m, p->n);
    ck_ok(multiply(conform_reference(), &magnitude, &bound));
    const int64_t chunks = p->how.gemm_chunk ? (p->k + p->how.gemm_chunk - 1) / p->how.gemm_chunk : 1;
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t c = 0; c < p->n; c++)
            element_store(&bound, r, c, gamma_of((double)(p->k + chunks + 1)) * element_load(&bound, r, c));
    return bound;
}

START_TEST(gemm_stays_within_its_rounding_bound)
{
    for (int i = 0; i < PROFILES; i++)
        for (int o = 0; o < COUNT(orientations); o++)
            for (int s = 0; s < SHAPES; s++)
                for (int t = 0; t < MIXES; t++) {
                    const struct product p =
                        product_of(case_uniform, profiles[i], orientations[o], shapes[s], &mixes[t]);
                    const struct view start = case_uniform(F32, p.m, p.n);
                    const struct view bound = rounding_bound(&p, p.accumulate ? &start : NULL);
                    const struct output c = {mixes[t].c, p.m, p.n, p.accumulate ? &start : NULL, &bound};
                    conform(describe(&p), multiply, &p, &c, 1);
                }
}
END_TEST

START_TEST(gemm_of_integers_is_exact_in_every_order)
{
    /* |sum| <= 257 * 64 + 8 < 2^24: every partial sum is a binary32 number, and the result is rounded once. */
    for (int i = 0; i < PROFILES; i++)
        for (int o = 0; o < COUNT(orientations); o++)
            for (int s = 0; s < SHAPES; s++)
                for (int t = 0; t < MIXES; t++) {
                    const struct product p =
                        product_of(small_integers, profiles[i], orientations[o], shapes[s], &mixes[t]);
                    const struct view start = small_integers(F32, p.m, p.n);
                    const struct output c = {mixes[t].c, p.m, p.n, p.accumulate ? &start : NULL, NULL};
                    conform(describe(&p), multiply, &p, &c, 1);
                }
}
END_TEST

/* plan.h's rule for one element of C, literally. */
static float follow_plan(const struct plan *plan, const struct product *p, int64_t i, int64_t j, float start)
{
    int32_t sequence[4200 / 16 + 1];
    const int64_t chunks = plan_chunks(plan), length = plan->chunk ? plan->chunk : p->k;
    ck_assert_int_le(chunks, COUNT(sequence));
    plan_sequence(plan, p->draw, chunks, sequence);
    float total = start;
    for (int64_t s = 0; s < chunks; s++) {
        float sum = 0;
        for (int64_t x = sequence[s] * length; x < (sequence[s] + 1) * length && x < p->k; x++) {
            const double a = p->op == PLAN_GEMM_TN ? element_load(&p->a, x, i) : element_load(&p->a, i, x);
            const double b = p->op == PLAN_GEMM_NT ? element_load(&p->b, j, x) : element_load(&p->b, x, j);
            sum = fmaf((float)a, (float)b, sum);
        }
        total += sum;
    }
    return total;
}

START_TEST(gemm_follows_its_plan_bit_by_bit)
{
    const struct mix sum = {BF16, BF16, F32, true};
    for (int i = 0; i < PROFILES; i++)
        for (int o = 0; o < COUNT(orientations); o++)
            for (int s = 0; s < SHAPES_WITH_LONG; s++) {
                const struct product p = product_of(case_uniform, profiles[i], orientations[o], shapes[s], &sum);
                const struct view start = case_uniform(F32, p.m, p.n), c = case_copy(&start, F32);
                ck_ok(multiply(conform_cpu(), &p, &c));
                const int64_t dims[6] = {p.m, p.n, p.k};
                const struct plan *plan;
                ck_ok(device_plan(conform_cpu(), &p.how, p.op, dims, &plan));
                for (int64_t r = 0; r < p.m; r++)
                    for (int64_t col = 0; col < p.n; col++)
                        if ((float)element_load(&c, r, col) !=
                            follow_plan(plan, &p, r, col, (float)element_load(&start, r, col)))
                            ck_abort_msg("%s at (%d,%d)", describe(&p), (int)r, (int)col);
            }
}
END_TEST

/* The reference table sums truncating plans literally, in whole numbers of quanta. */
START_TEST(gemm_truncating_is_the_reference_bit_by_bit)
{
    for (int i = 0; i < PROFILES; i++)
        for (int o = 0; o < COUNT(orientations); o++)
            for (int s = 0; s < SHAPES_WITH_LONG; s++)
                for (int t = 0; t < MIXES; t++) {
                    struct product p = product_of(case_uniform, profiles[i], orientations[o], shapes[s], &mixes[t]);
                    p.how.rounding = ROUND_TRUNCATE;
                    const struct view start = case_uniform(F32, p.m, p.n);
                    const struct output c = {mixes[t].c, p.m, p.n, p.accumulate ? &start : NULL, NULL};
                    conform(describe(&p), multiply, &p, &c, 1);
                }
}
END_TEST

START_TEST(gemm_of_some_rows_gives_the_bits_of_the_whole)
{
    const struct mix mix = {BF16, BF16, F32, false};
    const int64_t shape[] = {67, 45, 130};
    for (int i = 0; i < PROFILES; i++)
        for (int o = 0; o < COUNT(orientations); o++) {
            struct product whole = product_of(case_uniform, profiles[i], orientations[o], shape, &mix);
            whole.how.rounding = _i ? ROUND_TRUNCATE : ROUND_NEAREST;
            const struct view c = case_view(F32, whole.m, whole.n), part_c = case_view(F32, 19, whole.n);
            struct product part = whole;
            part.m = 19;
            part.a = whole.op == PLAN_GEMM_TN ? view_cols(&whole.a, 23, 19) : view_rows(&whole.a, 23, 19);
            ck_ok(multiply(conform_cpu(), &whole, &c));
            ck_ok(multiply(conform_cpu(), &part, &part_c));
            const struct view same = view_rows(&c, 23, 19);
            ck_assert_uint_eq(case_differing(&same, &part_c), 0);
        }
}
END_TEST

START_TEST(gemm_of_profiles_differs_in_bits)
{
    /* What simulated cards stand for. Same operands, long sums. */
    const struct mix mix = {BF16, BF16, F32, false};
    const int64_t shape[] = {20, 20, 257};
    struct product p = product_of(case_uniform, profiles[0], PLAN_GEMM_NT, shape, &mix);
    struct view c[PROFILES];
    for (int i = 0; i < PROFILES; i++) {
        c[i] = case_view(F32, 20, 20);
        ck_ok(arithmetic_find(&p.how, profiles[i]));
        ck_ok(multiply(conform_cpu(), &p, &c[i]));
        for (int j = 0; j < i; j++)
            ck_assert_uint_gt(case_differing(&c[i], &c[j]), 0);
    }
}
END_TEST

START_TEST(random_order_repeats_with_its_draw_and_changes_with_another)
{
    const struct mix mix = {BF16, BF16, F32, false};
    const int64_t shape[] = {20, 20, 64};
    struct product p = product_of(case_uniform, "random", PLAN_GEMM_NN, shape, &mix);
    const struct view c = case_view(F32, 20, 20), again = case_view(F32, 20, 20);
    ck_ok(multiply(conform_cpu(), &p, &c));
    const uint64_t own = p.draw;
    for (uint64_t draw = 0; draw < 2 * own; draw++) {
        p.draw = draw;
        ck_ok(multiply(conform_cpu(), &p, &again));
        const uint64_t differing = case_differing(&c, &again);
        ck_assert_msg((differing == 0) == (draw == own), "draw %d: %d elements differ", (int)draw, (int)differing);
    }
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {gemm_stays_within_its_rounding_bound, 1},
        {gemm_of_integers_is_exact_in_every_order, 1},
        {gemm_follows_its_plan_bit_by_bit, 1},
        {gemm_of_some_rows_gives_the_bits_of_the_whole, 2},
        {gemm_truncating_is_the_reference_bit_by_bit, 1},
        {gemm_of_profiles_differs_in_bits, 1},
        {random_order_repeats_with_its_draw_and_changes_with_another, 1},
    };
    return cases_run("gemm", tests, COUNT(tests), conform_close);
}
