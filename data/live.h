/* live.h - a running point's folder: locked, checkpointed, resumable after a kill at any moment.
 *
 *   runs/S/work/POINT/  lock  status.json  metrics.jsonl  evaluations.jsonl  timing.jsonl  ...
 *                       checkpoint-STEP/  state.safetensors  certificate-RANK.bin  commit.json
 * A checkpoint is written under a temporary name, synced, renamed; commit.json (last) holds the step, a digest of the
 * configuration, the size and XXH3-128 of each file, and the byte offset of each JSON-lines file. Without a valid
 * commit it does not exist. The newest valid one is used; all others are removed after a newer one stands. One process
 * (rank 0) holds the handle and writes the parts of all. Errors: ERR_IO; ERR_INPUT when another
 * configuration's checkpoint is found.
 */
#ifndef REMATCH_DATA_LIVE_H
#define REMATCH_DATA_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/status.h"

struct live;

/* Creates and locks the folder (flock; released by the kernel at exit). ERR_IO names the process that holds it. */
status live_open(struct live **out, const char *folder);
void live_close(struct live *l);

/* Path of a file in the folder, borrowed until the next call. */
const char *live_path(struct live *l, const char *file);

/* status.json, replaced atomically: {"state","step","steps","loss","tokens_per_s"}; null for what is not finite. For
 * people who watch: not synced, not exact. */
status live_status(struct live *l, const char *state, int64_t step, int64_t steps, double loss, double tokens_per_s);

/* ---- checkpoints ---- */
struct live_offset {
    char file[64];
    uint64_t offset;
};

/* Folder into which the parts go, flat, each synced by its writer (file_write, safetensors_write); *folder is
 * borrowed until live_close. Then commit, with `configuration` (any text: its hash is stored), after jsonl_sync of the
 * files that `offsets` names. A valid checkpoint of this step that stands already is kept: a step's state is a function
 * of the configuration. */
status live_checkpoint_begin(struct live *l, int64_t step, const char **folder);
status live_checkpoint_commit(struct live *l, int64_t step, const char *configuration,
                              const struct live_offset *offsets, int count);

/* The newest valid checkpoint: *step 0 when there is none. `offsets` in: file names; out: offsets (0 without one).
 * *folder is borrowed until live_close, NULL without one. */
status live_checkpoint_find(struct live *l, const char *configuration, int64_t *step, const char **folder,
                            struct live_offset *offsets, int count);

/* What the last live_checkpoint_find passed over ("checkpoint-50 is damaged and was passed over: ..."), for people;
 * borrowed until the next one. NULL: nothing. */
const char *live_note(const struct live *l);

/* Removes the whole folder: the point's record is sealed. */
status live_finish(struct live *l);

#endif
