/* philox.h - counter-based randomness: Philox4x32-10.
 *
 * Nothing is saved or restored: a value is a pure function of (seed, step, layer, site, element), so the recompute
 * draws what the first forward drew, whatever the order of execution.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; checked against Random123's vectors.
 */
#ifndef REMATCH_KERNELS_PHILOX_H
#define REMATCH_KERNELS_PHILOX_H

#include <stdint.h>

/* out[0..3] = Philox4x32-10(counter, key). */
static inline void philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Where a draw belongs. Element e of a site is word e % 4 of the block with counter
 * {low(e / 4), high(e / 4), layer << 8 | site, step} under key = seed. */
struct random_site {
    uint64_t seed;
    uint32_t step, layer, site;
};

static inline void philox_block(uint32_t out[4], const struct random_site *where, uint64_t block)
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), where->layer << 8 | where->site,
                                 where->step};
    const uint32_t key[2] = {(uint32_t)where->seed, (uint32_t)(where->seed >> 32)};
    philox4x32(out, counter, key);
}

/* One 64-bit draw at a site, for what needs a number and not a stream (shuffles, reduction orders). */
static inline uint64_t philox_u64(const struct random_site *where, uint64_t block)
{
    uint32_t out[4];
    philox_block(out, where, block);
    return (uint64_t)out[1] << 32 | out[0];
}

#endif
