#include "kernels/cpu/simd/pack.h"

static inline void pack_row(float *to, int64_t width, const void *row, enum dtype type, int64_t count)
{
    for (int64_t c = 0; c < width; c += LANES) {
        vf x = c < count ? vf_get(row, type, c, lanes(count - c)) : vf_zero();
        vf_put(to, F32, c, lanes(width - c), x);
    }
}

void NAME(pack)(float *to, int64_t step, int64_t width, const struct part *from)
{
    for (int64_t r = 0; r < from->rows; r++)
        pack_row(to + r * step, width, view_at(from->of, from->row + r, from->col), from->of->type, from->cols);
}

/* Up to 16 rows x 16 columns; `keep` elements of each line are written. */
static inline void transpose_tile(float *to, int64_t step, int keep, const struct part *from)
{
    vf tile[LANES];
    for (int r = 0; r < LANES; r++)
        tile[r] = r < from->rows
                      ? vf_get(view_at(from->of, from->row + r, from->col), from->of->type, 0, (int)from->cols)
                      : vf_zero();
    vf_transpose(tile);
    for (int c = 0; c < from->cols; c++)
        vf_put(to + c * step, F32, 0, keep, tile[c]);
}

void NAME(pack_transposed)(float *to, int64_t step, int64_t width, const struct part *from)
{
    for (int64_t r = 0; r < width; r += LANES)
        for (int64_t c = 0; c < from->cols; c += LANES) {
            int64_t rows = from->rows - r;
            const struct part tile = {from->of, from->row + r, rows < 0 ? 0 : lanes(rows), from->col + c,
                                      lanes(from->cols - c)};
            transpose_tile(to + c * step + r, step, lanes(width - r), &tile);
        }
}

void NAME(pack_panels)(float *to, const struct part *from)
{
    for (int64_t c = 0; c < from->cols; c += PANEL) {
        const int64_t left = from->cols - c, width = panel_width(left);
        const struct part panel = {from->of, from->row, from->rows, from->col + c, left < width ? left : width};
        NAME(pack)(to + c * from->rows, width, width, &panel);
    }
}
