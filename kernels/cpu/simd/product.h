/* product.h - the one inner loop of GEMM and attention: a block of C from a few rows of A and some columns of B. */
#ifndef REMATCH_KERNELS_CPU_SIMD_PRODUCT_H
#define REMATCH_KERNELS_CPU_SIMD_PRODUCT_H

#include "kernels/cpu/simd/pack.h"

/* Every element is summed from zero, k ascending, one fused multiply-add each, and the sum is then added to what c
 * holds (`add`) or to zero. Or the sum goes on from what c holds (`resume`). Bits do not depend on how a block is cut
 * into register tiles.
 *   a: element (i, p) at a[p * a_step + i]: lines; or with `a_by_rows` at a[p / 32 * a_step + i * 32 + p % 32]: panels
 *   b: element (p, j) at b[p * b_step + j]     c: element (i, j) at c[i * c_step + j] */
struct product {
    int64_t rows, k;
    int width; /* columns: LANES or PANEL */
    const float *a;
    int64_t a_step;
    bool a_by_rows;
    const float *b;
    int64_t b_step;
    float *c;
    int64_t c_step;
    bool add, resume;
    enum plan_rounding rounding; /* ROUND_TRUNCATE: summed in groups instead, see plan.h */
};

void NAME(product)(const struct product *p);

/* The same where rounding is ROUND_TRUNCATE; a sum that goes on from c does so behind whole groups. */
void NAME(product_truncating)(const struct product *p);

/* Stores up to 16 results of a plan, cut toward zero where they are BF16 and the plan says so. */
static inline void put_result(void *row, enum dtype type, int64_t i, int count, vf x, enum plan_rounding rounding)
{
    if (type == BF16 && rounding == ROUND_TO_ZERO)
        x = vf_cut(x);
    vf_put(row, type, i, count, x);
}

/* Rows of a strip that register tiles cover without waste. */
#if defined __AVX512F__
enum { STRIP = 14 };
#elif defined __AVX2__
enum { STRIP = 12 };
#else
enum { STRIP = 16 };
#endif

#endif
