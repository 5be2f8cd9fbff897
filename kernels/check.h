/* check.h - what every op demands of its operands, stated once for all backends.
 *
 * A backend's op begins by calling the check of its name. A backend that lacks a storage type refuses it itself.
 * Errors: ERR_ARGUMENT naming op, operand, its type and shape, and what was expected.
 */
#ifndef REMATCH_KERNELS_CHECK_H
#define REMATCH_KERNELS_CHECK_H

#include "kernels/ops.h"

status check_gemm(const struct plan *plan, const struct view *c, const struct view *a, const struct view *b,
                  bool accumulate);

status check_attention_forward(const struct attention_shape *shape, const struct view *out, const struct view *lse,
                               const struct view *q, const struct view *k, const struct view *v);

status check_attention_merge(const struct attention_shape *shape, const struct view *out, const struct view *lse,
                             const struct view *part_out, const struct view *part_lse);

status check_attention_backward(const struct attention_shape *shape, const struct view *dq, const struct view *dk,
                                const struct view *dv, const struct view *d_out, const struct view *q,
                                const struct view *k, const struct view *v, const struct view *out,
                                const struct view *lse, bool accumulate);

status check_rmsnorm_forward(const struct view *y, const struct view *rstd, const struct view *x, const struct view *w);

status check_rmsnorm_backward(const struct view *dx, const struct view *dw, const struct view *dy, const struct view *x,
                              const struct view *w, const struct view *rstd);

/* Also that every position is a row of the table. */
status check_rope(const struct view *x, int head_dim, const struct view *table, const int32_t *position, int direction);

status check_swiglu_forward(const struct view *y, const struct view *gate_up);

status check_swiglu_backward(const struct view *d_gate_up, const struct view *dy, const struct view *gate_up);

/* Forward and backward; residual may be NULL. */
status check_dropout(const char *op, const struct view *y, const struct view *residual, const struct view *x, float p);

/* ERR_INPUT for a token outside [0, V). */
status check_embedding_forward(const struct view *y, const struct view *table, const int32_t *token);
status check_embedding_backward(const struct view *d_table, const struct view *dy, const int32_t *token);

/* ERR_INPUT for a target outside [0, V). */
status check_cross_entropy(const struct view *loss, const struct view *d_logits, const struct view *logits,
                           const int32_t *target);

status check_adamw(const struct view *weight, const struct view *master, const struct view *m, const struct view *v,
                   const struct view *grad);

status check_sum_squares(const struct view *x);
status check_add(const struct view *y, const struct view *x);
status check_convert(const struct view *y, const struct view *x);
status check_digest(const struct view *x, enum dtype as);

#endif
