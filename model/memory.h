/* memory.h - the only memory arithmetic: how many bytes a run takes, before it starts.
 *
 * The decoder carves its arena from this plan, so planned and taken are the same numbers. Activations: every tensor of
 * every block is either stored (once per layer) or rebuilt (once per layer of the longest chunk).
 * Units: bytes, with the arena's alignment and guards in `arena_bytes` only.
 */
#ifndef REMATCH_MODEL_MEMORY_H
#define REMATCH_MODEL_MEMORY_H

#include "model/recompute.h"
#include "model/shape.h"

struct memory_request {
    struct model_shape shape;
    int64_t micro_batch, tokens; /* per rank: B, T/cp */
    enum dtype storage;
    int reduction_groups;
    int shards;         /* ranks over which the optimizer is sharded (planning only); 1 */
    bool stale_weights; /* a second copy of the weights, for that fault */
    bool certificate;   /* witness buffers */
    int64_t head_chunk; /* tokens per chunk of the fused cross-entropy; 0: chosen */
};

struct memory_plan {
    uint64_t weights, gradients, optimizer; /* storage copy; f32 main gradients; f32 master, m, v */
    uint64_t stored_activations;            /* kept between forward and backward: falls as more layers are recomputed */
    uint64_t rebuilt_activations;           /* the slots in which chunks are rebuilt */
    uint64_t witness;                       /* the third rebuild's slot */
    uint64_t scratch;                       /* gradients of activations, logits chunk, tables */
    uint64_t total;                         /* sum of the above */
    uint64_t activation_bytes;              /* stored + rebuilt */
    uint64_t arena_bytes;                   /* what device_open takes */
    int64_t head_chunk;
};

/* The head's chunk for a vocabulary: at most 32 MiB of f32 logits, a multiple of 64 tokens. */
int64_t memory_head_chunk(const struct model_shape *s, int64_t rows);

status memory_plan_make(struct memory_plan *out, const struct memory_request *request,
                        const struct recompute_plan *plan);

#endif
