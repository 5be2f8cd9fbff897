#include "tests/bench/count.h"

#include <string.h>

#include "tests/bench/bench.h"

static const char *const names[COUNTED] = {
    [COUNT_GEMM_FORWARD] = "GEMM forward",
    [COUNT_GEMM_INPUT] = "GEMM input gradient",
    [COUNT_GEMM_WEIGHT] = "GEMM weight gradient",
    [COUNT_HEAD_GEMM] = "head, GEMM",
    [COUNT_CROSS_ENTROPY] = "head, cross-entropy",
    [COUNT_ATTENTION_FORWARD] = "attention forward",
    [COUNT_ATTENTION_BACKWARD] = "attention backward",
    [COUNT_NORM_FORWARD] = "RMSNorm forward",
    [COUNT_NORM_BACKWARD] = "RMSNorm backward",
    [COUNT_ROPE] = "RoPE",
    [COUNT_SWIGLU_FORWARD] = "SwiGLU forward",
    [COUNT_SWIGLU_BACKWARD] = "SwiGLU backward",
    [COUNT_DROPOUT_ADD] = "residual add, dropout",
    [COUNT_DROPOUT_BACKWARD] = "dropout backward",
    [COUNT_EMBEDDING_FORWARD] = "embedding forward",
    [COUNT_EMBEDDING_BACKWARD] = "embedding backward",
    [COUNT_ADAMW] = "AdamW",
    [COUNT_SUM_SQUARES] = "gradient norm",
    [COUNT_DIGEST] = "digest",
};

const char *counted_name(enum counted c) { return names[c]; }

static struct counter *counter_of(const struct device *d) { return (struct counter *)d->ops; }

static double bytes_of(const struct view *v) { return v ? (double)view_bytes(v) : 0; }

/* The work is done: `seconds` since it began. */
static status counted(const struct device *d, enum counted what, double began, double flops, double bytes, status st)
{
    struct count *c = &counter_of(d)->at[what];
    c->seconds += bench_now() - began;
    c->calls++;
    c->flops += flops;
    c->bytes += bytes;
    return st;
}

static enum counted gemm_kind(const struct counter *c, const struct plan *plan, const struct view *b,
                              const struct view *out)
{
    if (b->data == c->head_weight || out->data == c->head_gradient)
        return COUNT_HEAD_GEMM;
    return plan->op == PLAN_GEMM_NT   ? COUNT_GEMM_FORWARD
           : plan->op == PLAN_GEMM_NN ? COUNT_GEMM_INPUT
                                      : COUNT_GEMM_WEIGHT;
}

static status count_gemm(struct device *d, const struct plan *plan, uint64_t draw, const struct view *c,
                         const struct view *a, const struct view *b, bool accumulate)
{
    const struct counter *counter = counter_of(d);
    double began = bench_now();
    status st = counter->real->gemm(d, plan, draw, c, a, b, accumulate);
    double flops = 2.0 * (double)plan->dims[0] * (double)plan->dims[1] * (double)plan->dims[2];
    return counted(d, gemm_kind(counter, plan, b, c), began, flops,
                   bytes_of(a) + bytes_of(b) + (accumulate ? 2 : 1) * bytes_of(c), st);
}

double count_attention_flops(const struct attention_shape *shape, bool backward)
{
    double T = (double)shape->q_tokens, pairs = (double)shape->batch * shape->heads * T * (T + 1) / 2;
    return pairs * shape->head_dim * 2 * (backward ? 5 : 2);
}

static status count_attention_forward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                      const struct view *out, const struct view *lse, const struct view *q,
                                      const struct view *k, const struct view *v)
{
    double began = bench_now();
    status st = counter_of(d)->real->attention_forward(d, plan, shape, out, lse, q, k, v);
    return counted(d, COUNT_ATTENTION_FORWARD, began, count_attention_flops(shape, false),
                   bytes_of(out) + bytes_of(lse) + bytes_of(q) + bytes_of(k) + bytes_of(v), st);
}

static status count_attention_backward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                       const struct view *dq, const struct view *dk, const struct view *dv,
                                       const struct view *d_out, const struct view *q, const struct view *k,
                                       const struct view *v, const struct view *out, const struct view *lse,
                                       bool accumulate)
{
    double began = bench_now();
    status st =
        counter_of(d)->real->attention_backward(d, plan, shape, dq, dk, dv, d_out, q, k, v, out, lse, accumulate);
    return counted(d, COUNT_ATTENTION_BACKWARD, began, count_attention_flops(shape, true),
                   2 * (bytes_of(q) + bytes_of(k) + bytes_of(v) + bytes_of(out)) + bytes_of(lse), st);
}

static status count_rmsnorm_forward(struct device *d, const struct view *y, const struct view *rstd,
                                    const struct view *x, const struct view *w, float eps)
{
    double began = bench_now();
    status st = counter_of(d)->real->rmsnorm_forward(d, y, rstd, x, w, eps);
    return counted(d, COUNT_NORM_FORWARD, began, 0, bytes_of(y) + bytes_of(rstd) + bytes_of(x) + bytes_of(w), st);
}

static status count_rmsnorm_backward(struct device *d, const struct view *dx, const struct view *dw,
                                     const struct view *dy, const struct view *x, const struct view *w,
                                     const struct view *rstd, bool accumulate)
{
    double began = bench_now();
    status st = counter_of(d)->real->rmsnorm_backward(d, dx, dw, dy, x, w, rstd, accumulate);
    return counted(d, COUNT_NORM_BACKWARD, began, 0,
                   2 * bytes_of(dx) + bytes_of(dw) + bytes_of(dy) + bytes_of(x) + bytes_of(w) + bytes_of(rstd), st);
}

static status count_rope(struct device *d, const struct view *x, int head_dim, const struct view *table,
                         const int32_t *position, int direction)
{
    double began = bench_now();
    status st = counter_of(d)->real->rope(d, x, head_dim, table, position, direction);
    return counted(d, COUNT_ROPE, began, 0, 2 * bytes_of(x) + bytes_of(table), st);
}

static status count_swiglu_forward(struct device *d, const struct view *y, const struct view *gate_up)
{
    double began = bench_now();
    status st = counter_of(d)->real->swiglu_forward(d, y, gate_up);
    return counted(d, COUNT_SWIGLU_FORWARD, began, 0, bytes_of(y) + bytes_of(gate_up), st);
}

static status count_swiglu_backward(struct device *d, const struct view *d_gate_up, const struct view *dy,
                                    const struct view *gate_up)
{
    double began = bench_now();
    status st = counter_of(d)->real->swiglu_backward(d, d_gate_up, dy, gate_up);
    return counted(d, COUNT_SWIGLU_BACKWARD, began, 0, bytes_of(d_gate_up) + bytes_of(dy) + bytes_of(gate_up), st);
}

static status count_dropout_add(struct device *d, const struct view *y, const struct view *residual,
                                const struct view *x, float p, const struct random_site *where, const int64_t *row_id)
{
    double began = bench_now();
    status st = counter_of(d)->real->dropout_add(d, y, residual, x, p, where, row_id);
    return counted(d, COUNT_DROPOUT_ADD, began, 0, bytes_of(y) + bytes_of(residual) + bytes_of(x), st);
}

static status count_dropout_backward(struct device *d, const struct view *dx, const struct view *dy, float p,
                                     const struct random_site *where, const int64_t *row_id)
{
    double began = bench_now();
    status st = counter_of(d)->real->dropout_backward(d, dx, dy, p, where, row_id);
    return counted(d, COUNT_DROPOUT_BACKWARD, began, 0, bytes_of(dx) + bytes_of(dy), st);
}

/* Of a table only the rows that are looked up move: as many as there are tokens. */
static status count_embedding_forward(struct device *d, const struct view *y, const struct view *table,
                                      const int32_t *token)
{
    double began = bench_now();
    status st = counter_of(d)->real->embedding_forward(d, y, table, token);
    return counted(d, COUNT_EMBEDDING_FORWARD, began, 0, 2 * bytes_of(y), st);
}

static status count_embedding_backward(struct device *d, const struct view *d_table, const struct view *dy,
                                       const int32_t *token)
{
    double began = bench_now(), elements = (double)(dy->rows * dy->cols);
    status st = counter_of(d)->real->embedding_backward(d, d_table, dy, token);
    return counted(d, COUNT_EMBEDDING_BACKWARD, began, 0,
                   bytes_of(dy) + 2 * elements * (double)dtype_bytes(d_table->type), st);
}

static status count_cross_entropy(struct device *d, const struct view *loss, int32_t *predicted,
                                  const struct view *d_logits, const struct view *logits, const int32_t *target,
                                  float scale)
{
    double began = bench_now();
    status st = counter_of(d)->real->cross_entropy(d, loss, predicted, d_logits, logits, target, scale);
    return counted(d, COUNT_CROSS_ENTROPY, began, 0, bytes_of(loss) + bytes_of(d_logits) + bytes_of(logits), st);
}

static status count_adamw(struct device *d, const struct view *weight, const struct view *master, const struct view *m,
                          const struct view *v, const struct view *grad, const struct adamw *how)
{
    double began = bench_now();
    status st = counter_of(d)->real->adamw(d, weight, master, m, v, grad, how);
    return counted(d, COUNT_ADAMW, began, 0,
                   bytes_of(weight) + 2 * (bytes_of(master) + bytes_of(m) + bytes_of(v)) + bytes_of(grad), st);
}

static status count_sum_squares(struct device *d, double *out, const struct view *x)
{
    double began = bench_now();
    status st = counter_of(d)->real->sum_squares(d, out, x);
    return counted(d, COUNT_SUM_SQUARES, began, 0, bytes_of(x), st);
}

static status count_digest(struct device *d, struct digest *tiles, const struct view *x, enum dtype as,
                           const int64_t *row_id)
{
    double began = bench_now();
    status st = counter_of(d)->real->digest(d, tiles, x, as, row_id);
    return counted(d, COUNT_DIGEST, began, 0, bytes_of(x), st);
}

void counter_begin(struct counter *c, struct device *d, const void *head_weight, const void *head_gradient)
{
    *c = (struct counter){.table = *d->ops, .real = d->ops, .head_weight = head_weight, .head_gradient = head_gradient};
    c->table.gemm = count_gemm;
    c->table.attention_forward = count_attention_forward;
    c->table.attention_backward = count_attention_backward;
    c->table.rmsnorm_forward = count_rmsnorm_forward;
    c->table.rmsnorm_backward = count_rmsnorm_backward;
    c->table.rope = count_rope;
    c->table.swiglu_forward = count_swiglu_forward;
    c->table.swiglu_backward = count_swiglu_backward;
    c->table.dropout_add = count_dropout_add;
    c->table.dropout_backward = count_dropout_backward;
    c->table.embedding_forward = count_embedding_forward;
    c->table.embedding_backward = count_embedding_backward;
    c->table.cross_entropy = count_cross_entropy;
    c->table.adamw = count_adamw;
    c->table.sum_squares = count_sum_squares;
    c->table.digest = count_digest;
    d->ops = &c->table;
}

void counter_end(struct counter *c, struct device *d) { d->ops = c->real; }

double counter_flops(const struct counter *c)
{
    double sum = 0;
    for (int i = 0; i < COUNTED; i++)
        sum += c->at[i].flops;
    return sum;
}
