#include "stages/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/student.h"

static const double LEVEL = 0.05, POWER = 0.80;
enum { RUNS_MOST = 1000000 };

const char *verdict_name(enum verdict v)
{
    static const char *const names[VERDICTS] = {"IDENTICAL",  "AGREES",       "UNDECIDED", "DIFFERS",
                                                "EQUIVALENT", "INCONCLUSIVE", "DIVERGED"};
    return names[v];
}

static struct judgement judgement_empty(enum verdict verdict)
{
    return (struct judgement){
        .verdict = verdict, .gap = NAN, .low = NAN, .high = NAN, .detectable = NAN, .effective = NAN};
}

void verdict_none(struct judgement *out, enum verdict verdict, const char *format, ...)
{
    *out = judgement_empty(verdict);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
}

/* Mean and variance (n - 1). */
static void moments(const double *x, int64_t count, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = count > 1 ? squares / (double)(count - 1) : NAN;
}

/* The interval of a mean `gap` with standard error `error`, and on which side of the margin it lies. */
static void judge(struct judgement *out, double gap, double error, double dof, double margin, enum verdict inside,
                  enum verdict outside, enum verdict neither)
{
    double half = student_quantile(1 - LEVEL, dof) * error;
    out->gap = gap;
    out->low = gap - half;
    out->high = gap + half;
    out->detectable = (student_quantile(1 - LEVEL / 2, dof) + student_quantile(POWER, dof)) * error;
    if (out->low > -margin && out->high < margin)
        out->verdict = inside;
    else if (out->low > margin || out->high < -margin)
        out->verdict = outside;
    else {
        out->verdict = neither;
        snprintf(out->reason, sizeof out->reason, "the 90 %% interval [%+.3g, %+.3g] crosses the margin %g", out->low,
                 out->high, margin);
    }
}

static void judge_pair(struct judgement *out, double gap, double error, double dof, double margin)
{
    judge(out, gap, error, dof, margin, VERDICT_AGREES, VERDICT_DIFFERS, VERDICT_UNDECIDED);
    if (out->effective < VERDICT_EFFECTIVE) {
        out->verdict = VERDICT_UNDECIDED;
        snprintf(out->reason, sizeof out->reason, "effective values: %.3g, at least %d are needed", out->effective,
                 VERDICT_EFFECTIVE);
    }
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

/* ---- this pair ---- */

static bool bits_equal(const double *a, const double *b, int64_t count)
{
    return !memcmp(a, b, (size_t)count * sizeof *a);
}

/* First index whose value is not finite, or is not `above`. -1: none. */
static int64_t first_unusable(const double *x, int64_t count, double above)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i]) || !(x[i] > above))
            return i;
    return -1;
}

static int64_t first_not_finite(const double *x, int64_t count) { return first_unusable(x, count, -INFINITY); }

/* True when a value that is not finite, equal bits, or a norm without a logarithm settles the verdict before any
 * statistics, in this order: two runs that diverged alike prove nothing. `unit` and `name` say where ("step", its
 * number). */
static bool settled(struct judgement *out, int64_t count, const double *baseline, const double *candidate,
                    enum gap_kind kind, const char *unit, const int64_t *name)
{
    int64_t bad_baseline = first_not_finite(baseline, count);
    int64_t bad_candidate = first_not_finite(candidate, count);
    if (bad_baseline < 0 && bad_candidate < 0 && bits_equal(baseline, candidate, count)) {
        out->verdict = VERDICT_IDENTICAL;
        out->gap = out->low = out->high = out->detectable = 0;
        return true;
    }
    if (bad_baseline < 0 && bad_candidate < 0 && kind == GAP_LOG_RATIO) {
        bad_baseline = first_unusable(baseline, count, 0);
        bad_candidate = first_unusable(candidate, count, 0);
    }
    if (bad_baseline >= 0)
        verdict_none(out, VERDICT_UNDECIDED, "the baseline itself diverged: %g at %s %lld", baseline[bad_baseline],
                     unit, (long long)(name ? name[bad_baseline] : bad_baseline));
    else if (bad_candidate >= 0)
        verdict_none(out, VERDICT_DIFFERS, "the candidate diverged: %g at %s %lld", candidate[bad_candidate], unit,
                     (long long)(name ? name[bad_candidate] : bad_candidate));
    return bad_baseline >= 0 || bad_candidate >= 0;
}

static double autocovariance(const double *x, int64_t count, double mean, int64_t lag)
{
    double sum = 0;
    for (int64_t i = lag; i < count; i++)
        sum += (x[i] - mean) * (x[i - lag] - mean);
    return sum / (double)count;
}

double verdict_effective(const double *x, int64_t count)
{
    double mean, variance;
    moments(x, count, &mean, &variance);
    double at_zero = count > 1 ? autocovariance(x, count, mean, 0) : 0;
    if (!(sqrt(at_zero) > 1e-13 * fabs(mean)))
        return (double)count; /* constant but for the rounding of its mean */
    double sum = 0, previous = INFINITY;
    for (int64_t lag = 0; lag + 1 < count; lag += 2) {
        double pair = autocovariance(x, count, mean, lag) + autocovariance(x, count, mean, lag + 1);
        if (!(pair > 0))
            break;
        previous = fmin(previous, pair);
        sum += previous;
    }
    double time = 2 * sum / at_zero - 1; /* the pair at lag 0 counts its own variance once */
    return time > 1 ? (double)count / time : (double)count;
}

void verdict_window(int64_t *first, int64_t *end, int64_t count, const double window[2])
{
    /* The small term keeps 0.7 * 10 from becoming 6. */
    *first = (int64_t)floor(window[0] * (double)count + 1e-9);
    *end = (int64_t)floor(window[1] * (double)count + 1e-9);
    *end = *end > count ? count : *end;
}

/* Standard error of the mean of an autocorrelated series: the spread of batch means, sizes equal up to one. */
static double batch_error(const double *x, int64_t count)
{
    double batch[VERDICT_BATCHES], mean, variance;
    for (int b = 0; b < VERDICT_BATCHES; b++) {
        int64_t from = count * b / VERDICT_BATCHES, to = count * (b + 1) / VERDICT_BATCHES;
        double unused;
        moments(x + from, to - from, &batch[b], &unused);
    }
    moments(batch, VERDICT_BATCHES, &mean, &variance);
    return sqrt(variance / VERDICT_BATCHES);
}

status verdict_pair_steps(struct judgement *out, const struct paired_series *series, enum gap_kind kind, double margin,
                          const double window[2])
{
    *out = judgement_empty(VERDICT_UNDECIDED);
    int64_t first, end;
    verdict_window(&first, &end, series->count, window);
    int64_t count = end - first;
    if (count <= 0) {
        verdict_none(out, VERDICT_UNDECIDED, "no step in the window: the runs have %lld step%s in common",
                     (long long)series->count, plural(series->count));
        return OK;
    }
    bool done = settled(out, series->count, series->baseline, series->candidate, kind, "step", series->step);
    out->first = series->step[first];
    out->last = series->step[end - 1];
    if (done)
        return OK;

    double *d = malloc((size_t)count * sizeof *d);
    if (!d)
        return FAIL(ERR_MEMORY, "no memory for %lld differences", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        double a = series->baseline[first + i], b = series->candidate[first + i];
        d[i] = kind == GAP_LOG_RATIO ? log(b / a) : b - a;
    }
    double variance;
    moments(d, count, &out->gap, &variance);
    out->effective = verdict_effective(d, count);
    if (count >= VERDICT_BATCHES)
        judge_pair(out, out->gap, batch_error(d, count), VERDICT_BATCHES - 1, margin);
    else
        snprintf(out->reason, sizeof out->reason, "%lld step%s in the window, at least %d are needed", (long long)count,
                 plural(count), VERDICT_EFFECTIVE);
    free(d);
    return OK;
}

void verdict_pair_sequences(struct judgement *out, int count, const double *baseline, const double *candidate,
                            double margin)
{
    *out = judgement_empty(VERDICT_UNDECIDED);
    if (count < 2) {
        verdict_none(out, VERDICT_UNDECIDED, "%d held-out sequence%s, at least %d are needed", count, plural(count),
                     VERDICT_EFFECTIVE);
        return;
    }
    if (settled(out, count, baseline, candidate, GAP_DIFFERENCE, "sequence", NULL))
        return;
    out->effective = count;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += candidate[i] - baseline[i];
    double gap = sum / count;
    for (int i = 0; i < count; i++) {
        double d = candidate[i] - baseline[i] - gap;
        squares += d * d;
    }
    judge_pair(out, gap, sqrt(squares / (count - 1) / count), count - 1, margin);
}

/* ---- the policy ---- */

/* Runs a side with which a TOST at a true gap of 0 succeeds with the wanted power, when one run's variance is known:
 * (t_{1-level} + t_{1-(1-power)/2}) sqrt(2 variance / n) <= margin. 0 when no reasonable number does. */
static int runs_needed(double variance, double margin)
{
    int low = 1, high = RUNS_MOST; /* low fails, high is not known to */
    while (high - low > 1) {
        int n = low + (high - low) / 2;
        double t = student_quantile(1 - LEVEL, 2 * n - 2) + student_quantile((1 + POWER) / 2, 2 * n - 2);
        if (t * sqrt(2 * variance / n) <= margin)
            high = n;
        else
            low = n;
    }
    return high < RUNS_MOST ? high : 0;
}

static void explain_too_few(struct judgement *out, double baseline_variance, double candidate_variance, double margin)
{
    bool known = out->baselines >= 2 || out->candidates >= 2;
    double variance = out->baselines >= 2 ? baseline_variance : candidate_variance;
    out->runs_needed = known && variance > 0 ? runs_needed(variance, margin) : 0;
    if (out->runs_needed)
        snprintf(out->reason, sizeof out->reason,
                 "no replicates on one side (%d against %d runs); with the spread of the other (%.2g) about %d runs a "
                 "side would decide",
                 out->candidates, out->baselines, sqrt(variance), out->runs_needed);
    else
        snprintf(out->reason, sizeof out->reason,
                 "no replicates (%d against %d runs): at least 2 runs a side are needed to know the run-to-run spread",
                 out->candidates, out->baselines);
}

/* Welch's t with its fractional degrees of freedom. */
static void judge_policy(struct judgement *out, double gap, double baseline_square, double candidate_square,
                         double margin)
{
    double square = baseline_square + candidate_square; /* squared standard errors of the two means */
    double dof = square * square /
                 (baseline_square * baseline_square / (out->baselines - 1) +
                  candidate_square * candidate_square / (out->candidates - 1));
    judge(out, gap, sqrt(square), dof, margin, VERDICT_EQUIVALENT, VERDICT_DIVERGED, VERDICT_INCONCLUSIVE);
    if (out->verdict != VERDICT_INCONCLUSIVE)
        return;
    double pooled = (baseline_square * out->baselines + candidate_square * out->candidates) / 2;
    out->runs_needed = runs_needed(pooled, margin);
    size_t used = strlen(out->reason);
    if (out->runs_needed)
        snprintf(out->reason + used, sizeof out->reason - used,
                 "; about %d runs a side would decide at a true gap of 0", out->runs_needed);
}

void verdict_policy(struct judgement *out, int baselines, const double *baseline, int candidates,
                    const double *candidate, double margin)
{
    *out = judgement_empty(VERDICT_INCONCLUSIVE);
    bool bad_baseline = first_not_finite(baseline, baselines) >= 0;
    bool bad_candidate = first_not_finite(candidate, candidates) >= 0;
    if (baselines < 1 || candidates < 1 || bad_baseline)
        verdict_none(out, VERDICT_INCONCLUSIVE, "%s",
                     bad_baseline ? "a baseline run itself diverged: its mean is not finite" : "a side has no runs");
    else if (bad_candidate && baselines >= 2 && candidates >= 2)
        verdict_none(out, VERDICT_DIVERGED, "a candidate run diverged: its mean is not finite");
    else if (bad_candidate)
        verdict_none(out, VERDICT_INCONCLUSIVE, "a candidate run diverged, and there are no replicates");
    out->baselines = baselines;
    out->candidates = candidates;
    if (out->reason[0])
        return;

    double baseline_mean, baseline_variance, candidate_mean, candidate_variance;
    moments(baseline, baselines, &baseline_mean, &baseline_variance);
    moments(candidate, candidates, &candidate_mean, &candidate_variance);
    out->gap = candidate_mean - baseline_mean;
    if (baselines < 2 || candidates < 2)
        explain_too_few(out, baseline_variance, candidate_variance, margin);
    else if (baseline_variance + candidate_variance > 0)
        judge_policy(out, out->gap, baseline_variance / baselines, candidate_variance / candidates, margin);
    else
        snprintf(out->reason, sizeof out->reason, "replicates have equal means: they show no run-to-run spread");
}
