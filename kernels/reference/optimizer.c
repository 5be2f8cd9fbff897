/* AdamW, and what goes with it: the gradient's norm, sums of gradients, changes of storage. */
#include <math.h>

#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

status reference_adamw(struct device *d, const struct view *weight, const struct view *master, const struct view *m,
                       const struct view *v, const struct view *grad, const struct adamw *how)
{
    (void)d;
    TRY(check_adamw(weight, master, m, v, grad));
    const double beta1 = how->beta1, beta2 = how->beta2;
    for (int64_t i = 0; i < master->cols; i++) {
        const double g = element_load(grad, 0, i) * how->grad_scale, old = element_load(master, 0, i);
        const double m_new = beta1 * element_load(m, 0, i) + (1 - beta1) * g;
        const double v_new = beta2 * element_load(v, 0, i) + (1 - beta2) * g * g;
        const double update = (m_new / how->correction1) / (sqrt(v_new / how->correction2) + how->eps);
        element_store(m, 0, i, m_new);
        element_store(v, 0, i, v_new);
        element_store(master, 0, i, old - how->lr * (how->weight_decay * old + update));
        element_store(weight, 0, i, element_load(master, 0, i));
    }
    return OK;
}

/* The order is part of the op's definition, so this sum is the same number in every table. */
status reference_sum_squares(struct device *d, double *out, const struct view *x)
{
    (void)d;
    TRY(check_sum_squares(x));
    enum { BLOCK = 4096 };
    double total = 0, block = 0;
    for (int64_t i = 0; i < x->rows * x->cols; i++) {
        if (i % BLOCK == 0) {
            total += block;
            block = 0;
        }
        const double value = element_load(x, i / x->cols, i % x->cols);
        block += value * value;
    }
    *out = total + block;
    return OK;
}

status reference_add(struct device *d, const struct view *y, const struct view *x)
{
    (void)d;
    TRY(check_add(y, x));
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++)
            element_store(y, r, c, element_load(y, r, c) + element_load(x, r, c));
    return OK;
}

status reference_convert(struct device *d, const struct view *y, const struct view *x)
{
    (void)d;
    TRY(check_convert(y, x));
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++)
            element_store(y, r, c, element_load(x, r, c));
    return OK;
}
