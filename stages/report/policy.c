#include "stages/report/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *noise_floor_name(enum noise_floor f)
{
    static const char *const names[] = {"", "seed", "arithmetic"};
    return names[f];
}

/* One number of one run; false when the run lacks a step of the range. */
static bool run_mean(double *out, const struct run *run, enum gap_metric metric, const struct mean_range *range)
{
    double sum = 0;
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
            sum += metric == METRIC_LOSS ? m->loss : log(m->grad_norm);
            count++;
        }
        if (count != range->count)
            count = 0;
    }
    *out = sum / (double)count;
    return count > 0;
}

/* ---- samples ---- */

/* Runs of two families that differ in one way, and one mean of each. */
struct sample {
    int runs, repeats; /* runs: baselines, then candidates */
    int baselines, candidates;
    const struct run **run;
    double *mean; /* of each of them */
};

static void free_sample(struct sample *s)
{
    free(s->run);
    free(s->mean);
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
        double mean;
        if (run->state != RUN_MEASURED || run->family != family || run_stopped_early(run) ||
            !shows(run, floor, bases) || !run_mean(&mean, run, metric, range))
            continue;
        bases += !run->point.replicate[0];
        if (is_repeat(s, run)) {
            s->repeats++;
            continue;
        }
        s->run[s->runs] = run;
        s->mean[s->runs++] = mean;
    }
    return s->runs - before;
}

static status take_sample(struct sample *s, const struct report *r, const int family[2], enum noise_floor floor,
                          enum gap_metric metric, const struct mean_range *range)
{
    *s = (struct sample){.run = calloc((size_t)r->runs, sizeof *s->run),
                         .mean = calloc((size_t)r->runs, sizeof *s->mean)};
    if (!s->run || !s->mean)
        return FAIL(ERR_MEMORY, "no memory for the means of %d runs", r->runs);
    s->baselines = add_family(s, r, family[0], floor, metric, range);
    s->candidates = add_family(s, r, family[1], floor, metric, range);
    return OK;
}

static bool decides(const struct sample *s) { return s->baselines >= 2 && s->candidates >= 2; }

static status judge_metric(struct contrast *out, const struct report *r, const int family[2], enum gap_metric metric,
                           const struct mean_range *range)
{
    status st = OK;
    struct sample seed = {0}, arithmetic = {0};
    TRY_DONE(take_sample(&seed, r, family, FLOOR_SEED, metric, range));
    TRY_DONE(take_sample(&arithmetic, r, family, FLOOR_ARITHMETIC, metric, range));
    bool more_seeds = seed.baselines + seed.candidates > arithmetic.baselines + arithmetic.candidates;
    const struct sample *s = decides(&seed) || (!decides(&arithmetic) && more_seeds) ? &seed : &arithmetic;
    struct judgement *policy = &out->metric[metric].policy;
    verdict_policy(policy, s->baselines, s->mean, s->candidates, s->mean + s->baselines, out->metric[metric].margin);
    out->metric[metric].repeats = s->repeats;
    if (decides(s))
        out->metric[metric].floor = s == &seed ? FLOOR_SEED : FLOOR_ARITHMETIC;
    size_t used = strlen(policy->reason);
    if (!decides(s) && (s->baselines >= 2 || s->candidates >= 2))
        used += (size_t)snprintf(policy->reason + used, sizeof policy->reason - used,
                                 "; the runs counted are %s replicates",
                                 noise_floor_name(s == &seed ? FLOOR_SEED : FLOOR_ARITHMETIC));
    if (s->repeats)
        snprintf(policy->reason + used, sizeof policy->reason - used,
                 "%s%d run%s not counted: the same %s as another run, so no independent one", used ? "; " : "",
                 s->repeats, s->repeats == 1 ? "" : "s", r->run[family[1]].log ? "values" : "weights");
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
