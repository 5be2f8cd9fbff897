/* verdict_policy.c - the second scope: runs against runs. */
#include "stages/verdict.h"

#include <math.h>
#include <stdio.h>

#include "stages/series.h"
#include "stages/student.h"

enum { RUNS_MOST = 1000000 };

/* Degrees of freedom of two sides with n runs each and equal spreads, where Welch's are 2 (n - 1). */
static double balanced_freedom(int n) { return 4.0 / 3 * (n - 1); }

static bool enough(int n, double variance, double margin)
{
    double dof = balanced_freedom(n);
    double t = student_quantile(1 - VERDICT_LEVEL, dof) + student_quantile((1 + VERDICT_POWER) / 2, dof);
    return t * sqrt(2 * variance / n) <= margin;
}

int verdict_runs_needed(double variance, double margin)
{
    int low = 1, high = 2; /* low is not enough, high is not known to be */
    while (high <= RUNS_MOST && !enough(high, variance, margin)) {
        low = high;
        high *= 2;
    }
    while (high <= RUNS_MOST && high - low > 1) {
        int n = low + (high - low) / 2;
        if (enough(n, variance, margin))
            high = n;
        else
            low = n;
    }
    return high <= RUNS_MOST ? high : 0;
}

/* ---- the gap ---- */

static void explain_too_few(struct judgement *out, double baseline_variance, double candidate_variance, double margin)
{
    bool known = out->baselines >= 2 || out->candidates >= 2;
    double variance = out->baselines >= 2 ? baseline_variance : candidate_variance;
    out->runs_needed = known && variance > 0 ? verdict_runs_needed(variance, margin) : 0;
    if (out->runs_needed)
        verdict_note(
            out,
            "no replicates on one side (%d against %d runs); with the spread of the other (%.2g) about %d runs "
            "a side would decide",
            out->candidates, out->baselines, sqrt(variance), out->runs_needed);
    else
        verdict_note(
            out, "no replicates (%d against %d runs): at least 2 runs a side are needed to know the run-to-run spread",
            out->candidates, out->baselines);
}

/* See verdict.h. `square`: squared standard error of a side's mean. */
static double degrees_of_freedom(double square_a, int a, double square_b, int b)
{
    int smaller = a < b ? a : b;
    double sum = square_a + square_b;
    double welch = sum * sum / (square_a * square_a / (a - 1) + square_b * square_b / (b - 1));
    return fmin(2 / (1 / welch + 1.0 / (smaller - 1)), balanced_freedom(smaller));
}

static void judge_gap(struct judgement *out, double gap, double baseline_variance, double candidate_variance,
                      double margin)
{
    double baseline_square = baseline_variance / out->baselines,
           candidate_square = candidate_variance / out->candidates;
    double dof = degrees_of_freedom(baseline_square, out->baselines, candidate_square, out->candidates);
    verdict_measure(out, gap, sqrt(baseline_square + candidate_square), dof, margin);
    out->runs_needed = verdict_runs_needed((baseline_variance + candidate_variance) / 2, margin);
}

/* ---- its slope ---- */

/* The step at which the gap, which is out->gap in the middle of the window, leaves the margin; 0 when it shrinks. */
static int64_t drift_horizon(const struct judgement *j, double margin)
{
    double middle = 0.5 * (double)(j->first + j->last), slope = j->drift.slope;
    double at_end = j->gap + slope * ((double)j->last - middle);
    if (!(at_end * slope > 0))
        return 0;
    double step = ceil(middle + (copysign(margin, slope) - j->gap) / slope);
    return step < 1e15 ? (int64_t)fmax(step, (double)j->first) : 0;
}

static void judge_drift(struct judgement *out, const struct policy_runs *baseline, const struct policy_runs *candidate,
                        double margin)
{
    double mean, variance, dof = out->baselines - 1;
    struct drift *drift = &out->drift;
    series_moments(baseline->slope, out->baselines, &mean, &variance);
    drift->slope = series_mean(candidate->slope, out->candidates) - mean;
    double error = sqrt(variance * (1.0 / out->baselines + 1.0 / out->candidates));
    if (!(error > 0) || !isfinite(drift->slope))
        return;
    double half = student_quantile(1 - VERDICT_LEVEL, dof) * error;
    drift->low = drift->slope - half;
    drift->high = drift->slope + half;
    drift->detectable = (student_quantile(1 - VERDICT_LEVEL / 2, dof) + student_quantile(VERDICT_POWER, dof)) * error;
    drift->horizon = drift_horizon(out, margin);
    drift->grows.p = drift->horizon ? fmin(2 * student_cdf(-fabs(drift->slope) / error, dof), 1) : 1;
    drift->grows.adjusted = drift->grows.p;
}

/* ---- the verdict ---- */

/* What a claim lost to the other tests, or why there was none. */
static void explain_inconclusive(struct judgement *j, double margin)
{
    bool near = j->inside.p < j->outside.p;
    const struct evidence *e = near ? &j->inside : &j->outside;
    if (e->p <= VERDICT_LEVEL)
        verdict_note(j, "%s alone (p = %.2g), but not as one of %d tests (Holm: p = %.2g)",
                     verdict_name(near ? VERDICT_EQUIVALENT : VERDICT_DIVERGED), e->p, e->tests, e->adjusted);
    else
        verdict_note(j, "the 90 %% interval [%+.3g, %+.3g] is neither inside the margin %g nor clearly outside", j->low,
                     j->high, margin);
    if (j->runs_needed)
        verdict_note(j, "about %d runs a side would decide at a true gap of 0", j->runs_needed);
}

void verdict_policy_decide(struct judgement *j, double margin)
{
    j->reason[0] = '\0';
    if (j->outside.adjusted <= VERDICT_LEVEL)
        j->verdict = VERDICT_DIVERGED;
    else if (j->drift.grows.adjusted <= VERDICT_LEVEL) {
        j->verdict = VERDICT_DRIFTING;
        verdict_note(j,
                     "the gap grows by %+.2g in 1,000 steps, outside what %d baseline runs show; at this pace it "
                     "leaves the margin %g at step %lld",
                     1000 * j->drift.slope, j->baselines, margin, (long long)j->drift.horizon);
    } else if (j->inside.adjusted <= VERDICT_LEVEL)
        j->verdict = VERDICT_EQUIVALENT;
    else {
        j->verdict = VERDICT_INCONCLUSIVE;
        explain_inconclusive(j, margin);
        return;
    }
    j->runs_needed = 0;
}

static bool all_finite(const struct policy_runs *runs)
{
    bool finite = true;
    for (int i = 0; i < runs->count; i++)
        finite &= isfinite(runs->mean[i]);
    return finite;
}

void verdict_policy(struct judgement *out, const struct policy_runs *baseline, const struct policy_runs *candidate,
                    int64_t first, int64_t last, double margin)
{
    verdict_none(out, VERDICT_INCONCLUSIVE, "%s", "");
    bool replicated = baseline->count >= 2 && candidate->count >= 2;
    bool whole_baseline = all_finite(baseline), whole_candidate = all_finite(candidate);
    if (baseline->count < 1 || candidate->count < 1 || !whole_baseline)
        verdict_note(out, "%s",
                     whole_baseline ? "a side has no runs" : "a baseline run itself diverged: its mean is not finite");
    else if (!whole_candidate && replicated)
        verdict_none(out, VERDICT_DIVERGED, "a candidate run diverged: its mean is not finite");
    else if (!whole_candidate)
        verdict_note(out, "a candidate run diverged, and there are no replicates");
    out->baselines = baseline->count;
    out->candidates = candidate->count;
    out->first = first;
    out->last = last;
    if (out->reason[0])
        return;

    double baseline_mean, baseline_variance, candidate_mean, candidate_variance;
    series_moments(baseline->mean, baseline->count, &baseline_mean, &baseline_variance);
    series_moments(candidate->mean, candidate->count, &candidate_mean, &candidate_variance);
    out->gap = candidate_mean - baseline_mean;
    if (!replicated)
        explain_too_few(out, baseline_variance, candidate_variance, margin);
    else if (!(baseline_variance + candidate_variance > 0))
        verdict_note(out, "replicates have equal means: they show no run-to-run spread");
    else {
        judge_gap(out, out->gap, baseline_variance, candidate_variance, margin);
        if (baseline->slope && candidate->slope)
            judge_drift(out, baseline, candidate, margin);
        verdict_policy_decide(out, margin);
    }
}
