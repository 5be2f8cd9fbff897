#include "stages/sequential.h"

#include <math.h>
#include <string.h>

#include "stages/series.h"
#include "stages/student.h"

const char *decision_name(enum decision d)
{
    static const char *const names[] = {"go on", "DIVERGED", "futile"};
    return names[d];
}

void sequential_start(struct sequential *s, enum gap_kind kind, double margin, int64_t first, int64_t last)
{
    memset(s, 0, sizeof *s); /* padding too: equal states have equal bytes */
    s->margin = margin;
    s->kind = kind;
    s->first = first;
    s->last = last;
    s->batch_length = 1;
    s->mean = s->half = NAN;
}

double sequential_half(int64_t count, int64_t planned)
{
    const double surprise = 2 * log(1 / VERDICT_LEVEL);
    double start = (double)planned / (surprise + log(1 + surprise)), t = (double)count;
    return sqrt((t + start) * (log(1 + t / start) + surprise)) / t;
}

/* ---- batches ---- */

static void join_neighbours(struct sequential *s)
{
    for (int i = 0; i < SEQUENTIAL_BATCHES / 2; i++)
        s->batch[i] = s->batch[2 * i] + s->batch[2 * i + 1];
    s->batches = SEQUENTIAL_BATCHES / 2;
    s->batch_length *= 2;
}

/* True when that made a batch whole. */
static bool add(struct sequential *s, double d)
{
    s->fed++;
    s->sum += d;
    s->open += d;
    if (s->fed % s->batch_length)
        return false;
    s->batch[s->batches++] = s->open;
    s->open = 0;
    if (s->batches == SEQUENTIAL_BATCHES)
        join_neighbours(s);
    return true;
}

/* Long-run standard deviation of a step; NaN when too little is known of it. */
static double long_run_deviation(const struct sequential *s)
{
    double mean, variance;
    if (s->batches < SEQUENTIAL_BATCHES / 2)
        return NAN;
    series_moments(s->batch, s->batches, &mean, &variance);
    double effective = series_effective(s->batch, s->batches);
    if (effective < VERDICT_EFFECTIVE)
        return NAN;
    return sqrt(variance / (double)s->batch_length * s->batches / effective);
}

/* ---- decisions ---- */

/* Neither claim is in reach. Half the 90 % interval of the verdict at the planned end is taken low: futility is not said
 * because of a large estimate. The mean at the end: that of now, the rest of the steps at the largest gap that its ordinary
 * 95 % interval holds, and 95 % of what noise may add. */
static bool is_futile(const struct sequential *s, double deviation)
{
    const double normal = 1.645;
    double planned = (double)(s->last - s->first + 1), fed = (double)s->fed, rest = 1 - fed / planned;
    double lowest = deviation * exp(-normal / sqrt(2.0 * s->batches));
    double half = student_quantile(1 - VERDICT_LEVEL, SERIES_BATCHES - 1) * lowest / sqrt(planned);
    double farthest = fabs(s->mean) + normal * deviation * (rest / sqrt(fed) + sqrt(rest / planned));
    return half > s->margin && farthest < s->margin + half;
}

static enum decision decide(struct sequential *s)
{
    double deviation = long_run_deviation(s);
    s->mean = s->sum / (double)s->fed;
    s->half = deviation * sequential_half(s->fed, s->last - s->first + 1);
    if (!(s->half > 0))
        return SEQUENTIAL_GO_ON;
    if (fabs(s->mean) - s->half > s->margin)
        return SEQUENTIAL_DIVERGED;
    return is_futile(s, deviation) ? SEQUENTIAL_FUTILE : SEQUENTIAL_GO_ON;
}

enum decision sequential_feed(struct sequential *s, int64_t step, double baseline, double candidate)
{
    if (s->decision != SEQUENTIAL_GO_ON)
        return s->decision;
    bool log_ratio = s->kind == GAP_LOG_RATIO;
    double d = log_ratio ? log(candidate / baseline) : candidate - baseline;
    if (!isfinite(baseline) || (log_ratio && !(baseline > 0)))
        s->decision = SEQUENTIAL_FUTILE; /* nothing can be judged against it */
    else if (!isfinite(d))
        s->decision = SEQUENTIAL_DIVERGED;
    else if (step >= s->first && step <= s->last && add(s, d))
        s->decision = decide(s);
    if (s->decision != SEQUENTIAL_GO_ON)
        s->decided_at = step;
    return s->decision;
}
