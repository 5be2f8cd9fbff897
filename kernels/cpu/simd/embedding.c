#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

status NAME(cpu_embedding_forward)(struct device *d, const struct view *y, const struct view *table,
                                   const int32_t *token)
{
    TRY(check_embedding_forward(y, table, token));
    TRY(CPU_CHECK_STORAGE("embedding_forward", y, table));
#pragma omp parallel for num_threads(cpu_threads(d, y->rows * y->cols)) schedule(static)
    for (int64_t row = 0; row < y->rows; row++)
        for (int64_t c = 0; c < y->cols; c += LANES) {
            const int count = lanes(y->cols - c);
            const vf x = vf_get(view_at(table, token[row], 0), table->type, c, count);
            vf_put(view_at(y, row, 0), y->type, c, count, x);
        }
    return OK;
}

/* Threads share the columns, because rows of one token must be added in order. */
status NAME(cpu_embedding_backward)(struct device *d, const struct view *d_table, const struct view *dy,
                                    const int32_t *token)
{
    TRY(check_embedding_backward(d_table, dy, token));
    TRY(CPU_CHECK_STORAGE("embedding_backward", d_table, dy));
#pragma omp parallel for num_threads(cpu_threads(d, dy->rows * dy->cols)) schedule(static)
    for (int64_t c = 0; c < dy->cols; c += LANES) {
        const int count = lanes(dy->cols - c);
        for (int64_t row = 0; row < dy->rows; row++) {
            float *to = view_at(d_table, token[row], c);
            const vf slope = vf_get(view_at(dy, row, 0), dy->type, c, count);
            vf_store_part(to, vf_add(vf_load_part(to, count), slope), count);
        }
    }
    return OK;
}
