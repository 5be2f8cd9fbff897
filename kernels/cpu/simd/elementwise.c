/* Addition, conversion, and the sum of squares. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

status NAME(cpu_add)(struct device *d, const struct view *y, const struct view *x)
{
    TRY(check_add(y, x));
    TRY(CPU_CHECK_STORAGE("add", y, x));
    const int64_t cols = y->cols, steps = (cols + LANES - 1) / LANES;
#pragma omp parallel for num_threads(cpu_threads(d, y->rows *cols)) schedule(static)
    for (int64_t i = 0; i < y->rows * steps; i++) {
        const int64_t row = i / steps, c = i % steps * LANES;
        const int count = lanes(cols - c);
        float *to = view_at(y, row, c);
        vf_put(to, F32, 0, count, vf_add(vf_get(to, F32, 0, count), vf_get(view_at(x, row, c), F32, 0, count)));
    }
    return OK;
}

status NAME(cpu_convert)(struct device *d, const struct view *y, const struct view *x)
{
    TRY(check_convert(y, x));
    TRY(CPU_CHECK_STORAGE("convert", y, x));
    const int64_t cols = y->cols, steps = (cols + LANES - 1) / LANES;
#pragma omp parallel for num_threads(cpu_threads(d, y->rows *cols)) schedule(static)
    for (int64_t i = 0; i < y->rows * steps; i++) {
        const int64_t row = i / steps, c = i % steps * LANES;
        const int count = lanes(cols - c);
        vf_put(view_at(y, row, c), y->type, 0, count, vf_get(view_at(x, row, c), x->type, 0, count));
    }
    return OK;
}

/* Elements per block of the sum, blocks per thread at a time (their sums are independent chains of additions), and
 * blocks whose sums are kept on the stack until they are joined in order. */
enum { BLOCK = 4096, CHAINS = 4, KEPT = 1024 };

static inline double square_of(const void *row, enum dtype type, int64_t c)
{
    const double x = type == BF16 ? (double)bf16_to_f32(((const uint16_t *)row)[c]) : (double)((const float *)row)[c];
    return x * x;
}

/* Squares of `count` elements from flat index `first`, added one after the other. */
static double sum_block(const struct view *x, int64_t first, int64_t count)
{
    int64_t row = first / x->cols, c = first % x->cols;
    double sum = 0;
    while (count > 0) {
        const int64_t run = x->cols - c < count ? x->cols - c : count;
        const void *from = view_at(x, row, 0);
        for (int64_t end = c + run; c < end; c++)
            sum += square_of(from, x->type, c);
        count -= run;
        row++;
        c = 0;
    }
    return sum;
}

/* CHAINS whole blocks that lie in one piece. */
static void sum_chains(double sums[CHAINS], const void *from, enum dtype type)
{
    double sum[CHAINS] = {0};
    for (int64_t i = 0; i < BLOCK; i++)
        for (int b = 0; b < CHAINS; b++)
            sum[b] += square_of(from, type, b * BLOCK + i);
    memcpy(sums, sum, sizeof sum);
}

static void sum_blocks(const struct view *x, int64_t first, int64_t blocks, double *sums)
{
    const int64_t start = first * BLOCK, left = x->rows * x->cols - start;
    const bool packed = x->rows == 1 || x->stride == x->cols;
    if (packed && left >= CHAINS * BLOCK) {
        sum_chains(sums, view_at(x, 0, start), x->type);
        return;
    }
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t rest = left - b * BLOCK;
        sums[b] = sum_block(x, start + b * BLOCK, rest < BLOCK ? rest : BLOCK);
    }
}

status NAME(cpu_sum_squares)(struct device *d, double *out, const struct view *x)
{
    TRY(check_sum_squares(x));
    TRY(CPU_CHECK_STORAGE("sum_squares", x));
    const int64_t elements = x->rows * x->cols, blocks = (elements + BLOCK - 1) / BLOCK;
    double sums[KEPT], total = 0;
    for (int64_t start = 0; start < blocks; start += KEPT) {
        const int64_t count = blocks - start < KEPT ? blocks - start : KEPT;
#pragma omp parallel for num_threads(cpu_threads(d, elements)) schedule(static)
        for (int64_t b = 0; b < count; b += CHAINS)
            sum_blocks(x, start + b, count - b < CHAINS ? count - b : CHAINS, sums + b);
        for (int64_t b = 0; b < count; b++)
            total += sums[b];
    }
    *out = total;
    return OK;
}
