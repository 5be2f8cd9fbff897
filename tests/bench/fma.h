/* fma.h - as many fused multiply-adds as the machine can do: the ceiling of everything that multiplies. */
#ifndef REMATCH_TESTS_BENCH_FMA_H
#define REMATCH_TESTS_BENCH_FMA_H

#include <stdint.h>

/* `turns` turns of independent vector FMAs on the calling thread. Returns the flop; *sink keeps them from being left out.
 */
typedef double fma_loop(int64_t turns, float *sink);

fma_loop fma_avx512, fma_avx2, fma_scalar;

#endif
