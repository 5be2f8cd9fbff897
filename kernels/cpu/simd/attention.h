/* attention.h - what forward and backward share: tiles of queries, and which keys a tile sees.
 *
 * Scores are held as (keys, 32 queries): a query is a lane, so that softmax needs no folds, key blocks may have any
 * length, and the causal limit is exact to the key. Keys that no query of a tile sees are never touched; those that some
 * do not see get the score -inf. Tiles never straddle a q_chunk. So all is a function of the shape, and a thread works
 * on whole tiles (forward) or whole key heads (backward): bits do not depend on threads.
 *
 * Visibility as one comparison: each query and key has an unsigned rank, and query i sees key j if rank_i >= rank_j.
 */
#ifndef REMATCH_KERNELS_CPU_SIMD_ATTENTION_H
#define REMATCH_KERNELS_CPU_SIMD_ATTENTION_H

#include "kernels/cpu/simd/product.h"

enum { QUERIES = PANEL };

/* Scores are taken to base 2, where the exponential is cheapest. */
#define LOG2_E 0x1.715476p0f
#define LN_2 0x1.62e430p-1f

/* The keys as the queries of one q_chunk see them; one per thread. least and most: of each key block's ranks. */
struct sight {
    int64_t block; /* keys per block */
    enum plan_rounding rounding;
    int q_chunk; /* -1: none yet */
    uint32_t *rank, *least, *most;
};

/* Up to 32 consecutive queries of one q_chunk; lanes behind `count` see nothing but what all see. */
struct queries {
    int64_t first;
    int count, q_chunk;
    uint32_t rank[QUERIES], least, most;
};

/* Keys [begin, end) of a block that a tile may see; `mixed`: some of them not by all of its queries. */
struct keys {
    int64_t begin, end;
    bool mixed;
};

/* Keys per block of a plan. */
static inline int64_t attention_block(const struct plan *plan)
{
    const int64_t keys = plan->dims[4];
    return plan->chunk == 0 || plan->chunk > keys ? keys : plan->chunk;
}

/* What one head of one sequence has in a tensor of queries or keys: rows [first, first + rows) of its tokens. */
static inline struct part head_part(const struct view *of, const struct attention_shape *s, int64_t tokens,
                                    int64_t sequence, int head, int64_t first, int64_t rows)
{
    return (struct part){of, sequence * tokens + first, rows, (int64_t)head * s->head_dim, s->head_dim};
}

/* ERR_ARGUMENT when the plan, whose workspace is used, was made for another shape, or the scale is not positive. */
status NAME(attention_check)(const char *op, const struct plan *plan, const struct attention_shape *s);

void NAME(sight_carve)(struct sight *sight, struct carving *c, const struct plan *plan);
void NAME(sight_follow)(struct sight *sight, const struct attention_shape *s, int q_chunk);
struct keys NAME(sight_keys)(const struct sight *sight, const struct attention_shape *s, const struct queries *q,
                             int64_t block);

/* Tiles of a sequence, and the tile of that number. */
int64_t NAME(queries_tiles)(const struct attention_shape *s);
void NAME(queries_take)(struct queries *q, const struct attention_shape *s, int64_t tile);

/* scores (end - begin, 32) = keys x queries^T, from a head's keys (or values) as panels. */
void NAME(score)(float *scores, const float *key_panels, const float *query_lines, const struct attention_shape *s,
                 const struct keys *keys, enum plan_rounding rounding);

/* c (rows, cols) += or = strip x panels, the panels having `lines` lines of which the product starts at `line`. */
void NAME(product_panels)(struct product p, int64_t cols, const float *panels, int64_t lines, int64_t line);

size_t NAME(attention_forward_workspace)(const struct device *d, const struct plan *plan);
size_t NAME(attention_backward_workspace)(const struct device *d, const struct plan *plan);

#endif
