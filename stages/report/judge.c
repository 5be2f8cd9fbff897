#include "stages/report/evidence.h"
#include "stages/report/log.h"
#include "stages/report/policy.h"
#include "stages/report/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- whether two runs can be compared ---- */

static bool models_equal(const struct model_shape *a, const struct model_shape *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->ffn == b->ffn && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->vocab == b->vocab && a->sequence == b->sequence && a->tied == b->tied &&
           a->rope_theta == b->rope_theta && a->norm_eps == b->norm_eps && a->hidden_dropout == b->hidden_dropout &&
           a->init_std == b->init_std;
}

static bool rules_equal(const struct optimizer_rule *a, const struct optimizer_rule *b)
{
    return a->steps == b->steps && a->warmup_steps == b->warmup_steps && a->lr == b->lr && a->min_lr == b->min_lr &&
           a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps && a->weight_decay == b->weight_decay &&
           a->clip == b->clip;
}

static bool is_seed_replicate(const struct point *p) { return p->replicate[0] == 's'; }

static status check_comparable(const struct run *a, const struct run *b)
{
    const struct point *p = &a->point, *q = &b->point;
    const char *field = NULL;
    if (!models_equal(&p->model, &q->model))
        field = "model";
    else if (strcmp(p->checkpoint.hash, q->checkpoint.hash))
        field = "checkpoint to start from";
    else if (strcmp(p->data.source, q->data.source) || memcmp(p->data.split, q->data.split, sizeof p->data.split))
        field = "data";
    else if (strcmp(a->result.shard, b->result.shard))
        field = "token shard";
    else if (p->training.sequence_length != q->training.sequence_length)
        field = "sequence length";
    else if (p->training.global_batch_size != q->training.global_batch_size)
        field = "global batch size";
    else if (!rules_equal(&p->training.rule, &q->training.rule))
        field = "schedule or optimizer";
    else if (p->seed != q->seed && !is_seed_replicate(p) && !is_seed_replicate(q))
        field = "seed";
    if (!field)
        return OK;
    return FAIL(ERR_INPUT,
                "'%s' and '%s' cannot be compared: another %s; a difference of loss between them says "
                "nothing about recompute. Run both with the same, or leave one out",
                a->path, b->path, field);
}

/* ---- pairs ---- */

/* Metrics at the steps that both runs have. */
struct common {
    int64_t count;
    int64_t *step;
    double *value[2][2]; /* [baseline, candidate][loss, gradient norm]; one allocation, at [0][0] */
};

static void free_common(struct common *common)
{
    free(common->step);
    free(common->value[0][0]);
}

static status common_steps(struct common *out, const struct run *baseline, const struct run *candidate)
{
    size_t most = (size_t)(candidate->metrics < baseline->metrics ? candidate->metrics : baseline->metrics) + 1;
    double *values = malloc(4 * most * sizeof *values);
    *out = (struct common){.step = malloc(most * sizeof *out->step), .value[0][0] = values};
    if (!out->step || !values)
        return FAIL(ERR_MEMORY, "no memory for %zu common steps", most);
    for (int i = 1; i < 4; i++)
        out->value[i / 2][i % 2] = values + (size_t)i * most;
    for (int64_t i = 0, j = 0; i < baseline->metrics && j < candidate->metrics;) {
        const struct metric *a = &baseline->metric[i], *b = &candidate->metric[j];
        if (a->step == b->step) {
            out->step[out->count] = a->step;
            out->value[0][0][out->count] = a->loss;
            out->value[0][1][out->count] = a->grad_norm;
            out->value[1][0][out->count] = b->loss;
            out->value[1][1][out->count] = b->grad_norm;
            out->count++;
        }
        i += a->step <= b->step;
        j += b->step <= a->step;
    }
    return OK;
}

static struct paired_series paired(const struct common *common, const struct run *a, const struct run *b,
                                   enum gap_metric metric)
{
    int column = metric == METRIC_GRAD_NORM;
    return (struct paired_series){common->count, common->step, common->value[0][column], common->value[1][column],
                                  fmax(log_resolution(a, metric), log_resolution(b, metric))};
}

/* The last evaluation that both runs have. */
static const struct evaluation *last_common_evaluation(const struct run *a, const struct run *b)
{
    for (int i = a->evaluations.count - 1; i >= 0; i--)
        if (run_evaluation(b, a->evaluations.at[i].step))
            return &a->evaluations.at[i];
    return NULL;
}

static void judge_held_out(struct judgement *out, const struct run *baseline, const struct run *candidate,
                           double margin)
{
    const struct evaluation *a = last_common_evaluation(baseline, candidate);
    if (!a) {
        verdict_none(out, VERDICT_UNDECIDED, "the runs were never evaluated at the same step");
        return;
    }
    const struct evaluation *b = run_evaluation(candidate, a->step);
    if (a->sequences != b->sequences)
        verdict_none(out, VERDICT_UNDECIDED, "%d held-out sequences against %d: other sets", b->sequences,
                     a->sequences);
    else if (baseline->log || candidate->log)
        log_word_held_out(out, a->loss[0], b->loss[0]);
    else
        verdict_pair_sequences(out, a->sequences, a->loss, b->loss, margin);
    out->first = out->last = a->step;
}

static status judge_pairs(struct contrast *out, const struct run *baseline, const struct run *candidate,
                          const struct common *common, const struct paired_series series[GAP_METRICS])
{
    const double *window = baseline->point.verdict.window;
    bool logs = baseline->log || candidate->log; /* these say themselves whether their seeds differ */
    if (!logs && baseline->point.seed != candidate->point.seed) {
        for (int m = 0; m < GAP_METRICS; m++)
            verdict_none(&out->metric[m].pair, VERDICT_UNDECIDED,
                         "another seed sees other batches: there is nothing to pair, only runs to replicate");
        return OK;
    }
    int loss_digits = log_equal_digits(baseline, candidate, METRIC_LOSS, &series[METRIC_LOSS], common->value[1][0]);
    TRY(verdict_pair_steps(&out->metric[METRIC_LOSS].pair, &series[METRIC_LOSS], GAP_DIFFERENCE,
                           out->metric[METRIC_LOSS].margin, window));
    log_word_identity(&out->metric[METRIC_LOSS].pair, loss_digits);
    log_doubt_rounding(&out->metric[METRIC_LOSS].pair, series[METRIC_LOSS].resolution, out->metric[METRIC_LOSS].margin);
    judge_held_out(&out->metric[METRIC_HELD_OUT].pair, baseline, candidate, out->metric[METRIC_HELD_OUT].margin);
    if (!run_has_grad_norm(baseline) || !run_has_grad_norm(candidate)) {
        verdict_none(&out->metric[METRIC_GRAD_NORM].pair, VERDICT_UNDECIDED, "%s logs no gradient norm",
                     run_has_grad_norm(candidate) ? baseline->name : candidate->name);
        return OK;
    }
    int norm_digits =
        log_equal_digits(baseline, candidate, METRIC_GRAD_NORM, &series[METRIC_GRAD_NORM], common->value[1][1]);
    TRY(verdict_pair_steps(&out->metric[METRIC_GRAD_NORM].pair, &series[METRIC_GRAD_NORM], GAP_LOG_RATIO,
                           out->metric[METRIC_GRAD_NORM].margin, window));
    log_word_identity(&out->metric[METRIC_GRAD_NORM].pair, norm_digits);
    return OK;
}

/* A run that ended early never had the chance to differ later: as a run it is judged by nothing but a difference that it
 * shows already. */
static void judge_stopped(struct contrast *out, const struct run *baseline, const struct run *candidate)
{
    const struct run *stopped = run_stopped_early(candidate) ? candidate : baseline;
    if (!run_stopped_early(stopped))
        return;
    char text[WORDS];
    for (int m = 0; m < GAP_METRICS; m++) {
        struct judgement *pair = &out->metric[m].pair;
        if (pair->verdict == VERDICT_DIFFERS)
            continue;
        pair->verdict = VERDICT_UNDECIDED;
        pair->steps_needed = 0;
        if (!isnan(pair->inside.p))
            pair->inside.p = pair->inside.adjusted = 1;
        snprintf(pair->reason, sizeof pair->reason, "%s %s", stopped->name, words_progress(text, stopped));
    }
}

/* ---- contrasts ---- */

/* The run that stores everything where this one recomputes; -1: none was measured, or this is one. */
static int same_target_r0(const struct report *r, int index)
{
    const struct point *p = &r->run[index].point;
    for (int i = 0; i < r->runs && !point_is_reference(p, p); i++)
        if (i != index && r->run[i].state == RUN_MEASURED && point_is_reference(&r->run[i].point, p))
            return i;
    return -1;
}

static status judge_contrast(struct contrast *out, const struct report *r, int baseline, int candidate)
{
    status st = OK;
    struct common common = {0};
    const struct run *a = &r->run[baseline], *b = &r->run[candidate];
    out->other = baseline;
    out->metric[METRIC_LOSS].margin = out->metric[METRIC_HELD_OUT].margin = a->point.verdict.margin;
    out->metric[METRIC_GRAD_NORM].margin = a->point.verdict.grad_norm_margin;
    TRY(a->log || b->log ? log_check_comparable(r, a, b) : check_comparable(a, b));
    TRY_DONE(common_steps(&common, a, b));
    const struct paired_series series[GAP_METRICS] = {
        [METRIC_LOSS] = paired(&common, a, b, METRIC_LOSS),
        [METRIC_GRAD_NORM] = paired(&common, a, b, METRIC_GRAD_NORM),
    };
    TRY_DONE(judge_pairs(out, a, b, &common, series));
    judge_stopped(out, a, b);
    TRY_DONE(evidence_take(out, a, b, series));
    int64_t first, end;
    verdict_window(&first, &end, common.count, a->point.verdict.window);
    const struct evaluation *evaluated = last_common_evaluation(a, b);
    struct mean_range range = {.count = end - first, .evaluated = evaluated ? evaluated->step : -1};
    if (range.count > 0) {
        range.first = common.step[first];
        range.last = common.step[end - 1];
    }
    TRY_DONE(policy_judge(out, r, baseline, candidate, &range));
    evidence_price(out, a, b, common.count);
done:
    free_common(&common);
    return st;
}

status report_judge(struct report *r)
{
    for (int i = 0; i < r->runs; i++) {
        struct run *run = &r->run[i];
        if (run->state != RUN_MEASURED || i == r->baseline)
            continue;
        int r0 = same_target_r0(r, i);
        if (r0 >= 0)
            TRY(judge_contrast(&run->against, r, r0, i));
        TRY(judge_contrast(&run->against_baseline, r, r->baseline, i));
    }
    TRY(evidence_correct(r));
    return report_recommend(r);
}
