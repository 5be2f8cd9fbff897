#include "kernels/cpu/simd/pack.h"

/* Where up to 16 columns of a part lie. */
struct source {
    const char *at;
    int64_t row_bytes, rows;
};

static struct source source_of(const struct part *part, int64_t row, int64_t col, int64_t rows)
{
    const struct view *of = part->of;
    return (struct source){view_at(of, part->row + row, part->col + col), of->stride * (int64_t)dtype_bytes(of->type),
                           rows};
}

/* `count` elements of each row, zero behind, up to `keep`. Like transpose_tile expanded for constants where that is the
 * common case, whole vectors: packing is felt in products with few columns. */
static inline __attribute__((always_inline)) void pack_columns(float *to, int64_t step, const struct source *from,
                                                               enum dtype type, int count, int keep)
{
    const char *row = from->at;
    for (int64_t r = 0; r < from->rows; r++, row += from->row_bytes)
        vf_put(to + r * step, F32, 0, keep, vf_get(row, type, 0, count));
}

static void zero_columns(float *to, int64_t step, int64_t rows, int keep)
{
    for (int64_t r = 0; r < rows; r++)
        vf_put(to + r * step, F32, 0, keep, vf_zero());
}

void NAME(pack)(float *to, int64_t step, int64_t width, const struct part *from)
{
    const enum dtype type = from->of->type;
    for (int64_t c = 0; c < width; c += LANES) {
        const int keep = lanes(width - c);
        if (c >= from->cols) {
            zero_columns(to + c, step, from->rows, keep);
            continue;
        }
        const int count = lanes(from->cols - c);
        const struct source source = source_of(from, 0, c, from->rows);
        if (count == LANES && type == BF16)
            pack_columns(to + c, step, &source, BF16, LANES, LANES);
        else if (count == LANES)
            pack_columns(to + c, step, &source, F32, LANES, LANES);
        else
            pack_columns(to + c, step, &source, type, count, keep);
    }
}

/* Lines of a tile of rows x cols elements, up to 16 x 16; `keep` elements of each line are written. */
static inline __attribute__((always_inline)) void transpose_tile(float *to, int64_t step, const struct source *from,
                                                                 enum dtype type, int rows, int cols, int keep)
{
    vf tile[LANES];
    for (int r = 0; r < LANES; r++)
        tile[r] = r < rows ? vf_get(from->at + r * from->row_bytes, type, 0, cols) : vf_zero();
    vf_transpose(tile);
    for (int c = 0; c < cols; c++)
        vf_put(to + c * step, F32, 0, keep, tile[c]);
}

void NAME(pack_transposed)(float *to, int64_t step, int64_t width, const struct part *from)
{
    const enum dtype type = from->of->type;
    for (int64_t r = 0; r < width; r += LANES)
        for (int64_t c = 0; c < from->cols; c += LANES) {
            const int rows = r < from->rows ? lanes(from->rows - r) : 0;
            const int cols = lanes(from->cols - c), keep = lanes(width - r);
            const struct source source = source_of(from, r, c, rows);
            if (rows == LANES && cols == LANES && type == BF16)
                transpose_tile(to + c * step + r, step, &source, BF16, LANES, LANES, LANES);
            else
                transpose_tile(to + c * step + r, step, &source, type, rows, cols, keep);
        }
}

void NAME(pack_panels)(float *to, const struct part *from)
{
    for (int64_t c = 0; c < from->cols; c += PANEL) {
        const int64_t left = from->cols - c;
        const struct part panel = {from->of, from->row, from->rows, from->col + c, left < PANEL ? left : PANEL};
        NAME(pack)(to + c * from->rows, PANEL, PANEL, &panel);
    }
}
