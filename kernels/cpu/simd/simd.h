/* simd.h - the ops of one instruction set. Every file here is compiled once per set, with ISA defined as avx512, avx2
 * or scalar, and its external names end in that. */
#ifndef REMATCH_KERNELS_CPU_SIMD_SIMD_H
#define REMATCH_KERNELS_CPU_SIMD_SIMD_H

#include "kernels/check.h"
#include "kernels/cpu/cpu.h"

#define SIMD_PASTE(name, isa) name##_##isa
#define SIMD_EXPAND(name, isa) SIMD_PASTE(name, isa)
#define NAME(name) SIMD_EXPAND(name, ISA)

op_plan NAME(cpu_plan);
op_gemm NAME(cpu_gemm);
op_attention_forward NAME(cpu_attention_forward);
op_attention_merge NAME(cpu_attention_merge);
op_attention_backward NAME(cpu_attention_backward);
op_rmsnorm_forward NAME(cpu_rmsnorm_forward);
op_rmsnorm_backward NAME(cpu_rmsnorm_backward);
op_rope NAME(cpu_rope);
op_swiglu_forward NAME(cpu_swiglu_forward);
op_swiglu_backward NAME(cpu_swiglu_backward);
op_dropout_add NAME(cpu_dropout_add);
op_dropout_backward NAME(cpu_dropout_backward);
op_embedding_forward NAME(cpu_embedding_forward);
op_embedding_backward NAME(cpu_embedding_backward);
op_cross_entropy NAME(cpu_cross_entropy);
op_adamw NAME(cpu_adamw);
op_sum_squares NAME(cpu_sum_squares);
op_add NAME(cpu_add);
op_convert NAME(cpu_convert);
op_digest NAME(cpu_digest);

/* Workspace bytes of a plan, for all of the device's threads together. */
size_t NAME(gemm_workspace)(const struct device *d, const struct plan *plan);
size_t NAME(attention_workspace)(const struct device *d, const struct plan *plan);

#endif
