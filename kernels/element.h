/* element.h - one element of a view as a double, whatever its storage.
 *
 * Loading is exact. Storing rounds a double to binary32, to nearest even, and a BF16 element from there: a result *is* a
 * binary32 number (ops.h) before it is stored. So an op that is a single +, -, *, / or square root of stored values
 * gives the bits of binary32 arithmetic here too, because rounding such a result through binary64 is harmless (53 >=
 * 2*24 + 2; Figueroa, "When is double rounding innocuous?", SIGNUM 1995).
 */
#ifndef REMATCH_KERNELS_ELEMENT_H
#define REMATCH_KERNELS_ELEMENT_H

#include "kernels/tensor.h"

static inline double element_load(const struct view *v, int64_t row, int64_t col)
{
    const void *at = view_at(v, row, col);
    switch (v->type) {
    case BF16:
        return (double)bf16_to_f32(*(const uint16_t *)at);
    case F32:
        return (double)*(const float *)at;
    case F64:
        return *(const double *)at;
    case I32:
        return (double)*(const int32_t *)at;
    }
    return 0;
}

/* `value` must be in range where the view is I32. */
static inline void element_store(const struct view *v, int64_t row, int64_t col, double value)
{
    void *at = view_at(v, row, col);
    switch (v->type) {
    case BF16:
        *(uint16_t *)at = bf16_of_f32((float)value);
        return;
    case F32:
        *(float *)at = (float)value;
        return;
    case F64:
        *(double *)at = value;
        return;
    case I32:
        *(int32_t *)at = (int32_t)value;
        return;
    }
}

/* The storage bits of an element as `type`: those that are stored where nothing is to be rounded. */
static inline __attribute__((always_inline)) uint64_t element_bits(const struct view *v, int64_t row, int64_t col,
                                                                   enum dtype type)
{
    uint64_t bits = 0;
    const struct view rounded = view_of(&bits, type, 1, 1);
    if (v->type == type)
        memcpy(&bits, view_at(v, row, col), dtype_bytes(type));
    else
        element_store(&rounded, 0, 0, element_load(v, row, col));
    return bits;
}

#endif
