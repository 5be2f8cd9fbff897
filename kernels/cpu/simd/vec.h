/* vec.h - the vector type that every CPU kernel is written on: 16 binary32 lanes, and 8 lanes of 64-bit integers.
 *
 * Three implementations with the same meaning, chosen by what the file is compiled for, so that a kernel written once
 * gives the same bits on AVX-512, on AVX2 and in plain C:
 *   vf   16 binary32 lanes          vm   one truth value per lane of a vf          vu   8 uint64_t lanes
 *   vi   16 int32_t lanes, which wrap around
 *   vf_fma          one rounding (plain C calls fmaf)
 *   vf_max, vf_min  a > b ? a : b and a < b ? a : b, lane by lane: of a NaN and a number, the second operand
 *   vf_sum, vf_largest   lane i joins lane i + 8, then 4, 2 and 1 (plan.h)
 *   vf_scale        p * 2^n rounded once, for whole n of magnitude up to 252
 *   vi_toward_zero  whole numbers of magnitude below 2^31; of others the result is unspecified, and no error
 *   vf_toward_zero  likewise of magnitude up to 2^31 - 2^7, cut to binary32
 *   bf16            by integer arithmetic as tensor.h defines it (the native conversion flushes denormals)
 * `_part` touches only the first `count` lanes in memory, 1 <= count <= 16; lanes that are not loaded are zero.
 * Which operations give a NaN is the same everywhere; the sign and payload of an *arithmetic* NaN are the machine's.
 */
#ifndef REMATCH_KERNELS_CPU_SIMD_VEC_H
#define REMATCH_KERNELS_CPU_SIMD_VEC_H

#include <math.h>
#include <stdint.h>

#include "kernels/tensor.h"

enum { LANES = 16, WORD_LANES = 8 };

#if defined __AVX512F__
#include "kernels/cpu/simd/vec_avx512.h"
#elif defined __AVX2__
#include "kernels/cpu/simd/vec_avx2.h"
#else
#include "kernels/cpu/simd/vec_scalar.h"
#endif

static inline vf vf_zero(void) { return vf_set(0.0f); }

/* Cut to BF16, toward zero; a NaN stays as it is. */
static inline vf vf_cut(vf x)
{
    vf cut = vf_of_bits(vi_and(vi_bits(x), vi_set(-0x10000)));
    return vf_select(vf_equal(x, x), cut, x);
}

/* Lanes of the next step through a row of which `left` elements are left. */
static inline int lanes(int64_t left) { return left < LANES ? (int)left : LANES; }

/* `count` lanes from element i of a BF16 or F32 row, and back. */
static inline vf vf_get(const void *row, enum dtype type, int64_t i, int count)
{
    if (type == BF16) {
        const uint16_t *p = (const uint16_t *)row + i;
        return count == LANES ? vf_load_bf16(p) : vf_load_bf16_part(p, count);
    }
    const float *p = (const float *)row + i;
    return count == LANES ? vf_load(p) : vf_load_part(p, count);
}

static inline void vf_put(void *row, enum dtype type, int64_t i, int count, vf x)
{
    if (type == BF16) {
        uint16_t *p = (uint16_t *)row + i;
        count == LANES ? vf_store_bf16(p, x) : vf_store_bf16_part(p, x, count);
        return;
    }
    float *p = (float *)row + i;
    count == LANES ? vf_store(p, x) : vf_store_part(p, x, count);
}

#endif
