/* fault.h - planted faults: edits of the recompute pass, in one place.
 *
 *   --fault NAME[:layers=8-15,from=STEP,rank=R,...]
 *   rng-redrawn      the dropout masks are drawn again under another key (OLMo-core #828)
 *   gemm-order       the GEMMs of the recompute reduce in another order: mode=fixed (default), always the same one, or
 *                    mode=random, another each call (pytorch #186572)
 *   attention-order  its attention takes its keys in blocks half as long: mode=fixed, the only one
 *   biased-rounding  its GEMMs and its attention cut: mode=zero (default) their BF16 results, mode=truncating their
 *                    sums, as plan.h says of to-zero and truncating (arXiv:2510.04212)
 *   precision-lost   the rebuild leaves the forward's precision: mode=fp32 (default), its tensors are held in F32 as by
 *                    recompute_precision fp32, but unannounced; mode=fp8, the results of its GEMMs are rounded to E4M3
 *                    (TransformerEngine #24, Megatron-LM #7538)
 *   stale-weights    the recompute sees the weights of the step before (Megatron-LM #6407)
 *   chunk-input      every layer of a uniform chunk is fed the chunk's input (Megatron-LM PR #290)
 *   grad-dropped     parameter=qkv (default), input_norm, projection, post_norm, gate_up or down of a recomputed layer
 *                    gets no gradient; the recompute itself is right (Megatron-LM #4765, Paddle #55722)
 *   bit-flip         each rebuilt tensor has a random bit flipped with probability rate=R, by default 0.001
 *                    (arXiv:2502.12340)
 *   cp-offset        the positions of the rebuild are offset=N further on, by default half the sequence, and wrap at its
 *                    end, in rotation and mask alike, as those of a context-parallel rank that takes itself for another
 *                    (NeMo #12210). Ranks are data-parallel ones: there is no context parallelism yet.
 * They exist to measure the detector: nothing that judges ever sees the flag.
 */
#ifndef REMATCH_MODEL_FAULT_H
#define REMATCH_MODEL_FAULT_H

#include "model/pass.h"
#include "model/recompute.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_RNG_REDRAWN,
    FAULT_GEMM_ORDER,
    FAULT_ATTENTION_ORDER,
    FAULT_BIASED_ROUNDING,
    FAULT_PRECISION_LOST,
    FAULT_STALE_WEIGHTS,
    FAULT_CHUNK_INPUT,
    FAULT_GRAD_DROPPED,
    FAULT_BIT_FLIP,
    FAULT_CP_OFFSET
};

enum fault_mode {
    FAULT_MODE_FIXED, /* also of faults without modes */
    FAULT_MODE_RANDOM,
    FAULT_MODE_ZERO,
    FAULT_MODE_TRUNCATING,
    FAULT_MODE_FP32,
    FAULT_MODE_FP8
};

struct fault {
    enum fault_kind kind;
    int first_layer, last_layer; /* inclusive */
    int64_t from;                /* first step in which it acts */
    int rank;                    /* -1: all */
    enum fault_mode mode;
    enum parameter_kind parameter; /* of grad-dropped */
    double rate;                   /* of bit-flip: 0 < rate <= 1 */
    int64_t offset;                /* of cp-offset, in tokens; 0: half the sequence */
};

/* "" or NULL gives FAULT_NONE. ERR_USAGE names the part that is wrong and what is known. */
status fault_parse(struct fault *out, const char *text);

/* What decides whether a fault can act in a run. */
struct fault_run {
    const struct recompute_plan *plan;
    const struct model_shape *shape;
    enum dtype storage;
    enum arithmetic_mode recompute; /* what the run's recompute does anyway */
    int64_t last_step;
    int ranks;
};

/* ERR_USAGE when the fault can never act: no layer of its range is rebuilt with an op that it touches, or it begins after
 * the last step, or its rank does not exist, or the run has nothing that it could change. A detector must not be judged
 * by what never happened. */
status fault_check(const struct fault *f, const struct fault_run *run);

/* What it needs of the decoder's memory: a copy of the weights; room for a rebuild in F32. */
bool fault_keeps_weights(const struct fault *f);
bool fault_widens(const struct fault *f);

/* The arithmetic of a faulty rebuild, of sequences of `tokens`, where the right one is `recompute`. */
struct arithmetic fault_arithmetic(const struct fault *f, const struct arithmetic *recompute, int64_t tokens);

/* The faulty position of a token. */
int32_t fault_position(const struct fault *f, int64_t position, int64_t tokens);

/* What a fault may put into a pass. */
struct fault_material {
    const struct block_plans *other; /* plans of fault_arithmetic */
    const struct view *stale_weight; /* (BLOCK_PARAMETERS) weights of the step before; NULL: none */
    const int32_t *position;         /* (M) fault_position of each row */
    int chunk_first;                 /* first layer of the chunk */
};

bool fault_acts(const struct fault *f, int layer, int64_t step, int rank);
void fault_edit(const struct fault *f, struct pass *pass, const struct fault_material *material);

/* Of a pass with `damage`: changes a tensor that an op has just made, before anybody has seen it. */
void fault_damage(const struct pass *pass, enum block_tensor t, const struct view *made);

#endif
