/* ops.h - every op, declared once.
 *
 * An op is a C function type; `struct ops` holds one pointer per op; each backend fills the table by position, so a
 * missing op does not compile. Operands are views: storage type is theirs, arithmetic is binary32, results are rounded
 * once, to nearest even, when stored; a plan may say otherwise of its op. In an F64 run (reference table only) every
 * "bf16|f32" and "f32" view is F64.
 *
 * Backends: reference (plain loops, double accumulation, any storage incl. F64: to be read and tested against),
 * cpu (OpenMP, 16-lane vectors compiled for AVX-512, AVX2 and scalar with the same bits, chosen at start; BF16 and F32
 * storage, any mix).
 * Errors: ERR_ARGUMENT when shapes do not fit, naming op and shapes. An op allocates nothing.
 * R rows, C columns; "bf16|f32" means the view's type decides.
 */
#ifndef REMATCH_KERNELS_OPS_H
#define REMATCH_KERNELS_OPS_H

#include "kernels/device.h"
#include "kernels/digest.h"
#include "kernels/philox.h"
#include "kernels/plan.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

/* What a plan needs: fills plan->workspace_bytes and plan->identity for this backend. */
typedef status op_plan(const struct device *d, struct plan *plan);

/* C = A x B in the plan's orientation and order; with `accumulate` C += (C must be f32 or f64).
 *   a, b, c bf16|f32, dims as plan->dims (m, n, k); c aliases neither.   draw: names the call, for ORDER_RANDOM. */
typedef status op_gemm(struct device *d, const struct plan *plan, uint64_t draw, const struct view *c,
                       const struct view *a, const struct view *b, bool accumulate);

/* Who may look at whom. Query i of a sequence sees key j if the pair of their chunks is CHUNK_ALL, or CHUNK_CAUSAL and
 * k_position[j] <= q_position[i]. A sequence's q_tokens fall into q_chunks equal runs, its keys into k_chunks.
 * kind[q_chunk * k_chunks + k_chunk]. One process without context parallelism: 1 x 1, CAUSAL (decoder) or ALL (ViT). */
enum chunk_kind { CHUNK_NONE, CHUNK_CAUSAL, CHUNK_ALL };

struct attention_shape {
    int64_t batch, q_tokens, k_tokens;
    int heads, kv_heads, head_dim; /* head h reads key and value head h / (heads / kv_heads) */
    int q_chunks, k_chunks;
    const uint8_t *chunk_kind;
    float scale;
    const int32_t *q_position, *k_position; /* (q_tokens), (k_tokens): the same for every sequence of the batch */
};

/* out = softmax(scale q k^T) v, lse = log-sum-exp of the scaled scores, over the visible keys; never holds T x T.
 *   q (B*Tq, heads*D)   k, v (B*Tk, kv_heads*D)   out (B*Tq, heads*D) bf16|f32: f32 for partial results to be merged
 *   lse f32 (B*heads, Tq).   A query that sees no key: out = 0, lse = -inf.   arXiv:2205.14135, arXiv:2305.13245 */
typedef status op_attention_forward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                    const struct view *out, const struct view *lse, const struct view *q,
                                    const struct view *k, const struct view *v);

/* Joins a partial result into a running one: lse' = logaddexp(lse, part_lse), out' = weighted sum.
 *   out, part_out f32 (B*Tq, heads*D)   lse, part_lse f32 (B*heads, Tq)   in place on out and lse */
typedef status op_attention_merge(struct device *d, const struct attention_shape *shape, const struct view *out,
                                  const struct view *lse, const struct view *part_out, const struct view *part_lse);

/* dq, dk, dv from d_out, with probabilities rebuilt from lse (that of *all* keys, so partial calls add up).
 *   dq as q, dk and dv as k: bf16|f32; with `accumulate` += (f32 only).   delta (row sums of d_out * out) is internal
 */
typedef status op_attention_backward(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                     const struct view *dq, const struct view *dk, const struct view *dv,
                                     const struct view *d_out, const struct view *q, const struct view *k,
                                     const struct view *v, const struct view *out, const struct view *lse,
                                     bool accumulate);

/* y = x * rstd(x) * w row by row (RMSNorm), eps inside the root.
 *   x, y (R,C), may alias   w (1,C)   rstd f32 (R,1), out   arXiv:1910.07467 */
typedef status op_rmsnorm_forward(struct device *d, const struct view *y, const struct view *rstd, const struct view *x,
                                  const struct view *w, float eps);

/* dx += gradient with respect to x (dx is the residual stream's gradient; read, added to in f32, rounded once).
 * dw (1,C) f32: = or, with `accumulate`, += the sum over rows; rows in 16 fixed blocks of consecutive rows, blocks
 * added in order. */
typedef status op_rmsnorm_backward(struct device *d, const struct view *dx, const struct view *dw,
                                   const struct view *dy, const struct view *x, const struct view *w,
                                   const struct view *rstd, bool accumulate);

/* Rotates in place, half by half as Hugging Face's Llama: (a, b) = (x[j], x[j + D/2]).
 *   x (R, heads*D)   table f32 (positions, D): cos in [0, D/2), sin in [D/2, D)   position (R): row of the table
 *   direction +1 forward, -1 backward   arXiv:2104.09864 */
typedef status op_rope(struct device *d, const struct view *x, int head_dim, const struct view *table,
                       const int32_t *position, int direction);

/* y = silu(gate) * up.   gate_up (R,2F): gate in [0,F), up in [F,2F)   y (R,F)   arXiv:2002.05202 */
typedef status op_swiglu_forward(struct device *d, const struct view *y, const struct view *gate_up);

/* d_gate_up (R,2F) from dy (R,F); may not alias. */
typedef status op_swiglu_backward(struct device *d, const struct view *d_gate_up, const struct view *dy,
                                  const struct view *gate_up);

/* y = residual + mask * x / (1 - p), the mask drawn at `where`: element (r,c) is element row_id[r] * C + c, kept when
 * its word is >= p * 2^32 (Philox, see philox.h).   residual may be NULL (0)   y may alias residual or x   (R,C)
 * row_id (R): global row, so that a mask does not depend on the split into micro-batches or ranks.  p = 0: plain add */
typedef status op_dropout_add(struct device *d, const struct view *y, const struct view *residual, const struct view *x,
                              float p, const struct random_site *where, const int64_t *row_id);

/* dx = mask * dy / (1 - p), the same mask. dx may alias dy. */
typedef status op_dropout_backward(struct device *d, const struct view *dx, const struct view *dy, float p,
                                   const struct random_site *where, const int64_t *row_id);

/* y[r] = table[token[r]].   table (V,C)   y (R,C)   ERR_INPUT for a token outside [0, V). */
typedef status op_embedding_forward(struct device *d, const struct view *y, const struct view *table,
                                    const int32_t *token);

/* d_table[token[r]] += dy[r], rows in ascending order.   d_table f32 (V,C), always accumulating */
typedef status op_embedding_backward(struct device *d, const struct view *d_table, const struct view *dy,
                                     const int32_t *token);

/* Row-wise softmax cross-entropy, and its gradient, of a chunk of tokens.
 *   logits f32 (R,V)   target (R)   loss f32 (R,1), in nats   predicted (R), out: first largest logit; may be NULL
 *   d_logits (R,V) = scale * (softmax - onehot), bf16|f32, may alias logits if f32; may be NULL */
typedef status op_cross_entropy(struct device *d, const struct view *loss, int32_t *predicted,
                                const struct view *d_logits, const struct view *logits, const int32_t *target,
                                float scale);

/* One AdamW step on flat arrays (1,N): decoupled weight decay, bias-corrected.   arXiv:1711.05101
 *   weight bf16|f32, out: master rounded   master, m, v f32, in and out   grad f32, multiplied by grad_scale first
 *   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; u = (m/c1) / (sqrt(v/c2) + eps); master -= lr (decay * master + u) */
struct adamw {
    float lr, beta1, beta2, eps, weight_decay, grad_scale;
    float correction1, correction2; /* 1 - beta^step */
};
typedef status op_adamw(struct device *d, const struct view *weight, const struct view *master, const struct view *m,
                        const struct view *v, const struct view *grad, const struct adamw *how);

/* *out = sum of x^2, in double: blocks of 4096 elements in flat order, sequential in a block, blocks in order. */
typedef status op_sum_squares(struct device *d, double *out, const struct view *x);

/* y += x (same shape; f32 or f64). */
typedef status op_add(struct device *d, const struct view *y, const struct view *x);

/* y = x, converted to y's type. */
typedef status op_convert(struct device *d, const struct view *y, const struct view *x);

/* Digest of x as digest.h defines it, elements first rounded to `as` where the types differ.
 *   row_id (R): global rows   tiles (digest_tiles(R)), out: their sum is the digest of the whole */
typedef status op_digest(struct device *d, struct digest *tiles, const struct view *x, enum dtype as,
                         const int64_t *row_id);

struct ops {
    const char *name;
    op_plan *plan;
    op_gemm *gemm;
    op_attention_forward *attention_forward;
    op_attention_merge *attention_merge;
    op_attention_backward *attention_backward;
    op_rmsnorm_forward *rmsnorm_forward;
    op_rmsnorm_backward *rmsnorm_backward;
    op_rope *rope;
    op_swiglu_forward *swiglu_forward;
    op_swiglu_backward *swiglu_backward;
    op_dropout_add *dropout_add;
    op_dropout_backward *dropout_backward;
    op_embedding_forward *embedding_forward;
    op_embedding_backward *embedding_backward;
    op_cross_entropy *cross_entropy;
    op_adamw *adamw;
    op_sum_squares *sum_squares;
    op_add *add;
    op_convert *convert;
    op_digest *digest;
};

/* The table named "cpu" or "reference"; ERR_USAGE for another name, with the list. */
status ops_find(const char *name, const struct ops **out);

extern const struct ops reference_ops;

/* The CPU table for the widest instruction set that this machine has; REMATCH_ISA=avx512|avx2|scalar narrows it (the
 * bits are the same). ERR_USAGE when it names a set that the machine lacks. */
status cpu_ops(const struct ops **out);

#endif
