/* vecmath.h - exponential and logarithm on vec.h, because those of libm differ from CPU to CPU.
 *
 * Accuracy over all binary32 arguments (sampled every 67th), denormal results included, in units in the last place:
 * vf_exp2 1.0, vf_exp 1.2, vf_log 0.9. Coefficients: minimax polynomial for the relative error of 2^f on [-1/2, 1/2] with p(0) = 1; the series
 * of atanh for the logarithm (as in Sun's fdlibm: log(1+f) = f - (f^2/2 - s (f^2/2 + R(s^2))), s = f / (2 + f)).
 */
#ifndef REMATCH_KERNELS_CPU_SIMD_VECMATH_H
#define REMATCH_KERNELS_CPU_SIMD_VECMATH_H

#include "kernels/cpu/simd/vec.h"

/* To the nearest whole number, for |x| < 2^22. */
static inline vf vf_round(vf x)
{
    const vf magic = vf_set(0x1.8p23f);
    return vf_sub(vf_add(x, magic), magic);
}

/* 2^(n + f) for whole n and |f| <= 1/2 */
static inline vf exp2_of(vf n, vf f)
{
    vf p = vf_set(0x1.41fbbap-13f);
    p = vf_fma(p, f, vf_set(0x1.5f3e52p-10f));
    p = vf_fma(p, f, vf_set(0x1.3b2d4cp-7f));
    p = vf_fma(p, f, vf_set(0x1.c6aee8p-5f));
    p = vf_fma(p, f, vf_set(0x1.ebfbdcp-3f));
    p = vf_fma(p, f, vf_set(0x1.62e430p-1f));
    p = vf_fma(p, f, vf_set(1.0f));
    return vf_scale(p, n);
}

/* Bounds beyond which 2^x is 0 and infinity; a NaN passes, being the second operand. */
static inline vf clamp(vf x, float low, float high) { return vf_min(vf_set(high), vf_max(vf_set(low), x)); }

static inline vf vf_exp2(vf x)
{
    x = clamp(x, -152.0f, 129.0f);
    vf n = vf_round(x);
    return exp2_of(n, vf_sub(x, n));
}

static inline vf vf_exp(vf x)
{
    x = clamp(x, -105.0f, 89.0f);
    const vf log2e = vf_set(0x1.715476p0f), log2e_rest = vf_set(0x1.4ae0c0p-26f);
    vf n = vf_round(vf_mul(x, log2e));
    return exp2_of(n, vf_fma(x, log2e_rest, vf_fma(x, log2e, vf_sub(vf_zero(), n))));
}

/* For normal positive x; NaN for infinity and NaN. */
static inline vf vf_log(vf x)
{
    vf n, f = vf_sub(vf_split(x, &n), vf_set(1.0f));
    vf s = vf_div(f, vf_add(vf_set(2.0f), f)), z = vf_mul(s, s);
    vf r = vf_set(0x1.c71c72p-3f);            /* 2/9 */
    r = vf_fma(r, z, vf_set(0x1.24924ap-2f)); /* 2/7 */
    r = vf_fma(r, z, vf_set(0x1.99999ap-2f)); /* 2/5 */
    r = vf_fma(r, z, vf_set(0x1.555556p-1f)); /* 2/3 */
    vf half_square = vf_mul(vf_set(0.5f), vf_mul(f, f));
    vf minus = vf_sub(half_square, vf_mul(s, vf_fma(r, z, half_square)));
    /* ln 2 in two parts: the first has few enough digits for its product with n to be exact */
    vf low = vf_fma(n, vf_set(0x1.7f7d1cp-20f), vf_sub(vf_zero(), minus));
    vf log = vf_fma(n, vf_set(0x1.62e400p-1f), vf_add(f, low));
    return vf_add(log, vf_sub(x, x));
}

#endif
