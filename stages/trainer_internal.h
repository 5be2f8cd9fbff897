/* trainer_internal.h - a run in progress: what trainer.c (the loop), trainer_start.c (from nothing, a branch or a
 * checkpoint to the first step) and trainer_seal.c (from the last step to a record) share. */
#ifndef REMATCH_STAGES_TRAINER_INTERNAL_H
#define REMATCH_STAGES_TRAINER_INTERNAL_H

#include "data/jsonl.h"
#include "data/live.h"
#include "data/record.h"
#include "data/shards.h"
#include "model/decoder.h"
#include "stages/trainer.h"

enum trainer_series { SERIES_METRICS, SERIES_EVALUATIONS, SERIES_TIMING, SERIES };

struct trainer {
    const struct trainer_request *request;
    const struct point *point;
    char *configuration; /* what a checkpoint must agree with: the point's JSON, the shard's hash, the device */
    struct shard *shard;
    char shard_hash[33];
    struct loader train, valid;
    struct certificate *certificate;
    struct decoder *decoder;
    struct live *live;
    struct jsonl *series[SERIES];
    int64_t first_step, step;  /* the point's first step; the last one done */
    int held_out;              /* sequences */
    double last_loss, seconds; /* seconds and tokens: of the steps of this process */
    int64_t tokens;
    bool mismatched;
};

extern const char *const trainer_series_name[SERIES];

/* Micro-batches of a step on this rank. */
static inline int trainer_micro_batches(const struct point *p)
{
    return p->training.global_batch_size / p->target.dp / p->training.micro_batch_size;
}

static inline double trainer_tokens_per_s(const struct trainer *t)
{
    return t->seconds > 0 ? (double)t->tokens / t->seconds : 0;
}

/* Opens everything and stands before the first step that is not done yet. */
status trainer_start(struct trainer *t, const struct trainer_request *request);
void trainer_release(struct trainer *t);

status trainer_checkpoint(struct trainer *t);

/* Scores the final weights, seals the record, removes the live folder. */
status trainer_seal(struct trainer *t);

/* From a record's result.json. */
status trainer_read_result(struct record *record, int64_t *steps_done, char shard[33]);

/* *done: the record is there and was made by this very configuration. ERR_INPUT when by another. */
status trainer_is_finished(const struct trainer_request *request, bool *done);

#endif
