/* Attention of the CPU table against the reference.
 *
 * Bounds, with u the unit roundoff, D the head dimension, T the keys, and B the blocks of keys:
 *   score      S = |scale| D max|q| max|k| bounds every score; its error is at most e = (D + 4) u S, from D products and
 *              sums, the scale and a change of base.
 *   exponent   of a difference of two numbers below S, or of a score and an lse: e + 4 u S.
 *   weight     exp of that, rescaled once per block: relative error w = 2 e + 8 u S + (B + 1) exp_error.
 *   out        a quotient of two sums of T weights: |error| <= 2 (w + gamma(T + B + 2)) max|v|.
 *   lse        |error| <= w + gamma(T + B) + exp_error + 4 u (S + log T).
 * Backward, with A = D max|d_out| max(max|v|, max|out|), the largest d_out.v and d_out.out, and X = max|lse|:
 *   weight     relative error w = e + 8 u (S + X) + exp_error.
 *   ds         relative to the weight: g = 2 A (w + gamma(D + 3)).
 *   dq         weights of a query sum to 1: |error| <= |scale| max|k| (g + gamma(T + 4) 2 A).
 *   dk         weights of a key sum to P: |error| <= P |scale| max|q| (g + gamma(N + 4) 2 A), N = queries of the group.
 *   dv         |error| <= P max|d_out| (w + gamma(N + 2)).
 * P is what the reference's dv becomes when d_out is 1 everywhere. All are multiplied by no fudge factor.
 * Truncating: a group rounds 16 products, cuts 17 terms by u/2 of the largest at most, and the total by 2 u, so 12 u of
 * the sum of magnitudes cover a group: D, T and N grow by 12 for every 16, and for each chunk's last, shorter group.
 */
#include "tests/conform.h"

#include <math.h>

#include "kernels/element.h"

static const uint8_t causal[] = {CHUNK_CAUSAL}, all[] = {CHUNK_ALL};
static const uint8_t zigzag[] = {CHUNK_CAUSAL, CHUNK_NONE, CHUNK_ALL, CHUNK_CAUSAL};

struct attention {
    struct arithmetic how;
    struct attention_shape shape;
    bool accumulate;
    struct view q, k, v, d_out, out, lse;
};

static int64_t query_rows(const struct attention *a) { return a->shape.batch * a->shape.q_tokens; }
static int64_t query_cols(const struct attention *a) { return (int64_t)a->shape.heads * a->shape.head_dim; }
static int64_t key_rows(const struct attention *a) { return a->shape.batch * a->shape.k_tokens; }
static int64_t key_cols(const struct attention *a) { return (int64_t)a->shape.kv_heads * a->shape.head_dim; }
static int64_t lse_rows(const struct attention *a) { return a->shape.batch * a->shape.heads; }

static status plan_attention(struct device *d, const struct attention *a, const struct plan **plan)
{
    const struct attention_shape *s = &a->shape;
    const int64_t dims[6] = {s->batch, s->heads, s->kv_heads, s->q_tokens, s->k_tokens, s->head_dim};
    return device_plan(d, &a->how, PLAN_ATTENTION, dims, plan);
}

static status forward(struct device *d, const void *self, const struct view *out)
{
    const struct attention *a = self;
    const struct plan *plan;
    TRY(plan_attention(d, a, &plan));
    return d->ops->attention_forward(d, plan, &a->shape, &out[0], &out[1], &a->q, &a->k, &a->v);
}

/* out: dq, dk, dv */
static status backward(struct device *d, const void *self, const struct view *out)
{
    const struct attention *a = self;
    const struct plan *plan;
    TRY(plan_attention(d, a, &plan));
    return d->ops->attention_backward(d, plan, &a->shape, &out[0], &out[1], &out[2], &a->d_out, &a->q, &a->k, &a->v,
                                      &a->out, &a->lse, a->accumulate);
}

static double score_bound(const struct attention *a)
{
    return fabs((double)a->shape.scale) * a->shape.head_dim * case_largest(&a->q) * case_largest(&a->k);
}

/* Unit roundoffs of a sum of `terms` products in `chunks` chunks, beside those of joining them. */
static double roundings(const struct attention *a, double terms, double chunks)
{
    return a->how.rounding == ROUND_TRUNCATE ? terms + 12 * (terms / TRUNCATE_GROUP + chunks) : terms;
}

static double dot_roundings(const struct attention *a) { return roundings(a, a->shape.head_dim, 1); }

static double score_error(const struct attention *a) { return (dot_roundings(a) + 4) * u * score_bound(a); }

/* Of finite elements: a query that sees nothing has lse = -inf, and takes no part in any gradient. */
static double largest_lse(const struct attention *a)
{
    double largest = 0;
    for (int64_t r = 0; r < a->lse.rows; r++)
        for (int64_t c = 0; c < a->lse.cols; c++)
            if (isfinite(element_load(&a->lse, r, c)))
                largest = fmax(largest, fabs(element_load(&a->lse, r, c)));
    return largest;
}

/* Leaves the results in a->out and a->lse, for the backward. */
static void conform_forward(const char *name, struct attention *a, enum dtype out_type)
{
    const double keys = (double)a->shape.k_tokens, blocks = ceil(keys / (double)a->how.attention_block);
    const double largest = score_bound(a), weight = 2 * score_error(a) + 8 * u * largest + (blocks + 1) * exp_error;
    const struct view out_bound =
        bound_of(query_rows(a), query_cols(a),
                 2 * (weight + gamma_of(roundings(a, keys, blocks) + blocks + 2)) * case_largest(&a->v));
    const struct view lse_bound = bound_of(
        lse_rows(a), a->shape.q_tokens, weight + gamma_of(keys + blocks) + exp_error + 4 * u * (largest + log(keys)));
    const struct output output[] = {{out_type, query_rows(a), query_cols(a), NULL, &out_bound},
                                    {F32, lse_rows(a), a->shape.q_tokens, NULL, &lse_bound}};
    conform(name, forward, a, output, 2);
    a->out = case_view(out_type, query_rows(a), query_cols(a));
    a->lse = case_view(F32, lse_rows(a), a->shape.q_tokens);
    ck_ok(forward(conform_cpu(), a, (const struct view[]){a->out, a->lse}));
}

/* P of the bounds above: for each element of dk, the sum of the weights of its key. */
static struct view weight_sums(const struct attention *a)
{
    struct attention ones = *a;
    ones.d_out = bound_of(query_rows(a), query_cols(a), 1);
    ones.accumulate = false;
    const struct view dq = case_view(F64, query_rows(a), query_cols(a));
    const struct view dk = case_view(F64, key_rows(a), key_cols(a)), dv = case_view(F64, key_rows(a), key_cols(a));
    ck_ok(backward(conform_reference(), &ones, (const struct view[]){dq, dk, dv}));
    return dv;
}

/* The bound `factor` per unit of P, plus the rounding of a sum that starts from up to `start`. */
static struct view key_bound(const struct view *weight_sum, double factor, double start)
{
    const struct view bound = case_copy(weight_sum, F64);
    for (int64_t r = 0; r < bound.rows; r++)
        for (int64_t c = 0; c < bound.cols; c++)
            element_store(&bound, r, c, factor * element_load(&bound, r, c) + u * start);
    return bound;
}

static void conform_backward(const char *name, struct attention *a, enum dtype type, bool accumulate)
{
    const struct attention_shape *s = &a->shape;
    a->d_out = case_uniform(type, query_rows(a), query_cols(a));
    a->accumulate = accumulate;
    const double queries = (double)s->q_tokens * s->heads / s->kv_heads, scale = fabs((double)s->scale);
    const double largest = s->head_dim * case_largest(&a->d_out) * fmax(case_largest(&a->v), case_largest(&a->out));
    const double weight = score_error(a) + 8 * u * (score_bound(a) + largest_lse(a)) + exp_error;
    const double gradient = 2 * largest * (weight + gamma_of(dot_roundings(a) + 3));
    const double key_blocks = ceil((double)s->k_tokens / (double)a->how.attention_block);
    const double key_sum = roundings(a, (double)s->k_tokens, key_blocks);
    const double query_chunks = (double)(s->heads / s->kv_heads * s->q_chunks) * ((double)s->q_tokens / 32 + 1);
    const double query_sum = roundings(a, queries, query_chunks);
    const double start = accumulate ? 1 : 0;
    const struct view sums = weight_sums(a);
    const struct view dq_bound =
        bound_of(query_rows(a), query_cols(a),
                 scale * case_largest(&a->k) * (gradient + gamma_of(key_sum + 4) * 2 * largest) + u * start);
    const struct view dk_bound =
        key_bound(&sums, scale * case_largest(&a->q) * (gradient + gamma_of(query_sum + 4) * 2 * largest), start);
    const struct view dv_bound = key_bound(&sums, case_largest(&a->d_out) * (weight + gamma_of(query_sum + 2)), start);
    const struct view q_start = case_uniform(F32, query_rows(a), query_cols(a));
    const struct view k_start = case_uniform(F32, key_rows(a), key_cols(a));
    const struct output output[] = {
        {type, query_rows(a), query_cols(a), accumulate ? &q_start : NULL, &dq_bound},
        {type, key_rows(a), key_cols(a), accumulate ? &k_start : NULL, &dk_bound},
        {type, key_rows(a), key_cols(a), accumulate ? &k_start : NULL, &dv_bound},
    };
    conform(name, backward, a, output, 3);
}

/* Forward and backward, to nearest and truncating: BF16 throughout, then F32 with accumulating gradients, then BF16 with F32 partial results. */
static void conform_attention(const char *name, const char *profile, struct attention_shape shape)
{
    for (int i = 0; i < 6; i++) {
        const int storage = i % 3;
        const enum dtype type = storage == 1 ? F32 : BF16;
        struct attention a = {.shape = shape};
        ck_ok(arithmetic_find(&a.how, profile));
        a.how.rounding = i < 3 ? ROUND_NEAREST : ROUND_TRUNCATE;
        a.q = case_uniform(type, query_rows(&a), query_cols(&a));
        a.k = case_uniform(type, key_rows(&a), key_cols(&a));
        a.v = case_uniform(type, key_rows(&a), key_cols(&a));
        conform_forward(name, &a, storage == 0 ? BF16 : F32);
        conform_backward(name, &a, storage == 0 ? BF16 : F32, storage == 1);
    }
}

START_TEST(causal_attention_with_grouped_queries_is_within_bound)
{
    const int32_t *position = case_positions(37, 0, 1);
    conform_attention("causal grouped", "exact",
                      (struct attention_shape){2, 37, 37, 4, 2, 16, 1, 1, causal, 0.25f, position, position});
}
END_TEST

START_TEST(full_attention_of_odd_sizes_is_within_bound)
{
    const int32_t *q_position = case_positions(21, 0, 1), *k_position = case_positions(51, 0, 1);
    conform_attention("full", "h800-sim",
                      (struct attention_shape){3, 21, 51, 3, 3, 20, 1, 1, all, 0.3f, q_position, k_position});
    conform_attention("one by one", "exact",
                      (struct attention_shape){1, 1, 1, 1, 1, 1, 1, 1, all, 1, q_position, k_position});
}
END_TEST

START_TEST(attention_over_several_key_blocks_is_within_bound)
{
    const int32_t *position = case_positions(150, 0, 1);
    const char *const profiles[] = {"exact", "l40s-sim"};
    for (int i = 0; i < 2; i++)
        conform_attention(profiles[i], profiles[i],
                          (struct attention_shape){1, 150, 150, 2, 1, 32, 1, 1, causal, 0.2f, position, position});
}
END_TEST

START_TEST(attention_over_chunk_pairs_is_within_bound)
{
    /* Two ranks' worth of zigzag chunks: positions that jump, and a pair of chunks that is left out. */
    int32_t q_position[32], k_position[48];
    for (int i = 0; i < 32; i++)
        q_position[i] = i < 16 ? i : 80 + i;
    for (int i = 0; i < 48; i++)
        k_position[i] = i < 24 ? i / 2 : 72 + i;
    conform_attention("chunk pairs", "l40s-sim",
                      (struct attention_shape){2, 32, 48, 4, 4, 16, 2, 2, zigzag, 0.25f, q_position, k_position});
}
END_TEST

START_TEST(attention_of_queries_that_see_nothing_is_within_bound)
{
    const int32_t *q_position = case_positions(19, 0, 1), *k_position = case_positions(23, 5, 1);
    const struct attention_shape shape = {1, 19, 23, 2, 1, 16, 1, 1, causal, 0.25f, q_position, k_position};
    conform_attention("queries that see nothing", "exact", shape);
}
END_TEST

struct merge {
    struct attention_shape shape;
    struct view part_out, part_lse;
};

static status merge(struct device *d, const void *self, const struct view *out)
{
    const struct merge *m = self;
    return d->ops->attention_merge(d, &m->shape, &out[0], &out[1], &m->part_out, &m->part_lse);
}

/* Of query c of head r % 4 of sequence r / 4: an lse up to 9, or a result that saw no key. */
static void merge_operand(const struct view *out, const struct view *lse, int64_t r, int64_t c, bool saw_nothing)
{
    element_store(lse, r, c, saw_nothing ? -INFINITY : 9 * element_load(lse, r, c));
    for (int64_t i = 0; i < 16 && saw_nothing; i++)
        element_store(out, r / 4 * 37 + c, r % 4 * 16 + i, 0);
}

START_TEST(attention_merge_is_within_bound)
{
    /* Weights exp(lse - lse') carry the rounding of lse' and of the difference: relative error 4 u |lse|max +
     * exp_error, and lse' itself 2 exp_error + 2 u |lse'|, with |lse'| <= 9 + log 2 here. */
    const struct merge m = {
        {2, 37, 1, 4, 1, 16, 1, 1, all, 1, NULL, NULL}, case_uniform(F32, 74, 64), case_uniform(F32, 8, 37)};
    const struct view out = case_uniform(F32, 74, 64), lse = case_uniform(F32, 8, 37);
    for (int64_t r = 0; r < 8; r++)
        for (int64_t c = 0; c < 37; c++) {
            merge_operand(&out, &lse, r, c, c % 7 == 3);
            merge_operand(&m.part_out, &m.part_lse, r, c, c % 5 == 3);
        }
    const double lse_error = 2 * exp_error + 20 * u, weight_error = lse_error + 4 * u * 10 + exp_error;
    const struct view out_bound = bound_of(74, 64, 2 * (weight_error + 2 * u)), lse_bound = bound_of(8, 37, lse_error);
    const struct output output[] = {{F32, 74, 64, &out, &out_bound}, {F32, 8, 37, &lse, &lse_bound}};
    conform("attention_merge", merge, &m, output, 2);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {causal_attention_with_grouped_queries_is_within_bound, 1}, {full_attention_of_odd_sizes_is_within_bound, 1},
        {attention_over_several_key_blocks_is_within_bound, 1},     {attention_over_chunk_pairs_is_within_bound, 1},
        {attention_of_queries_that_see_nothing_is_within_bound, 1}, {attention_merge_is_within_bound, 1},
    };
    return cases_run("attention", tests, COUNT(tests), conform_close);
}
