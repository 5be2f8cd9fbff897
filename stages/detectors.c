#include "stages/detectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/series.h"

/* What to look for in which metric, the likelier one first. `value` 0: the number of accumulated micro-batches; -1: its
 * root. The inverse of a factor is looked for too. */
struct signature {
    enum likeness_kind kind;
    double value;
    bool loss, norm;
    const char *what, *check;
};

enum { ACCUMULATION = 0, ROOT_OF_ACCUMULATION = -1 };

static const struct signature signatures[] = {
    {LIKENESS_FACTOR, 2, true, true, "a factor of 2",
     "whether it is summed over 2 ranks or micro-batches instead of averaged, or added twice (by a recompute that "
     "repeats a side effect)"},
    {LIKENESS_FACTOR, 4, true, true, "a factor of 4",
     "whether it is summed over 4 ranks or micro-batches instead of averaged"},
    {LIKENESS_FACTOR, ACCUMULATION, true, true, "the number of accumulated micro-batches",
     "whether it is summed over micro-batches instead of averaged"},
    {LIKENESS_FACTOR, M_SQRT2, false, true, "a factor of the square root of 2",
     "whether half of the gradient is counted twice, or the norm is taken before the ranks' average"},
    {LIKENESS_FACTOR, ROOT_OF_ACCUMULATION, false, true, "the square root of the accumulated micro-batches",
     "whether the norm is taken per micro-batch"},
    {LIKENESS_FACTOR, M_LN2, true, false, "nats against bits (a factor of ln 2)",
     "whether one log uses the logarithm to base 2"},
    {LIKENESS_OFFSET, M_LN2, true, false, "an offset of ln 2",
     "whether a sum of exponentials holds everything twice, or a mean is over half of the tokens' weight"},
};
enum { SIGNATURES = sizeof signatures / sizeof *signatures };

/* ---- taking it out ---- */

static double without(double candidate, enum likeness_kind kind, double value)
{
    return kind == LIKENESS_FACTOR ? candidate / value : candidate - value;
}

/* Fills `out` when the candidate without the factor or offset is the baseline, from index `from` on. */
static status try_likeness(struct likeness *out, double *undone, const struct paired_series *s, enum gap_kind kind,
                           int64_t from, enum likeness_kind likeness, double value, double margin)
{
    static const double whole[2] = {0, 1};
    for (int64_t i = from; i < s->count; i++)
        undone[i] = without(s->candidate[i], likeness, value);
    struct paired_series rest = {s->count - from, s->step + from, s->baseline + from, undone + from, s->resolution};
    double printed = s->resolution * (likeness == LIKENESS_FACTOR ? 0.5 + 0.5 / value : 1);
    double tolerance = margin + (kind == GAP_LOG_RATIO ? printed / fabs(s->baseline[0]) : printed);
    struct judgement j;
    TRY(verdict_pair_steps(&j, &rest, kind, margin, whole));
    bool exact = j.verdict == VERDICT_IDENTICAL;
    if (exact || (j.low > -tolerance && j.high < tolerance))
        *out = (struct likeness){likeness, value, exact, j.low, j.high, ""};
    return OK;
}

static void explain(struct likeness *out, const struct signature *s, bool inverse)
{
    snprintf(out->text, sizeof out->text, "looks like: %s%s%s; check %s", s->what,
             inverse ? ", the other way round" : "", out->exact ? ", exact at every step" : "", s->check);
}

static double signature_value(const struct signature *s, int accumulation)
{
    if (s->kind == LIKENESS_FACTOR && s->value == ACCUMULATION)
        return accumulation;
    if (s->kind == LIKENESS_FACTOR && s->value == ROOT_OF_ACCUMULATION)
        return sqrt(accumulation);
    return s->value;
}

static status find_named(struct likeness *out, double *undone, const struct paired_series *series, enum gap_kind kind,
                         int accumulation, double margin)
{
    for (int i = 0; i < 2 * SIGNATURES && !out->kind; i++) {
        const struct signature *s = &signatures[i / 2];
        bool inverse = i % 2;
        double value = signature_value(s, accumulation);
        if (!(kind == GAP_LOG_RATIO ? s->norm : s->loss) || value == 1)
            continue;
        if (inverse)
            value = s->kind == LIKENESS_FACTOR ? 1 / value : -value;
        TRY(try_likeness(out, undone, series, kind, 0, s->kind, value, margin));
        if (out->kind)
            explain(out, s, inverse);
    }
    return OK;
}

/* ---- an offset without a name ---- */

static double range_of(const double *x, int64_t count)
{
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    return most - least;
}

static status find_offset(struct likeness *out, double *undone, const struct paired_series *s, double margin)
{
    int64_t head = s->count / SERIES_BATCHES;
    double offset = series_mean(s->candidate, head) - series_mean(s->baseline, head);
    double tolerance = margin + s->resolution;
    if (!(fabs(offset) > tolerance) || !(range_of(s->baseline, s->count) > 10 * tolerance))
        return OK;
    TRY(try_likeness(out, undone, s, GAP_DIFFERENCE, head, LIKENESS_OFFSET, offset, margin));
    if (out->kind)
        snprintf(out->text, sizeof out->text,
                 "looks like: a constant offset of %+.4g from the first step on, before any weight could differ by it; "
                 "check which terms and tokens each log counts, and the first forward",
                 offset);
    return OK;
}

status likeness_find(struct likeness *out, const struct paired_series *series, enum gap_kind kind, int accumulation,
                     double margin)
{
    *out = (struct likeness){.kind = LIKENESS_NONE};
    bool usable = series->count >= SERIES_BATCHES;
    for (int64_t i = 0; usable && i < series->count; i++)
        usable = isfinite(series->baseline[i]) && isfinite(series->candidate[i]);
    if (!usable)
        return OK;
    double *undone = malloc((size_t)series->count * sizeof *undone);
    if (!undone)
        return FAIL(ERR_MEMORY, "no memory for %lld values", (long long)series->count);
    status st = find_named(out, undone, series, kind, accumulation, margin);
    if (st == OK && !out->kind && kind == GAP_DIFFERENCE)
        st = find_offset(out, undone, series, margin);
    free(undone);
    return st;
}
