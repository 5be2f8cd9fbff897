#include "stages/presets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stages/series.h"
#include "stages/student.h"

const char *preset_outcome_name(enum preset_outcome o)
{
    static const char *const names[] = {"n/a", "passes", "fails"};
    return names[o];
}

const struct preset_rule *preset_rule(enum preset p)
{
    static const struct preset_rule rules[PRESETS] = {
        {"nats-0.02", "mean gap over the tail at most 0.02 nat, and not growing: its second half is no further from 0",
         "the story behind this project", "no error of the mean: it passes and fails by chance where runs are noisy"},
        {"mean-rel-1",
         "mean absolute difference < 0.01 or mean relative < 1 %; first loss within 0.005 or 0.5 %; mean relative "
         "difference of gradient norms <= 10 %",
         "MindFormers accuracy guide", "absolute differences of noise do not shrink with more steps"},
        {"mean-rel-2", "mean relative difference < 2 %", "verl PR #332",
         "2 % of a loss of 2 is 0.04 nat, four times the margin here"},
        {"xpu-gpu",
         "MAE < 0.05, RMSE < 0.1, largest < 0.5, Pearson and Spearman > 0.99, mean relative < 1 %, R^2 > 0.98",
         "PaddleFormers-style validation", "two falling curves correlate whatever their gap; a flat tail does not"},
        {"megatron-approx", "each value within 5 %; 1 % of the steps may fail", "Megatron functional tests",
         "blind to a constant gap of 4 %"},
        {"last-step-5", "last loss within 5 %", "a vendor acceptance text", "one step, and its noise"},
        {"rcp",
         "one-sided pooled t-test of the candidate runs' mean loss over the tail against at least twice as many "
         "baseline runs, 5 %: fails when significantly higher",
         "MLPerf reference convergence points", "no evidence of a difference passes, so few or noisy runs pass"},
    };
    return &rules[p];
}

static enum preset_outcome outcome(bool passes) { return passes ? PRESET_PASSES : PRESET_FAILS; }

#define SAY(result, ...) snprintf((result)->text, sizeof(result)->text, __VA_ARGS__)

/* ---- differences over the compared steps ---- */

struct differences {
    double absolute, square, relative, largest; /* means; the largest absolute one */
    double beyond_5;                            /* share of the steps that are more than 5 % away */
};

static double relative_at(const struct paired_series *s, int64_t i)
{
    return fabs(s->candidate[i] - s->baseline[i]) / fabs(s->baseline[i]);
}

static struct differences differences_of(const struct paired_series *s)
{
    struct differences d = {0};
    for (int64_t i = 0; i < s->count; i++) {
        double away = fabs(s->candidate[i] - s->baseline[i]), relative = relative_at(s, i);
        d.absolute += away;
        d.square += away * away;
        d.relative += relative;
        d.largest = away > d.largest || isnan(away) ? away : d.largest;
        d.beyond_5 += !(relative <= 0.05);
    }
    double n = (double)s->count;
    return (struct differences){d.absolute / n, d.square / n, d.relative / n, d.largest, d.beyond_5 / n};
}

static double correlation(const double *x, const double *y, int64_t count)
{
    double mx = series_mean(x, count), my = series_mean(y, count), xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < count; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xy / sqrt(xx * yy);
}

/* ---- ranks ---- */

struct ranked {
    double value;
    int64_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Ranks from 1; equal values share the mean of theirs. */
static void ranks(double *out, struct ranked *work, const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        work[i] = (struct ranked){x[i], i};
    qsort(work, (size_t)count, sizeof *work, by_value);
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && work[end].value == work[i].value; end++)
            ;
        for (int64_t j = i; j < end; j++)
            out[work[j].at] = 0.5 * (double)(i + end + 1);
    }
}

static status spearman(double *out, const struct paired_series *s)
{
    size_t count = (size_t)s->count;
    double *rank = malloc(2 * count * sizeof *rank);
    struct ranked *work = malloc(count * sizeof *work);
    status st = rank && work ? OK : FAIL(ERR_MEMORY, "no memory for %zu ranks", count);
    if (st == OK) {
        ranks(rank, work, s->baseline, s->count);
        ranks(rank + count, work, s->candidate, s->count);
        *out = correlation(rank, rank + count, s->count);
    }
    free(rank);
    free(work);
    return st;
}

/* ---- the rules ---- */

static void apply_nats(struct preset_result *out, const struct preset_runs *r)
{
    int64_t first, end;
    const struct paired_series *s = &r->loss;
    verdict_window(&first, &end, s->count, r->window);
    int64_t count = end - first, half = count / 2;
    if (half < 1) {
        SAY(out, "fewer than 2 steps in the tail");
        return;
    }
    double gap[2];
    gap[0] = series_mean(s->candidate + first, half) - series_mean(s->baseline + first, half);
    gap[1] = series_mean(s->candidate + end - half, half) - series_mean(s->baseline + end - half, half);
    double whole = series_mean(s->candidate + first, count) - series_mean(s->baseline + first, count);
    out->outcome = outcome(fabs(whole) <= 0.02 && fabs(gap[1]) <= fabs(gap[0]));
    SAY(out, "gap %+.4f; its halves %+.4f, %+.4f", whole, gap[0], gap[1]);
}

static void apply_mean_rel_1(struct preset_result *out, const struct preset_runs *r, const struct differences *d)
{
    const struct paired_series *s = &r->loss;
    if (r->norm.count < 1) {
        SAY(out, "no gradient norm");
        return;
    }
    double first = fabs(s->candidate[0] - s->baseline[0]), norm = differences_of(&r->norm).relative;
    bool start = first < 0.005 || relative_at(s, 0) < 0.005;
    out->outcome = outcome((d->absolute < 0.01 || d->relative < 0.01) && start && norm <= 0.1);
    SAY(out, "mean %.4f, %.3f %%; first loss %.4f, %.3f %%; gradient norm %.3g %%", d->absolute, 100 * d->relative,
        first, 100 * relative_at(s, 0), 100 * norm);
}

static status apply_xpu_gpu(struct preset_result *out, const struct preset_runs *r, const struct differences *d)
{
    const struct paired_series *s = &r->loss;
    double rank, pearson = correlation(s->baseline, s->candidate, s->count), mean, variance;
    TRY(spearman(&rank, s));
    series_moments(s->baseline, s->count, &mean, &variance);
    double determined = 1 - d->square * (double)s->count / (variance * (double)(s->count - 1));
    out->outcome = outcome(d->absolute < 0.05 && sqrt(d->square) < 0.1 && d->largest < 0.5 && pearson > 0.99 &&
                           rank > 0.99 && d->relative < 0.01 && determined > 0.98);
    SAY(out, "MAE %.4f, RMSE %.4f, largest %.4f, Pearson %.4f, Spearman %.4f, relative %.3f %%, R^2 %.4f", d->absolute,
        sqrt(d->square), d->largest, pearson, rank, 100 * d->relative, determined);
    return OK;
}

void preset_rcp(struct preset_result *out, int baselines, const double *baseline, int candidates,
                const double *candidate)
{
    int n = baselines, m = candidates;
    *out = (struct preset_result){PRESET_NOT_APPLICABLE, ""};
    if (m < 1 || n < 2 * m || n < 2) {
        SAY(out, "%d candidate run%s against %d: at least twice as many baseline runs are needed", m, m == 1 ? "" : "s",
            n);
        return;
    }
    double mean[2], variance[2];
    series_moments(baseline, n, &mean[0], &variance[0]);
    series_moments(candidate, m, &mean[1], &variance[1]);
    double pooled = ((n - 1) * variance[0] + (m > 1 ? (m - 1) * variance[1] : 0)) / (n + m - 2);
    double t = (mean[1] - mean[0]) / sqrt(pooled * (1.0 / n + 1.0 / m)), p = student_cdf(-t, n + m - 2);
    out->outcome = outcome(p > VERDICT_LEVEL);
    SAY(out, "%d against %d runs, t = %.3g, p = %.2g", m, n, t, p);
}

status presets_apply(struct preset_result out[PRESETS], const struct preset_runs *runs)
{
    const struct paired_series *s = &runs->loss;
    for (int i = 0; i < PRESETS; i++)
        if (i != PRESET_RCP)
            out[i] = (struct preset_result){PRESET_NOT_APPLICABLE, "no step is common to both"};
    if (s->count < 1)
        return OK;
    struct differences d = differences_of(s);
    double last = relative_at(s, s->count - 1);
    apply_nats(&out[PRESET_NATS], runs);
    apply_mean_rel_1(&out[PRESET_MEAN_REL_1], runs, &d);
    TRY(apply_xpu_gpu(&out[PRESET_XPU_GPU], runs, &d));
    out[PRESET_MEAN_REL_2].outcome = outcome(d.relative < 0.02);
    SAY(&out[PRESET_MEAN_REL_2], "mean relative %.3f %%", 100 * d.relative);
    out[PRESET_MEGATRON_APPROX].outcome = outcome(d.beyond_5 <= 0.01);
    SAY(&out[PRESET_MEGATRON_APPROX], "%.2f %% of the steps beyond 5 %%", 100 * d.beyond_5);
    out[PRESET_LAST_STEP_5].outcome = outcome(last <= 0.05);
    SAY(&out[PRESET_LAST_STEP_5], "last loss %.3f %% away", 100 * last);
    return OK;
}
