/* The table of one instruction set, and its plans. */
#include "kernels/cpu/simd/simd.h"

#include <stdio.h>

status NAME(cpu_plan)(const struct device *d, struct plan *plan)
{
    static const char *const ops[] = {"gemm_nt", "gemm_nn", "gemm_tn", "attention"};
    static const char *const orders[] = {"ascending", "descending", "random"};
    const bool attention = plan->op == PLAN_ATTENTION;
    plan->workspace_bytes = attention ? NAME(attention_workspace)(d, plan) : NAME(gemm_workspace)(d, plan);
    char *at = plan->identity, *end = at + sizeof plan->identity;
    at += snprintf(at, (size_t)(end - at), "cpu %s", ops[plan->op]);
    for (int i = 0; i < (attention ? 6 : 3); i++)
        at += snprintf(at, (size_t)(end - at), "%c%lld", i ? 'x' : ' ', (long long)plan->dims[i]);
    snprintf(at, (size_t)(end - at), " %s chunk %lld %s", orders[plan->order], (long long)plan->chunk,
             plan_rounding_name(plan->rounding));
    return OK;
}

const struct ops NAME(cpu_ops) = {
    "cpu",
    NAME(cpu_plan),
    NAME(cpu_gemm),
    NAME(cpu_attention_forward),
    NAME(cpu_attention_merge),
    NAME(cpu_attention_backward),
    NAME(cpu_rmsnorm_forward),
    NAME(cpu_rmsnorm_backward),
    NAME(cpu_rope),
    NAME(cpu_swiglu_forward),
    NAME(cpu_swiglu_backward),
    NAME(cpu_dropout_add),
    NAME(cpu_dropout_backward),
    NAME(cpu_embedding_forward),
    NAME(cpu_embedding_backward),
    NAME(cpu_cross_entropy),
    NAME(cpu_adamw),
    NAME(cpu_sum_squares),
    NAME(cpu_add),
    NAME(cpu_convert),
    NAME(cpu_digest),
};
