#include "kernels/cpu/simd/attention.h"

/* Ranks: a position, made unsigned; below all of them what all see, above what nobody does. */
enum { SEEN_BY_ALL = 0 };
#define SEEN_BY_NOBODY UINT32_MAX

static uint32_t rank_of(int32_t position)
{
    uint32_t rank = (uint32_t)position ^ 0x80000000u;
    return rank == SEEN_BY_NOBODY ? rank - 1 : rank;
}

status NAME(attention_check)(const char *op, const struct plan *plan, const struct attention_shape *s)
{
    const int64_t dims[6] = {s->batch, s->heads, s->kv_heads, s->q_tokens, s->k_tokens, s->head_dim};
    if (plan->op != PLAN_ATTENTION || memcmp(dims, plan->dims, sizeof dims))
        return FAIL(ERR_ARGUMENT, "%s: the plan '%s' was made for another shape than %lldx%dx%dx%lldx%lldx%d", op,
                    plan->identity, (long long)s->batch, s->heads, s->kv_heads, (long long)s->q_tokens,
                    (long long)s->k_tokens, s->head_dim);
    if (!(s->scale > 0))
        return FAIL(ERR_ARGUMENT, "%s: scale is %g, expected a positive number", op, (double)s->scale);
    return OK;
}

size_t NAME(attention_workspace)(const struct device *d, const struct plan *plan)
{
    const size_t forward = NAME(attention_forward_workspace)(d, plan);
    const size_t backward = NAME(attention_backward_workspace)(d, plan);
    return forward > backward ? forward : backward;
}

void NAME(sight_carve)(struct sight *sight, struct carving *c, const struct plan *plan)
{
    const int64_t keys = plan->dims[4];
    sight->block = attention_block(plan);
    sight->rounding = plan->rounding;
    sight->q_chunk = -1;
    sight->rank = carve(c, keys, sizeof *sight->rank);
    const int64_t blocks = (keys + sight->block - 1) / sight->block;
    sight->least = carve(c, blocks, sizeof *sight->least);
    sight->most = carve(c, blocks, sizeof *sight->most);
}

static void rank_keys(uint32_t *rank, const struct attention_shape *s, int q_chunk)
{
    const int64_t run = s->k_tokens / s->k_chunks;
    for (int64_t j = 0; j < s->k_tokens; j++) {
        const uint8_t kind = s->chunk_kind[q_chunk * s->k_chunks + j / run];
        rank[j] = kind == CHUNK_ALL ? SEEN_BY_ALL : kind == CHUNK_CAUSAL ? rank_of(s->k_position[j]) : SEEN_BY_NOBODY;
    }
}

void NAME(sight_follow)(struct sight *sight, const struct attention_shape *s, int q_chunk)
{
    if (sight->q_chunk == q_chunk)
        return;
    sight->q_chunk = q_chunk;
    rank_keys(sight->rank, s, q_chunk);
    for (int64_t j = 0; j < s->k_tokens; j++) {
        uint32_t *least = sight->least + j / sight->block, *most = sight->most + j / sight->block;
        const uint32_t rank = sight->rank[j];
        const bool first = j % sight->block == 0;
        if (first || rank < *least)
            *least = rank;
        if (first || rank > *most)
            *most = rank;
    }
}

struct keys NAME(sight_keys)(const struct sight *sight, const struct attention_shape *s, const struct queries *q,
                             int64_t block)
{
    struct keys keys = {block * sight->block, (block + 1) * sight->block, false};
    if (keys.end > s->k_tokens)
        keys.end = s->k_tokens;
    if (sight->least[block] > q->most) {
        keys.end = keys.begin;
        return keys;
    }
    /* Groups of a truncating sum begin where the block does, whatever a tile sees of it. */
    while (sight->rounding != ROUND_TRUNCATE && sight->rank[keys.begin] > q->most)
        keys.begin++;
    while (sight->rank[keys.end - 1] > q->most)
        keys.end--;
    keys.mixed = sight->most[block] > q->least;
    return keys;
}

static int64_t tiles_per_chunk(const struct attention_shape *s)
{
    return (s->q_tokens / s->q_chunks + QUERIES - 1) / QUERIES;
}

int64_t NAME(queries_tiles)(const struct attention_shape *s) { return s->q_chunks * tiles_per_chunk(s); }

static bool any_causal(const struct attention_shape *s, int q_chunk)
{
    for (int i = 0; i < s->k_chunks; i++)
        if (s->chunk_kind[q_chunk * s->k_chunks + i] == CHUNK_CAUSAL)
            return true;
    return false;
}

void NAME(queries_take)(struct queries *q, const struct attention_shape *s, int64_t tile)
{
    const int64_t run = s->q_tokens / s->q_chunks, per_chunk = tiles_per_chunk(s), offset = tile % per_chunk * QUERIES;
    q->q_chunk = (int)(tile / per_chunk);
    q->first = q->q_chunk * run + offset;
    q->count = (int)(run - offset < QUERIES ? run - offset : QUERIES);
    const bool causal = any_causal(s, q->q_chunk); /* positions may be missing where nothing is */
    q->least = SEEN_BY_NOBODY;
    q->most = SEEN_BY_ALL;
    for (int i = 0; i < QUERIES; i++) {
        q->rank[i] = causal && i < q->count ? rank_of(s->q_position[q->first + i]) : SEEN_BY_ALL;
        if (i < q->count && q->rank[i] < q->least)
            q->least = q->rank[i];
        if (q->rank[i] > q->most)
            q->most = q->rank[i];
    }
}

void NAME(score)(float *scores, const float *key_panels, const float *query_lines, const struct attention_shape *s,
                 const struct keys *keys, enum plan_rounding rounding)
{
    const struct product p = {
        .rows = keys->end - keys->begin,
        .k = s->head_dim,
        .width = QUERIES,
        .a = key_panels + keys->begin * PANEL,
        .a_step = s->k_tokens * PANEL,
        .a_by_rows = true,
        .b = query_lines,
        .b_step = QUERIES,
        .c = scores,
        .c_step = QUERIES,
        .rounding = rounding,
    };
    NAME(product)(&p);
}

void NAME(product_panels)(struct product p, int64_t cols, const float *panels, int64_t lines, int64_t line)
{
    float *const c = p.c;
    for (int64_t column = 0; column < cols; column += PANEL) {
        p.width = panel_width(cols - column);
        p.b = panels + column * lines + line * PANEL;
        p.b_step = PANEL;
        p.c = c + column;
        NAME(product)(&p);
    }
}
