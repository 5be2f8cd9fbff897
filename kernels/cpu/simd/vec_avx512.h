/* vec_avx512.h - vec.h on AVX-512 (F, BW, DQ, VL): a vf is one register, a vm a mask register. */
#ifndef REMATCH_KERNELS_CPU_SIMD_VEC_AVX512_H
#define REMATCH_KERNELS_CPU_SIMD_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vf;
typedef __mmask16 vm;
typedef __m512i vu;
typedef __m512i vi;

static inline __mmask16 first_lanes(int count) { return (__mmask16)((1u << count) - 1); }

static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline vf vf_load_part(const float *p, int count) { return _mm512_maskz_loadu_ps(first_lanes(count), p); }
static inline void vf_store_part(float *p, vf x, int count) { _mm512_mask_storeu_ps(p, first_lanes(count), x); }

static inline vf widen(__m256i half) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)); }

static inline __m256i narrow(vf x)
{
    __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
}

static inline vf vf_load_bf16(const uint16_t *p) { return widen(_mm256_loadu_si256((const __m256i *)p)); }
static inline void vf_store_bf16(uint16_t *p, vf x) { _mm256_storeu_si256((__m256i *)p, narrow(x)); }
static inline vf vf_load_bf16_part(const uint16_t *p, int count)
{
    return widen(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
static inline void vf_store_bf16_part(uint16_t *p, vf x, int count)
{
    _mm256_mask_storeu_epi16(p, first_lanes(count), narrow(x));
}

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }

static inline float vf_sum(vf x)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vf_largest(vf x)
{
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* lane i <-> lane i + 8 */
static inline vf vf_swap_halves(vf x) { return _mm512_shuffle_f32x4(x, x, 0x4e); }

static inline vm vf_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vf vf_select(vm which, vf yes, vf no) { return _mm512_mask_blend_ps(which, no, yes); }
static inline unsigned vm_bits(vm which) { return which; }
/* lane >= bound, of 16 unsigned integers */
static inline vm vm_at_least(const uint32_t *p, uint32_t bound)
{
    return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(p), _mm512_set1_epi32((int)bound));
}

static inline vf vf_scale(vf p, vf n) { return _mm512_scalef_ps(p, n); }

/* x = m * 2^n with m in [sqrt(1/2), sqrt(2)), for normal positive x */
static inline vf vf_split(vf x, vf *n)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i exponent = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(0x3f3504f3)), 23);
    *n = _mm512_cvtepi32_ps(exponent);
    return _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(exponent, 23)));
}

static inline vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline vi vi_bits(vf x) { return _mm512_castps_si512(x); }
static inline vf vf_of_bits(vi x) { return _mm512_castsi512_ps(x); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
static inline vi vi_toward_zero(vf x) { return _mm512_cvttps_epi32(x); }
static inline vf vf_toward_zero(vi x) { return _mm512_cvt_roundepi32_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

/* rows -> columns of a 16 x 16 tile, in place */
static inline void vf_transpose(vf r[16])
{
    vf t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int half = 0; half < 2; half++) {
            __m512d a = _mm512_castps_pd(t[i + half]), b = _mm512_castps_pd(t[i + 2 + half]);
            r[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < 2; half++) {
            t[8 * half + i] = _mm512_shuffle_f32x4(r[8 * half + i], r[8 * half + 4 + i], 0x88);
            t[8 * half + 4 + i] = _mm512_shuffle_f32x4(r[8 * half + i], r[8 * half + 4 + i], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
    }
}

static inline vu vu_set(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static inline vu vu_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void vu_store(void *p, vu x) { _mm512_storeu_si512(p, x); }
static inline vu vu_add(vu a, vu b) { return _mm512_add_epi64(a, b); }
static inline vu vu_xor(vu a, vu b) { return _mm512_xor_si512(a, b); }
/* product of the low halves */
static inline vu vu_mul_low(vu a, vu b) { return _mm512_mul_epu32(a, b); }
static inline vu vu_high(vu a) { return _mm512_srli_epi64(a, 32); }
static inline vu vu_rotl17(vu a) { return _mm512_rol_epi64(a, 17); }
static inline vu vu_rotl32(vu a) { return _mm512_shuffle_epi32(a, _MM_PERM_CDAB); }
/* low half of a, low half of b above it */
static inline vu vu_join_low(vu a, vu b) { return _mm512_mask_shuffle_epi32(a, 0xaaaa, b, _MM_PERM_CCAA); }
/* a0 b0 a1 b1 ... */
static inline void vu_store_interleaved(void *p, vu a, vu b)
{
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    vu_store(p, _mm512_permutex2var_epi64(a, low, b));
    vu_store((char *)p + 64, _mm512_permutex2var_epi64(a, high, b));
}

#endif
