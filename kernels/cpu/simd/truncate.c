/* The product as tensor cores sum it: groups of products cut to multiples of one quantum (plan.h). In that quantum the
 * terms are whole numbers below 2^26 and 17 of them add up to less than 2^31, so the sum is 32-bit integer arithmetic. */
#include "kernels/cpu/simd/product.h"

/* Exponents as binary32 holds them: of 1, and of the least largest term that is told apart (its quantum is 2^-126). */
enum { BIAS = 127, QUANTUM_BITS = 23 + TRUNCATE_EXTRA_BITS, LEAST = BIAS - 126 + QUANTUM_BITS };

static inline vi at_exponent(int biased) { return vi_set((int32_t)((uint32_t)biased << 23)); }

static inline __attribute__((always_inline)) vf add_group(vf sum, const vf product[TRUNCATE_GROUP])
{
    const vi magnitude = vi_set(INT32_MAX);
    vi largest = vi_and(vi_bits(sum), magnitude);
#pragma GCC unroll 16
    for (int i = 0; i < TRUNCATE_GROUP; i++)
        largest = vi_max(largest, vi_and(vi_bits(product[i]), magnitude));
    const vi power = vi_max(vi_and(largest, vi_set(0x7f800000)), at_exponent(LEAST));
    const vf quantum = vf_of_bits(vi_sub(power, at_exponent(QUANTUM_BITS)));
    const vf per_quantum = vf_of_bits(vi_sub(at_exponent(2 * BIAS + QUANTUM_BITS), power));
    vi total = vi_toward_zero(vf_mul(sum, per_quantum));
#pragma GCC unroll 16
    for (int i = 0; i < TRUNCATE_GROUP; i++)
        total = vi_add(total, vi_toward_zero(vf_mul(product[i], per_quantum)));
    const vf cut = vf_mul(vf_toward_zero(total), quantum), most = vf_of_bits(largest);
    const vm finite = vf_equal(vf_sub(most, most), vf_zero());
    if (vm_bits(finite) == 0xffff)
        return cut;
    for (int i = 0; i < TRUNCATE_GROUP; i++)
        sum = vf_add(sum, product[i]);
    return vf_select(finite, cut, sum);
}

/* The products of elements [first, first + count) of k; zeros behind them change no sum. */
static inline __attribute__((always_inline)) vf take_group(vf sum, const struct product *p, const bool by_rows,
                                                           const float *a, const float *b, int64_t first, int count)
{
    const int64_t step = by_rows ? 1 : p->a_step;
    vf product[TRUNCATE_GROUP];
    a += by_rows ? first / PANEL * p->a_step + first % PANEL : first * p->a_step;
    b += first * p->b_step;
#pragma GCC unroll 16
    for (int i = 0; i < TRUNCATE_GROUP; i++)
        product[i] = i < count ? vf_mul(vf_set(a[i * step]), vf_load(b + i * p->b_step)) : vf_zero();
    return add_group(sum, product);
}

/* by_rows is a constant where this is expanded, and so is the length of all groups but the last. */
static inline __attribute__((always_inline)) void sum_groups(const struct product *p, const bool by_rows)
{
    const int64_t whole = p->k / TRUNCATE_GROUP * TRUNCATE_GROUP;
    for (int64_t row = 0; row < p->rows; row++)
        for (int column = 0; column < p->width; column += LANES) {
            const float *a = p->a + (by_rows ? row * PANEL : row), *b = p->b + column;
            float *c = p->c + row * p->c_step + column;
            vf sum = p->resume ? vf_load(c) : vf_zero();
            for (int64_t first = 0; first < whole; first += TRUNCATE_GROUP)
                sum = take_group(sum, p, by_rows, a, b, first, TRUNCATE_GROUP);
            if (whole < p->k)
                sum = take_group(sum, p, by_rows, a, b, whole, (int)(p->k - whole));
            vf_store(c, vf_add(p->add ? vf_load(c) : vf_zero(), sum));
        }
}

void NAME(product_truncating)(const struct product *p)
{
    if (p->a_by_rows)
        sum_groups(p, true);
    else
        sum_groups(p, false);
}
