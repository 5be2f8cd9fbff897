/* decoder.h - the whole model on one rank: weights, activations, forward, recompute and backward of a micro-batch.
 *
 * A step: decoder_begin_step, decoder_train for each micro-batch, then the caller sums the gradient groups over ranks,
 * steps the optimizer (decoder_state), and calls decoder_end_step.
 * The arena is carved from the memory plan (memory.h); nothing is allocated while training.
 * Memory: decoder_close releases everything. Views are borrowed until then.
 */
#ifndef REMATCH_MODEL_DECODER_H
#define REMATCH_MODEL_DECODER_H

#include "kernels/device.h"
#include "model/block.h"
#include "model/certificate.h"
#include "model/fault.h"
#include "model/memory.h"
#include "model/optimizer.h"
#include "model/recompute.h"

struct decoder_options {
    const char *backend; /* "cpu" or "reference" */
    int threads;         /* 0: OpenMP's default */
    struct model_shape shape;
    enum dtype storage;
    int64_t micro_batch;         /* B; T is shape.sequence */
    int64_t sequences_per_group; /* of the global batch; divides micro_batch or is divided by it */
    int64_t global_batch;        /* sequences; the loss is the mean over all their tokens */
    int groups;                  /* reduction groups of this rank */
    int rank;
    struct recompute_policy recompute;
    struct arithmetic arithmetic; /* the target's profile */
    struct arithmetic_dial dial;  /* what a run changes about it; evaluation never does */
    bool draws;                   /* orders are drawn per call, and repeated by a recompute, whatever the dial says */
    uint64_t seed, draw_seed;
    struct fault fault;
    struct certificate *certificate; /* where findings go; borrowed. NULL: none is taken */
    bool audits;                     /* steps may be run as a control */
};

struct decoder;

status decoder_open(struct decoder **out, const struct decoder_options *options);
void decoder_close(struct decoder *d);

const struct memory_plan *decoder_memory(const struct decoder *d);
const struct recompute_plan *decoder_recompute(const struct decoder *d);
struct device *decoder_device(struct decoder *d);

/* Adds an observer behind the certificate's; borrowed. Or in front of it, for tests that plant errors. */
void decoder_observe(struct decoder *d, struct observer *o, bool first);
void decoder_forget(struct decoder *d, struct observer *o);

/* Weights drawn from N(0, init_std), norms 1, moments 0: a function of the seed. */
status decoder_initialise(struct decoder *d);

/* Weights from the master copy (rounded): after a state was loaded. */
status decoder_round_weights(struct decoder *d);

/* weight, master, m, v; grad is the first group's gradient, where comm_sum_in_order leaves the sum. */
struct optimizer_state decoder_state(struct decoder *d);
const struct view *decoder_gradients(struct decoder *d, int *groups);

/* The weights of the step before, kept for the fault `stale-weights` only (else NULL): part of a checkpoint. */
const struct view *decoder_stale(struct decoder *d, bool **valid);

/* Zeroes the gradients. `certified`: this step's recompute is compared. Steps count from 1. */
status decoder_begin_step(struct decoder *d, int64_t step, bool certified);

/* One micro-batch: B sequences of T tokens and their targets. */
struct batch {
    const int32_t *token, *target; /* (B*T) */
    int64_t first_sequence;        /* place of its first sequence in the global batch */
    int64_t first_local_sequence;  /* place among this rank's sequences: decides the groups */
    int32_t micro_batch;           /* its number in the global batch, from 0 */
};

/* Forward, recompute, backward: gradients are added to the groups. sequence_loss (B), out: sums over tokens, nats. */
status decoder_train(struct decoder *d, const struct batch *batch, double *sequence_loss);

/* Keeps what the next step's faults need and closes the certificate's line; call before the optimizer moves weights. */
status decoder_end_step(struct decoder *d);

/* ---- the control of an audit (audit.h): the step's gradient as if nothing were recomputed ----
 * A control runs a step's micro-batches like any other, and rebuilds what the policy drops, but with the forward's own
 * pass: its plans, draws, masks, weights and storage. Nothing that a study changes about a rebuild happens, and no fault
 * acts. Such a rebuild has the bits that a stored tensor would have, so the gradient is that of a run which stores
 * everything, in the memory of this one. This is not taken on trust: a certificate of its own, apart from the run's,
 * compares every tensor that the control rebuilds, every time.
 * decoder_control_begin instead of decoder_begin_step, then decoder_train as ever, the sum over groups and ranks, and
 * decoder_control_end instead of decoder_end_step. The step proper, before or after, does not notice. */
struct control_proof {
    uint64_t compared, mismatched; /* tensors of this control on this rank */
};
status decoder_control_begin(struct decoder *d, int64_t step);
/* Keeps the first group's gradient in decoder_control. */
void decoder_control_end(struct decoder *d, struct control_proof *proof);
/* (1, shape_elements) */
const struct view *decoder_control(const struct decoder *d);

/* Forward only, without dropout, in the profile's arithmetic: sequence_loss as above; predicted (B*T), or NULL. */
status decoder_evaluate(struct decoder *d, const struct batch *batch, double *sequence_loss, int32_t *predicted);

#endif
