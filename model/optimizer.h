/* optimizer.h - AdamW with warm-up, cosine decay and clipping by global norm, on flat arrays.
 *
 * Source: arXiv:1711.05101 (decoupled decay); the schedule is Megatron-LM's cosine: linear from 0 over warmup_steps,
 * then half a cosine from lr to min_lr at the last step. Steps count from 1.
 */
#ifndef REMATCH_MODEL_OPTIMIZER_H
#define REMATCH_MODEL_OPTIMIZER_H

#include "kernels/ops.h"
#include "model/shape.h"

struct optimizer_rule {
    int64_t steps, warmup_steps;
    double lr, min_lr, beta1, beta2, eps, weight_decay, clip; /* clip 0: none */
};

double optimizer_lr(const struct optimizer_rule *rule, int64_t step);

/* All (1, shape_elements): weights in the run's storage, the rest f32. */
struct optimizer_state {
    struct view weight, master, m, v, grad;
};

/* What step `step` does to every parameter alike when the gradient's norm is grad_norm; weight decay is each one's. */
struct adamw optimizer_adamw(const struct optimizer_rule *rule, int64_t step, double grad_norm);

/* One step: *grad_norm = global norm of grad (before clipping); updates master, m, v, weight. A norm that is not finite
 * updates nothing (ERR_RESULT is the caller's to raise). */
status optimizer_step(struct device *d, const struct model_shape *shape, const struct optimizer_rule *rule,
                      const struct optimizer_state *state, int64_t step, double *grad_norm);

#endif
