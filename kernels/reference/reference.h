/* reference.h - the reference table's ops: plain loops, double accumulation, any storage.
 *
 * They are the formulas of ops.h written down, to be read, differentiated by finite differences and tested against.
 * Sums are taken in double and in index order; a plan's order is not followed, because in double it does not matter
 * at the precision of any storage but F64. Truncating sums are what plan.h says, group by group and chunk by chunk.
 * No op here allocates or uses threads.
 */
#ifndef REMATCH_KERNELS_REFERENCE_H
#define REMATCH_KERNELS_REFERENCE_H

#include "kernels/ops.h"

op_plan reference_plan;
op_gemm reference_gemm;
op_attention_forward reference_attention_forward;
op_attention_merge reference_attention_merge;
op_attention_backward reference_attention_backward;
op_rmsnorm_forward reference_rmsnorm_forward;
op_rmsnorm_backward reference_rmsnorm_backward;
op_rope reference_rope;
op_swiglu_forward reference_swiglu_forward;
op_swiglu_backward reference_swiglu_backward;
op_dropout_add reference_dropout_add;
op_dropout_backward reference_dropout_backward;
op_embedding_forward reference_embedding_forward;
op_embedding_backward reference_embedding_backward;
op_cross_entropy reference_cross_entropy;
op_adamw reference_adamw;
op_sum_squares reference_sum_squares;
op_add reference_add;
op_convert reference_convert;
op_digest reference_digest;

/* A sum of products as a plan rounds it, not joined with anything yet. Begins as {.rounding = ...}. */
struct sum {
    enum plan_rounding rounding;
    int waiting; /* products of the current group */
    float product[TRUNCATE_GROUP];
    double value;
};
void sum_add(struct sum *s, double a, double b);
/* The sum, which begins anew. */
double sum_take(struct sum *s);

/* element_store of a plan's result. */
void sum_store(const struct view *x, int64_t row, int64_t col, double value, enum plan_rounding rounding);

/* Workspace that a plan needs for the sequence of its chunks. */
size_t reference_sequence_bytes(const struct plan *plan);

#endif
