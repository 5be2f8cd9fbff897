/* decoder_internal.h - what decoder.c (setting up) and decoder_step.c (running) share. */
#ifndef REMATCH_MODEL_DECODER_INTERNAL_H
#define REMATCH_MODEL_DECODER_INTERNAL_H

#include "model/decoder.h"

struct decoder {
    struct decoder_options options;
    struct device *device;
    struct recompute_plan *plan;
    struct memory_plan memory;
    struct block block;
    struct notary *notary;  /* NULL when no certificate is taken */
    struct observer damage; /* what a fault does to tensors */

    /* Of audits: NULL and false without. `controls`: between decoder_control_begin and _end. */
    struct certificate *control_certificate;
    struct notary *control_notary;
    struct control_proof control_seen; /* by all controls so far */
    bool controls;

    /* Views into the arena, by memory_item. */
    struct view weight, master, m, v, *group, control, stale;
    bool stale_valid;
    struct block_tensors *stored; /* (layers): tensors that the forward keeps */
    struct block_tensors *slot;   /* (longest_chunk): tensors that are rebuilt */
    struct block_tensors witness;
    struct view final_input, final_norm, final_rstd, transient, logits, d_logits, loss, rope_table;
    int groups_taken;

    struct arithmetic training;                               /* the profile as forward and backward have it */
    struct block_plans evaluation, forward, recompute, other; /* other: of a fault */

    /* The current micro-batch. */
    int32_t *position;       /* (M) */
    int32_t *fault_position; /* (M) those of a fault */
    int64_t *row_id;         /* (M) */
    int64_t *head_row_id;    /* (B*heads) */
    struct row_span *span;   /* (spans) */
    int spans;
    int64_t span_rows;
    struct view *stale_weight; /* (BLOCK_PARAMETERS) of the layer being rebuilt */
    int64_t step;
    bool certified;
};

static inline int64_t decoder_rows(const struct decoder *d)
{
    return d->options.micro_batch * d->options.shape.sequence;
}

#endif
