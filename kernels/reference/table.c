/* The table itself, and its plans. */
#include "kernels/reference/reference.h"

#include <stdio.h>

status reference_plan(const struct device *d, struct plan *plan)
{
    (void)d;
    static const char *const names[] = {"gemm_nt", "gemm_nn", "gemm_tn", "attention"};
    int length = snprintf(plan->identity, sizeof plan->identity, "reference %s", names[plan->op]);
    for (int i = 0; i < (plan->op == PLAN_ATTENTION ? 6 : 3); i++)
        length += snprintf(plan->identity + length, sizeof plan->identity - (size_t)length, "%c%lld", i ? 'x' : ' ',
                           (long long)plan->dims[i]);
    snprintf(plan->identity + length, sizeof plan->identity - (size_t)length, " %s",
             plan_rounding_name(plan->rounding));
    plan->workspace_bytes = reference_sequence_bytes(plan);
    return OK;
}

const struct ops reference_ops = {
    "reference",
    reference_plan,
    reference_gemm,
    reference_attention_forward,
    reference_attention_merge,
    reference_attention_backward,
    reference_rmsnorm_forward,
    reference_rmsnorm_backward,
    reference_rope,
    reference_swiglu_forward,
    reference_swiglu_backward,
    reference_dropout_add,
    reference_dropout_backward,
    reference_embedding_forward,
    reference_embedding_backward,
    reference_cross_entropy,
    reference_adamw,
    reference_sum_squares,
    reference_add,
    reference_convert,
    reference_digest,
};
