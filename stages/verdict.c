#include "stages/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/series.h"
#include "stages/student.h"

const char *verdict_name(enum verdict v)
{
    static const char *const names[VERDICTS] = {"IDENTICAL",  "AGREES",       "UNDECIDED", "DIFFERS",
                                                "EQUIVALENT", "INCONCLUSIVE", "DRIFTING",  "DIVERGED"};
    return names[v];
}

static const struct evidence no_evidence = {NAN, NAN, 0};

static void begin(struct judgement *out, enum verdict verdict)
{
    *out = (struct judgement){.verdict = verdict,
                              .gap = NAN,
                              .low = NAN,
                              .high = NAN,
                              .error = NAN,
                              .dof = NAN,
                              .detectable = NAN,
                              .inside = no_evidence,
                              .outside = no_evidence,
                              .effective = NAN,
                              .drift = {NAN, NAN, NAN, NAN, no_evidence, 0}};
}

void verdict_none(struct judgement *out, enum verdict verdict, const char *format, ...)
{
    begin(out, verdict);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
}

void verdict_note(struct judgement *j, const char *format, ...)
{
    size_t used = strlen(j->reason);
    if (used && used + 3 < sizeof j->reason)
        used += (size_t)snprintf(j->reason + used, sizeof j->reason - used, "; ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(j->reason + used, sizeof j->reason - used, format, arguments);
    va_end(arguments);
}

static double upper_tail(double t, double dof) { return student_cdf(-t, dof); }

void verdict_measure(struct judgement *out, double gap, double error, double dof, double margin)
{
    double half = student_quantile(1 - VERDICT_LEVEL, dof) * error;
    out->gap = gap;
    out->low = gap - half;
    out->high = gap + half;
    out->error = error;
    out->dof = dof;
    out->detectable = (student_quantile(1 - VERDICT_LEVEL / 2, dof) + student_quantile(VERDICT_POWER, dof)) * error;
    double near = fabs(gap) - margin, far = fabs(gap) + margin;
    if (error > 0) {
        out->inside.p = upper_tail(-near / error, dof);
        out->outside.p = fmin(upper_tail(near / error, dof) + upper_tail(far / error, dof), 1);
    } else {
        out->inside.p = near < 0 ? 0 : 1;
        out->outside.p = near > 0 ? 0 : 1;
    }
    out->inside.adjusted = out->inside.p;
    out->outside.adjusted = out->outside.p;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

/* ---- this pair ---- */

static void explain_undecided(struct judgement *out, double margin)
{
    out->verdict = VERDICT_UNDECIDED;
    out->inside.p = out->inside.adjusted = out->outside.p = out->outside.adjusted = 1;
    if (out->effective < VERDICT_EFFECTIVE)
        verdict_note(out, "effective values: %.3g, at least %d are needed", out->effective, VERDICT_EFFECTIVE);
    else
        verdict_note(out, "the 90 %% interval [%+.3g, %+.3g] is neither inside the margin %g nor clearly outside",
                     out->low, out->high, margin);
}

static void judge_pair(struct judgement *out, double gap, double error, double dof, double margin)
{
    verdict_measure(out, gap, error, dof, margin);
    if (out->effective >= VERDICT_EFFECTIVE && out->inside.p <= VERDICT_LEVEL)
        out->verdict = VERDICT_AGREES;
    else if (out->effective >= VERDICT_EFFECTIVE && out->outside.p <= VERDICT_LEVEL)
        out->verdict = VERDICT_DIFFERS;
    else
        explain_undecided(out, margin);
}

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

/* True when a value that is not finite, equal bits, or a norm without a logarithm settles the verdict before any
 * statistics, in this order: two runs that diverged alike prove nothing. `unit` and `name` say where ("step", its
 * number). */
static bool settled(struct judgement *out, int64_t count, const double *baseline, const double *candidate,
                    enum gap_kind kind, const char *unit, const int64_t *name)
{
    int64_t bad_baseline = first_unusable(baseline, count, -INFINITY);
    int64_t bad_candidate = first_unusable(candidate, count, -INFINITY);
    if (bad_baseline < 0 && bad_candidate < 0 && bits_equal(baseline, candidate, count)) {
        out->verdict = VERDICT_IDENTICAL;
        out->gap = out->low = out->high = out->error = out->detectable = 0;
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

void verdict_window(int64_t *first, int64_t *end, int64_t count, const double window[2])
{
    /* The small term keeps 0.7 * 10 from becoming 6. */
    *first = (int64_t)floor(window[0] * (double)count + 1e-9);
    *end = (int64_t)floor(window[1] * (double)count + 1e-9);
    *end = *end > count ? count : *end;
}

double paired_gap(const struct paired_series *series, enum gap_kind kind, int64_t i)
{
    double a = series->baseline[i], b = series->candidate[i];
    return kind == GAP_LOG_RATIO ? log(b / a) : b - a;
}

/* The error of a mean falls with the square root of its steps, and its effective values grow with them. */
static int64_t steps_needed(const struct judgement *j, int64_t count, double margin)
{
    double t = student_quantile(1 - VERDICT_LEVEL, j->dof) + student_quantile((1 + VERDICT_POWER) / 2, j->dof);
    double ratio = t * j->error / margin, times = fmax(ratio * ratio, VERDICT_EFFECTIVE / j->effective);
    double steps = ceil((double)count * times);
    return steps < 1e15 ? (int64_t)steps : 0;
}

static void judge_window(struct judgement *out, const double *d, int64_t count, double margin)
{
    out->gap = series_mean(d, count);
    out->effective = series_effective(d, count);
    if (count < SERIES_BATCHES) {
        verdict_note(out, "%lld step%s in the window, at least %d are needed", (long long)count, plural(count),
                     VERDICT_EFFECTIVE);
        return;
    }
    judge_pair(out, out->gap, series_error(d, count, out->effective), SERIES_BATCHES - 1, margin);
    if (out->verdict == VERDICT_UNDECIDED)
        out->steps_needed = steps_needed(out, count, margin);
}

status verdict_pair_steps(struct judgement *out, const struct paired_series *series, enum gap_kind kind, double margin,
                          const double window[2])
{
    begin(out, VERDICT_UNDECIDED);
    int64_t first, end;
    verdict_window(&first, &end, series->count, window);
    int64_t count = end - first;
    if (count <= 0) {
        verdict_note(out, "no step in the window: the runs have %lld step%s in common", (long long)series->count,
                     plural(series->count));
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
    for (int64_t i = 0; i < count; i++)
        d[i] = paired_gap(series, kind, first + i);
    judge_window(out, d, count, margin);
    free(d);
    return OK;
}

void verdict_pair_sequences(struct judgement *out, int count, const double *baseline, const double *candidate,
                            double margin)
{
    begin(out, VERDICT_UNDECIDED);
    if (count < 2) {
        verdict_note(out, "%d held-out sequence%s, at least %d are needed", count, plural(count), VERDICT_EFFECTIVE);
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
