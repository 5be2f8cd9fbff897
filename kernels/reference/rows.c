/* Ops that work row by row: RMSNorm, rotary positions, SwiGLU. */
#include <math.h>

#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* rstd = 1 / sqrt(mean_c x_c^2 + eps)     y_c = x_c rstd w_c */
status reference_rmsnorm_forward(struct device *d, const struct view *y, const struct view *rstd, const struct view *x,
                                 const struct view *w, float eps)
{
    (void)d;
    TRY(check_rmsnorm_forward(y, rstd, x, w));
    for (int64_t r = 0; r < x->rows; r++) {
        double squares = 0;
        for (int64_t c = 0; c < x->cols; c++)
            squares += element_load(x, r, c) * element_load(x, r, c);
        const double scale = 1 / sqrt(squares / (double)x->cols + (double)eps);
        element_store(rstd, r, 0, scale);
        for (int64_t c = 0; c < x->cols; c++)
            element_store(y, r, c, element_load(x, r, c) * scale * element_load(w, 0, c));
    }
    return OK;
}

/* dx_c += rstd (dy_c w_c - x_c rstd^2 mean_j dy_j w_j x_j)     dw_c = sum_r dy_rc x_rc rstd_r */
status reference_rmsnorm_backward(struct device *d, const struct view *dx, const struct view *dw, const struct view *dy,
                                  const struct view *x, const struct view *w, const struct view *rstd, bool accumulate)
{
    (void)d;
    TRY(check_rmsnorm_backward(dx, dw, dy, x, w, rstd));
    for (int64_t c = 0; c < x->cols; c++) {
        double sum = accumulate ? element_load(dw, 0, c) : 0;
        for (int64_t r = 0; r < x->rows; r++)
            sum += element_load(dy, r, c) * element_load(x, r, c) * element_load(rstd, r, 0);
        element_store(dw, 0, c, sum);
    }
    for (int64_t r = 0; r < x->rows; r++) {
        const double scale = element_load(rstd, r, 0);
        double along = 0;
        for (int64_t c = 0; c < x->cols; c++)
            along += element_load(dy, r, c) * element_load(w, 0, c) * element_load(x, r, c);
        along *= scale * scale / (double)x->cols;
        for (int64_t c = 0; c < x->cols; c++) {
            const double across = element_load(dy, r, c) * element_load(w, 0, c) - element_load(x, r, c) * along;
            element_store(dx, r, c, element_load(dx, r, c) + scale * across);
        }
    }
    return OK;
}

/* (a, b) -> (a cos - b sin, b cos + a sin); backwards the angle is negated. */
status reference_rope(struct device *d, const struct view *x, int head_dim, const struct view *table,
                      const int32_t *position, int direction)
{
    (void)d;
    TRY(check_rope(x, head_dim, table, position, direction));
    const int64_t half = head_dim / 2;
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t head = 0; head < x->cols; head += head_dim)
            for (int64_t j = head; j < head + half; j++) {
                const double a = element_load(x, r, j), b = element_load(x, r, j + half);
                const double cosine = element_load(table, position[r], j - head);
                const double sine = direction * element_load(table, position[r], j - head + half);
                element_store(x, r, j, a * cosine - b * sine);
                element_store(x, r, j + half, b * cosine + a * sine);
            }
    return OK;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

status reference_swiglu_forward(struct device *d, const struct view *y, const struct view *gate_up)
{
    (void)d;
    TRY(check_swiglu_forward(y, gate_up));
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++) {
            const double gate = element_load(gate_up, r, c), up = element_load(gate_up, r, c + y->cols);
            element_store(y, r, c, gate * sigmoid(gate) * up);
        }
    return OK;
}

/* silu'(g) = sigmoid(g) (1 + g (1 - sigmoid(g))) */
status reference_swiglu_backward(struct device *d, const struct view *d_gate_up, const struct view *dy,
                                 const struct view *gate_up)
{
    (void)d;
    TRY(check_swiglu_backward(d_gate_up, dy, gate_up));
    for (int64_t r = 0; r < dy->rows; r++)
        for (int64_t c = 0; c < dy->cols; c++) {
            const double gate = element_load(gate_up, r, c), up = element_load(gate_up, r, c + dy->cols);
            const double gradient = element_load(dy, r, c), s = sigmoid(gate);
            element_store(d_gate_up, r, c, gradient * up * s * (1 + gate * (1 - s)));
            element_store(d_gate_up, r, c + dy->cols, gradient * gate * s);
        }
    return OK;
}
