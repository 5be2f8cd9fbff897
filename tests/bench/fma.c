/* Compiled once per instruction set, like kernels/cpu/simd/, on the same vector type. */
#include "tests/bench/fma.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* Enough chains to hide four or five cycles of latency on two ports, few enough for the registers. */
#if defined(__AVX512F__)
enum { CHAINS = 12 };
#else
enum { CHAINS = 6 };
#endif

double NAME(fma)(int64_t turns, float *sink)
{
    vf chain[CHAINS], a = vf_set(*sink), b = vf_set(1e-9f);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = vf_set((float)i);
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < CHAINS; i++)
            chain[i] = vf_fma(a, b, chain[i]);
    vf sum = chain[0];
    for (int i = 1; i < CHAINS; i++)
        sum = vf_add(sum, chain[i]);
    *sink = vf_sum(sum);
    return 2.0 * 16 * CHAINS * (double)turns;
}
