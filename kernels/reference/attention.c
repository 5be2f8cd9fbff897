/* Attention, one query or one key at a time. A row of scores is never stored: what is needed twice is computed twice.
 *
 * With s_ij = scale q_i.k_j over the keys that query i sees, and p_ij = exp(s_ij - lse_i):
 *   lse_i = log sum_j exp(s_ij)          out_i = sum_j p_ij v_j
 *   dv_j  = sum_i p_ij d_out_i           ds_ij = p_ij (d_out_i.v_j - d_out_i.out_i)
 *   dq_i  = scale sum_j ds_ij k_j        dk_j  = scale sum_i ds_ij q_i
 */
#include <math.h>

#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* The longest head, so that one row fits on the stack: ops allocate nothing. Queries of a sum over queries that make a
 * chunk: see plan.h. */
enum { HEAD_DIM_LIMIT = 512, QUERY_CHUNK = 32 };

static status check_head_dim(const char *op, const struct attention_shape *s)
{
    if (s->head_dim > HEAD_DIM_LIMIT)
        return FAIL(ERR_ARGUMENT, "%s: head_dim is %d, expected at most %d in the reference table", op, s->head_dim,
                    HEAD_DIM_LIMIT);
    return OK;
}

static bool sees(const struct attention_shape *s, int64_t i, int64_t j)
{
    const int64_t q_chunk = i / (s->q_tokens / s->q_chunks), k_chunk = j / (s->k_tokens / s->k_chunks);
    switch ((enum chunk_kind)s->chunk_kind[q_chunk * s->k_chunks + k_chunk]) {
    case CHUNK_NONE:
        return false;
    case CHUNK_CAUSAL:
        return s->k_position[j] <= s->q_position[i];
    case CHUNK_ALL:
        return true;
    }
    return false;
}

/* One query head of one sequence, with the key head that it reads. */
struct head {
    enum plan_rounding rounding;
    struct view q, out, lse, k, v;
};

/* Sums of rows: of the chunks before, and of the current one. */
struct row {
    double total[HEAD_DIM_LIMIT];
    struct sum sum[HEAD_DIM_LIMIT];
};

static struct view query_part(const struct attention_shape *s, const struct view *x, int64_t sequence, int h)
{
    const struct view rows = view_rows(x, sequence * s->q_tokens, s->q_tokens);
    return view_cols(&rows, (int64_t)h * s->head_dim, s->head_dim);
}

static struct view key_part(const struct attention_shape *s, const struct view *x, int64_t sequence, int kv_head)
{
    const struct view rows = view_rows(x, sequence * s->k_tokens, s->k_tokens);
    return view_cols(&rows, (int64_t)kv_head * s->head_dim, s->head_dim);
}

static struct head head_of(const struct plan *plan, const struct attention_shape *s, int64_t sequence, int h,
                           const struct view *q, const struct view *k, const struct view *v, const struct view *out,
                           const struct view *lse)
{
    const int kv_head = h / (s->heads / s->kv_heads);
    const struct head head = {
        .rounding = plan->rounding,
        .q = query_part(s, q, sequence, h),
        .out = query_part(s, out, sequence, h),
        .lse = view_rows(lse, sequence * s->heads + h, 1),
        .k = key_part(s, k, sequence, kv_head),
        .v = key_part(s, v, sequence, kv_head),
    };
    return head;
}

static double dot(const struct view *a, int64_t i, const struct view *b, int64_t j, enum plan_rounding rounding)
{
    struct sum sum = {.rounding = rounding};
    for (int64_t c = 0; c < a->cols; c++)
        sum_add(&sum, element_load(a, i, c), element_load(b, j, c));
    return sum_take(&sum);
}

static void row_begin(struct row *r, int64_t cols, enum plan_rounding rounding)
{
    for (int64_t c = 0; c < cols; c++) {
        r->total[c] = 0;
        r->sum[c] = (struct sum){.rounding = rounding};
    }
}

/* += factor * row; where that row is not seen it keeps its place in a group, and adds nothing. */
static void row_add(struct row *r, bool seen, double factor, const struct view *x, int64_t row)
{
    for (int64_t c = 0; c < x->cols; c++)
        sum_add(&r->sum[c], factor, seen ? element_load(x, row, c) : 0);
}

static void row_join(struct row *r, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        r->total[c] += sum_take(&r->sum[c]);
}

/* Is the i-th of `count` the last of its chunk? */
static bool ends_chunk(int64_t i, int64_t chunk, int64_t count)
{
    return i + 1 == count || (chunk && (i + 1) % chunk == 0);
}

/* x = factor * the sums, or += */
static void store_row(const struct view *x, int64_t row, const struct row *r, double factor, bool accumulate,
                      enum plan_rounding rounding)
{
    for (int64_t c = 0; c < x->cols; c++)
        sum_store(x, row, c, factor * r->total[c] + (accumulate ? element_load(x, row, c) : 0), rounding);
}

static double score(const struct attention_shape *s, const struct head *h, int64_t i, int64_t j)
{
    return s->scale * dot(&h->q, i, &h->k, j, h->rounding);
}

static void forward_query(const struct plan *plan, const struct attention_shape *s, const struct head *h, int64_t i)
{
    double largest = -INFINITY, total = 0;
    struct row sum;
    row_begin(&sum, s->head_dim, h->rounding);
    for (int64_t j = 0; j < s->k_tokens; j++)
        if (sees(s, i, j))
            largest = fmax(largest, score(s, h, i, j));
    for (int64_t j = 0; j < s->k_tokens; j++) {
        const bool seen = sees(s, i, j);
        const double p = seen ? exp(score(s, h, i, j) - largest) : 0;
        total += p;
        row_add(&sum, seen, p, &h->v, j);
        if (ends_chunk(j, plan->chunk, s->k_tokens))
            row_join(&sum, s->head_dim);
    }
    /* Not 0: some key was seen; true for a NaN too, which must not turn into zeros. */
    store_row(&h->out, i, &sum, total != 0 ? 1 / total : 1, false, h->rounding);
    element_store(&h->lse, 0, i, largest + log(total));
}

status reference_attention_forward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                   const struct view *out, const struct view *lse, const struct view *q,
                                   const struct view *k, const struct view *v)
{
    (void)d;
    TRY(check_attention_forward(shape, out, lse, q, k, v));
    TRY(check_head_dim("attention_forward", shape));
    for (int64_t b = 0; b < shape->batch; b++)
        for (int h = 0; h < shape->heads; h++) {
            const struct head head = head_of(plan, shape, b, h, q, k, v, out, lse);
            for (int64_t i = 0; i < shape->q_tokens; i++)
                forward_query(plan, shape, &head, i);
        }
    return OK;
}

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    const double larger = fmax(a, b), smaller = fmin(a, b);
    return larger == -INFINITY ? larger : larger + log1p(exp(smaller - larger));
}

status reference_attention_merge(struct device *d, const struct attention_shape *shape, const struct view *out,
                                 const struct view *lse, const struct view *part_out, const struct view *part_lse)
{
    (void)d;
    TRY(check_attention_merge(shape, out, lse, part_out, part_lse));
    for (int64_t row = 0; row < out->rows; row++)
        for (int h = 0; h < shape->heads; h++) {
            const int64_t i = row % shape->q_tokens, lse_row = row / shape->q_tokens * shape->heads + h;
            const double mine = element_load(lse, lse_row, i), part = element_load(part_lse, lse_row, i);
            const double both = log_add(mine, part);
            element_store(lse, lse_row, i, both);
            if (both == -INFINITY)
                continue;
            for (int64_t c = (int64_t)h * shape->head_dim; c < (int64_t)(h + 1) * shape->head_dim; c++)
                element_store(out, row, c,
                              exp(mine - both) * element_load(out, row, c) +
                                  exp(part - both) * element_load(part_out, row, c));
        }
    return OK;
}

/* p_ij and ds_ij, both 0 where query i does not see key j. */
static double probability(const struct attention_shape *s, const struct head *h, const struct view *d_out, int64_t i,
                          int64_t j, double *gradient)
{
    const bool seen = sees(s, i, j);
    const double p = seen ? exp(score(s, h, i, j) - element_load(&h->lse, 0, i)) : 0;
    *gradient = seen ? p * (dot(d_out, i, &h->v, j, h->rounding) - dot(d_out, i, &h->out, i, ROUND_NEAREST)) : 0;
    return p;
}

static void query_gradient(const struct plan *plan, const struct attention_shape *s, const struct head *h,
                           const struct view *d_out, int64_t i, struct row *dq)
{
    double gradient;
    for (int64_t j = 0; j < s->k_tokens; j++) {
        probability(s, h, d_out, i, j, &gradient);
        row_add(dq, sees(s, i, j), gradient, &h->k, j);
        if (ends_chunk(j, plan->chunk, s->k_tokens))
            row_join(dq, s->head_dim);
    }
}

/* What one query head adds to the gradients of key j. */
static void key_gradient(const struct attention_shape *s, const struct head *h, const struct view *d_out, int64_t j,
                         struct row *dk, struct row *dv)
{
    const int64_t run = s->q_tokens / s->q_chunks;
    for (int64_t i = 0; i < s->q_tokens; i++) {
        double gradient;
        const double p = probability(s, h, d_out, i, j, &gradient);
        row_add(dv, sees(s, i, j), p, d_out, i);
        row_add(dk, sees(s, i, j), gradient, &h->q, i);
        if (ends_chunk(i % run, QUERY_CHUNK, run)) {
            row_join(dk, s->head_dim);
            row_join(dv, s->head_dim);
        }
    }
}

status reference_attention_backward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                    const struct view *dq, const struct view *dk, const struct view *dv,
                                    const struct view *d_out, const struct view *q, const struct view *k,
                                    const struct view *v, const struct view *out, const struct view *lse,
                                    bool accumulate)
{
    (void)d;
    TRY(check_attention_backward(shape, dq, dk, dv, d_out, q, k, v, out, lse, accumulate));
    TRY(check_head_dim("attention_backward", shape));
    const int group = shape->heads / shape->kv_heads;
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int h = 0; h < shape->heads; h++) {
            const struct head head = head_of(plan, shape, b, h, q, k, v, out, lse);
            const struct view head_d_out = query_part(shape, d_out, b, h), head_dq = query_part(shape, dq, b, h);
            for (int64_t i = 0; i < shape->q_tokens; i++) {
                struct row sum;
                row_begin(&sum, shape->head_dim, plan->rounding);
                query_gradient(plan, shape, &head, &head_d_out, i, &sum);
                store_row(&head_dq, i, &sum, shape->scale, accumulate, plan->rounding);
            }
        }
        for (int kv_head = 0; kv_head < shape->kv_heads; kv_head++) {
            const struct view head_dk = key_part(shape, dk, b, kv_head), head_dv = key_part(shape, dv, b, kv_head);
            for (int64_t j = 0; j < shape->k_tokens; j++) {
                struct row k_sum, v_sum;
                row_begin(&k_sum, shape->head_dim, plan->rounding);
                row_begin(&v_sum, shape->head_dim, plan->rounding);
                for (int h = kv_head * group; h < (kv_head + 1) * group; h++) {
                    const struct head head = head_of(plan, shape, b, h, q, k, v, out, lse);
                    const struct view head_d_out = query_part(shape, d_out, b, h);
                    key_gradient(shape, &head, &head_d_out, j, &k_sum, &v_sum);
                }
                store_row(&head_dk, j, &k_sum, shape->scale, accumulate, plan->rounding);
                store_row(&head_dv, j, &v_sum, 1, accumulate, plan->rounding);
            }
        }
    }
    return OK;
}
