#include "stages/trainer.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stages/dump.h"
#include "stages/layout.h"
#include "stages/scores.h"
#include "stages/state.h"
#include "stages/trainer_internal.h"

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

void trainer_catch_signals(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one step ---- */

static status read_sequences(struct trainer *t, int64_t step, int64_t first, struct sequences *s)
{
    const struct point_training *how = &t->point->training;
    int T = how->sequence_length;
    for (int64_t b = 0; b < how->micro_batch_size; b++) {
        uint64_t n = (uint64_t)((step - 1) * how->global_batch_size + first + b);
        loader_sequence(&t->train, n, s->window);
        for (int i = 0; i < T; i++) {
            s->token[b * T + i] = s->window[i];
            s->target[b * T + i] = s->window[i + 1];
        }
    }
    return OK;
}

status trainer_micro_batches(struct trainer *t, int64_t step, struct sequences *s)
{
    const struct point_training *how = &t->point->training;
    int64_t share = trainer_share(t->point), B = how->micro_batch_size;
    for (int64_t local = 0; local < share; local += B) {
        int64_t first = comm_rank(t->request->comm) * share + local;
        TRY(read_sequences(t, step, first, s));
        const struct batch batch = {s->token, s->target, first, local, (int32_t)(first / B)};
        TRY(decoder_train(t->decoder, &batch, s->loss + local));
    }
    return OK;
}

/* Mean over the global batch, sequence by sequence in their order, whatever rank had them. */
static status mean_loss(struct trainer *t, const struct sequences *s, double *loss)
{
    const struct point_training *how = &t->point->training;
    double *all = malloc((size_t)how->global_batch_size * sizeof *all);
    if (!all)
        return FAIL(ERR_MEMORY, "no memory for %d losses", how->global_batch_size);
    status st = OK;
    TRY_DONE(comm_gather(t->request->comm, s->loss, (size_t)trainer_share(t->point) * sizeof *all, all));
    *loss = 0;
    for (int i = 0; i < how->global_batch_size; i++)
        *loss += all[i];
    *loss /= (double)how->global_batch_size * how->sequence_length;
done:
    free(all);
    return st;
}

static status train_and_reduce(struct trainer *t, int64_t step, struct sequences *s)
{
    int groups;
    struct dump *dump = NULL;
    status st = OK;
    int64_t every = t->point->certificate.every;
    TRY(decoder_begin_step(t->decoder, step, every > 0 && step % every == 0));
    if (trainer_dumps(t, step))
        TRY(dump_begin(&dump, t->decoder));
    TRY_DONE(trainer_micro_batches(t, step, s));
    const struct view *gradient = decoder_gradients(t->decoder, &groups);
    TRY_DONE(comm_sum_in_order(t->request->comm, gradient, groups));
    if (dump) {
        char member[LAYOUT_MEMBER];
        TRY_DONE(dump_write(dump, live_path(t->live, layout_dump(member, step)), &t->point->model, step));
    }
    TRY_DONE(decoder_end_step(t->decoder));
done:
    dump_end(dump);
    return st;
}

static status record_timing(struct trainer *t, int64_t step, double seconds, int64_t tokens)
{
    t->seconds += seconds;
    t->tokens += tokens;
    return jsonl_append(t->series[SERIES_TIMING], json_pack("{s:I,s:f,s:f}", "step", (json_int_t)step, "seconds",
                                                            seconds, "tokens_per_s", (double)tokens / seconds));
}

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* Seconds are those of the step, without those of its audit. */
static status train_step(struct trainer *t, struct sequences *s)
{
    const struct point_training *how = &t->point->training;
    int64_t step = t->step + 1;
    bool audited = t->audit && due(t->point->audit.every, step);
    struct metric metric = {.step = step,
                            .learning_rate = optimizer_lr(&how->rule, step),
                            .tokens = (int64_t)how->global_batch_size * how->sequence_length};
    struct optimizer_state state = decoder_state(t->decoder);
    if (audited)
        TRY(trainer_control(t, step, s));
    double started = now();
    TRY(train_and_reduce(t, step, s));
    TRY(mean_loss(t, s, &metric.loss));
    double seconds = now() - started;
    if (audited)
        TRY(trainer_audit(t, step, false));
    started = now();
    TRY(optimizer_step(decoder_device(t->decoder), &t->point->model, &how->rule, &state, step, &metric.grad_norm));
    TRY(metric_append(t->series[SERIES_METRICS], &metric));
    TRY(record_timing(t, step, seconds + now() - started, metric.tokens));
    t->last_loss = metric.loss;
    t->step = step;
    t->mismatched = certificate_total(t->certificate).mismatched > 0;
    return comm_any(t->request->comm, &t->mismatched);
}

/* ---- between steps ---- */

static status evaluate(struct trainer *t)
{
    struct evaluation e = {.step = t->step, .sequences = t->held_out};
    e.loss = malloc((size_t)t->held_out * sizeof *e.loss + 1);
    if (!e.loss)
        return FAIL(ERR_MEMORY, "no memory for %d held-out losses", t->held_out);
    status st = OK;
    TRY_DONE(scores_held_out(t->decoder, t->request->comm, &t->valid, t->point->training.micro_batch_size, t->held_out,
                             e.loss));
    TRY_DONE(evaluation_append(t->series[SERIES_EVALUATIONS], &e));
done:
    free(e.loss);
    return st;
}

static status between_steps(struct trainer *t)
{
    const struct point *p = t->point;
    int64_t last = p->training.rule.steps;
    bool evaluated = due(p->evaluate.every, t->step) || t->step == last;
    if (evaluated && t->held_out)
        TRY(evaluate(t));
    if (p->baseline && t->step == p->training.branch_at)
        TRY(trainer_write_state(t, "branch.safetensors", STATE_MASTER | STATE_MOMENTS));
    bool stop = stop_asked;
    TRY(comm_any(t->request->comm, &stop));
    if (stop || (due(p->checkpoint_every, t->step) && t->step < last))
        TRY(trainer_checkpoint(t, stop ? "stopped" : "running"));
    trainer_show_progress(t, evaluated);
    if (stop && t->step < last)
        return FAIL(ERR_STOPPED, "'%s' stopped after step %" PRId64 " of %" PRId64 "; the same command continues",
                    p->name, t->step, last);
    return OK;
}

/* The set at the weights that the point starts from, before anything moves them. It leaves no checkpoint: one that is
 * stopped or killed begins anew, and one that continues from a checkpoint has it behind it. */
static status audit_start(struct trainer *t, struct sequences *s)
{
    const struct point *p = t->point;
    bool begins = t->step + 1 == t->first_step;
    for (int i = 1; begins && t->audit && i <= p->audit.frozen; i++) {
        bool stop = stop_asked;
        TRY(comm_any(t->request->comm, &stop));
        if (stop)
            return FAIL(ERR_STOPPED,
                        "'%s' stopped before its first step, at audit %d of %d; the same command begins anew", p->name,
                        i, p->audit.frozen);
        TRY(trainer_audit_frozen(t, t->step + i, s));
    }
    return OK;
}

static status run_steps(struct trainer *t)
{
    const struct point_training *how = &t->point->training;
    size_t rows = (size_t)how->micro_batch_size * (size_t)how->sequence_length;
    struct sequences s = {
        .window = malloc(((size_t)how->sequence_length + 1) * sizeof *s.window),
        .token = malloc(rows * sizeof *s.token),
        .target = malloc(rows * sizeof *s.target),
        .loss = malloc((size_t)how->global_batch_size * sizeof *s.loss),
    };
    status st = OK;
    if (!s.window || !s.token || !s.target || !s.loss)
        TRY_DONE(FAIL(ERR_MEMORY, "no memory for a micro-batch of %zu tokens", rows));
    TRY_DONE(audit_start(t, &s));
    while (t->step < how->rule.steps && !(t->mismatched && t->point->certificate.stop)) {
        TRY_DONE(train_step(t, &s));
        TRY_DONE(between_steps(t));
    }
done:
    free(s.window);
    free(s.token);
    free(s.target);
    free(s.loss);
    return st;
}

/* The certificate of all ranks is rank 0's, which says it for all. */
static status say_mismatch(const struct trainer *t)
{
    if (!t->live)
        return OK;
    const struct certificate_event *e = certificate_first(t->certificate);
    struct certificate_totals sum = certificate_total(t->certificate);
    char rank[24] = "";
    if (comm_size(t->request->comm) > 1)
        snprintf(rank, sizeof rank, ", rank %d", e->rank);
    return FAIL(ERR_RESULT,
                "'%s': recompute is not bit-identical: %" PRIu64 " of %" PRIu64
                " tensors differ, first in step %" PRId64
                "%s, layer %d, op %s (accused: %s); stopped after step %" PRId64
                "; --on-mismatch continue, or on_mismatch: continue in the study, goes on",
                t->point->name, sum.mismatched, sum.compared, e->step, rank, e->layer,
                block_op_name(block_tensor_op(e->tensor)), accused_name(e->accused), t->step);
}

status trainer_run(const struct trainer_request *request)
{
    bool finished;
    TRY(trainer_is_finished(request, &finished));
    if (finished)
        return OK;
    struct trainer t;
    status st = trainer_start(&t, request);
    if (st == OK)
        st = run_steps(&t);
    if (st == OK)
        st = trainer_seal(&t);
    if (st == OK && t.mismatched && t.point->certificate.stop)
        st = say_mismatch(&t);
    trainer_release(&t);
    return st;
}
