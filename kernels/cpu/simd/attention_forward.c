/* Flash attention, forward: for a tile of queries, key block by key block,
 *   s = (scale / ln 2) k.q          m' = max(m, max s)       p = 2^(s - m')
 *   l' = l 2^(m - m') + sum p       o' = o 2^(m - m') + p v
 * and at the end out = o / l, lse = (m + log2 l) ln 2. */
#include <omp.h>

#include "kernels/cpu/simd/attention.h"
#include "kernels/cpu/simd/vecmath.h"

enum { HALVES = QUERIES / LANES };

/* Of all threads: every head's keys and values as panels. */
struct shared {
    const struct attention_shape *shape;
    const struct view *out, *lse, *q, *k, *v;
    int64_t block;
    float *key_panels, *value_panels;
};

struct worker {
    struct sight sight;
    float *query_lines;                     /* (head_dim, 32) */
    float *scores;                          /* (block, 32) */
    float *sums;                            /* (32, columns): o */
    float largest[QUERIES], total[QUERIES]; /* m, l */
};

/* What one key head has of the panels. */
static int64_t head_elements(const struct attention_shape *s) { return panel_elements(s->k_tokens, s->head_dim); }

static size_t lay_out(struct shared *f, const struct plan *plan, void *base)
{
    struct carving c = {base, 0};
    const int64_t heads = plan->dims[0] * plan->dims[2], keys = plan->dims[4], dim = plan->dims[5];
    f->block = attention_block(plan);
    f->key_panels = carve(&c, heads * panel_elements(keys, dim), sizeof(float));
    f->value_panels = carve(&c, heads * panel_elements(keys, dim), sizeof(float));
    return c.used;
}

static size_t lay_out_worker(struct worker *w, const struct plan *plan, void *base)
{
    struct carving c = {base, 0};
    const int64_t dim = plan->dims[5];
    NAME(sight_carve)(&w->sight, &c, plan);
    w->query_lines = carve(&c, dim * QUERIES, sizeof(float));
    w->scores = carve(&c, attention_block(plan) * QUERIES, sizeof(float));
    w->sums = carve(&c, QUERIES * vector_columns(dim), sizeof(float));
    return c.used;
}

size_t NAME(attention_forward_workspace)(const struct device *d, const struct plan *plan)
{
    struct shared f;
    struct worker w;
    return lay_out(&f, plan, NULL) + (size_t)d->threads * lay_out_worker(&w, plan, NULL);
}

static void pack_head(const struct shared *f, int64_t index)
{
    const struct attention_shape *s = f->shape;
    const int64_t sequence = index / s->kv_heads;
    const int head = (int)(index % s->kv_heads);
    const struct part k = head_part(f->k, s, s->k_tokens, sequence, head, 0, s->k_tokens);
    const struct part v = head_part(f->v, s, s->k_tokens, sequence, head, 0, s->k_tokens);
    NAME(pack_panels)(f->key_panels + index * head_elements(s), &k);
    NAME(pack_panels)(f->value_panels + index * head_elements(s), &v);
}

/* The largest score of each query, those of keys it does not see set to -inf. */
static void largest_scores(vf largest[HALVES], struct worker *w, const struct queries *q, const struct keys *keys)
{
    const uint32_t *rank = w->sight.rank + keys->begin;
    const vf nothing = vf_set(-INFINITY);
    for (int h = 0; h < HALVES; h++)
        largest[h] = nothing;
    for (int64_t j = 0; j < keys->end - keys->begin; j++)
        for (int h = 0; h < HALVES; h++) {
            float *at = w->scores + j * QUERIES + h * LANES;
            vf score = vf_load(at);
            if (keys->mixed && rank[j] > q->least) {
                score = vf_select(vm_at_least(q->rank + h * LANES, rank[j]), score, nothing);
                vf_store(at, score);
            }
            largest[h] = vf_max(largest[h], score);
        }
}

/* Scores become p, largest and total move on; `fade` is what the sums so far are to be multiplied by. */
static void soften(struct worker *w, const struct queries *q, const struct keys *keys, float scale, float fade[QUERIES])
{
    vf largest[HALVES], total[HALVES], minus[HALVES];
    const vf to_base_2 = vf_set(scale * LOG2_E), nothing = vf_set(-INFINITY);
    largest_scores(largest, w, q, keys);
    for (int h = 0; h < HALVES; h++) {
        const vf before = vf_load(w->largest + h * LANES);
        const vf now = vf_max(vf_mul(largest[h], to_base_2), before);
        const vf finite = vf_select(vf_equal(now, nothing), vf_zero(), now); /* no key seen yet: avoid inf - inf */
        const vf factor = vf_exp2(vf_sub(before, finite));
        vf_store(fade + h * LANES, factor);
        vf_store(w->largest + h * LANES, now);
        minus[h] = vf_sub(vf_zero(), finite);
        total[h] = vf_mul(vf_load(w->total + h * LANES), factor);
    }
    for (int64_t j = 0; j < keys->end - keys->begin; j++)
        for (int h = 0; h < HALVES; h++) {
            float *at = w->scores + j * QUERIES + h * LANES;
            const vf p = vf_exp2(vf_fma(vf_load(at), to_base_2, minus[h]));
            vf_store(at, p);
            total[h] = vf_add(total[h], p);
        }
    for (int h = 0; h < HALVES; h++)
        vf_store(w->total + h * LANES, total[h]);
}

static void fade_sums(struct worker *w, const struct queries *q, int64_t columns, const float fade[QUERIES])
{
    for (int i = 0; i < q->count; i++) {
        if (fade[i] == 1.0f)
            continue;
        for (int64_t c = 0; c < columns; c += LANES) {
            float *at = w->sums + i * columns + c;
            vf_store(at, vf_mul(vf_load(at), vf_set(fade[i])));
        }
    }
}

static void visit_block(const struct shared *f, struct worker *w, const struct queries *q, int64_t kv_index,
                        const struct keys *keys, bool first)
{
    const struct attention_shape *s = f->shape;
    const int64_t columns = vector_columns(s->head_dim);
    float fade[QUERIES];
    NAME(score)(w->scores, f->key_panels + kv_index * head_elements(s), w->query_lines, s, keys, w->sight.rounding);
    soften(w, q, keys, s->scale, fade);
    if (!first)
        fade_sums(w, q, columns, fade);
    const struct product weigh = {
        .rows = q->count,
        .k = keys->end - keys->begin,
        .a = w->scores,
        .a_step = QUERIES,
        .c = w->sums,
        .c_step = columns,
        .add = !first,
        .rounding = w->sight.rounding,
    };
    NAME(product_panels)
    (weigh, s->head_dim, f->value_panels + kv_index * head_elements(s), s->k_tokens, keys->begin);
}

/* A query that saw no key: out 0, lse -inf. */
static void finish_tile(const struct shared *f, const struct worker *w, const struct queries *q, int64_t sequence,
                        int head)
{
    const struct attention_shape *s = f->shape;
    const int64_t columns = vector_columns(s->head_dim);
    float share[QUERIES], lse[QUERIES];
    for (int h = 0; h < HALVES; h++) {
        const vf total = vf_load(w->total + h * LANES);
        const vm blind = vf_equal(total, vf_zero());
        vf_store(share + h * LANES, vf_select(blind, vf_zero(), vf_div(vf_set(1.0f), total)));
        const vf sum = vf_fma(vf_load(w->largest + h * LANES), vf_set(LN_2), vf_log(total));
        vf_store(lse + h * LANES, vf_select(blind, vf_set(-INFINITY), sum));
    }
    const struct part out = head_part(f->out, s, s->q_tokens, sequence, head, q->first, q->count);
    for (int i = 0; i < q->count; i++)
        for (int64_t c = 0; c < s->head_dim; c += LANES)
            put_result(view_at(out.of, out.row + i, out.col), out.of->type, c, lanes(s->head_dim - c),
                       vf_mul(vf_load(w->sums + i * columns + c), vf_set(share[i])), w->sight.rounding);
    memcpy(view_at(f->lse, sequence * s->heads + head, q->first), lse, (size_t)q->count * sizeof *lse);
}

static void visit_tile(const struct shared *f, struct worker *w, int64_t sequence, int head, int64_t tile)
{
    const struct attention_shape *s = f->shape;
    const int64_t kv_index = sequence * s->kv_heads + head / (s->heads / s->kv_heads);
    struct queries q;
    NAME(queries_take)(&q, s, tile);
    NAME(sight_follow)(&w->sight, s, q.q_chunk);
    const struct part rows = head_part(f->q, s, s->q_tokens, sequence, head, q.first, q.count);
    NAME(pack_transposed)(w->query_lines, QUERIES, QUERIES, &rows);
    for (int i = 0; i < QUERIES; i++) {
        w->largest[i] = -INFINITY;
        w->total[i] = 0;
    }
    bool first = true;
    for (int64_t block = 0; block * f->block < s->k_tokens; block++) {
        const struct keys keys = NAME(sight_keys)(&w->sight, s, &q, block);
        if (keys.begin == keys.end)
            continue;
        visit_block(f, w, &q, kv_index, &keys, first);
        first = false;
    }
    if (first)
        memset(w->sums, 0, (size_t)(QUERIES * vector_columns(s->head_dim)) * sizeof(float));
    finish_tile(f, w, &q, sequence, head);
}

status NAME(cpu_attention_forward)(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                   const struct view *out, const struct view *lse, const struct view *q,
                                   const struct view *k, const struct view *v)
{
    TRY(check_attention_forward(shape, out, lse, q, k, v));
    TRY(CPU_CHECK_STORAGE("attention_forward", out, lse, q, k, v));
    TRY(NAME(attention_check)("attention_forward", plan, shape));
    struct shared f = {.shape = shape, .out = out, .lse = lse, .q = q, .k = k, .v = v};
    char *workers = (char *)d->workspace + lay_out(&f, plan, d->workspace);
    const int64_t tiles = NAME(queries_tiles)(shape), heads = shape->batch * shape->heads;
#pragma omp parallel num_threads(d->threads)
    {
        struct worker w;
        const size_t bytes = lay_out_worker(&w, plan, NULL);
        lay_out_worker(&w, plan, workers + (size_t)omp_get_thread_num() * bytes);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < shape->batch * shape->kv_heads; i++)
            pack_head(&f, i);
            /* The last tiles see the most keys: they go first, so that no thread ends alone on a long one. */
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < heads * tiles; i++)
            visit_tile(&f, &w, i % heads / shape->heads, (int)(i % heads % shape->heads), tiles - 1 - i / heads);
    }
    return OK;
}
