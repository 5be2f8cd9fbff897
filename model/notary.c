/* notary.c - takes the certificate: digests what the forward makes, compares what the recompute makes. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "model/certificate.h"

/* The digests of one tensor of one layer in the current micro-batch, a digest per tile. */
struct seal {
    struct digest *first, *second; /* of the forward; of the recompute */
    int32_t tiles;
    bool differs;
};

struct notary {
    struct observer observer; /* first member: the observer is the notary */
    struct certificate *into;
    struct device *device;
    const struct recompute_plan *plan;
    enum dtype storage;
    int rank;
    struct seal *seal;      /* [layers * BLOCK_TENSORS] */
    struct digest *memory;  /* what all seals point into */
    struct digest *witness; /* one tensor's tiles */
    const struct block_tensors *recomputed;
    bool active;
    int64_t step;
    int32_t micro_batch;
    bool pending; /* the current chunk's rebuild differs */
    struct certificate_event event;
    struct certificate_step line;
};

static struct seal *seal_at(const struct notary *n, int layer, enum block_tensor t)
{
    return &n->seal[layer * BLOCK_TENSORS + t];
}

/* An INPUT inside a chunk is the OUTPUT before it, and sealed as that. */
static bool is_sealed(const struct recompute_plan *plan, int layer, enum block_tensor t)
{
    return t == TENSOR_INPUT ? plan->layer[layer].verifies_input : recompute_is_rebuilt(plan, layer, t);
}

static status take_digest(const struct notary *n, struct digest *tiles, const struct pass *pass, enum block_tensor t,
                          const struct view *view)
{
    const int64_t *rows = block_tensor_by_head(t) ? pass->head_row_id : pass->row_id;
    /* A wider rebuild is compared as the forward would have stored it; rstd and lse are f32 in both. */
    enum dtype as =
        view->type == n->storage || t == TENSOR_RSTD1 || t == TENSOR_RSTD2 || t == TENSOR_LSE ? view->type : n->storage;
    return n->device->ops->digest(n->device, tiles, view, as, rows);
}

static void compare_seals(struct notary *n, int layer, enum block_tensor t)
{
    struct seal *seal = seal_at(n, layer, t);
    struct certificate_cell *cell = certificate_at(n->into, layer, t);
    int32_t differing = 0, first = -1;
    for (int32_t i = 0; i < seal->tiles; i++)
        if (!digest_equal(&seal->first[i], &seal->second[i])) {
            differing++;
            if (first < 0)
                first = i;
        }
    seal->differs = differing > 0;
    cell->compared++;
    n->line.compared++;
    if (!seal->differs)
        return;
    if (n->into->expects_mismatch) {
        cell->expected++;
        n->line.expected++;
        return;
    }
    cell->mismatched++;
    n->line.mismatched++;
    if (n->pending)
        return;
    n->pending = true;
    n->event = (struct certificate_event){
        .step = n->step,
        .micro_batch = n->micro_batch,
        .rank = n->rank,
        .layer = layer,
        .tensor = t,
        .accused = t == TENSOR_INPUT ? ACCUSED_STORED_INPUT : ACCUSED_UNKNOWN,
        .tiles = seal->tiles,
        .tiles_differing = differing,
        .first_tile = first,
    };
}

/* Tensors whose memory another op has used again by the time a witness is heard. */
static bool is_overwritten(enum block_tensor t)
{
    return t == TENSOR_QKV_RAW || t == TENSOR_PROJECTED || t == TENSOR_DOWN;
}

static status hear_witness(struct notary *n, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    struct seal *seal = seal_at(n, pass->layer, t);
    if (!seal->differs || t == TENSOR_INPUT)
        return OK;
    if (pass->layer == n->event.layer && t == n->event.tensor) {
        TRY(take_digest(n, n->witness, pass, t, view));
        size_t bytes = (size_t)seal->tiles * sizeof *n->witness;
        n->event.accused = !memcmp(n->witness, seal->first, bytes)    ? ACCUSED_RECOMPUTE
                           : !memcmp(n->witness, seal->second, bytes) ? ACCUSED_FORWARD
                                                                      : ACCUSED_UNKNOWN;
    }
    if (is_overwritten(t))
        return OK;
    return comparison_add(&certificate_at(n->into, pass->layer, t)->values, view, &n->recomputed->t[t], n->storage);
}

static status notary_seen(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    struct notary *n = (struct notary *)self;
    if (!n->active || !is_sealed(n->plan, pass->layer, t))
        return OK;
    struct seal *seal = seal_at(n, pass->layer, t);
    switch (pass->phase) {
    case PHASE_FORWARD:
        return take_digest(n, seal->first, pass, t, view);
    case PHASE_RECOMPUTE:
        TRY(take_digest(n, seal->second, pass, t, view));
        compare_seals(n, pass->layer, t);
        return OK;
    case PHASE_WITNESS:
        return hear_witness(n, pass, t, view);
    case PHASE_EVALUATE:
        break;
    }
    return OK;
}

status notary_open(struct notary **out, struct certificate *into, struct device *device,
                   const struct model_shape *shape, const struct recompute_plan *plan, int64_t batch, int64_t tokens,
                   enum dtype storage, int rank)
{
    *out = NULL;
    struct notary *n = calloc(1, sizeof *n);
    if (!n)
        return FAIL(ERR_MEMORY, "no memory for a notary");
    n->observer.seen = notary_seen;
    n->into = into;
    n->device = device;
    n->plan = plan;
    n->storage = storage;
    n->rank = rank;
    size_t cells = (size_t)plan->layers * BLOCK_TENSORS, total = 0;
    int32_t most = 1;
    n->seal = calloc(cells, sizeof *n->seal);
    for (size_t i = 0; n->seal && i < cells; i++) {
        enum block_tensor t = (enum block_tensor)(i % BLOCK_TENSORS);
        if (!is_sealed(plan, (int)(i / BLOCK_TENSORS), t))
            continue;
        n->seal[i].tiles = (int32_t)digest_tiles(block_tensor_view(shape, t, batch, tokens, storage).rows);
        total += 2 * (size_t)n->seal[i].tiles;
        most = n->seal[i].tiles > most ? n->seal[i].tiles : most;
    }
    n->memory = calloc(total + 1, sizeof *n->memory);
    n->witness = calloc((size_t)most, sizeof *n->witness);
    if (!n->seal || !n->memory || !n->witness) {
        notary_close(n);
        return FAIL(ERR_MEMORY, "no memory for the digests of %d layers", plan->layers);
    }
    struct digest *next = n->memory;
    for (size_t i = 0; i < cells; i++) {
        n->seal[i].first = next;
        n->seal[i].second = next + n->seal[i].tiles;
        next += 2 * n->seal[i].tiles;
    }
    *out = n;
    return OK;
}

void notary_close(struct notary *n)
{
    if (!n)
        return;
    free(n->seal);
    free(n->memory);
    free(n->witness);
    free(n);
}

struct observer *notary_observer(struct notary *n) { return &n->observer; }

void notary_begin(struct notary *n, int64_t step, int32_t micro_batch, bool active)
{
    n->active = active;
    n->step = step;
    n->micro_batch = micro_batch;
}

bool notary_needs_witness(const struct notary *n) { return n->active && n->pending; }

void notary_recomputed(struct notary *n, const struct block_tensors *recomputed) { n->recomputed = recomputed; }

void notary_judge(struct notary *n)
{
    if (!n->pending)
        return;
    if (n->into->event_count < CERTIFICATE_EVENTS)
        n->into->event[n->into->event_count++] = n->event;
    n->into->event_total++;
    n->pending = false;
}

status notary_end_step(struct notary *n)
{
    if (!n->active)
        return OK;
    n->line.step = n->step;
    TRY(certificate_add_step(n->into, &n->line));
    n->line = (struct certificate_step){0};
    return OK;
}
