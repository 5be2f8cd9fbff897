/* block.h - one transformer block: forward (whole, or only some of its ops) and backward.
 *
 * The forward is a list of ops; a rebuild is the same function with a mask, so there is one forward and not two. After
 * each op the observers see its outputs: certificate and dumps are observers, and so is the test that flips bits.
 */
#ifndef REMATCH_MODEL_BLOCK_H
#define REMATCH_MODEL_BLOCK_H

#include "kernels/ops.h"
#include "model/pass.h"

/* Sees each tensor as an op has made it. `view` may be written to by tests that plant errors. */
struct observer {
    status (*seen)(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view);
    status (*gradient)(struct observer *self, int layer, const struct view *d_input); /* of a block; may be NULL */
    struct observer *next;
};

status observers_seen(struct observer *first, const struct pass *pass, enum block_tensor t, const struct view *view);

/* Rows of a micro-batch that belong to one reduction group. All spans of a run have the same count. */
struct row_span {
    int64_t first, count;
    int group;
};

/* Where parameter gradients go: one flat array (1, shape_elements) per reduction group of this rank, f32, laid out as
 * shape.h says, always added to (zeroed when a step begins). */
struct gradient_sink {
    const struct view *group;
    const struct row_span *span;
    int spans;
};

struct block_tensors {
    struct view t[BLOCK_TENSORS];
};

/* Buffers of the backward that no block keeps, in the run's storage. */
struct block_scratch {
    struct view d_stream; /* (M,H) gradient of the residual stream: in and out of the backward */
    struct view d_branch; /* (M,H) */
    struct view d_wide;   /* (M, max(2F, H+2KV)) */
    struct view d_narrow; /* (M, max(F, H)) */
};

struct block {
    const struct model_shape *shape;
    struct device *device;
    int64_t batch, tokens; /* of one micro-batch: M = batch * tokens */
    const struct view *rope_table;
    struct block_scratch scratch;
    struct observer *observers;
};

/* Runs the ops in `ops` (bits of enum block_op) in order, reading and writing `tensors`. */
status block_forward(struct block *b, const struct pass *pass, unsigned ops, struct block_tensors *tensors);

/* scratch.d_stream: gradient of OUTPUT in, gradient of INPUT out. Weights and dropout masks are the pass's, which made
 * `tensors`; reductions follow `plans`. Adds parameter gradients to the sink. */
status block_backward(struct block *b, const struct pass *pass, const struct block_tensors *tensors,
                      const struct block_plans *plans, const struct gradient_sink *sink);

/* Adds dy^T x, span by span, to parameter `index` of each span's group: the gradient of a weight in y = x W^T. */
status block_weight_gradient(struct block *b, const struct gradient_sink *sink, int index, const struct plan *plan,
                             uint64_t draw, const struct view *dy, const struct view *x);

/* Parameter `index` as a matrix inside a flat array. */
struct view block_parameter(const struct model_shape *s, const struct view *flat, int index);

#endif
