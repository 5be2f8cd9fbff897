/* trainer_internal.h - a run in progress: what trainer.c (the loop), trainer_start.c (from nothing, a branch or a
 * checkpoint to the first step), trainer_audit.c (audits), trainer_files.c (what is written on the way) and trainer_seal.c
 * (from the last step to a record) share.
 *
 * All ranks train; rank 0 alone has the run's files. The others have neither live folder nor series, and there a function
 * that only writes does nothing: so the loop reads as one run. Errors need no agreement here, see kernels/comm.h. */
#ifndef REMATCH_STAGES_TRAINER_INTERNAL_H
#define REMATCH_STAGES_TRAINER_INTERNAL_H

#include "data/jsonl.h"
#include "data/live.h"
#include "data/record.h"
#include "data/shards.h"
#include "model/audit.h"
#include "stages/trainer.h"

enum trainer_series { SERIES_METRICS, SERIES_EVALUATIONS, SERIES_AUDITS, SERIES_TIMING, SERIES };

struct trainer {
    const struct trainer_request *request;
    const struct point *point;
    char *configuration; /* what a checkpoint must agree with: the point's JSON, the shard's hash, the device */
    struct shard *shard;
    char shard_hash[33];
    struct loader train, valid;
    struct certificate *certificate; /* of this rank; once trainer_seal has merged them, rank 0's is that of all */
    struct decoder *decoder;
    struct audit *audit;          /* the last one; NULL when the point takes none */
    struct live *live;            /* NULL on the other ranks */
    struct jsonl *series[SERIES]; /* NULL on the other ranks */
    int64_t first_step, step;     /* the point's first step; the last one done */
    int held_out;                 /* sequences */
    double last_loss, seconds;    /* seconds and tokens of all ranks: of the steps of this process */
    int64_t tokens;
    int64_t peak_bytes, resident_bytes; /* the largest of all ranks, when the record is made */
    bool mismatched;                    /* on any rank */
};

extern const char *const trainer_series_name[SERIES];

/* Sequences of a step on each rank. */
static inline int trainer_share(const struct point *p) { return p->training.global_batch_size / p->target.dp; }

static inline double trainer_tokens_per_s(const struct trainer *t)
{
    return t->seconds > 0 ? (double)t->tokens / t->seconds : 0;
}

/* Opens everything and stands before the first step that is not done yet. */
status trainer_start(struct trainer *t, const struct trainer_request *request);
void trainer_release(struct trainer *t);

/* ---- steps ---- */

/* One micro-batch's tokens and targets, as long as the step's first. */
struct sequences {
    int32_t *window, *token, *target;
    double *loss; /* of all this rank's sequences */
};

/* Forward, recompute and backward of this rank's share of step `step`. */
status trainer_micro_batches(struct trainer *t, int64_t step, struct sequences *s);

/* ---- audits ---- */

/* The step's gradient without recompute, kept for trainer_audit; to be called before the step itself. */
status trainer_control(struct trainer *t, int64_t step, struct sequences *s);
/* Measures the step's reduced gradient, before the optimizer uses it, and adds a line to audits.jsonl. */
status trainer_audit(struct trainer *t, int64_t step, bool frozen);
/* Both for the data and masks of `step`, at the weights that are there, which it leaves alone. */
status trainer_audit_frozen(struct trainer *t, int64_t step, struct sequences *s);

/* ---- what is written on the way, by rank 0 ---- */

/* The certificates of all ranks, as comm_collect gives them, for comm_bytes_free. ERR_COMM, naming the rank, unless all
 * have the same weights. */
status trainer_collect(struct trainer *t, struct comm_bytes **parts);

/* Checkpoint and status.json, in which the run is in `state`. */
status trainer_checkpoint(struct trainer *t, const char *state);

/* The state so far under a name in the live folder; `parts` as state_write. */
status trainer_write_state(struct trainer *t, const char *file, unsigned parts);

/* Whether this rank dumps the step that comes: rank 0, which has its first micro-batch. */
bool trainer_dumps(const struct trainer *t, int64_t step);

void trainer_show_progress(const struct trainer *t, bool evaluated);

/* ---- the record ---- */

/* Scores the final weights, merges the certificates, seals the record, removes the live folder. */
status trainer_seal(struct trainer *t);

/* From a record's result.json. */
status trainer_read_result(struct record *record, int64_t *steps_done, char shard[33]);

/* *done: the record is there and was made by this very configuration; rank 0 says so. ERR_INPUT when by another. */
status trainer_is_finished(const struct trainer_request *request, bool *done);

#endif
