#include "stages/onset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stages/series.h"

static const double QUANTILE = 7.687; /* P(argmax W(s) - |s| / 2 <= 7.687) = 0.95 */
static const double TRIM = 0.05;
enum { SIDE_LEAST = 8 };

/* Sums over the first k values: of S_t, the partial sums of x; of S_t^2; and of t S_t. */
struct sums {
    double partial, sum, square, product;
};

static struct sums *partial_sums(const double *x, int64_t count)
{
    struct sums *s = calloc((size_t)count + 1, sizeof *s);
    double mean = series_mean(x, count);
    for (int64_t t = 1; s && t <= count; t++) {
        double partial = s[t - 1].partial + x[t - 1] - mean;
        s[t] = (struct sums){partial, s[t - 1].sum + partial, s[t - 1].square + partial * partial,
                             s[t - 1].product + (double)t * partial};
    }
    return s;
}

static double sum_of_squares(double n) { return n * (n + 1) * (2 * n + 1) / 6; }

/* Sum over t = 1..k of (S_t - t/k S_k)^2: the bridge of the left side. */
static double bridge_left(const struct sums *s, double k)
{
    double slope = s->partial / k;
    return s->square - 2 * slope * s->product + slope * slope * sum_of_squares(k);
}

/* The same of the right side, whose partial sums run from the end: S_n - S_t, t = k..n-1. With S_n = 0 they are -S_t,
 * their number n - t. */
static double bridge_right(const struct sums *at, const struct sums *end, double k, double n)
{
    double length = n - k, slope = -at->partial / length;
    double square = end->square - at->square + at->partial * at->partial;
    /* sum of (n - t) (-S_t) for t = k..n-1 */
    double product = -n * (end->sum - at->sum + at->partial) + end->product - at->product + k * at->partial;
    return square - 2 * slope * product + slope * slope * sum_of_squares(length);
}

/* The test's statistic, and the split of least squares. */
static double scan(int64_t *split, const struct sums *s, int64_t count)
{
    double n = (double)count, largest = 0, best = -1;
    int64_t side = (int64_t)ceil(TRIM * n);
    side = side < SIDE_LEAST ? SIDE_LEAST : side;
    for (int64_t k = 1; k < count; k++) {
        double square = s[k].partial * s[k].partial;
        double noise = (bridge_left(&s[k], (double)k) + bridge_right(&s[k], &s[count], (double)k, n)) / (n * n);
        if (noise > 0)
            largest = fmax(largest, square / n / noise);
        double explained = square / ((double)k * (double)(count - k)); /* n times less squared error */
        if (k >= side && count - k >= side && explained > best) {
            best = explained;
            *split = k;
        }
    }
    return largest;
}

/* Bai's interval from residuals, which are left in x. False when they are worth too few values. */
static bool locate(struct onset *out, const struct paired_series *series, double *x, int64_t split)
{
    int64_t count = series->count;
    out->before = series_mean(x, split);
    out->after = series_mean(x + split, count - split);
    for (int64_t i = 0; i < count; i++)
        x[i] -= i < split ? out->before : out->after;
    double mean, variance, effective = series_effective(x, count), change = out->after - out->before;
    series_moments(x, count, &mean, &variance);
    double half = QUANTILE * variance * (double)count / effective / (change * change) + 1;
    int64_t reach = half < (double)count ? (int64_t)ceil(half) : count;
    int64_t low = split - reach, high = split + reach;
    out->step = series->step[split];
    out->low = series->step[low < 0 ? 0 : low];
    out->high = series->step[high < count ? high : count - 1];
    return effective >= VERDICT_EFFECTIVE;
}

static int64_t first_other_bits(const struct paired_series *series)
{
    for (int64_t i = 0; i < series->count; i++)
        if (memcmp(&series->baseline[i], &series->candidate[i], sizeof(double)) != 0)
            return series->step[i];
    return 0;
}

static bool gaps(double *x, const struct paired_series *series, enum gap_kind kind)
{
    bool finite = true;
    for (int64_t i = 0; i < series->count; i++) {
        x[i] = paired_gap(series, kind, i);
        finite &= isfinite(x[i]);
    }
    return finite;
}

status onset_find(struct onset *out, const struct paired_series *series, enum gap_kind kind)
{
    *out = (struct onset){.first_bits = first_other_bits(series), .statistic = NAN, .before = NAN, .after = NAN};
    if (!out->first_bits || series->count < VERDICT_EFFECTIVE)
        return OK;
    status st = OK;
    struct sums *s = NULL;
    double *x = malloc((size_t)series->count * sizeof *x);
    if (!x)
        return FAIL(ERR_MEMORY, "no memory for %lld differences", (long long)series->count);
    if (gaps(x, series, kind)) {
        int64_t split = 0;
        s = partial_sums(x, series->count);
        if (!s)
            TRY_DONE(FAIL(ERR_MEMORY, "no memory for %lld partial sums", (long long)series->count));
        out->statistic = scan(&split, s, series->count);
        out->tested = locate(out, series, x, split);
        out->found = out->tested && out->statistic > ONSET_CRITICAL;
    }
done:
    free(x);
    free(s);
    return st;
}
