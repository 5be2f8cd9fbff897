/* pass.h - one trip through a layer: everything that decides its bits.
 *
 * The forward makes a pass; recompute begins by making another, which in the control is equal to the first. A fault
 * edits the pass of the recompute; no op and no block knows of faults. The backward reads weights, plans and dropout
 * masks from the pass that produced the activations it consumes.
 */
#ifndef REMATCH_MODEL_PASS_H
#define REMATCH_MODEL_PASS_H

#include "kernels/device.h"
#include "kernels/philox.h"
#include "model/shape.h"

/* The plans of one block in one arithmetic. */
struct block_plans {
    const struct plan *qkv, *projection, *gate_up, *down, *attention; /* forward: GEMM_NT */
    const struct plan *d_qkv, *d_projection, *d_gate_up, *d_down;     /* input gradients: GEMM_NN */
    const struct plan *w_qkv, *w_projection, *w_gate_up, *w_down;     /* weight gradients of one span: GEMM_TN */
};

enum pass_phase {
    PHASE_FORWARD,
    PHASE_RECOMPUTE,
    PHASE_WITNESS /* the third rebuild, after a mismatch */,
    PHASE_EVALUATE
};

/* What is drawn in a layer. The embedding's dropout belongs to layer number `layers`; initial values and
 * sketches (audit.h) are drawn under the parameter's index instead of a layer. */
enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_MLP, SITE_REDUCTION_ORDER, SITE_INITIAL_VALUE, SITE_SKETCH, SITE_FAULT };

struct fault;

struct pass {
    enum pass_phase phase;
    int layer;
    int reads; /* the layer whose INPUT it reads: its own */
    const struct block_plans *plans;
    struct view weight[BLOCK_PARAMETERS]; /* by kind - PARAMETER_INPUT_NORM */
    struct random_site key;               /* seed, step, layer; the op adds its site */
    float dropout;                        /* 0 while evaluating */
    const int32_t *position;              /* (M): rotary position of each row */
    const int64_t *row_id;                /* (M): global row */
    const int64_t *head_row_id;           /* (B*heads): global row of lse rows */
    enum dtype storage;
    uint64_t draw_seed; /* of ORDER_RANDOM */
    bool redraw;        /* a recompute that draws its orders anew instead of repeating the forward's */
    uint32_t micro_batch;
    unsigned dropped;           /* bit kind - PARAMETER_INPUT_NORM: a parameter that gets no gradient */
    const struct fault *damage; /* what changes its tensors once they are made; NULL: nothing */
};

/* What names one call to ORDER_RANDOM: a pure function of (draw seed, step, layer, micro-batch, call), and of the phase
 * only where the pass redraws. `call` numbers the calls of a layer; forward ops use their block_op. */
uint64_t pass_draw(const struct pass *pass, int call);

#endif
