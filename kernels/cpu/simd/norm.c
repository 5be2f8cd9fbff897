/* RMSNorm. With r = 1 / sqrt(mean(x^2) + eps) and g = dy * w:
 *   y = x r w      dx += r (g - x r^2 mean(g x))      dw = sum over rows of dy x r */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

static float sum_of_squares(const void *x, enum dtype type, int64_t cols)
{
    vf sum = vf_zero();
    for (int64_t c = 0; c < cols; c += LANES) {
        const vf at = vf_get(x, type, c, lanes(cols - c));
        sum = vf_fma(at, at, sum);
    }
    return vf_sum(sum);
}

static void normalise_row(const struct view *y, const struct view *x, const struct view *w, int64_t row, float rstd)
{
    const void *from = view_at(x, row, 0);
    void *to = view_at(y, row, 0);
    for (int64_t c = 0; c < x->cols; c += LANES) {
        const int count = lanes(x->cols - c);
        const vf scaled = vf_mul(vf_get(from, x->type, c, count), vf_set(rstd));
        vf_put(to, y->type, c, count, vf_mul(scaled, vf_get(w->data, w->type, c, count)));
    }
}

status NAME(cpu_rmsnorm_forward)(struct device *d, const struct view *y, const struct view *rstd, const struct view *x,
                                 const struct view *w, float eps)
{
    TRY(check_rmsnorm_forward(y, rstd, x, w));
    TRY(CPU_CHECK_STORAGE("rmsnorm_forward", y, rstd, x, w));
#pragma omp parallel for num_threads(cpu_threads(d, x->rows * x->cols)) schedule(static)
    for (int64_t row = 0; row < x->rows; row++) {
        const float mean = sum_of_squares(view_at(x, row, 0), x->type, x->cols) / (float)x->cols;
        const float r = 1.0f / sqrtf(mean + eps);
        *(float *)view_at(rstd, row, 0) = r;
        normalise_row(y, x, w, row, r);
    }
    return OK;
}

struct backward {
    const struct view *dx, *dw, *dy, *x, *w, *rstd;
};

static float rstd_of(const struct backward *g, int64_t row) { return *(const float *)view_at(g->rstd, row, 0); }

static void backward_row(const struct backward *g, int64_t row)
{
    const int64_t cols = g->x->cols;
    const void *x = view_at(g->x, row, 0), *dy = view_at(g->dy, row, 0);
    void *dx = view_at(g->dx, row, 0);
    const float r = rstd_of(g, row);
    vf sum = vf_zero();
    for (int64_t c = 0; c < cols; c += LANES) {
        const int count = lanes(cols - c);
        const vf slope = vf_mul(vf_get(dy, g->dy->type, c, count), vf_get(g->w->data, g->w->type, c, count));
        sum = vf_fma(slope, vf_get(x, g->x->type, c, count), sum);
    }
    const vf shrink = vf_set(-(r * r * (vf_sum(sum) / (float)cols)));
    for (int64_t c = 0; c < cols; c += LANES) {
        const int count = lanes(cols - c);
        const vf slope = vf_mul(vf_get(dy, g->dy->type, c, count), vf_get(g->w->data, g->w->type, c, count));
        const vf change = vf_fma(shrink, vf_get(x, g->x->type, c, count), slope);
        vf_put(dx, g->dx->type, c, count, vf_fma(vf_set(r), change, vf_get(dx, g->dx->type, c, count)));
    }
}

/* dw is summed in 16 blocks of rows; a strip of columns at a time, so that the partial sums fit on the stack. */
enum { BLOCKS = 16, STRIP_COLUMNS = 256 };

static void sum_block(const struct backward *g, float *sums, int block, int64_t column, int64_t cols)
{
    const int64_t rows = g->x->rows;
    memset(sums, 0, STRIP_COLUMNS * sizeof *sums);
    for (int64_t row = rows * block / BLOCKS; row < rows * (block + 1) / BLOCKS; row++) {
        const void *x = view_at(g->x, row, column), *dy = view_at(g->dy, row, column);
        const vf r = vf_set(rstd_of(g, row));
        for (int64_t c = 0; c < cols; c += LANES) {
            const int count = lanes(cols - c);
            const vf normal = vf_mul(vf_get(x, g->x->type, c, count), r);
            vf_store(sums + c, vf_fma(vf_get(dy, g->dy->type, c, count), normal, vf_load(sums + c)));
        }
    }
}

static void join_blocks(const struct backward *g, const float *sums, int64_t column, int64_t cols, bool accumulate)
{
    float *dw = view_at(g->dw, 0, column);
    for (int64_t c = 0; c < cols; c += LANES) {
        const int count = lanes(cols - c);
        vf total = vf_load(sums + c);
        for (int block = 1; block < BLOCKS; block++)
            total = vf_add(total, vf_load(sums + block * STRIP_COLUMNS + c));
        vf_store_part(dw + c, accumulate ? vf_add(vf_load_part(dw + c, count), total) : total, count);
    }
}

status NAME(cpu_rmsnorm_backward)(struct device *d, const struct view *dx, const struct view *dw, const struct view *dy,
                                  const struct view *x, const struct view *w, const struct view *rstd, bool accumulate)
{
    TRY(check_rmsnorm_backward(dx, dw, dy, x, w, rstd));
    TRY(CPU_CHECK_STORAGE("rmsnorm_backward", dx, dw, dy, x, w, rstd));
    const struct backward g = {dx, dw, dy, x, w, rstd};
    float sums[BLOCKS * STRIP_COLUMNS];
#pragma omp parallel num_threads(cpu_threads(d, x->rows * x->cols))
    {
#pragma omp for schedule(static) nowait
        for (int64_t row = 0; row < x->rows; row++)
            backward_row(&g, row);
        for (int64_t column = 0; column < x->cols; column += STRIP_COLUMNS) {
            const int64_t left = x->cols - column, cols = left < STRIP_COLUMNS ? left : STRIP_COLUMNS;
#pragma omp for schedule(static)
            for (int block = 0; block < BLOCKS; block++)
                sum_block(&g, sums + block * STRIP_COLUMNS, block, column, cols);
#pragma omp single
            join_blocks(&g, sums, column, cols, accumulate);
        }
    }
    return OK;
}
