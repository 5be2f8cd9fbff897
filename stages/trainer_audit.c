/* trainer_audit.c - the audits of a run: see model/audit.h. Every rank runs its part of a control; rank 0 measures, since
 * the reduced gradients are everybody's. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/ops.h"
#include "stages/audits.h"
#include "stages/trainer_internal.h"

/* ---- the control ---- */

/* Before they are summed: of each group of all ranks, in the order in which they will be. */
static status measure_groups(struct trainer *t)
{
    int groups;
    const struct view *group = decoder_gradients(t->decoder, &groups);
    double *mine = malloc((size_t)groups * sizeof *mine);
    if (!mine)
        return FAIL(ERR_MEMORY, "no memory for the norms of %d groups", groups);
    status st = OK;
    struct device *d = decoder_device(t->decoder);
    for (int g = 0; g < groups; g++)
        TRY_DONE(d->ops->sum_squares(d, &mine[g], &group[g]));
    TRY_DONE(comm_gather(t->request->comm, mine, (size_t)groups * sizeof *mine, t->audit->group_square));
done:
    free(mine);
    return st;
}

/* Of all ranks together. */
static status add_proofs(struct trainer *t, const struct control_proof *mine)
{
    const struct point_training *how = &t->point->training;
    int ranks = comm_size(t->request->comm);
    struct control_proof *all = malloc((size_t)ranks * sizeof *all);
    if (!all)
        return FAIL(ERR_MEMORY, "no memory for the proofs of %d ranks", ranks);
    status st = comm_gather(t->request->comm, mine, sizeof *mine, all);
    t->audit->proof = (struct control_proof){0};
    for (int r = 0; st == OK && r < ranks; r++) {
        t->audit->proof.compared += all[r].compared;
        t->audit->proof.mismatched += all[r].mismatched;
    }
    t->audit->expected = (int64_t)(how->global_batch_size / how->micro_batch_size) *
                         recompute_compared_tensors(decoder_recompute(t->decoder));
    free(all);
    return st;
}

static status sum_gradients(struct trainer *t)
{
    int groups;
    const struct view *gradient = decoder_gradients(t->decoder, &groups);
    return comm_sum_in_order(t->request->comm, gradient, groups);
}

status trainer_control(struct trainer *t, int64_t step, struct sequences *s)
{
    struct control_proof proof;
    TRY(decoder_control_begin(t->decoder, step));
    TRY(trainer_micro_batches(t, step, s));
    TRY(measure_groups(t));
    TRY(sum_gradients(t));
    decoder_control_end(t->decoder, &proof);
    return add_proofs(t, &proof);
}

/* ---- the audit ---- */

static void say_unproven(const struct trainer *t)
{
    const struct audit *a = t->audit;
    if (!audit_proven(a))
        printf("%s: the audit of step %" PRId64 "%s is not valid: of %" PRId64
               " tensors that its control had to rebuild, "
               "%" PRIu64 " were compared and %" PRIu64 " differed\n",
               t->point->name, a->step, a->frozen ? " at frozen weights" : "", a->expected, a->proof.compared,
               a->proof.mismatched);
}

status trainer_audit(struct trainer *t, int64_t step, bool frozen)
{
    struct device *d = decoder_device(t->decoder);
    const struct optimizer_state state = decoder_state(t->decoder);
    double square;
    if (!t->live)
        return OK;
    TRY(d->ops->sum_squares(d, &square, &state.grad));
    const struct adamw how = optimizer_adamw(&t->point->training.rule, step, sqrt(square));
    t->audit->step = step;
    t->audit->frozen = frozen;
    TRY(audit_measure(t->audit, &t->point->model, &state, decoder_control(t->decoder), &how, d->threads));
    say_unproven(t);
    return audits_append(t->series[SERIES_AUDITS], t->audit);
}

/* The gradient as the point makes it, of no step: neither the run's certificate nor its faults' memory hears of it. */
static status run_unseen(struct trainer *t, int64_t step, struct sequences *s)
{
    TRY(decoder_begin_step(t->decoder, step, false));
    TRY(trainer_micro_batches(t, step, s));
    return sum_gradients(t);
}

status trainer_audit_frozen(struct trainer *t, int64_t step, struct sequences *s)
{
    TRY(trainer_control(t, step, s));
    TRY(run_unseen(t, step, s));
    return trainer_audit(t, step, true);
}
