/* SwiGLU. With s = 1 / (1 + exp(-gate)):
 *   y = gate s up      d_up = dy gate s      d_gate = dy up s (1 + gate (1 - s)) */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

static inline vf sigmoid(vf x)
{
    const vf one = vf_set(1.0f);
    return vf_div(one, vf_add(one, vf_exp(vf_sub(vf_zero(), x))));
}

status NAME(cpu_swiglu_forward)(struct device *d, const struct view *y, const struct view *gate_up)
{
    TRY(check_swiglu_forward(y, gate_up));
    TRY(CPU_CHECK_STORAGE("swiglu_forward", y, gate_up));
    const int64_t cols = y->cols;
#pragma omp parallel for num_threads(cpu_threads(d, y->rows *cols)) schedule(static)
    for (int64_t row = 0; row < y->rows; row++) {
        const void *from = view_at(gate_up, row, 0);
        void *to = view_at(y, row, 0);
        for (int64_t c = 0; c < cols; c += LANES) {
            const int count = lanes(cols - c);
            const vf gate = vf_get(from, gate_up->type, c, count), up = vf_get(from, gate_up->type, cols + c, count);
            vf_put(to, y->type, c, count, vf_mul(vf_mul(gate, sigmoid(gate)), up));
        }
    }
    return OK;
}

status NAME(cpu_swiglu_backward)(struct device *d, const struct view *d_gate_up, const struct view *dy,
                                 const struct view *gate_up)
{
    TRY(check_swiglu_backward(d_gate_up, dy, gate_up));
    TRY(CPU_CHECK_STORAGE("swiglu_backward", d_gate_up, dy, gate_up));
    const int64_t cols = dy->cols;
    const vf one = vf_set(1.0f);
#pragma omp parallel for num_threads(cpu_threads(d, dy->rows *cols)) schedule(static)
    for (int64_t row = 0; row < dy->rows; row++) {
        const void *from = view_at(gate_up, row, 0), *slopes = view_at(dy, row, 0);
        void *to = view_at(d_gate_up, row, 0);
        for (int64_t c = 0; c < cols; c += LANES) {
            const int count = lanes(cols - c);
            const vf gate = vf_get(from, gate_up->type, c, count), up = vf_get(from, gate_up->type, cols + c, count);
            const vf slope = vf_get(slopes, dy->type, c, count), s = sigmoid(gate);
            const vf bend = vf_fma(gate, vf_sub(one, s), one);
            vf_put(to, d_gate_up->type, c, count, vf_mul(vf_mul(slope, up), vf_mul(s, bend)));
            vf_put(to, d_gate_up->type, cols + c, count, vf_mul(slope, vf_mul(gate, s)));
        }
    }
    return OK;
}
