/* fault.h - planted faults: edits of the recompute pass, in one place.
 *
 *   --fault NAME[:layers=8-15,from=STEP,rank=R,mode=...]
 *   rng-redrawn   the dropout masks are drawn again under another key (OLMo-core #828)
 *   gemm-order    the GEMMs of the recompute reduce in another order: mode=fixed (default), always the same one, or
 *                 mode=random, another each call (pytorch #186572)
 *   stale-weights the recompute sees the weights of the step before (Megatron-LM #6407)
 * They exist to measure the detector: nothing that judges ever sees the flag.
 */
#ifndef REMATCH_MODEL_FAULT_H
#define REMATCH_MODEL_FAULT_H

#include "model/pass.h"
#include "model/recompute.h"

enum fault_kind { FAULT_NONE, FAULT_RNG_REDRAWN, FAULT_GEMM_ORDER, FAULT_STALE_WEIGHTS };

struct fault {
    enum fault_kind kind;
    int first_layer, last_layer; /* inclusive */
    int64_t from;                /* first step in which it acts */
    int rank;                    /* -1: all */
    bool random;                 /* gemm-order: mode=random */
};

/* "" or NULL gives FAULT_NONE. ERR_USAGE names the part that is wrong and what is known. */
status fault_parse(struct fault *out, const char *text);

/* ERR_USAGE when the fault can never act: no layer of its range is rebuilt with an op that it touches, or it begins after
 * the last step, or its rank does not exist. A detector must not be judged by what never happened. */
status fault_check(const struct fault *f, const struct recompute_plan *plan, int64_t last_step, int ranks);

/* What a fault may put into a pass. */
struct fault_material {
    const struct block_plans *other; /* plans of another reduction order, for gemm-order */
    const struct view *stale_weight; /* (BLOCK_PARAMETERS) weights of the step before; NULL: none */
};

bool fault_acts(const struct fault *f, int layer, int64_t step, int rank);
void fault_edit(const struct fault *f, struct pass *pass, const struct fault_material *material);

#endif
