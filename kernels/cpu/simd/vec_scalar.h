/* vec_scalar.h - vec.h in plain C: the meaning of the other two, and the path of a machine without AVX2. */
#ifndef REMATCH_KERNELS_CPU_SIMD_VEC_SCALAR_H
#define REMATCH_KERNELS_CPU_SIMD_VEC_SCALAR_H

typedef struct {
    float at[16];
} vf;
typedef struct {
    int32_t at[16];
} vi;
typedef uint16_t vm;
typedef struct {
    uint64_t at[8];
} vu;

static inline vf vf_load_part(const float *p, int count)
{
    vf x = {{0}};
    memcpy(x.at, p, (size_t)count * sizeof *p);
    return x;
}
static inline void vf_store_part(float *p, vf x, int count) { memcpy(p, x.at, (size_t)count * sizeof *p); }
static inline vf vf_load(const float *p) { return vf_load_part(p, 16); }
static inline void vf_store(float *p, vf x) { vf_store_part(p, x, 16); }

static inline vf vf_load_bf16_part(const uint16_t *p, int count)
{
    vf x = {{0}};
    for (int i = 0; i < count; i++)
        x.at[i] = bf16_to_f32(p[i]);
    return x;
}
static inline void vf_store_bf16_part(uint16_t *p, vf x, int count)
{
    for (int i = 0; i < count; i++)
        p[i] = bf16_of_f32(x.at[i]);
}
static inline vf vf_load_bf16(const uint16_t *p) { return vf_load_bf16_part(p, 16); }
static inline void vf_store_bf16(uint16_t *p, vf x) { vf_store_bf16_part(p, x, 16); }

/* One function of 16 lanes from an expression of one, in which a, b and c are the operands' lanes. */
#define LANEWISE(name, expression, ...) \
    static inline vf name(__VA_ARGS__)  \
    {                                   \
        vf result;                      \
        for (int i = 0; i < 16; i++)    \
            result.at[i] = expression;  \
        return result;                  \
    }
LANEWISE(vf_set, x, float x)
LANEWISE(vf_add, a.at[i] + b.at[i], vf a, vf b)
LANEWISE(vf_sub, a.at[i] - b.at[i], vf a, vf b)
LANEWISE(vf_mul, a.at[i] * b.at[i], vf a, vf b)
LANEWISE(vf_div, a.at[i] / b.at[i], vf a, vf b)
LANEWISE(vf_sqrt, sqrtf(a.at[i]), vf a)
LANEWISE(vf_fma, fmaf(a.at[i], b.at[i], c.at[i]), vf a, vf b, vf c)
LANEWISE(vf_max, a.at[i] > b.at[i] ? a.at[i] : b.at[i], vf a, vf b)
LANEWISE(vf_min, a.at[i] < b.at[i] ? a.at[i] : b.at[i], vf a, vf b)
/* lane i <-> lane i + 8 */
LANEWISE(vf_swap_halves, x.at[(i + 8) % 16], vf x)
LANEWISE(vf_select, which >> i & 1 ? yes.at[i] : no.at[i], vm which, vf yes, vf no)
#undef LANEWISE

static inline float vf_sum(vf x)
{
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++)
            x.at[i] += x.at[i + width];
    return x.at[0];
}

static inline float vf_largest(vf x)
{
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++)
            x.at[i] = x.at[i] > x.at[i + width] ? x.at[i] : x.at[i + width];
    return x.at[0];
}

static inline vm vf_equal(vf a, vf b)
{
    unsigned bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (unsigned)(a.at[i] == b.at[i]) << i;
    return (vm)bits;
}
static inline unsigned vm_bits(vm which) { return which; }
/* lane >= bound, of 16 unsigned integers */
static inline vm vm_at_least(const uint32_t *p, uint32_t bound)
{
    unsigned bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (unsigned)(p[i] >= bound) << i;
    return (vm)bits;
}

/* Two factors, because 2^n itself may be no binary32 number; the first product is exact. NaN n: p is NaN already. */
static inline vf vf_scale(vf p, vf n)
{
    for (int i = 0; i < 16; i++) {
        int32_t whole = n.at[i] == n.at[i] ? (int32_t)n.at[i] : 0, half = whole >> 1;
        p.at[i] =
            p.at[i] * f32_of_bits((uint32_t)(half + 127) << 23) * f32_of_bits((uint32_t)(whole - half + 127) << 23);
    }
    return p;
}

/* x = m * 2^n with m in [sqrt(1/2), sqrt(2)), for normal positive x */
static inline vf vf_split(vf x, vf *n)
{
    for (int i = 0; i < 16; i++) {
        uint32_t bits = f32_bits(x.at[i]);
        int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
        n->at[i] = (float)exponent;
        x.at[i] = f32_of_bits(bits - ((uint32_t)exponent << 23));
    }
    return x;
}

static inline int32_t whole_toward_zero(float x) { return fabsf(x) < 0x1p31f ? (int32_t)x : INT32_MIN; }
/* To nearest, and one unit back where that went away from zero. */
static inline float binary32_toward_zero(int32_t x)
{
    float nearest = (float)x;
    return fabs((double)nearest) > fabs((double)x) ? f32_of_bits(f32_bits(nearest) - 1) : nearest;
}

#define LANEWISE(type, name, expression, ...) \
    static inline type name(__VA_ARGS__)      \
    {                                         \
        type result;                          \
        for (int i = 0; i < 16; i++)          \
            result.at[i] = expression;        \
        return result;                        \
    }
LANEWISE(vi, vi_set, x, int32_t x)
LANEWISE(vi, vi_bits, (int32_t)f32_bits(x.at[i]), vf x)
LANEWISE(vf, vf_of_bits, f32_of_bits((uint32_t)x.at[i]), vi x)
LANEWISE(vi, vi_and, a.at[i] & b.at[i], vi a, vi b)
LANEWISE(vi, vi_add, (int32_t)((uint32_t)a.at[i] + (uint32_t)b.at[i]), vi a, vi b)
LANEWISE(vi, vi_sub, (int32_t)((uint32_t)a.at[i] - (uint32_t)b.at[i]), vi a, vi b)
LANEWISE(vi, vi_max, a.at[i] > b.at[i] ? a.at[i] : b.at[i], vi a, vi b)
LANEWISE(vi, vi_toward_zero, whole_toward_zero(x.at[i]), vf x)
LANEWISE(vf, vf_toward_zero, binary32_toward_zero(x.at[i]), vi x)
#undef LANEWISE

/* rows -> columns of a 16 x 16 tile, in place */
static inline void vf_transpose(vf r[16])
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++) {
            float swapped = r[i].at[j];
            r[i].at[j] = r[j].at[i];
            r[j].at[i] = swapped;
        }
}

static inline vu vu_load(const void *p)
{
    vu x;
    memcpy(x.at, p, sizeof x.at);
    return x;
}
static inline void vu_store(void *p, vu x) { memcpy(p, x.at, sizeof x.at); }

#define LANEWISE(name, expression, ...) \
    static inline vu name(__VA_ARGS__)  \
    {                                   \
        vu result;                      \
        for (int i = 0; i < 8; i++)     \
            result.at[i] = expression;  \
        return result;                  \
    }
LANEWISE(vu_set, x, uint64_t x)
LANEWISE(vu_add, a.at[i] + b.at[i], vu a, vu b)
LANEWISE(vu_xor, a.at[i] ^ b.at[i], vu a, vu b)
/* product of the low halves */
LANEWISE(vu_mul_low, (a.at[i] & 0xffffffffu) * (b.at[i] & 0xffffffffu), vu a, vu b)
LANEWISE(vu_high, a.at[i] >> 32, vu a)
LANEWISE(vu_rotl17, a.at[i] << 17 | a.at[i] >> 47, vu a)
LANEWISE(vu_rotl32, a.at[i] << 32 | a.at[i] >> 32, vu a)
/* low half of a, low half of b above it */
LANEWISE(vu_join_low, (a.at[i] & 0xffffffffu) | b.at[i] << 32, vu a, vu b)
#undef LANEWISE

/* a0 b0 a1 b1 ... */
static inline void vu_store_interleaved(void *p, vu a, vu b)
{
    uint64_t all[16];
    for (int i = 0; i < 8; i++) {
        all[2 * i] = a.at[i];
        all[2 * i + 1] = b.at[i];
    }
    memcpy(p, all, sizeof all);
}

#endif
