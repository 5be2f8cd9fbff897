/* vec_avx2.h - vec.h on AVX2 and FMA: a vf is a pair of registers. */
#ifndef REMATCH_KERNELS_CPU_SIMD_VEC_AVX2_H
#define REMATCH_KERNELS_CPU_SIMD_VEC_AVX2_H

#include <immintrin.h>

typedef struct {
    __m256 low, high;
} vf;
typedef vf vm; /* all bits of a lane set: true */
typedef struct {
    __m256i low, high;
} vu;
typedef vu vi;

static inline vf pair(__m256 low, __m256 high) { return (vf){low, high}; }

static inline vf vf_set(float x) { return pair(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
static inline vf vf_load(const float *p) { return pair(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
static inline void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}

/* Masks of the first `count` of 8 lanes, count < 0 as 0 and > 8 as 8. */
static inline __m256i first_lanes(int count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_load_part(const float *p, int count)
{
    return pair(_mm256_maskload_ps(p, first_lanes(count)), _mm256_maskload_ps(p + 8, first_lanes(count - 8)));
}
static inline void vf_store_part(float *p, vf x, int count)
{
    _mm256_maskstore_ps(p, first_lanes(count), x.low);
    _mm256_maskstore_ps(p + 8, first_lanes(count - 8), x.high);
}

static inline __m256 widen(__m128i half)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* The 8 results as 32-bit integers below 2^16. */
static inline __m256i narrow(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    return pair(widen(_mm_loadu_si128((const __m128i *)p)), widen(_mm_loadu_si128((const __m128i *)(p + 8))));
}
static inline void vf_store_bf16(uint16_t *p, vf x)
{
    __m256i mixed = _mm256_packus_epi32(narrow(x.low), narrow(x.high));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(mixed, 0xd8));
}
static inline vf vf_load_bf16_part(const uint16_t *p, int count)
{
    uint16_t all[16] = {0};
    memcpy(all, p, (size_t)count * sizeof *p);
    return vf_load_bf16(all);
}
static inline void vf_store_bf16_part(uint16_t *p, vf x, int count)
{
    uint16_t all[16];
    vf_store_bf16(all, x);
    memcpy(p, all, (size_t)count * sizeof *p);
}

static inline vf vf_add(vf a, vf b) { return pair(_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)); }
static inline vf vf_sub(vf a, vf b) { return pair(_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)); }
static inline vf vf_mul(vf a, vf b) { return pair(_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)); }
static inline vf vf_div(vf a, vf b) { return pair(_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)); }
static inline vf vf_sqrt(vf a) { return pair(_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)); }
static inline vf vf_max(vf a, vf b) { return pair(_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)); }
static inline vf vf_min(vf a, vf b) { return pair(_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)); }
static inline vf vf_fma(vf a, vf b, vf c)
{
    return pair(_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high));
}

static inline float vf_sum(vf x)
{
    __m256 eight = _mm256_add_ps(x.low, x.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vf_largest(vf x)
{
    __m256 eight = _mm256_max_ps(x.low, x.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* lane i <-> lane i + 8 */
static inline vf vf_swap_halves(vf x) { return pair(x.high, x.low); }

static inline vm vf_equal(vf a, vf b)
{
    return pair(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ));
}
static inline vf vf_select(vm which, vf yes, vf no)
{
    return pair(_mm256_blendv_ps(no.low, yes.low, which.low), _mm256_blendv_ps(no.high, yes.high, which.high));
}
static inline unsigned vm_bits(vm which)
{
    return (unsigned)_mm256_movemask_ps(which.low) | (unsigned)_mm256_movemask_ps(which.high) << 8;
}

static inline __m256 at_least(const uint32_t *p, __m256i bound)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)p);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(x, bound), x));
}
/* lane >= bound, of 16 unsigned integers */
static inline vm vm_at_least(const uint32_t *p, uint32_t bound)
{
    __m256i all = _mm256_set1_epi32((int)bound);
    return pair(at_least(p, all), at_least(p + 8, all));
}

/* Two factors, because 2^n itself may be no binary32 number; the first product is exact. */
static inline __m256 scale(__m256 p, __m256 n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
static inline vf vf_scale(vf p, vf n) { return pair(scale(p.low, n.low), scale(p.high, n.high)); }

static inline __m256 split(__m256 x, __m256 *n)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i exponent = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f3504f3)), 23);
    *n = _mm256_cvtepi32_ps(exponent);
    return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(exponent, 23)));
}
/* x = m * 2^n with m in [sqrt(1/2), sqrt(2)), for normal positive x */
static inline vf vf_split(vf x, vf *n) { return pair(split(x.low, &n->low), split(x.high, &n->high)); }

static inline void transpose8(__m256 r[8])
{
    __m256 t[8];
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            __m256 a = half ? _mm256_unpackhi_ps(r[i], r[i + 1]) : _mm256_unpacklo_ps(r[i], r[i + 1]);
            __m256 b = half ? _mm256_unpackhi_ps(r[i + 2], r[i + 3]) : _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
            t[i + 2 * half] = _mm256_shuffle_ps(a, b, 0x44);
            t[i + 2 * half + 1] = _mm256_shuffle_ps(a, b, 0xee);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

static inline vi ipair(__m256i low, __m256i high) { return (vi){low, high}; }
static inline vi vi_set(int32_t x) { return ipair(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
static inline vi vi_bits(vf x) { return ipair(_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)); }
static inline vf vf_of_bits(vi x) { return pair(_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)); }
static inline vi vi_and(vi a, vi b) { return ipair(_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)); }
static inline vi vi_add(vi a, vi b) { return ipair(_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)); }
static inline vi vi_sub(vi a, vi b) { return ipair(_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)); }
static inline vi vi_max(vi a, vi b) { return ipair(_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)); }
static inline vi vi_toward_zero(vf x) { return ipair(_mm256_cvttps_epi32(x.low), _mm256_cvttps_epi32(x.high)); }
/* To nearest, and one unit back where that went away from zero. */
static inline __m256 toward_zero(__m256i x)
{
    __m256 nearest = _mm256_cvtepi32_ps(x);
    __m256i beyond = _mm256_cmpgt_epi32(_mm256_abs_epi32(_mm256_cvttps_epi32(nearest)), _mm256_abs_epi32(x));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(nearest), beyond));
}
static inline vf vf_toward_zero(vi x) { return pair(toward_zero(x.low), toward_zero(x.high)); }

/* rows -> columns of a 16 x 16 tile, in place, as four tiles of 8 x 8 */
static inline void vf_transpose(vf r[16])
{
    __m256 quarter[2][2][8];
    for (int i = 0; i < 16; i++) {
        quarter[i / 8][0][i % 8] = r[i].low;
        quarter[i / 8][1][i % 8] = r[i].high;
    }
    for (int i = 0; i < 4; i++)
        transpose8(quarter[i / 2][i % 2]);
    for (int i = 0; i < 16; i++)
        r[i] = pair(quarter[0][i / 8][i % 8], quarter[1][i / 8][i % 8]);
}

static inline vu vu_set(uint64_t x) { return (vu){_mm256_set1_epi64x((long long)x), _mm256_set1_epi64x((long long)x)}; }
static inline vu vu_load(const void *p)
{
    const __m256i *words = p;
    return (vu){_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
}
static inline void vu_store(void *p, vu x)
{
    __m256i *words = p;
    _mm256_storeu_si256(words, x.low);
    _mm256_storeu_si256(words + 1, x.high);
}
static inline vu vu_add(vu a, vu b) { return (vu){_mm256_add_epi64(a.low, b.low), _mm256_add_epi64(a.high, b.high)}; }
static inline vu vu_xor(vu a, vu b) { return (vu){_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)}; }
/* product of the low halves */
static inline vu vu_mul_low(vu a, vu b)
{
    return (vu){_mm256_mul_epu32(a.low, b.low), _mm256_mul_epu32(a.high, b.high)};
}
static inline vu vu_high(vu a) { return (vu){_mm256_srli_epi64(a.low, 32), _mm256_srli_epi64(a.high, 32)}; }
static inline __m256i rotl17(__m256i a) { return _mm256_or_si256(_mm256_slli_epi64(a, 17), _mm256_srli_epi64(a, 47)); }
static inline vu vu_rotl17(vu a) { return (vu){rotl17(a.low), rotl17(a.high)}; }
static inline vu vu_rotl32(vu a) { return (vu){_mm256_shuffle_epi32(a.low, 0xb1), _mm256_shuffle_epi32(a.high, 0xb1)}; }
static inline __m256i join_low(__m256i a, __m256i b) { return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa); }
/* low half of a, low half of b above it */
static inline vu vu_join_low(vu a, vu b) { return (vu){join_low(a.low, b.low), join_low(a.high, b.high)}; }
static inline void interleave(void *p, __m256i a, __m256i b)
{
    __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    vu_store(p, (vu){_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)});
}
/* a0 b0 a1 b1 ... */
static inline void vu_store_interleaved(void *p, vu a, vu b)
{
    interleave(p, a.low, b.low);
    interleave((char *)p + 64, a.high, b.high);
}

#endif
