#include "stages/report/evidence.h"

#include <math.h>
#include <stdlib.h>

#include "stages/crosscheck.h"

/* Micro-batches that a rank accumulates in a step. */
static int accumulation(const struct point *p)
{
    int together = p->training.micro_batch_size * (p->target.dp > 1 ? p->target.dp : 1);
    int own = together > 0 ? p->training.global_batch_size / together : 1; /* a log may not tell */
    return own > 1 ? own : 1;
}

/* Other errors of the mean over the window, when the verdict has one. */
static status cross_check(struct contrast *out, enum gap_metric m, const struct paired_series *series,
                          const double window[2])
{
    int64_t first, end;
    verdict_window(&first, &end, series->count, window);
    if (!(out->metric[m].pair.error > 0))
        return OK;
    int64_t count = end - first;
    double *d = malloc((size_t)count * sizeof *d);
    if (!d)
        return FAIL(ERR_MEMORY, "no memory for %lld differences", (long long)count);
    for (int64_t i = 0; i < count; i++)
        d[i] = paired_gap(series, m == METRIC_GRAD_NORM ? GAP_LOG_RATIO : GAP_DIFFERENCE, first + i);
    out->metric[m].newey_west = newey_west_error(d, count);
    out->metric[m].block = block_length(d, count);
    out->metric[m].bootstrap = block_bootstrap_error(d, count, out->metric[m].block);
    free(d);
    return OK;
}

/* Onset, cross-checks and likeness of one metric. */
static status take_metric(struct contrast *out, enum gap_metric m, const struct paired_series *series,
                          const double window[2], int accumulated)
{
    enum gap_kind kind = m == METRIC_GRAD_NORM ? GAP_LOG_RATIO : GAP_DIFFERENCE;
    struct judgement *pair = &out->metric[m].pair;
    TRY(onset_find(&out->metric[m].onset, series, kind));
    TRY(cross_check(out, m, series, window));
    if (pair->verdict == VERDICT_IDENTICAL || pair->verdict == VERDICT_AGREES)
        return OK;
    TRY(likeness_find(&out->metric[m].likeness, series, kind, accumulated, out->metric[m].margin));
    if (out->metric[m].likeness.kind) {
        verdict_note(pair, "%s", out->metric[m].likeness.text);
        pair->steps_needed = 0; /* more of the same would not tell more */
    }
    return OK;
}

status evidence_take(struct contrast *out, const struct run *baseline, const struct run *candidate,
                     const struct paired_series series[GAP_METRICS])
{
    const double *window = baseline->point.verdict.window;
    bool paired = baseline->log || candidate->log || baseline->point.seed == candidate->point.seed;
    bool norms = run_has_grad_norm(baseline) && run_has_grad_norm(candidate);
    int accumulated = accumulation(&candidate->point);
    for (int m = 0; m < GAP_METRICS; m++)
        out->metric[m].newey_west = out->metric[m].bootstrap = out->metric[m].block = NAN;
    if (!paired)
        return OK;
    TRY(take_metric(out, METRIC_LOSS, &series[METRIC_LOSS], window, accumulated));
    if (norms)
        TRY(take_metric(out, METRIC_GRAD_NORM, &series[METRIC_GRAD_NORM], window, accumulated));
    struct preset_runs runs = {series[METRIC_LOSS], series[METRIC_GRAD_NORM], {window[0], window[1]}};
    runs.norm.count = norms ? runs.norm.count : 0;
    return presets_apply(out->preset, &runs);
}

/* ---- prices ---- */

static int devices(const struct point *p)
{
    return (p->target.dp > 1 ? p->target.dp : 1) * (p->target.cp > 1 ? p->target.cp : 1);
}

/* Device hours of so many steps like those that the run made; a log does not tell. */
static double hours(const struct run *run, double steps)
{
    bool known = !run->log && run->metrics && run->usage.seconds > 0;
    return known ? steps * run->usage.seconds / (double)run->metrics * devices(&run->point) / 3600 : NAN;
}

/* Of so many more runs like this one. */
static double run_hours(const struct run *run, int runs)
{
    return runs > 0 ? runs * hours(run, (double)run->metrics) : 0;
}

void evidence_price(struct contrast *out, const struct run *baseline, const struct run *candidate, int64_t common)
{
    int64_t first, end;
    verdict_window(&first, &end, common, baseline->point.verdict.window);
    const int64_t values = end - first;
    for (int m = 0; m < GAP_METRICS; m++) {
        const struct judgement *pair = &out->metric[m].pair, *policy = &out->metric[m].policy;
        struct price *a = &out->metric[m].pair_price, *b = &out->metric[m].policy_price;
        *a = *b = (struct price){0, 0, NAN};
        if (pair->steps_needed > values) {
            /* The window is a share of the common steps, and stays one; logs may print every tenth step. */
            double spacing = values > 1 ? (double)(pair->last - pair->first) / (double)(values - 1) : 1;
            double more = (double)common * ((double)pair->steps_needed / (double)values - 1) * spacing;
            a->steps = (int64_t)ceil(more);
            a->hours = hours(baseline, more) + hours(candidate, more);
        }
        int missing[2] = {policy->runs_needed - policy->baselines, policy->runs_needed - policy->candidates};
        for (int side = 0; side < 2; side++)
            b->runs += missing[side] > 0 ? missing[side] : 0;
        if (b->runs)
            b->hours = run_hours(baseline, missing[0]) + run_hours(candidate, missing[1]);
    }
}
