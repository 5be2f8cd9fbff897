#include "stages/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a run is ---- */

bool run_recomputes(const struct run *run) { return run->point.recompute.granularity != RECOMPUTE_NONE; }

/* Neither replicate nor planted fault nor arithmetic drawn per call. */
static bool is_control(const struct point *p)
{
    return !p->replicate[0] && !p->fault_text[0] && !p->random_forward && !p->random_recompute;
}

bool run_is_plain(const struct run *run)
{
    const struct point *p = &run->point;
    bool default_start = !p->scratch || p->baseline || !p->training.branch_at;
    return is_control(p) && default_start && p->recompute.precision == BF16 &&
           (p->recompute.granularity == RECOMPUTE_NONE || p->recompute.method == METHOD_BLOCK);
}

bool run_is_certified(const struct run *run)
{
    struct certificate_totals totals = certificate_total(run->certificate);
    return totals.compared == run->expected_count && totals.mismatched == 0;
}

bool runs_equal_weights(const struct run *a, const struct run *b)
{
    return a->state == RUN_MEASURED && b->state == RUN_MEASURED &&
           !strcmp(a->result.weights_digest, b->result.weights_digest);
}

bool target_is_simulated(const struct point_target *target)
{
    size_t length = strlen(target->profile);
    return length > 4 && !strcmp(target->profile + length - 4, "-sim");
}

/* ---- the certificate ---- */

/* Tensors of one micro-batch, from the words of the policy. A whole layer rebuilds 12 tensors up to the input of its
 * last GEMM, and its stored input is verified; inside a chunk the last GEMM's output and the layer's output are rebuilt
 * too, and only the chunk's first input is stored. */
static uint64_t expected_in_micro_batch(const struct recompute_policy *p, uint64_t layers)
{
    enum { INNER = 12, ENDING = 2, STORED = 1, CORE_ATTN = 2, MLP = 2, LAYERNORM = 4 };
    uint64_t chunk = (uint64_t)p->num_layers;
    switch (p->granularity) {
    case RECOMPUTE_NONE:
        return 0;
    case RECOMPUTE_SELECTIVE:
        return layers * ((p->modules & MODULE_CORE_ATTN ? CORE_ATTN : 0) + (p->modules & MODULE_MLP ? MLP : 0) +
                         (p->modules & MODULE_LAYERNORM ? LAYERNORM : 0));
    case RECOMPUTE_FULL:
        break;
    }
    if (p->method == METHOD_BLOCK)
        return chunk * (INNER + STORED);
    uint64_t chunks = (layers + chunk - 1) / chunk;
    return layers * INNER + (layers - chunks) * ENDING + chunks * STORED;
}

uint64_t report_expected_count(const struct point *p, const struct metric *metric, int64_t metrics)
{
    uint64_t steps = 0;
    for (int64_t i = 0; i < metrics; i++)
        steps += p->certificate.every > 0 && metric[i].step % p->certificate.every == 0;
    uint64_t micro_batches = (uint64_t)(p->training.global_batch_size / p->training.micro_batch_size);
    uint64_t parts = (uint64_t)(p->target.cp > 1 ? p->target.cp : 1); /* each context-parallel rank compares its own */
    return expected_in_micro_batch(&p->recompute, (uint64_t)p->model.layers) * steps * micro_batches * parts;
}

static bool comes_before(const struct certificate_event *a, const struct certificate_event *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->micro_batch != b->micro_batch)
        return a->micro_batch < b->micro_batch;
    if (a->layer != b->layer)
        return a->layer < b->layer;
    return a->rank < b->rank;
}

const struct certificate_event *report_first_mismatch(const struct run *run)
{
    const struct certificate_event *first = NULL;
    for (int i = 0; run->certificate && i < run->certificate->event_count; i++)
        if (!first || comes_before(&run->certificate->event[i], first))
            first = &run->certificate->event[i];
    return first;
}

/* ---- scores ---- */

bool report_scores(struct score *total, const struct run *run)
{
    const struct evaluations *e = &run->evaluations;
    *total = (struct score){.step = -1};
    for (int i = 0; i < e->scores; i++)
        total->step = e->score[i].step > total->step ? e->score[i].step : total->step;
    for (int i = 0; i < e->scores; i++)
        if (e->score[i].step == total->step) {
            total->tokens += e->score[i].tokens;
            total->tokens_right += e->score[i].tokens_right;
            total->lines += e->score[i].lines;
            total->lines_right += e->score[i].lines_right;
        }
    return e->scores > 0;
}

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
    else if (strcmp(p->data.source, q->data.source) || memcmp(p->data.split, q->data.split, sizeof p->data.split))
        field = "data";
    else if (strcmp(a->result.shard, b->result.shard))
        field = "token shard";
    else if (p->training.sequence_length != q->training.sequence_length)
        field = "sequence length";
    else if (p->training.global_batch_size != q->training.global_batch_size)
        field = "global batch size";
    else if (p->training.storage != q->training.storage)
        field = "storage type";
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

static const struct evaluation *evaluation_at(const struct run *run, int64_t step)
{
    for (int i = run->evaluations.count - 1; i >= 0; i--)
        if (run->evaluations.at[i].step == step)
            return &run->evaluations.at[i];
    return NULL;
}

/* The last evaluation that both runs have. */
static const struct evaluation *last_common_evaluation(const struct run *a, const struct run *b)
{
    for (int i = a->evaluations.count - 1; i >= 0; i--)
        if (evaluation_at(b, a->evaluations.at[i].step))
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
    const struct evaluation *b = evaluation_at(candidate, a->step);
    if (a->sequences != b->sequences)
        verdict_none(out, VERDICT_UNDECIDED, "%d held-out sequences against %d: other sets", b->sequences,
                     a->sequences);
    else
        verdict_pair_sequences(out, a->sequences, a->loss, b->loss, margin);
    out->first = out->last = a->step;
}

static status judge_pairs(struct contrast *out, const struct run *baseline, const struct run *candidate,
                          const struct common *common)
{
    const double *window = baseline->point.verdict.window;
    if (baseline->point.seed != candidate->point.seed) {
        for (int m = 0; m < GAP_METRICS; m++)
            verdict_none(&out->metric[m].pair, VERDICT_UNDECIDED,
                         "another seed sees other batches: there is nothing to pair, only runs to replicate");
        return OK;
    }
    struct paired_series loss = {common->count, common->step, common->value[0][0], common->value[1][0]};
    struct paired_series norm = {common->count, common->step, common->value[0][1], common->value[1][1]};
    TRY(verdict_pair_steps(&out->metric[METRIC_LOSS].pair, &loss, GAP_DIFFERENCE, out->metric[METRIC_LOSS].margin,
                           window));
    TRY(verdict_pair_steps(&out->metric[METRIC_GRAD_NORM].pair, &norm, GAP_LOG_RATIO,
                           out->metric[METRIC_GRAD_NORM].margin, window));
    judge_held_out(&out->metric[METRIC_HELD_OUT].pair, baseline, candidate, out->metric[METRIC_HELD_OUT].margin);
    return OK;
}

/* ---- families ---- */

/* The steps over which one mean per run is taken. */
struct mean_range {
    int64_t first, last, count, evaluated;
};

/* One number of one run; false when the run lacks a step of the range. */
static bool run_mean(double *out, const struct run *run, enum gap_metric metric, const struct mean_range *range)
{
    double sum = 0;
    int64_t count = 0;
    if (metric == METRIC_HELD_OUT) {
        const struct evaluation *e = evaluation_at(run, range->evaluated);
        for (; e && count < e->sequences; count++)
            sum += e->loss[count];
    } else {
        for (int64_t i = 0; i < run->metrics; i++) {
            const struct metric *m = &run->metric[i];
            if (m->step < range->first || m->step > range->last)
                continue;
            sum += metric == METRIC_LOSS ? m->loss : log(m->grad_norm);
            count++;
        }
        if (count != range->count)
            count = 0;
    }
    *out = sum / (double)count;
    return count > 0;
}

/* Means of all measured runs of a family, into `mean`. Runs that lack steps of the range do not count. */
static int family_means(double *mean, const struct report *r, int family, enum gap_metric metric,
                        const struct mean_range *range)
{
    int count = 0;
    for (int i = 0; i < r->runs; i++)
        if (r->run[i].state == RUN_MEASURED && r->run[i].family == family)
            count += run_mean(&mean[count], &r->run[i], metric, range);
    return count;
}

static status judge_policies(struct contrast *out, const struct report *r, int baseline, int candidate,
                             const struct common *common)
{
    const struct run *a = &r->run[baseline], *b = &r->run[candidate];
    int64_t first, end;
    verdict_window(&first, &end, common->count, a->point.verdict.window);
    const struct evaluation *evaluated = last_common_evaluation(a, b);
    if (a->family == b->family || end <= first) {
        for (int m = 0; m < GAP_METRICS; m++)
            verdict_none(&out->metric[m].policy, VERDICT_INCONCLUSIVE, "%s",
                         end > first ? "a replicate of it: the same policy" : "the runs have no steps in common");
        return OK;
    }
    struct mean_range range = {common->step[first], common->step[end - 1], end - first,
                               evaluated ? evaluated->step : -1};
    double *mean = malloc(2 * (size_t)r->runs * sizeof *mean);
    if (!mean)
        return FAIL(ERR_MEMORY, "no memory for the means of %d runs", r->runs);
    for (int m = 0; m < GAP_METRICS; m++) {
        int baselines = family_means(mean, r, a->family, m, &range);
        int candidates = family_means(mean + r->runs, r, b->family, m, &range);
        verdict_policy(&out->metric[m].policy, baselines, mean, candidates, mean + r->runs, out->metric[m].margin);
    }
    free(mean);
    return OK;
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
    TRY(check_comparable(a, b));
    TRY_DONE(common_steps(&common, a, b));
    TRY_DONE(judge_pairs(out, a, b, &common));
    TRY_DONE(judge_policies(out, r, baseline, candidate, &common));
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
    return report_recommend(r);
}
