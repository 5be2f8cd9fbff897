/* tensor.h - the view: how every op sees its operands.
 *
 * A view is a matrix of rows x cols elements of one storage type, rows `stride` elements apart. Activations of shape
 * (B,T,C) are (B*T, C); a slice of columns (the q part of a fused qkv) is the same data with fewer columns. Storage
 * type is a property of the view, never of the op's name.
 *
 * Memory: a view owns nothing.
 */
#ifndef REMATCH_KERNELS_TENSOR_H
#define REMATCH_KERNELS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype { BF16, F32, F64, I32 };

struct view {
    void *data;
    enum dtype type;
    int64_t rows, cols, stride;
};

static inline size_t dtype_bytes(enum dtype type) { return type == BF16 ? 2 : type == F64 ? 8 : 4; }

/* "BF16", "F32", "F64", "I32": the names that safetensors uses. */
static inline const char *dtype_name(enum dtype type)
{
    static const char *const names[] = {"BF16", "F32", "F64", "I32"};
    return names[type];
}

static inline struct view view_of(void *data, enum dtype type, int64_t rows, int64_t cols)
{
    struct view v = {data, type, rows, cols, cols};
    return v;
}

static inline void *view_at(const struct view *v, int64_t row, int64_t col)
{
    return (char *)v->data + (size_t)(row * v->stride + col) * dtype_bytes(v->type);
}

/* Columns [first, first + count), all rows; rows [first, first + count), all columns. */
static inline struct view view_cols(const struct view *v, int64_t first, int64_t count)
{
    struct view part = {view_at(v, 0, first), v->type, v->rows, count, v->stride};
    return part;
}

static inline struct view view_rows(const struct view *v, int64_t first, int64_t count)
{
    struct view part = {view_at(v, first, 0), v->type, count, v->cols, v->stride};
    return part;
}

/* Bytes of a view whose rows are packed. */
static inline size_t view_bytes(const struct view *v) { return (size_t)(v->rows * v->cols) * dtype_bytes(v->type); }

/* BF16 is the upper half of binary32. Rounding is to nearest, ties to even; denormals are kept; a NaN stays a NaN
 * (quiet, sign and upper payload kept). Every backend agrees on this, element by element. */
static inline float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bf16_to_f32(uint16_t half) { return f32_of_bits((uint32_t)half << 16); }

static inline uint16_t bf16_of_f32(float value)
{
    uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x0040u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
