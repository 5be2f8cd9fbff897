#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

status NAME(cpu_adamw)(struct device *d, const struct view *weight, const struct view *master, const struct view *m,
                       const struct view *v, const struct view *grad, const struct adamw *how)
{
    TRY(check_adamw(weight, master, m, v, grad));
    TRY(CPU_CHECK_STORAGE("adamw", weight, master, m, v, grad));
    const int64_t n = master->cols;
    const vf beta1 = vf_set(how->beta1), beta2 = vf_set(how->beta2), eps = vf_set(how->eps);
    const vf rest1 = vf_set(1.0f - how->beta1), rest2 = vf_set(1.0f - how->beta2);
    const vf correction1 = vf_set(how->correction1), correction2 = vf_set(how->correction2);
    const vf grad_scale = vf_set(how->grad_scale), decay = vf_set(how->weight_decay), minus_lr = vf_set(-how->lr);
#pragma omp parallel for num_threads(cpu_threads(d, n)) schedule(static)
    for (int64_t i = 0; i < n; i += LANES) {
        const int count = lanes(n - i);
        const vf g = vf_mul(vf_get(grad->data, F32, i, count), grad_scale);
        const vf mean = vf_fma(beta1, vf_get(m->data, F32, i, count), vf_mul(rest1, g));
        const vf square = vf_fma(beta2, vf_get(v->data, F32, i, count), vf_mul(vf_mul(rest2, g), g));
        const vf root = vf_add(vf_sqrt(vf_div(square, correction2)), eps);
        const vf update = vf_div(vf_div(mean, correction1), root), old = vf_get(master->data, F32, i, count);
        const vf fresh = vf_fma(minus_lr, vf_fma(decay, old, update), old);
        vf_put(m->data, F32, i, count, mean);
        vf_put(v->data, F32, i, count, square);
        vf_put(master->data, F32, i, count, fresh);
        vf_put(weight->data, weight->type, i, count, fresh);
    }
    return OK;
}
