/* Flash attention, backward: a key head at a time, for every query head that reads it, tile by tile of queries,
 *   p = exp(scale k.q - lse)     dv += p d_out      dp = v.d_out
 *   ds = p (dp - delta)          dk += ds q         dq += ds k        delta = sum of d_out * out
 * dk and dv of the head stay in the workspace, dq of the tile beside them; dk and dq are scaled at the end.
 * Threads take whole key heads, because their sums run over all queries in one order. */
#include <omp.h>

#include "kernels/cpu/simd/attention.h"
#include "kernels/cpu/simd/vecmath.h"

enum { HALVES = QUERIES / LANES };

struct shared {
    const struct attention_shape *shape;
    const struct view *dq, *dk, *dv, *d_out, *q, *k, *v, *out, *lse;
    bool accumulate;
};

struct worker {
    struct sight sight;
    int64_t columns;                          /* head_dim in whole vectors */
    float *key_panels, *value_panels;         /* of one head */
    float *dk, *dv;                           /* (keys, columns) */
    float *query_lines, *d_out_lines;         /* (head_dim, 32) */
    float *query_panels, *d_out_panels;       /* (32, head_dim) */
    float *dq;                                /* (32, columns) */
    float *scores, *slopes;                   /* (block, 32): s, then p; dp, then ds */
    float delta[QUERIES], minus_lse[QUERIES]; /* minus_lse: to base 2 */
};

static size_t lay_out_worker(struct worker *w, const struct plan *plan, void *base)
{
    struct carving c = {base, 0};
    const int64_t keys = plan->dims[4], dim = plan->dims[5], block = attention_block(plan);
    NAME(sight_carve)(&w->sight, &c, plan);
    w->columns = vector_columns(dim);
    w->key_panels = carve(&c, panel_elements(keys, dim), sizeof(float));
    w->value_panels = carve(&c, panel_elements(keys, dim), sizeof(float));
    w->dk = carve(&c, keys * w->columns, sizeof(float));
    w->dv = carve(&c, keys * w->columns, sizeof(float));
    w->query_lines = carve(&c, dim * QUERIES, sizeof(float));
    w->d_out_lines = carve(&c, dim * QUERIES, sizeof(float));
    w->query_panels = carve(&c, panel_elements(QUERIES, dim), sizeof(float));
    w->d_out_panels = carve(&c, panel_elements(QUERIES, dim), sizeof(float));
    w->dq = carve(&c, QUERIES * w->columns, sizeof(float));
    w->scores = carve(&c, block * QUERIES, sizeof(float));
    w->slopes = carve(&c, block * QUERIES, sizeof(float));
    return c.used;
}

size_t NAME(attention_backward_workspace)(const struct device *d, const struct plan *plan)
{
    struct worker w;
    return (size_t)d->threads * lay_out_worker(&w, plan, NULL);
}

/* delta and lse of a tile; lanes behind its queries get a p of 0. */
static void take_lanes(const struct shared *g, struct worker *w, const struct queries *q, int64_t sequence, int head)
{
    const struct attention_shape *s = g->shape;
    const struct part out = head_part(g->out, s, s->q_tokens, sequence, head, q->first, q->count);
    const float *lse = view_at(g->lse, sequence * s->heads + head, q->first);
    for (int i = 0; i < QUERIES; i++) {
        w->delta[i] = 0;
        w->minus_lse[i] = -INFINITY;
    }
    for (int i = 0; i < q->count; i++) {
        vf sum = vf_zero();
        for (int64_t c = 0; c < s->head_dim; c += LANES) {
            const int count = lanes(s->head_dim - c);
            const vf a = vf_get(view_at(g->out, out.row + i, out.col), g->out->type, c, count);
            sum = vf_fma(a, vf_get(view_at(g->d_out, out.row + i, out.col), g->d_out->type, c, count), sum);
        }
        w->delta[i] = vf_sum(sum);
        w->minus_lse[i] = -lse[i] * LOG2_E;
    }
}

static void take_tile(const struct shared *g, struct worker *w, const struct queries *q, int64_t sequence, int head)
{
    const struct attention_shape *s = g->shape;
    const struct part rows = head_part(g->q, s, s->q_tokens, sequence, head, q->first, q->count);
    const struct part d_out = head_part(g->d_out, s, s->q_tokens, sequence, head, q->first, q->count);
    NAME(pack_transposed)(w->query_lines, QUERIES, QUERIES, &rows);
    NAME(pack_transposed)(w->d_out_lines, QUERIES, QUERIES, &d_out);
    NAME(pack_panels)(w->query_panels, &rows);
    NAME(pack_panels)(w->d_out_panels, &d_out);
    take_lanes(g, w, q, sequence, head);
    memset(w->dq, 0, (size_t)(QUERIES * w->columns) * sizeof(float));
}

/* scores become p, slopes become ds; both 0 for a key that a query does not see. */
static void differentiate(struct worker *w, const struct queries *q, const struct keys *keys, float scale)
{
    const uint32_t *rank = w->sight.rank + keys->begin;
    const vf to_base_2 = vf_set(scale * LOG2_E);
    for (int h = 0; h < HALVES; h++) {
        const vf minus_lse = vf_load(w->minus_lse + h * LANES), delta = vf_load(w->delta + h * LANES);
        for (int64_t j = 0; j < keys->end - keys->begin; j++) {
            float *score = w->scores + j * QUERIES + h * LANES, *slope = w->slopes + j * QUERIES + h * LANES;
            vf p = vf_exp2(vf_fma(vf_load(score), to_base_2, minus_lse));
            vf ds = vf_mul(p, vf_sub(vf_load(slope), delta));
            if (keys->mixed && rank[j] > q->least) {
                const vm seen = vm_at_least(q->rank + h * LANES, rank[j]);
                p = vf_select(seen, p, vf_zero());
                ds = vf_select(seen, ds, vf_zero());
            }
            vf_store(score, p);
            vf_store(slope, ds);
        }
    }
}

static void visit_block(const struct shared *g, struct worker *w, const struct queries *q, const struct keys *keys)
{
    const struct attention_shape *s = g->shape;
    const int64_t count = keys->end - keys->begin;
    NAME(score)(w->scores, w->key_panels, w->query_lines, s, keys, w->sight.rounding);
    NAME(score)(w->slopes, w->value_panels, w->d_out_lines, s, keys, w->sight.rounding);
    differentiate(w, q, keys, s->scale);
    struct product to_keys = {
        .rows = count,
        .k = q->count,
        .a = w->scores,
        .a_by_rows = true,
        .c = w->dv + keys->begin * w->columns,
        .c_step = w->columns,
        .add = true,
        .rounding = w->sight.rounding,
    };
    NAME(product_panels)(to_keys, s->head_dim, w->d_out_panels, q->count, 0);
    to_keys.a = w->slopes;
    to_keys.c = w->dk + keys->begin * w->columns;
    NAME(product_panels)(to_keys, s->head_dim, w->query_panels, q->count, 0);
    const struct product to_queries = {
        .rows = q->count,
        .k = count,
        .a = w->slopes,
        .a_step = QUERIES,
        .c = w->dq,
        .c_step = w->columns,
        .add = true,
        .rounding = w->sight.rounding,
    };
    NAME(product_panels)(to_queries, s->head_dim, w->key_panels, s->k_tokens, keys->begin);
}

/* part = or += factor * sums (rows, columns) */
static void put(const struct part *to, const struct worker *w, const float *sums, float factor, bool accumulate)
{
    for (int64_t r = 0; r < to->rows; r++) {
        void *row = view_at(to->of, to->row + r, to->col);
        for (int64_t c = 0; c < to->cols; c += LANES) {
            const int count = lanes(to->cols - c);
            vf x = vf_mul(vf_load(sums + r * w->columns + c), vf_set(factor));
            if (accumulate)
                x = vf_add(vf_get(row, to->of->type, c, count), x);
            put_result(row, to->of->type, c, count, x, w->sight.rounding);
        }
    }
}

static void visit_tile(const struct shared *g, struct worker *w, int64_t sequence, int head, int64_t tile)
{
    const struct attention_shape *s = g->shape;
    struct queries q;
    NAME(queries_take)(&q, s, tile);
    NAME(sight_follow)(&w->sight, s, q.q_chunk);
    take_tile(g, w, &q, sequence, head);
    for (int64_t block = 0; block * w->sight.block < s->k_tokens; block++) {
        const struct keys keys = NAME(sight_keys)(&w->sight, s, &q, block);
        if (keys.begin < keys.end)
            visit_block(g, w, &q, &keys);
    }
    const struct part dq = head_part(g->dq, s, s->q_tokens, sequence, head, q.first, q.count);
    put(&dq, w, w->dq, s->scale, g->accumulate);
}

static void visit_key_head(const struct shared *g, struct worker *w, int64_t sequence, int kv_head)
{
    const struct attention_shape *s = g->shape;
    const int64_t keys = s->k_tokens;
    const int group = s->heads / s->kv_heads;
    const struct part k = head_part(g->k, s, keys, sequence, kv_head, 0, keys);
    const struct part v = head_part(g->v, s, keys, sequence, kv_head, 0, keys);
    NAME(pack_panels)(w->key_panels, &k);
    NAME(pack_panels)(w->value_panels, &v);
    memset(w->dk, 0, (size_t)(keys * w->columns) * sizeof(float));
    memset(w->dv, 0, (size_t)(keys * w->columns) * sizeof(float));
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t tile = 0; tile < NAME(queries_tiles)(s); tile++)
            visit_tile(g, w, sequence, head, tile);
    const struct part dk = head_part(g->dk, s, keys, sequence, kv_head, 0, keys);
    const struct part dv = head_part(g->dv, s, keys, sequence, kv_head, 0, keys);
    put(&dk, w, w->dk, s->scale, g->accumulate);
    put(&dv, w, w->dv, 1.0f, g->accumulate);
}

status NAME(cpu_attention_backward)(struct device *d, const struct plan *plan, const struct attention_shape *shape,
                                    const struct view *dq, const struct view *dk, const struct view *dv,
                                    const struct view *d_out, const struct view *q, const struct view *k,
                                    const struct view *v, const struct view *out, const struct view *lse,
                                    bool accumulate)
{
    TRY(check_attention_backward(shape, dq, dk, dv, d_out, q, k, v, out, lse, accumulate));
    TRY(CPU_CHECK_STORAGE("attention_backward", dq, dk, dv, d_out, q, k, v, out, lse));
    TRY(NAME(attention_check)("attention_backward", plan, shape));
    const struct shared g = {shape, dq, dk, dv, d_out, q, k, v, out, lse, accumulate};
#pragma omp parallel num_threads(d->threads)
    {
        struct worker w;
        const size_t bytes = lay_out_worker(&w, plan, NULL);
        lay_out_worker(&w, plan, (char *)d->workspace + (size_t)omp_get_thread_num() * bytes);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < shape->batch * shape->kv_heads; i++)
            visit_key_head(&g, &w, i / shape->kv_heads, (int)(i % shape->kv_heads));
    }
    return OK;
}
