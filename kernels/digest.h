/* digest.h - the digest that certificates are made of, and its one definition.
 *
 * Two 64-bit lanes, sums modulo 2^64 over 64-bit words of a tensor, each word keyed by its global position. So the
 * digest does not depend on tiles, threads or ranks, digests of disjoint parts add up, and CPU and CUDA agree.
 *   word j of global row r: the storage bytes of elements [j*e, (j+1)*e) of the row, little-endian, e = 8 / element
 *   bytes, zero-padded at the end of the row.
 *   key  k(r,j) = mix(r + 1) ^ mix(~j)             mix: the splitmix64 finaliser
 *   x = word ^ k,  y = word ^ rotl(k, 17)
 *   lane0 += low32(x) * high32(x) + word,  lane1 += low32(y) * high32(y) + rotl(word, 32)
 * A single changed bit always changes a lane: the product's change would have to cancel the word's own term in both.
 * Source of the multiply-add form: NH (Black et al., UMAC, 1999) as used by XXH3. Not cryptographic.
 */
#ifndef REMATCH_KERNELS_DIGEST_H
#define REMATCH_KERNELS_DIGEST_H

#include <stdint.h>

/* Rows per tile: partial sums of this many consecutive local rows stay apart, to locate a mismatch. */
enum { DIGEST_TILE_ROWS = 64 };

struct digest {
    uint64_t lane[2];
};

static inline int64_t digest_tiles(int64_t rows) { return (rows + DIGEST_TILE_ROWS - 1) / DIGEST_TILE_ROWS; }

static inline uint64_t digest_rotl(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline uint64_t digest_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static inline uint64_t digest_row_key(int64_t row) { return digest_mix((uint64_t)row + 1); }

static inline uint64_t digest_word_key(int64_t word) { return digest_mix(~(uint64_t)word); }

static inline void digest_add_word(struct digest *d, uint64_t word, uint64_t key)
{
    uint64_t x = word ^ key, y = word ^ digest_rotl(key, 17);
    d->lane[0] += (x & 0xffffffffu) * (x >> 32) + word;
    d->lane[1] += (y & 0xffffffffu) * (y >> 32) + digest_rotl(word, 32);
}

static inline int digest_equal(const struct digest *a, const struct digest *b)
{
    return a->lane[0] == b->lane[0] && a->lane[1] == b->lane[1];
}

#endif
