#include "kernels/check.h"

/* What an operand may be stored as: any floating type, or only one that sums are kept in. */
enum storage { ANY_FLOAT, WIDE };

static status expect(const char *op, const char *operand, const struct view *v, int64_t rows, int64_t cols,
                     enum storage storage)
{
    bool stored = v->type == F32 || v->type == F64 || (v->type == BF16 && storage == ANY_FLOAT);
    if (stored && v->rows == rows && v->cols == cols && v->stride >= cols)
        return OK;
    return FAIL(ERR_ARGUMENT, "%s: %s is %s (%lld,%lld) with stride %lld, expected %s (%lld,%lld)", op, operand,
                dtype_name(v->type), (long long)v->rows, (long long)v->cols, (long long)v->stride,
                storage == WIDE ? "F32 or F64" : "BF16, F32 or F64", (long long)rows, (long long)cols);
}

/* The operand that the others' shapes follow from: its own shape cannot be wrong, its type can. */
static status expect_float(const char *op, const char *operand, const struct view *v)
{
    return expect(op, operand, v, v->rows, v->cols, ANY_FLOAT);
}

status check_gemm(const struct plan *plan, const struct view *c, const struct view *a, const struct view *b,
                  bool accumulate)
{
    if (plan->op == PLAN_ATTENTION)
        return FAIL(ERR_ARGUMENT, "gemm: the plan '%s' is one of attention", plan->identity);
    const int64_t m = plan->dims[0], n = plan->dims[1], k = plan->dims[2];
    const bool a_transposed = plan->op == PLAN_GEMM_TN, b_transposed = plan->op == PLAN_GEMM_NT;
    TRY(expect("gemm", "c", c, m, n, accumulate ? WIDE : ANY_FLOAT));
    TRY(expect("gemm", "a", a, a_transposed ? k : m, a_transposed ? m : k, ANY_FLOAT));
    return expect("gemm", "b", b, b_transposed ? n : k, b_transposed ? k : n, ANY_FLOAT);
}

static status check_attention_shape(const char *op, const struct attention_shape *s)
{
    if (s->batch < 1 || s->q_tokens < 1 || s->k_tokens < 1 || s->heads < 1 || s->kv_heads < 1 || s->head_dim < 1)
        return FAIL(ERR_ARGUMENT, "%s: batch %lld, tokens %lld and %lld, heads %d and %d of %d: expected 1 or more", op,
                    (long long)s->batch, (long long)s->q_tokens, (long long)s->k_tokens, s->heads, s->kv_heads,
                    s->head_dim);
    if (s->heads % s->kv_heads)
        return FAIL(ERR_ARGUMENT, "%s: %d key heads do not divide %d heads", op, s->kv_heads, s->heads);
    if (s->q_chunks < 1 || s->q_tokens % s->q_chunks || s->k_chunks < 1 || s->k_tokens % s->k_chunks)
        return FAIL(ERR_ARGUMENT, "%s: %d and %d chunks do not divide %lld queries and %lld keys", op, s->q_chunks,
                    s->k_chunks, (long long)s->q_tokens, (long long)s->k_tokens);
    return OK;
}

/* A tensor with one row per query, or one per key. */
static status expect_queries(const char *op, const char *operand, const struct view *v, const struct attention_shape *s,
                             enum storage storage)
{
    return expect(op, operand, v, s->batch * s->q_tokens, (int64_t)s->heads * s->head_dim, storage);
}

static status expect_keys(const char *op, const char *operand, const struct view *v, const struct attention_shape *s,
                          enum storage storage)
{
    return expect(op, operand, v, s->batch * s->k_tokens, (int64_t)s->kv_heads * s->head_dim, storage);
}

static status expect_lse(const char *op, const char *operand, const struct view *v, const struct attention_shape *s)
{
    return expect(op, operand, v, s->batch * s->heads, s->q_tokens, WIDE);
}

status check_attention_forward(const struct attention_shape *shape, const struct view *out, const struct view *lse,
                               const struct view *q, const struct view *k, const struct view *v)
{
    const char *op = "attention_forward";
    TRY(check_attention_shape(op, shape));
    TRY(expect_queries(op, "out", out, shape, ANY_FLOAT));
    TRY(expect_lse(op, "lse", lse, shape));
    TRY(expect_queries(op, "q", q, shape, ANY_FLOAT));
    TRY(expect_keys(op, "k", k, shape, ANY_FLOAT));
    return expect_keys(op, "v", v, shape, ANY_FLOAT);
}

status check_attention_merge(const struct attention_shape *shape, const struct view *out, const struct view *lse,
                             const struct view *part_out, const struct view *part_lse)
{
    const char *op = "attention_merge";
    TRY(check_attention_shape(op, shape));
    TRY(expect_queries(op, "out", out, shape, WIDE));
    TRY(expect_lse(op, "lse", lse, shape));
    TRY(expect_queries(op, "part_out", part_out, shape, WIDE));
    return expect_lse(op, "part_lse", part_lse, shape);
}

status check_attention_backward(const struct attention_shape *shape, const struct view *dq, const struct view *dk,
                                const struct view *dv, const struct view *d_out, const struct view *q,
                                const struct view *k, const struct view *v, const struct view *out,
                                const struct view *lse, bool accumulate)
{
    const char *op = "attention_backward";
    const enum storage gradient = accumulate ? WIDE : ANY_FLOAT;
    TRY(check_attention_shape(op, shape));
    TRY(expect_queries(op, "dq", dq, shape, gradient));
    TRY(expect_keys(op, "dk", dk, shape, gradient));
    TRY(expect_keys(op, "dv", dv, shape, gradient));
    TRY(expect_queries(op, "d_out", d_out, shape, ANY_FLOAT));
    TRY(expect_queries(op, "q", q, shape, ANY_FLOAT));
    TRY(expect_keys(op, "k", k, shape, ANY_FLOAT));
    TRY(expect_keys(op, "v", v, shape, ANY_FLOAT));
    TRY(expect_queries(op, "out", out, shape, ANY_FLOAT));
    return expect_lse(op, "lse", lse, shape);
}

status check_rmsnorm_forward(const struct view *y, const struct view *rstd, const struct view *x, const struct view *w)
{
    const char *op = "rmsnorm_forward";
    TRY(expect_float(op, "x", x));
    TRY(expect(op, "y", y, x->rows, x->cols, ANY_FLOAT));
    TRY(expect(op, "rstd", rstd, x->rows, 1, WIDE));
    return expect(op, "w", w, 1, x->cols, ANY_FLOAT);
}

status check_rmsnorm_backward(const struct view *dx, const struct view *dw, const struct view *dy, const struct view *x,
                              const struct view *w, const struct view *rstd)
{
    const char *op = "rmsnorm_backward";
    TRY(expect_float(op, "x", x));
    TRY(expect(op, "dx", dx, x->rows, x->cols, ANY_FLOAT));
    TRY(expect(op, "dw", dw, 1, x->cols, WIDE));
    TRY(expect(op, "dy", dy, x->rows, x->cols, ANY_FLOAT));
    TRY(expect(op, "w", w, 1, x->cols, ANY_FLOAT));
    return expect(op, "rstd", rstd, x->rows, 1, WIDE);
}

status check_rope(const struct view *x, int head_dim, const struct view *table, const int32_t *position, int direction)
{
    TRY(expect_float("rope", "x", x));
    if (head_dim < 2 || head_dim % 2 || x->cols % head_dim)
        return FAIL(ERR_ARGUMENT, "rope: heads of %d do not divide %lld columns into pairs", head_dim,
                    (long long)x->cols);
    TRY(expect("rope", "table", table, table->rows, head_dim, WIDE));
    if (direction != 1 && direction != -1)
        return FAIL(ERR_ARGUMENT, "rope: direction is %d, expected 1 or -1", direction);
    for (int64_t r = 0; r < x->rows; r++)
        if (position[r] < 0 || position[r] >= table->rows)
            return FAIL(ERR_ARGUMENT, "rope: position %d of row %lld is outside the table's %lld", position[r],
                        (long long)r, (long long)table->rows);
    return OK;
}

status check_swiglu_forward(const struct view *y, const struct view *gate_up)
{
    TRY(expect_float("swiglu_forward", "y", y));
    return expect("swiglu_forward", "gate_up", gate_up, y->rows, 2 * y->cols, ANY_FLOAT);
}

status check_swiglu_backward(const struct view *d_gate_up, const struct view *dy, const struct view *gate_up)
{
    const char *op = "swiglu_backward";
    TRY(expect_float(op, "dy", dy));
    TRY(expect(op, "d_gate_up", d_gate_up, dy->rows, 2 * dy->cols, ANY_FLOAT));
    return expect(op, "gate_up", gate_up, dy->rows, 2 * dy->cols, ANY_FLOAT);
}

status check_dropout(const char *op, const struct view *y, const struct view *residual, const struct view *x, float p)
{
    TRY(expect_float(op, "x", x));
    TRY(expect(op, "y", y, x->rows, x->cols, ANY_FLOAT));
    if (residual)
        TRY(expect(op, "residual", residual, x->rows, x->cols, ANY_FLOAT));
    if (!(p >= 0 && p < 1))
        return FAIL(ERR_ARGUMENT, "%s: p is %g, expected 0 <= p < 1", op, (double)p);
    return OK;
}

static status check_tokens(const char *op, const struct view *table, const struct view *rows, const int32_t *token)
{
    for (int64_t r = 0; r < rows->rows; r++)
        if (token[r] < 0 || token[r] >= table->rows)
            return FAIL(ERR_INPUT, "%s: token %d of row %lld is outside the vocabulary of %lld", op, token[r],
                        (long long)r, (long long)table->rows);
    return OK;
}

status check_embedding_forward(const struct view *y, const struct view *table, const int32_t *token)
{
    const char *op = "embedding_forward";
    TRY(expect_float(op, "table", table));
    TRY(expect(op, "y", y, y->rows, table->cols, ANY_FLOAT));
    return check_tokens(op, table, y, token);
}

status check_embedding_backward(const struct view *d_table, const struct view *dy, const int32_t *token)
{
    const char *op = "embedding_backward";
    TRY(expect(op, "d_table", d_table, d_table->rows, d_table->cols, WIDE));
    TRY(expect(op, "dy", dy, dy->rows, d_table->cols, ANY_FLOAT));
    return check_tokens(op, d_table, dy, token);
}

status check_cross_entropy(const struct view *loss, const struct view *d_logits, const struct view *logits,
                           const int32_t *target)
{
    const char *op = "cross_entropy";
    TRY(expect(op, "logits", logits, logits->rows, logits->cols, WIDE));
    TRY(expect(op, "loss", loss, logits->rows, 1, WIDE));
    if (d_logits)
        TRY(expect(op, "d_logits", d_logits, logits->rows, logits->cols, ANY_FLOAT));
    for (int64_t r = 0; r < logits->rows; r++)
        if (target[r] < 0 || target[r] >= logits->cols)
            return FAIL(ERR_INPUT, "%s: target %d of row %lld is outside the vocabulary of %lld", op, target[r],
                        (long long)r, (long long)logits->cols);
    return OK;
}

status check_adamw(const struct view *weight, const struct view *master, const struct view *m, const struct view *v,
                   const struct view *grad)
{
    TRY(expect("adamw", "master", master, 1, master->cols, WIDE));
    TRY(expect("adamw", "weight", weight, 1, master->cols, ANY_FLOAT));
    TRY(expect("adamw", "m", m, 1, master->cols, WIDE));
    TRY(expect("adamw", "v", v, 1, master->cols, WIDE));
    return expect("adamw", "grad", grad, 1, master->cols, WIDE);
}

status check_sum_squares(const struct view *x) { return expect_float("sum_squares", "x", x); }

status check_add(const struct view *y, const struct view *x)
{
    TRY(expect("add", "y", y, y->rows, y->cols, WIDE));
    return expect("add", "x", x, y->rows, y->cols, WIDE);
}

status check_convert(const struct view *y, const struct view *x)
{
    TRY(expect_float("convert", "x", x));
    return expect("convert", "y", y, x->rows, x->cols, ANY_FLOAT);
}

status check_digest(const struct view *x, enum dtype as)
{
    if (x->type != as && (x->type == I32 || as == I32))
        return FAIL(ERR_ARGUMENT, "digest: x is %s, which is never rounded to %s", dtype_name(x->type), dtype_name(as));
    return x->type == I32 ? OK : expect_float("digest", "x", x);
}
