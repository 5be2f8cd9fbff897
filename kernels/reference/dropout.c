/* Hidden dropout: the mask is a pure function of the site and of an element's global position. */
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* 1 / (1 - p) where the element is kept, else 0. */
static double mask(const struct random_site *where, int64_t row_id, int64_t cols, int64_t col, float p)
{
    const uint64_t element = (uint64_t)(row_id * cols + col);
    uint32_t word[4];
    philox_block(word, where, element / 4);
    return word[element % 4] >= (double)p * 0x1p32 ? 1 / (1 - (double)p) : 0;
}

status reference_dropout_add(struct device *d, const struct view *y, const struct view *residual, const struct view *x,
                             float p, const struct random_site *where, const int64_t *row_id)
{
    (void)d;
    TRY(check_dropout("dropout_add", y, residual, x, p));
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++) {
            const double base = residual ? element_load(residual, r, c) : 0;
            element_store(y, r, c, base + mask(where, row_id[r], y->cols, c, p) * element_load(x, r, c));
        }
    return OK;
}

status reference_dropout_backward(struct device *d, const struct view *dx, const struct view *dy, float p,
                                  const struct random_site *where, const int64_t *row_id)
{
    (void)d;
    TRY(check_dropout("dropout_backward", dx, NULL, dy, p));
    for (int64_t r = 0; r < dx->rows; r++)
        for (int64_t c = 0; c < dx->cols; c++)
            element_store(dx, r, c, mask(where, row_id[r], dx->cols, c, p) * element_load(dy, r, c));
    return OK;
}
