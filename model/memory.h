/* memory.h - the only memory arithmetic: how many bytes a run takes, before it starts.
 *
 * A run's device memory is a list of spans (memory_each). The decoder carves its arena by walking that list and
 * memory_plan_make adds the same list up, so planned and taken are the same numbers.
 *
 * Activations: a tensor of a block is either stored, once per layer, or rebuilt, once per layer of the longest chunk
 * ("slots": layer l of a chunk uses slot l - chunk_first, in the forward and in the rebuild). Tensors without a span of
 * their own: QKV_RAW shares QKV's; PROJECTED and DOWN share the one transient buffer; OUTPUT is the next layer's INPUT,
 * or the final norm's input. A slot has room for the rebuild's precision, which may be wider than the forward's.
 * The witness has one layer's room, in the forward's storage; inside a chunk of several layers the residual stream
 * alternates between its INPUT and OUTPUT spans.
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
    int reduction_groups; /* of this rank: the study's, over dp */ /* of this rank */
    int shards;         /* ranks over which the optimizer is sharded (planning only); 1 */
    bool stale_weights; /* a second copy of the weights, for that fault */
    bool wide_rebuild;  /* slots for F32, which a fault rebuilds in whatever the policy says */
    bool audits;        /* a second gradient, that of the control */
    bool certificate;   /* witness buffers */
    int64_t head_chunk; /* tokens per chunk of the fused cross-entropy; 0: chosen */
};

enum memory_class {
    MEMORY_WEIGHTS,   /* in the run's storage */
    MEMORY_GRADIENTS, /* f32 main gradients: an array for each reduction group, and the control's */
    MEMORY_OPTIMIZER, /* f32 master weights, m, v: this rank's shard */
    MEMORY_STORED,    /* activations kept between forward and backward: falls as more layers are recomputed */
    MEMORY_REBUILT,   /* the slots in which chunks are rebuilt */
    MEMORY_WITNESS,   /* the third rebuild's slot */
    MEMORY_SCRATCH,   /* gradients of activations, logits chunk, tables, the stale copy of the weights */
    MEMORY_CLASSES
};

/* M = micro_batch * tokens rows; H, F, V as in shape.h; N = shape_elements. */
enum memory_item {
    ITEM_TENSOR,   /* a block's tensor: `tensor` of `layer` */
    ITEM_WEIGHT,   /* (1,N) */
    ITEM_GRADIENT, /* (1,N), one for each reduction group */
    ITEM_CONTROL,  /* (1,N) the gradient that audits compare with */
    ITEM_MASTER,   /* (1, N / shards, rounded up) */
    ITEM_M,
    ITEM_V,
    ITEM_FINAL_INPUT, /* (M,H) the last layer's OUTPUT; stored */
    ITEM_FINAL_NORM,  /* (M,H) */
    ITEM_FINAL_RSTD,  /* (M,1) f32 */
    ITEM_TRANSIENT,   /* (M,H) PROJECTED and DOWN of every layer; as wide as the slots */
    ITEM_D_STREAM,    /* the backward's four: see block.h */
    ITEM_D_BRANCH,
    ITEM_D_WIDE,
    ITEM_D_NARROW,
    ITEM_LOGITS,       /* (head_chunk,V) f32 */
    ITEM_D_LOGITS,     /* (head_chunk,V) in the run's storage */
    ITEM_LOSS,         /* (M,1) f32 */
    ITEM_ROPE_TABLE,   /* (sequence, head_dim) f32: all positions, whatever part of them this rank has */
    ITEM_STALE_WEIGHT, /* (1,N) */
};

struct memory_span {
    enum memory_class class;
    enum memory_item item;
    const char *name; /* a literal */
    int layer;        /* ITEM_TENSOR: the layer (stored), the slot (rebuilt), 0 (witness); else -1 */
    int tensor;       /* ITEM_TENSOR: enum block_tensor; else -1 */
    enum dtype type;
    int64_t rows, cols;
};

/* Calls `visit` for every span of the run, always in the same order; stops at its first error and relays it.
 * ERR_USAGE when the request makes no sense (micro_batch, tokens, groups or shards below 1). */
status memory_each(const struct memory_request *request, const struct recompute_plan *plan,
                   status (*visit)(void *self, const struct memory_span *span), void *self);

struct memory_plan {
    uint64_t weights, gradients, optimizer; /* the sums of each class */
    uint64_t stored_activations;
    uint64_t rebuilt_activations;
    uint64_t witness;
    uint64_t scratch;
    uint64_t total;            /* sum of the above */
    uint64_t activation_bytes; /* stored + rebuilt */
    uint64_t arena_bytes;      /* what device_open takes */
    int64_t head_chunk;
};

/* The head's chunk for a vocabulary: at most 64 MiB of f32 logits, a multiple of 64 tokens (64 at least), or all rows
 * where they are fewer. */
int64_t memory_head_chunk(const struct model_shape *s, int64_t rows);

status memory_plan_make(struct memory_plan *out, const struct memory_request *request,
                        const struct recompute_plan *plan);

#endif
