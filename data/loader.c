/* The loader: which window of the corpus is global sequence n. Declared in shards.h.
 *
 * Split: Megatron-LM, megatron/core/datasets (normalized weights, running sums as bookends, round(bookend * count)).
 * Order: a Feistel network over the smallest even number of bits that holds all windows, walked until the value is a
 * window: a bijection whatever the round function is. Black and Rogaway, "Ciphers with arbitrary finite domains", 2002.
 */
#include <math.h>

#include "data/shards.h"

enum { ROUNDS = 6 };

void split_documents(const int weights[3], uint64_t documents, enum split which, uint64_t *first, uint64_t *last)
{
    double sum = (double)weights[0] + weights[1] + weights[2], bookend[4] = {0};
    for (int i = 0; i < 3; i++)
        bookend[i + 1] = bookend[i] + weights[i] / sum;
    /* rint rounds halves to even, as Python's round does. */
    *first = (uint64_t)rint(bookend[which] * (double)documents);
    *last = (uint64_t)rint(bookend[which + 1] * (double)documents);
}

status loader_open(struct loader *out, const struct shard *shard, const int weights[3], enum split which, int sequence,
                   uint64_t seed)
{
    static const char *const names[] = {"train", "valid", "test"};
    uint64_t first, last;
    if (weights[0] < 0 || weights[1] < 0 || weights[2] < 0 || weights[which] == 0)
        return FAIL(ERR_USAGE, "split %s (%d,%d,%d): its weight is zero or a weight is negative", names[which],
                    weights[0], weights[1], weights[2]);
    split_documents(weights, shard_documents(shard), which, &first, &last);
    uint64_t start = shard_document_start(shard, first), tokens = shard_document_start(shard, last) - start;
    if (tokens < (uint64_t)sequence + 1)
        return FAIL(ERR_USAGE,
                    "split %s (%d,%d,%d): has %llu tokens, a window needs %d; take more text, another split, or a "
                    "shorter sequence",
                    names[which], weights[0], weights[1], weights[2], (unsigned long long)tokens, sequence + 1);
    *out = (struct loader){.shard = shard,
                           .first_token = start,
                           .windows = (tokens - 1) / (uint64_t)sequence,
                           .sequence = sequence,
                           .seed = seed,
                           .shuffled = which == SPLIT_TRAIN};
    return OK;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants): every bit depends on every bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    int half = 1;
    while (half < 32 && count > (uint64_t)1 << 2 * half)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, key = mix(mix(seed + 0x9e3779b97f4a7c15u) + epoch);
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (mix(key + round * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

void loader_sequence(const struct loader *l, uint64_t n, int32_t *tokens)
{
    uint64_t window = n % l->windows;
    if (l->shuffled)
        window = permute(l->seed, n / l->windows, l->windows, window);
    shard_copy(l->shard, l->first_token + window * (uint64_t)l->sequence, (uint64_t)l->sequence + 1, tokens);
}
