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

/* The longest head, so that one row fits on the stack: ops allocate nothing. */
enum { HEAD_DIM_LIMIT = 512 };

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
    struct view q, out, lse, k, v;
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

static struct head head_of(const struct attention_shape *s, int64_t sequence, int h, const struct view *q,
                           const struct view *k, const struct view *v, const struct view *out, const struct view *lse)
{
    const int kv_head = h / (s->heads / s->kv_heads);
    const struct head head = {
        .q = query_part(s, q, sequence, h),
        .out = query_part(s, out, sequence, h),
        .lse = view_rows(lse, sequence * s->heads + h, 1),
        .k = key_part(s, k, sequence, kv_head),
        .v = key_part(s, v, sequence, kv_head),
    };
    return head;
}

static double dot(const struct view *a, int64_t i, const struct view *b, int64_t j)
{
    double sum = 0;
    for (int64_t c = 0; c < a->cols; c++)
        sum += element_load(a, i, c) * element_load(b, j, c);
    return sum;
}

/* sum += factor * row */
static void add_row(double *sum, double factor, const struct view *x, int64_t row)
{
    for (int64_t c = 0; c < x->cols; c++)
        sum[c] += factor * element_load(x, row, c);
}

/* row = sum, or += */
static void store_row(const struct view *x, int64_t row, const double *sum, bool accumulate)
{
    for (int64_t c = 0; c < x->cols; c++)
        element_store(x, row, c, sum[c] + (accumulate ? element_load(x, row, c) : 0));
}

static void forward_query(const struct attention_shape *s, const struct head *h, int64_t i)
{
    double largest = -INFINITY, total = 0, sum[HEAD_DIM_LIMIT] = {0};
    for (int64_t j = 0; j < s->k_tokens; j++)
        if (sees(s, i, j))
            largest = fmax(largest, s->scale * dot(&h->q, i, &h->k, j));
    for (int64_t j = 0; j < s->k_tokens; j++)
        if (sees(s, i, j)) {
            const double p = exp(s->scale * dot(&h->q, i, &h->k, j) - largest);
            total += p;
            add_row(sum, p, &h->v, j);
        }
    if (total != 0) /* some key was seen; true for a NaN too, which must not turn into zeros */
        for (int64_t c = 0; c < s->head_dim; c++)
            sum[c] /= total;
    store_row(&h->out, i, sum, false);
    element_store(&h->lse, 0, i, largest + log(total));
}

status reference_attention_forward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                   const struct view *out, const struct view *lse, const struct view *q,
                                   const struct view *k, const struct view *v)
{
    (void)d, (void)plan;
    TRY(check_attention_forward(shape, out, lse, q, k, v));
    TRY(check_head_dim("attention_forward", shape));
    for (int64_t b = 0; b < shape->batch; b++)
        for (int h = 0; h < shape->heads; h++) {
            const struct head head = head_of(shape, b, h, q, k, v, out, lse);
            for (int64_t i = 0; i < shape->q_tokens; i++)
                forward_query(shape, &head, i);
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

static double probability(const struct attention_shape *s, const struct head *h, int64_t i, int64_t j)
{
    return exp(s->scale * dot(&h->q, i, &h->k, j) - element_load(&h->lse, 0, i));
}

static double score_gradient(const struct head *h, const struct view *d_out, double p, int64_t i, int64_t j)
{
    return p * (dot(d_out, i, &h->v, j) - dot(d_out, i, &h->out, i));
}

static void query_gradient(const struct attention_shape *s, const struct head *h, const struct view *d_out, int64_t i,
                           double *dq)
{
    for (int64_t j = 0; j < s->k_tokens; j++)
        if (sees(s, i, j)) {
            const double p = probability(s, h, i, j);
            add_row(dq, s->scale * score_gradient(h, d_out, p, i, j), &h->k, j);
        }
}

/* What one query head adds to the gradients of key j. */
static void key_gradient(const struct attention_shape *s, const struct head *h, const struct view *d_out, int64_t j,
                         double *dk, double *dv)
{
    for (int64_t i = 0; i < s->q_tokens; i++)
        if (sees(s, i, j)) {
            const double p = probability(s, h, i, j);
            add_row(dv, p, d_out, i);
            add_row(dk, s->scale * score_gradient(h, d_out, p, i, j), &h->q, i);
        }
}

status reference_attention_backward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                    const struct view *dq, const struct view *dk, const struct view *dv,
                                    const struct view *d_out, const struct view *q, const struct view *k,
                                    const struct view *v, const struct view *out, const struct view *lse,
                                    bool accumulate)
{
    (void)d, (void)plan;
    TRY(check_attention_backward(shape, dq, dk, dv, d_out, q, k, v, out, lse, accumulate));
    TRY(check_head_dim("attention_backward", shape));
    const int group = shape->heads / shape->kv_heads;
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int h = 0; h < shape->heads; h++) {
            const struct head head = head_of(shape, b, h, q, k, v, out, lse);
            const struct view head_d_out = query_part(shape, d_out, b, h), head_dq = query_part(shape, dq, b, h);
            for (int64_t i = 0; i < shape->q_tokens; i++) {
                double sum[HEAD_DIM_LIMIT] = {0};
                query_gradient(shape, &head, &head_d_out, i, sum);
                store_row(&head_dq, i, sum, accumulate);
            }
        }
        for (int kv_head = 0; kv_head < shape->kv_heads; kv_head++) {
            const struct view head_dk = key_part(shape, dk, b, kv_head), head_dv = key_part(shape, dv, b, kv_head);
            for (int64_t j = 0; j < shape->k_tokens; j++) {
                double k_sum[HEAD_DIM_LIMIT] = {0}, v_sum[HEAD_DIM_LIMIT] = {0};
                for (int h = kv_head * group; h < (kv_head + 1) * group; h++) {
                    const struct head head = head_of(shape, b, h, q, k, v, out, lse);
                    const struct view head_d_out = query_part(shape, d_out, b, h);
                    key_gradient(shape, &head, &head_d_out, j, k_sum, v_sum);
                }
                store_row(&head_dk, j, k_sum, accumulate);
                store_row(&head_dv, j, v_sum, accumulate);
            }
        }
    }
    return OK;
}
