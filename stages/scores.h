/* scores.h - held-out loss and downstream scores of the current weights.
 *
 * Held-out: a fixed set of sequences of the validation split, in order, so that runs are paired by sequence.
 * Downstream: files of the validation split, teacher-forced: the share of tokens that are predicted right, and of lines of
 * which every token is (a newline belongs to its line; a file's first token has no prediction and is passed over).
 * Ranks with equal weights share the sequences and the files, and all get all results, which do not depend on how many
 * ranks there are.
 */
#ifndef REMATCH_STAGES_SCORES_H
#define REMATCH_STAGES_SCORES_H

#include "data/jsonl.h"
#include "data/shards.h"
#include "kernels/comm.h"
#include "model/decoder.h"

/* Mean nats of each of `sequences` held-out sequences into loss: a multiple of `batch` times the ranks. */
status scores_held_out(struct decoder *decoder, struct comm *comm, const struct loader *valid, int64_t batch,
                       int sequences, double *loss);

/* Appends a score for each file of the validation split: at most SCORES_FILES files, SCORES_WINDOWS windows of each. */
enum { SCORES_FILES = 8, SCORES_WINDOWS = 8 };
status scores_downstream(struct decoder *decoder, struct comm *comm, const struct shard *shard, const int split[3],
                         int64_t batch, int sequence, int64_t step, struct jsonl *into);

#endif
