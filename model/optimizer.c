#include "model/optimizer.h"

#include <math.h>

#include "model/block.h"

double optimizer_lr(const struct optimizer_rule *rule, int64_t step)
{
    if (step <= rule->warmup_steps)
        return rule->lr * (double)step / (double)rule->warmup_steps;
    if (step >= rule->steps)
        return rule->min_lr;
    double done = (double)(step - rule->warmup_steps) / (double)(rule->steps - rule->warmup_steps);
    return rule->min_lr + 0.5 * (rule->lr - rule->min_lr) * (1.0 + cos(M_PI * done));
}

struct adamw optimizer_adamw(const struct optimizer_rule *rule, int64_t step, double grad_norm)
{
    return (struct adamw){
        .lr = (float)optimizer_lr(rule, step),
        .beta1 = (float)rule->beta1,
        .beta2 = (float)rule->beta2,
        .eps = (float)rule->eps,
        .grad_scale = rule->clip > 0 && grad_norm > rule->clip ? (float)(rule->clip / grad_norm) : 1.0f,
        .correction1 = (float)(1.0 - pow(rule->beta1, (double)step)),
        .correction2 = (float)(1.0 - pow(rule->beta2, (double)step)),
    };
}

status optimizer_step(struct device *d, const struct model_shape *shape, const struct optimizer_rule *rule,
                      const struct optimizer_state *state, int64_t step, double *grad_norm)
{
    double squares;
    TRY(d->ops->sum_squares(d, &squares, &state->grad));
    *grad_norm = sqrt(squares);
    if (!isfinite(*grad_norm))
        return OK;
    struct adamw how = optimizer_adamw(rule, step, *grad_norm);
    for (int index = 0; index < shape_parameter_count(shape); index++) {
        struct parameter p = shape_parameter(shape, index);
        const struct view *flat[] = {&state->weight, &state->master, &state->m, &state->v, &state->grad};
        struct view part[5];
        for (int i = 0; i < 5; i++)
            part[i] = view_cols(flat[i], p.offset, p.rows * p.cols);
        how.weight_decay = p.decay ? (float)rule->weight_decay : 0;
        TRY(d->ops->adamw(d, &part[0], &part[1], &part[2], &part[3], &part[4], &how));
    }
    return OK;
}
