/* fit.h - how many layers to recompute so that a training fits a card: block N for every N, from the memory plan. */
#ifndef REMATCH_STAGES_FIT_H
#define REMATCH_STAGES_FIT_H

#include <jansson.h>

#include "model/memory.h"

struct fit_request {
    struct model_shape shape; /* its sequence is the sequence length */
    int micro_batch_size, dp, cp;
    uint64_t memory_bytes; /* of one card */
};

struct fit {
    int layers;
    struct memory_plan *plan; /* [layers + 1]: block N */
    int smallest;             /* the first N that fits; -1: none does */
};

/* The plan of a rank of dp x cp ranks that share the optimizer's state, in bf16, with the certificate's witness.
 * ERR_USAGE when the sequence does not divide over cp. */
status fit_make(struct fit *out, const struct fit_request *request);
void fit_free(struct fit *f);

/* The same facts as a table, and as an object (new reference). */
void fit_print(const struct fit *f, const struct fit_request *request);
json_t *fit_json(const struct fit *f, const struct fit_request *request);

#endif
