/* trainer.h - the one training loop: rematch-baseline and rematch-sweep differ only in the point they give it.
 *
 * Starting a finished point is a no-op. An interrupted one continues from its newest checkpoint, bit for bit. SIGTERM,
 * SIGINT, SIGUSR1 and SIGUSR2 ask for a checkpoint at the next step and exit status 75.
 * Errors: ERR_RESULT when a recomputed tensor differed and the point says `on_mismatch: stop` (the record is sealed
 * first); ERR_STOPPED; ERR_INPUT naming the file that does not fit.
 */
#ifndef REMATCH_STAGES_TRAINER_H
#define REMATCH_STAGES_TRAINER_H

#include "kernels/comm.h"
#include "stages/point.h"

struct trainer_request {
    const char *run;              /* runs/S */
    const struct point *point;    /* what to run */
    const struct point *baseline; /* the trunk: whose branch it starts from, unless it starts from scratch */
    const char *device;           /* "cpu", "reference" */
    struct comm *comm;
};

status trainer_run(const struct trainer_request *request);

/* From now on the signals above ask this process's trainer to stop. */
void trainer_catch_signals(void);

#endif
