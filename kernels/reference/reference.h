/* reference.h - the reference table's ops: plain loops, double accumulation, any storage.
 *
 * They are the formulas of ops.h written down, to be read, differentiated by finite differences and tested against.
 * Sums are taken in double and in index order; a plan's order is not followed, because in double it does not matter
 * at the precision of any storage but F64. No op here allocates, uses threads, or reads the device.
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

#endif
