#include "tests/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/digest.h"
#include "tests/suite.h"

struct generator {
    uint64_t state;
};

static uint64_t draw(struct generator *g, uint64_t below)
{
    const uint64_t x = digest_mix(g->state++);
    return below ? x % below : 0;
}

static void flip_bits(struct generator *g, struct mutant *t)
{
    for (uint64_t flips = 1 + draw(g, 3); flips; flips--)
        t->bytes[draw(g, t->size)] ^= (char)(1 << draw(g, 8));
}

static void truncate_end(struct generator *g, struct mutant *t) { t->size = draw(g, t->size); }

static void delete_bytes(struct generator *g, struct mutant *t)
{
    uint64_t count = 1 + draw(g, 16), at = draw(g, t->size);
    if (count > t->size - at)
        count = t->size - at;
    memmove(t->bytes + at, t->bytes + at + count, t->size - at - count);
    t->size -= count;
}

static void insert_bytes(struct generator *g, struct mutant *t)
{
    uint64_t count = 1 + draw(g, 16), at = draw(g, t->size + 1);
    memmove(t->bytes + at + count, t->bytes + at, t->size - at);
    for (uint64_t i = 0; i < count; i++)
        t->bytes[at + i] = (char)draw(g, 256);
    t->size += count;
}

static void swap_blocks(struct generator *g, struct mutant *t)
{
    uint64_t block = 1 + draw(g, t->size / 4 < 512 ? t->size / 4 : 512);
    uint64_t a = draw(g, t->size - block + 1), b = draw(g, t->size - block + 1);
    for (uint64_t i = 0; i < block; i++) {
        char kept = t->bytes[a + i];
        t->bytes[a + i] = t->bytes[b + i];
        t->bytes[b + i] = kept;
    }
}

static void splice_foreign(struct generator *g, struct mutant *t)
{
    static const char foreign[] = "{\"members\":[],\"seal\":\"00000000000000000000000000000000\",\"version\":1}\n"
                                  "PK\003\004\377\376\375ustar\00000\0\0\0\0\0\0\0\0(\265/\375\4X\1\0\0RMSHARD\n";
    uint64_t count = 1 + draw(g, sizeof foreign - 1), from = draw(g, sizeof foreign - count + 1);
    uint64_t at = draw(g, t->size);
    if (count > t->size - at)
        count = t->size - at;
    memcpy(t->bytes + at, foreign + from, count);
}

struct mutant mutated(const struct mutant *original, uint64_t number)
{
    static void (*const kinds[])(struct generator *, struct mutant *) = {flip_bits,    truncate_end, delete_bytes,
                                                                         insert_bytes, swap_blocks,  splice_foreign};
    struct generator g = {number * 1000003};
    struct mutant t = {malloc(original->size + 64), original->size};
    memcpy(t.bytes, original->bytes, original->size);
    kinds[number % (COUNT(kinds))](&g, &t);
    return t;
}

bool mutant_same(const struct mutant *a, const struct mutant *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}
