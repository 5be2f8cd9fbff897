#include "stages/report/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *noise_floor_name(enum noise_floor f)
{
    static const char *const names[] = {"", "seed", "arithmetic"};
    return names[f];
}

/* One mean and one slope of one run; false when the run lacks a step of the range. Held-out losses have no slope. */
static bool run_numbers(double *mean, double *slope, const struct run *run, enum gap_metric metric,
                        const struct mean_range *range)
{
    double sum = 0, product = 0, square = 0, middle = 0.5 * (double)(range->first + range->last);
    int64_t count = 0;
    if (metric == METRIC_HELD_OUT) {
        const struct evaluation *e = run_evaluation(run, range->evaluated);
        for (; e && count < e->sequences; count++)
            sum += e->loss[count];
    } else if (metric == METRIC_LOSS || run_has_grad_norm(run)) {
        for (int64_t i = 0; i < run->metrics; i++) {
            const struct metric *m = &run->metric[i];
            if (m->step < range->first || m->step > range->last)
                continue;
            double value = metric == METRIC_LOSS ? m->loss : log(m->grad_norm), away = (double)m->step - middle;
            sum += value;
            product += away * value;
            square += away * away;
            count++;
        }
        if (count != range->count)
            count = 0;
    }
    *mean = sum / (double)count;
    *slope = product / square;
    return count > 0;
}

/* ---- samples ---- */

/* Runs of two families that differ in one way, and one mean of each. */
struct sample {
    int runs, repeats; /* runs: baselines, then candidates */
    int baselines, candidates;
    const struct run **run;
    double *mean, *slope; /* of each of them */
};

static void free_sample(struct sample *s)
{
    free(s->run);
    free(s->mean);
    free(s->slope);
}

static bool is_repeat(const struct sample *s, const struct run *run)
{
    for (int i = 0; i < s->runs; i++)
        if (runs_repeat(s->run[i], run))
            return true;
    return false;
}

/* The run that others replicate shows both spreads. Runs that the command line calls replicates of each other see the
 * same batches, so what sets them apart is arithmetic; `bases` of them are in the sample already. */
static bool shows(const struct run *run, enum noise_floor floor, int bases)
{
    char kind = run->point.replicate[0];
    if (floor == FLOOR_SEED)
        return kind == 's' || (!kind && bases == 0);
    return kind != 's';
}

/* Appends the runs of a family that show this spread; says how many. */
static int add_family(struct sample *s, const struct report *r, int family, enum noise_floor floor,
                      enum gap_metric metric, const struct mean_range *range)
{
    int before = s->runs, bases = 0;
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        double mean, slope;
        if (run->state != RUN_MEASURED || run->family != family || run_stopped_early(run) ||
            !shows(run, floor, bases) || !run_numbers(&mean, &slope, run, metric, range))
            continue;
        bases += !run->point.replicate[0];
        if (is_repeat(s, run)) {
            s->repeats++;
            continue;
        }
        s->run[s->runs] = run;
        s->slope[s->runs] = slope;
        s->mean[s->runs++] = mean;
    }
    return s->runs - before;
}

static status take_sample(struct sample *s, const struct report *r, const int family[2], enum noise_floor floor,
                          enum gap_metric metric, const struct mean_range *range)
{
    *s = (struct sample){.run = calloc((size_t)r->runs, sizeof *s->run),
                         .mean = calloc((size_t)r->runs, sizeof *s->mean),
                         .slope = calloc((size_t)r->runs, sizeof *s->slope)};
    if (!s->run || !s->mean || !s->slope)
        return FAIL(ERR_MEMORY, "no memory for the means of %d runs", r->runs);
    s->baselines = add_family(s, r, family[0], floor, metric, range);
    s->candidates = add_family(s, r, family[1], floor, metric, range);
    return OK;
}

static bool decides(const struct sample *s) { return s->baselines >= 2 && s->candidates >= 2; }

void policy_explain(struct contrast *c, enum gap_metric m)
{
    struct judgement *policy = &c->metric[m].policy;
    bool decides = policy->baselines >= 2 && policy->candidates >= 2;
    if (!decides && (policy->baselines >= 2 || policy->candidates >= 2))
        verdict_note(policy, "the runs counted are %s replicates", noise_floor_name(c->metric[m].counted));
    if (c->metric[m].likeness.kind && policy->verdict != VERDICT_EQUIVALENT)
        verdict_note(policy, "%s", c->metric[m].likeness.text);
    if (c->metric[m].repeats)
        verdict_note(policy, "%d run%s not counted: the same %s as another run, so no independent one",
                     c->metric[m].repeats, c->metric[m].repeats == 1 ? "" : "s",
                     c->metric[m].by_values ? "values" : "weights");
}

static status judge_metric(struct contrast *out, const struct report *r, const int family[2], enum gap_metric metric,
                           const struct mean_range *range)
{
    status st = OK;
    struct sample seed = {0}, arithmetic = {0};
    TRY_DONE(take_sample(&seed, r, family, FLOOR_SEED, metric, range));
    TRY_DONE(take_sample(&arithmetic, r, family, FLOOR_ARITHMETIC, metric, range));
    bool more_seeds = seed.baselines + seed.candidates > arithmetic.baselines + arithmetic.candidates;
    const struct sample *s = decides(&seed) || (!decides(&arithmetic) && more_seeds) ? &seed : &arithmetic;
    bool has_slopes = metric != METRIC_HELD_OUT;
    struct policy_runs baseline = {s->baselines, s->mean, has_slopes ? s->slope : NULL};
    struct policy_runs candidate = {s->candidates, s->mean + s->baselines, has_slopes ? s->slope + s->baselines : NULL};
    verdict_policy(&out->metric[metric].policy, &baseline, &candidate, range->first, range->last,
                   out->metric[metric].margin);
    if (metric == METRIC_LOSS)
        preset_rcp(&out->preset[PRESET_RCP], baseline.count, baseline.mean, candidate.count, candidate.mean);
    out->metric[metric].repeats = s->repeats;
    out->metric[metric].counted = s == &seed ? FLOOR_SEED : FLOOR_ARITHMETIC;
    out->metric[metric].floor = decides(s) ? out->metric[metric].counted : FLOOR_NONE;
    out->metric[metric].by_values = r->run[family[1]].log != NULL;
    policy_explain(out, metric);
done:
    free_sample(&seed);
    free_sample(&arithmetic);
    return st;
}

/* ---- policies ---- */

status policy_judge(struct contrast *out, const struct report *r, int baseline, int candidate,
                    const struct mean_range *range)
{
    const int family[2] = {r->run[baseline].family, r->run[candidate].family};
    const char *reason = NULL;
    if (family[0] == family[1])
        reason = "a replicate of it: the same policy";
    else if (range->count <= 0)
        reason = "the runs have no steps in common";
    for (int m = 0; m < GAP_METRICS; m++) {
        if (reason)
            verdict_none(&out->metric[m].policy, VERDICT_INCONCLUSIVE, "%s", reason);
        else
            TRY(judge_metric(out, r, family, m, range));
    }
    return OK;
}
