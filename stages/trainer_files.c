/* trainer_files.c - what a run writes on its way: rank 0 writes it, and on the others only what they hand to rank 0 is
 * left of these functions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stages/layout.h"
#include "stages/state.h"
#include "stages/trainer_internal.h"

/* Every rank steps its own copy of the optimizer, and only rank 0's is kept: it must be everybody's. */
static status check_weights(struct trainer *t)
{
    int other;
    const struct xxh3 digest = state_digest(t->decoder);
    TRY(comm_same(t->request->comm, &digest, sizeof digest, &other));
    if (other < 0)
        return OK;
    return FAIL(ERR_COMM,
                "'%s': after step %" PRId64 " the weights of rank %d are not those of rank 0: run all ranks with one "
                "build of Rematch, and look for defective memory on the machine of rank %d",
                t->point->name, t->step, other, other);
}

status trainer_collect(struct trainer *t, struct comm_bytes **parts)
{
    struct comm *comm = t->request->comm;
    struct comm_bytes mine = {0};
    status st = OK;
    *parts = NULL;
    TRY(check_weights(t));
    TRY(certificate_write(t->certificate, &mine.data, &mine.size));
    *parts = calloc((size_t)comm_size(comm), sizeof **parts);
    if (!*parts)
        TRY_DONE(FAIL(ERR_MEMORY, "no memory for the certificates of %d ranks", comm_size(comm)));
    TRY_DONE(comm_collect(comm, &mine, *parts));
done:
    free(mine.data);
    if (st != OK) {
        comm_bytes_free(*parts, comm_size(comm));
        *parts = NULL;
    }
    return st;
}

static status write_parts(struct trainer *t, const char *folder, const struct comm_bytes *parts)
{
    char path[LAYOUT_PATH];
    TRY(state_write(layout_state(path, folder), t->decoder, &t->point->model,
                    STATE_MASTER | STATE_MOMENTS | STATE_STALE, t->step));
    for (int rank = 0; rank < comm_size(t->request->comm); rank++)
        TRY(file_write(layout_certificate_part(path, folder, rank), parts[rank].data, parts[rank].size));
    return OK;
}

static status write_checkpoint(struct trainer *t, const struct comm_bytes *parts, const char *state)
{
    struct live_offset offsets[SERIES];
    const char *folder;
    if (!t->live)
        return OK;
    for (int i = 0; i < SERIES; i++) {
        TRY(jsonl_sync(t->series[i]));
        snprintf(offsets[i].file, sizeof offsets[i].file, "%s", trainer_series_name[i]);
        offsets[i].offset = jsonl_offset(t->series[i]);
    }
    TRY(live_checkpoint_begin(t->live, t->step, &folder));
    TRY(write_parts(t, folder, parts));
    TRY(live_checkpoint_commit(t->live, t->step, t->configuration, offsets, SERIES));
    return live_status(t->live, state, t->step, t->point->training.rule.steps, t->last_loss, trainer_tokens_per_s(t));
}

status trainer_checkpoint(struct trainer *t, const char *state)
{
    struct comm_bytes *parts;
    TRY(trainer_collect(t, &parts));
    status st = write_checkpoint(t, parts, state);
    comm_bytes_free(parts, comm_size(t->request->comm));
    return st;
}

status trainer_write_state(struct trainer *t, const char *file, unsigned parts)
{
    return t->live ? state_write(live_path(t->live, file), t->decoder, &t->point->model, parts, t->step) : OK;
}

bool trainer_dumps(const struct trainer *t, int64_t step)
{
    for (int i = 0; t->live && i < t->point->dump_steps; i++)
        if (t->point->dump_step[i] == step)
            return true;
    return false;
}

/* Under mpirun every stdout is a terminal, mpirun's own: the pipelines say whether a person is watching. */
static bool on_terminal(void)
{
    const char *how = getenv("REMATCH_PROGRESS");
    return how ? !strcmp(how, "terminal") : isatty(STDOUT_FILENO);
}

void trainer_show_progress(const struct trainer *t, bool evaluated)
{
    const struct point *p = t->point;
    int64_t last = p->training.rule.steps;
    bool terminal = on_terminal();
    if (!t->live || (!terminal && t->step != last && !evaluated))
        return;
    double step_tokens = (double)p->training.global_batch_size * p->training.sequence_length;
    double left = (double)(last - t->step) * step_tokens / trainer_tokens_per_s(t);
    printf("%s%s step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  %.0f s left%s", terminal ? "\r" : "", p->name,
           t->step, last, t->last_loss, trainer_tokens_per_s(t), left, terminal && t->step != last ? "   " : "\n");
    fflush(stdout);
}
