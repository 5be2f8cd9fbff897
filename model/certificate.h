/* certificate.h - whether recomputed bits equal those of the first forward, over the whole run.
 *
 * Forward: each tensor that the plan drops is digested as it is made, per tile of DIGEST_TILE_ROWS rows. Recompute: it
 * is digested again and compared: every recomputed layer, every step, every micro-batch (or every `every`-th step). The
 * stored input of each chunk is verified as well. On a mismatch the chunk is rebuilt a third time with the forward's
 * pass (the witness): witness = first forward accuses the recompute, witness = recompute accuses the first forward, and
 * recompute and witness are compared element by element.
 * With --recompute-precision fp32 mismatches are expected, and counted apart.
 * Intermediates that live only inside a fused kernel (attention scores, softmax) are not covered.
 *
 * Memory: two digests of 16 bytes a tile of one micro-batch, in host memory; counters per (layer, tensor).
 */
#ifndef REMATCH_MODEL_CERTIFICATE_H
#define REMATCH_MODEL_CERTIFICATE_H

#include "kernels/compare.h"
#include "kernels/device.h"
#include "kernels/digest.h"
#include "model/block.h"
#include "model/recompute.h"

enum accused { ACCUSED_NOBODY, ACCUSED_FORWARD, ACCUSED_RECOMPUTE, ACCUSED_STORED_INPUT, ACCUSED_UNKNOWN };
const char *accused_name(enum accused a); /* "nobody", "forward", "recompute", "stored input", "unknown" */

/* One mismatch: the first tensor of a chunk's rebuild, in order of the forward, whose bits differ. */
struct certificate_event {
    int64_t step;
    int32_t micro_batch, rank, layer; /* micro-batch of the global batch */
    enum block_tensor tensor;
    enum accused accused;
    int32_t tiles, tiles_differing, first_tile;
};

/* Counters of one (layer, tensor) over the run. */
struct certificate_cell {
    uint64_t compared, mismatched, expected; /* expected: mismatches that the policy announces */
    struct comparison values;                /* recompute (b) against witness (a), over mismatches; unit bf16 */
};

/* One line per step. */
struct certificate_step {
    int64_t step;
    uint64_t compared, mismatched, expected;
};

enum { CERTIFICATE_EVENTS = 1024 }; /* the first ones are kept, all are counted */

struct certificate_totals {
    uint64_t compared, mismatched, expected, events;
    uint64_t differing, grown, shrunk; /* elements, as struct comparison */
};

struct certificate {
    int32_t layers;
    bool expects_mismatch;         /* fp32 rebuild of a bf16 forward */
    struct certificate_cell *cell; /* [layers * BLOCK_TENSORS] */
    struct certificate_event *event;
    int event_count;
    uint64_t event_total;
    struct certificate_step *step;
    int64_t step_count, step_capacity;
};

static inline struct certificate_cell *certificate_at(const struct certificate *c, int layer, enum block_tensor t)
{
    return &c->cell[layer * BLOCK_TENSORS + t];
}

status certificate_new(struct certificate **out, int layers, bool expects_mismatch);
void certificate_free(struct certificate *c);
struct certificate_totals certificate_total(const struct certificate *c);

/* The first of the kept events in order of the forward: lowest step, then micro-batch, rank, layer, tensor. NULL: none.
 * Layers are rebuilt from the last down, so this is not the first that was filed. */
const struct certificate_event *certificate_first(const struct certificate *c);

status certificate_add_step(struct certificate *c, const struct certificate_step *line);

/* Adds another rank's part of the same run, as if one notary had seen both: counters and lines of a step add,
 * comparisons join, events keep the order in which they would have been filed (step, micro-batch, rank; inside those as
 * in their part), the first CERTIFICATE_EVENTS of them. ERR_ARGUMENT, and nothing changed, for a part of another run. */
status certificate_merge(struct certificate *into, const struct certificate *part);

/* certificate.bin, byte table in data/FORMATS.md. *bytes is malloc'ed. ERR_INPUT for a damaged or foreign one; `name`
 * is what messages call it. */
status certificate_write(const struct certificate *c, void **bytes, size_t *size);
status certificate_read(struct certificate **out, const char *name, const void *bytes, size_t size);

/* ---- taking one: an observer of a running decoder ---- */

struct notary;

/* `rank` goes into events. Tensors as `shape` for micro-batches of `batch` x `tokens`. */
status notary_open(struct notary **out, struct certificate *into, struct device *device,
                   const struct model_shape *shape, const struct recompute_plan *plan, int64_t batch, int64_t tokens,
                   enum dtype storage, int rank);
void notary_close(struct notary *n);
struct observer *notary_observer(struct notary *n);

/* A micro-batch begins; `active` false: this step is not sampled. */
void notary_begin(struct notary *n, int64_t step, int32_t micro_batch, bool active);

/* After the rebuild of a chunk: true when a tensor differed from the forward and a witness should be heard. */
bool notary_needs_witness(const struct notary *n);

/* Before the witness rebuilds `layer`: what the recompute made there, to be compared element by element. */
void notary_recomputed(struct notary *n, const struct block_tensors *recomputed);

/* The chunk is done (witness heard, if one was needed): files its event, if it has one. */
void notary_judge(struct notary *n);

/* The step is over: files its line. */
status notary_end_step(struct notary *n);

#endif
