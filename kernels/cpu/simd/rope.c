#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* One head: (a, b) = (x[j], x[j + half]) turns by the angle of j. */
static void rotate(void *x, enum dtype type, int64_t half, const float *cosine, const float *sine, vf direction)
{
    for (int64_t j = 0; j < half; j += LANES) {
        const int count = lanes(half - j);
        const vf a = vf_get(x, type, j, count), b = vf_get(x, type, half + j, count);
        const vf c = vf_load_part(cosine + j, count), s = vf_mul(vf_load_part(sine + j, count), direction);
        const vf minus_s = vf_sub(vf_zero(), s);
        vf_put(x, type, j, count, vf_fma(a, c, vf_mul(b, minus_s)));
        vf_put(x, type, half + j, count, vf_fma(b, c, vf_mul(a, s)));
    }
}

/* Heads of 16: one vector holds all (a, b) of a head, and its halves swapped the partners. The same operations. */
static void rotate_sixteens(void *x, enum dtype type, int64_t cols, const float *cosine, const float *sine,
                            vf direction)
{
    const vf c = vf_load_part(cosine, LANES / 2), s = vf_mul(vf_load_part(sine, LANES / 2), direction);
    const vf turn = vf_add(c, vf_swap_halves(c)), cross = vf_sub(vf_swap_halves(s), s);
    for (int64_t column = 0; column < cols; column += LANES) {
        const vf head = vf_get(x, type, column, LANES), partner = vf_swap_halves(head);
        vf_put(x, type, column, LANES, vf_fma(head, turn, vf_mul(partner, cross)));
    }
}

status NAME(cpu_rope)(struct device *d, const struct view *x, int head_dim, const struct view *table,
                      const int32_t *position, int direction)
{
    TRY(check_rope(x, head_dim, table, position, direction));
    TRY(CPU_CHECK_STORAGE("rope", x, table));
    const int64_t half = head_dim / 2;
    const vf sign = vf_set((float)direction);
#pragma omp parallel for num_threads(cpu_threads(d, x->rows * x->cols)) schedule(static)
    for (int64_t row = 0; row < x->rows; row++) {
        const float *angles = view_at(table, position[row], 0);
        if (head_dim == LANES)
            rotate_sixteens(view_at(x, row, 0), x->type, x->cols, angles, angles + half, sign);
        else
            for (int64_t column = 0; column < x->cols; column += head_dim)
                rotate(view_at(x, row, column), x->type, half, angles, angles + half, sign);
    }
    return OK;
}
