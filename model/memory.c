#include "model/memory.h"

#include "kernels/device.h"

enum { HEAD_CHUNK_BYTES = 64 << 20, HEAD_CHUNK_STEP = 64 };

#define BIT(i) (1u << (i))

/* Tensors that live in another one's span; see memory.h. */
static const unsigned lodgers = BIT(TENSOR_QKV_RAW) | BIT(TENSOR_PROJECTED) | BIT(TENSOR_DOWN) | BIT(TENSOR_OUTPUT);
static const unsigned all_tensors = BIT(BLOCK_TENSORS) - 1;

int64_t memory_head_chunk(const struct model_shape *s, int64_t rows)
{
    int64_t chunk = HEAD_CHUNK_BYTES / ((int64_t)sizeof(float) * s->vocab) / HEAD_CHUNK_STEP * HEAD_CHUNK_STEP;
    if (chunk < HEAD_CHUNK_STEP)
        chunk = HEAD_CHUNK_STEP;
    return chunk < rows ? chunk : rows;
}

static int64_t head_chunk(const struct memory_request *q)
{
    int64_t rows = q->micro_batch * q->tokens;
    if (q->head_chunk == 0)
        return memory_head_chunk(&q->shape, rows);
    return q->head_chunk < rows ? q->head_chunk : rows;
}

/* One walk over the spans: what every part of it needs. */
struct walk {
    const struct memory_request *request;
    const struct recompute_plan *plan;
    enum dtype wide;      /* what is kept in full precision: f32, or f64 in an F64 run */
    enum dtype slot_type; /* of rebuilt tensors */
    status (*visit)(void *self, const struct memory_span *span);
    void *self;
};

static status visit_item(const struct walk *w, enum memory_class class, enum memory_item item, const char *name,
                         enum dtype type, int64_t rows, int64_t cols)
{
    struct memory_span span = {class, item, name, -1, -1, type, rows, cols};
    return w->visit(w->self, &span);
}

/* Spans of the block tensors in `set`, in order of the forward. */
static status visit_tensors(const struct walk *w, enum memory_class class, int layer, unsigned set, enum dtype type)
{
    const struct memory_request *q = w->request;
    for (int t = 0; t < BLOCK_TENSORS; t++) {
        if (!(set & BIT(t)))
            continue;
        struct view v = block_tensor_view(&q->shape, t, q->micro_batch, q->tokens, type);
        struct memory_span span = {class, ITEM_TENSOR, block_tensor_name(t), layer, t, v.type, v.rows, v.cols};
        TRY(w->visit(w->self, &span));
    }
    return OK;
}

static status visit_parameters(const struct walk *w)
{
    const struct memory_request *q = w->request;
    int64_t elements = shape_elements(&q->shape);
    int64_t shard = (elements + q->shards - 1) / q->shards;
    TRY(visit_item(w, MEMORY_WEIGHTS, ITEM_WEIGHT, "weights", q->storage, 1, elements));
    for (int group = 0; group < q->reduction_groups; group++)
        TRY(visit_item(w, MEMORY_GRADIENTS, ITEM_GRADIENT, "gradients", w->wide, 1, elements));
    if (q->audits)
        TRY(visit_item(w, MEMORY_GRADIENTS, ITEM_CONTROL, "control gradient", w->wide, 1, elements));
    TRY(visit_item(w, MEMORY_OPTIMIZER, ITEM_MASTER, "master weights", w->wide, 1, shard));
    TRY(visit_item(w, MEMORY_OPTIMIZER, ITEM_M, "first moments", w->wide, 1, shard));
    return visit_item(w, MEMORY_OPTIMIZER, ITEM_V, "second moments", w->wide, 1, shard);
}

static status visit_stored(const struct walk *w)
{
    const struct memory_request *q = w->request;
    for (int l = 0; l < w->plan->layers; l++) {
        unsigned stored = all_tensors & ~lodgers & ~w->plan->layer[l].rebuilt;
        TRY(visit_tensors(w, MEMORY_STORED, l, stored, q->storage));
    }
    return visit_item(w, MEMORY_STORED, ITEM_FINAL_INPUT, "final input", q->storage, q->micro_batch * q->tokens,
                      q->shape.hidden);
}

/* Tensors rebuilt by any layer that stands at place `slot` of its chunk; by any layer at all for slot -1. */
static unsigned rebuilt_at(const struct recompute_plan *plan, int slot)
{
    unsigned set = 0;
    for (int l = 0; l < plan->layers; l++)
        if (slot < 0 || l - plan->layer[l].chunk_first == slot)
            set |= plan->layer[l].rebuilt;
    return set;
}

static status visit_rebuilt(const struct walk *w)
{
    for (int slot = 0; slot < w->plan->longest_chunk; slot++)
        TRY(visit_tensors(w, MEMORY_REBUILT, slot, rebuilt_at(w->plan, slot) & ~lodgers, w->slot_type));
    return OK;
}

static status visit_witness(const struct walk *w)
{
    if (!w->request->certificate)
        return OK;
    /* Both ends of the residual stream, INPUT and OUTPUT, are in the set exactly when a chunk has inner layers. */
    unsigned set = rebuilt_at(w->plan, -1) & ~(lodgers & ~BIT(TENSOR_OUTPUT));
    return visit_tensors(w, MEMORY_WITNESS, 0, set, w->request->storage);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static status visit_scratch(const struct walk *w)
{
    const struct memory_request *q = w->request;
    const struct model_shape *s = &q->shape;
    enum dtype storage = q->storage;
    int64_t rows = q->micro_batch * q->tokens, hidden = s->hidden, ffn = s->ffn, chunk = head_chunk(q);
    enum memory_class class = MEMORY_SCRATCH;
    TRY(visit_item(w, class, ITEM_TRANSIENT, "transient", w->slot_type, rows, hidden));
    TRY(visit_item(w, class, ITEM_D_STREAM, "d_stream", storage, rows, hidden));
    TRY(visit_item(w, class, ITEM_D_BRANCH, "d_branch", storage, rows, hidden));
    TRY(visit_item(w, class, ITEM_D_WIDE, "d_wide", storage, rows, larger(2 * ffn, shape_qkv_cols(s))));
    TRY(visit_item(w, class, ITEM_D_NARROW, "d_narrow", storage, rows, larger(ffn, hidden)));
    TRY(visit_item(w, class, ITEM_FINAL_NORM, "final norm", storage, rows, hidden));
    TRY(visit_item(w, class, ITEM_FINAL_RSTD, "final rstd", w->wide, rows, 1));
    TRY(visit_item(w, class, ITEM_LOGITS, "logits", w->wide, chunk, s->vocab));
    TRY(visit_item(w, class, ITEM_D_LOGITS, "d_logits", storage, chunk, s->vocab));
    TRY(visit_item(w, class, ITEM_LOSS, "losses", w->wide, rows, 1));
    TRY(visit_item(w, class, ITEM_ROPE_TABLE, "rope table", w->wide, s->sequence, shape_head_dim(s)));
    if (q->stale_weights)
        TRY(visit_item(w, class, ITEM_STALE_WEIGHT, "stale weights", storage, 1, shape_elements(s)));
    return OK;
}

static status check_request(const struct memory_request *q, const struct recompute_plan *plan)
{
    if (plan->layers != q->shape.layers)
        return FAIL(ERR_ARGUMENT, "a recompute plan of %d layers for a model of %d", plan->layers, q->shape.layers);
    if (q->micro_batch < 1 || q->micro_batch > 1 << 16)
        return FAIL(ERR_USAGE, "micro_batch_size %lld: expected 1 to 65536", (long long)q->micro_batch);
    if (q->tokens < 1 || q->tokens > q->shape.sequence)
        return FAIL(ERR_USAGE, "%lld tokens a sequence on each rank: expected 1 to the model's sequence %d",
                    (long long)q->tokens, q->shape.sequence);
    if (q->reduction_groups < 1)
        return FAIL(ERR_USAGE, "reduction_groups %d: expected at least 1", q->reduction_groups);
    if (q->shards < 1)
        return FAIL(ERR_USAGE, "%d optimizer shards: expected at least 1", q->shards);
    if (q->head_chunk < 0)
        return FAIL(ERR_USAGE, "head chunk of %lld tokens: expected at least 1, or 0 to let it be chosen",
                    (long long)q->head_chunk);
    return OK;
}

status memory_each(const struct memory_request *request, const struct recompute_plan *plan,
                   status (*visit)(void *self, const struct memory_span *span), void *self)
{
    TRY(check_request(request, plan));
    bool wider = (plan->policy.precision == F32 || request->wide_rebuild) && request->storage == BF16;
    struct walk w = {.request = request,
                     .plan = plan,
                     .wide = request->storage == F64 ? F64 : F32,
                     .slot_type = wider ? F32 : request->storage,
                     .visit = visit,
                     .self = self};
    TRY(visit_parameters(&w));
    TRY(visit_stored(&w));
    TRY(visit_rebuilt(&w));
    TRY(visit_witness(&w));
    return visit_scratch(&w);
}

struct sums {
    uint64_t of[MEMORY_CLASSES], arena;
};

static status add_span(void *self, const struct memory_span *span)
{
    struct sums *sums = self;
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)span->rows * dtype_bytes(span->type), (uint64_t)span->cols, &bytes) ||
        __builtin_add_overflow(sums->arena, device_span_bytes(bytes), &sums->arena) || sums->arena > INT64_MAX)
        return FAIL(ERR_USAGE, "the run needs more than 2^63 bytes at '%s' (%lld x %lld): use smaller batches",
                    span->name, (long long)span->rows, (long long)span->cols);
    sums->of[span->class] += bytes;
    return OK;
}

status memory_plan_make(struct memory_plan *out, const struct memory_request *request,
                        const struct recompute_plan *plan)
{
    struct sums sums = {0};
    TRY(memory_each(request, plan, add_span, &sums));
    struct memory_plan p = {.weights = sums.of[MEMORY_WEIGHTS],
                            .gradients = sums.of[MEMORY_GRADIENTS],
                            .optimizer = sums.of[MEMORY_OPTIMIZER],
                            .stored_activations = sums.of[MEMORY_STORED],
                            .rebuilt_activations = sums.of[MEMORY_REBUILT],
                            .witness = sums.of[MEMORY_WITNESS],
                            .scratch = sums.of[MEMORY_SCRATCH],
                            .arena_bytes = sums.arena,
                            .head_chunk = head_chunk(request)};
    for (int c = 0; c < MEMORY_CLASSES; c++)
        p.total += sums.of[c];
    p.activation_bytes = p.stored_activations + p.rebuilt_activations;
    *out = p;
    return OK;
}
