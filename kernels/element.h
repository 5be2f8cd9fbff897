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

/* The number that the low bits of `bits` store as `type`, and the bits that store a number, rounded. */
static inline double element_of_bits(uint64_t bits, enum dtype type)
{
    double value;
    switch (type) {
    case BF16:
        return (double)bf16_to_f32((uint16_t)bits);
    case F32:
        return (double)f32_of_bits((uint32_t)bits);
    case F64:
        memcpy(&value, &bits, sizeof value);
        return value;
    case I32:
        return (double)(int32_t)bits;
    }
    return 0;
}

/* `value` must be in range where the type is I32. */
static inline uint64_t element_rounded(double value, enum dtype type)
{
    uint64_t bits = 0;
    switch (type) {
    case BF16:
        return bf16_of_f32((float)value);
    case F32:
        return f32_bits((float)value);
    case F64:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    case I32:
        return (uint32_t)(int32_t)value;
    }
    return bits;
}

/* The bits of an element as `type`: those that are stored, where nothing is to be rounded. */
static inline uint64_t element_bits(const struct view *v, int64_t row, int64_t col, enum dtype type)
{
    uint64_t bits = 0;
    memcpy(&bits, view_at(v, row, col), dtype_bytes(v->type));
    return v->type == type ? bits : element_rounded(element_of_bits(bits, v->type), type);
}

static inline double element_load(const struct view *v, int64_t row, int64_t col)
{
    return element_of_bits(element_bits(v, row, col, v->type), v->type);
}

static inline void element_store(const struct view *v, int64_t row, int64_t col, double value)
{
    uint64_t bits = element_rounded(value, v->type);
    memcpy(view_at(v, row, col), &bits, dtype_bytes(v->type));
}

#endif
