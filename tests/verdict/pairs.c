/* pairs.c - this pair: series of differences, window by window. */
#include "tests/verdict/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "stages/student.h"
#include "stages/verdict.h"
#include "tests/verdict/noise.h"

static const double MARGIN = 0.01;
static const double ALL[2] = {0, 1};

/* A baseline of zeros, and a candidate that is the difference. */
struct pair {
    int64_t count, *step;
    double *baseline, *candidate;
};

static void pair_open(struct pair *p, int64_t count)
{
    *p = (struct pair){count, calloc((size_t)count, sizeof *p->step), calloc((size_t)count, sizeof *p->baseline),
                       calloc((size_t)count, sizeof *p->candidate)};
    for (int64_t i = 0; i < count; i++)
        p->step[i] = i + 1;
}

static void pair_close(struct pair *p)
{
    free(p->step);
    free(p->baseline);
    free(p->candidate);
}

static struct judgement judge(struct pair *p, const struct shape *shape, double error, double gap, uint64_t seed)
{
    struct judgement j;
    noise_fill(p->candidate, p->count, shape, error, seed);
    for (int64_t i = 0; i < p->count; i++)
        p->candidate[i] += gap;
    struct paired_series series = {p->count, p->step, p->baseline, p->candidate, 0};
    if (verdict_pair_steps(&j, &series, GAP_DIFFERENCE, MARGIN, ALL) != OK)
        abort();
    return j;
}

struct tally {
    int usable; /* at least VERDICT_EFFECTIVE values */
    int agrees, differs, covered_90, covered_95;
    double detectable; /* mean over the usable ones */
};

static struct tally tally_pairs(const struct calibration *c, const struct shape *shape, int64_t count, double error,
                                double gap, uint64_t salt)
{
    int usable = 0, agrees = 0, differs = 0, covered_90 = 0, covered_95 = 0;
    double detectable = 0;
#pragma omp parallel reduction(+ : usable, agrees, differs, covered_90, covered_95, detectable)
    {
        struct pair p;
        pair_open(&p, count);
#pragma omp for schedule(static)
        for (int i = 0; i < c->series; i++) {
            struct judgement j = judge(&p, shape, error, gap, noise_seed(salt, (uint64_t)i));
            agrees += j.verdict == VERDICT_AGREES;
            differs += j.verdict == VERDICT_DIFFERS;
            if (j.effective < VERDICT_EFFECTIVE)
                continue;
            usable++;
            detectable += j.detectable;
            covered_90 += j.low <= gap && gap <= j.high;
            covered_95 += fabs(j.gap - gap) <= student_quantile(0.975, j.dof) * j.error;
        }
        pair_close(&p);
    }
    return (struct tally){usable, agrees, differs, covered_90, covered_95, detectable / (usable ? usable : 1)};
}

static void calibrate_shape(struct calibration *c, const struct shape *shape, int64_t count, uint64_t salt)
{
    enum { WIDE, MARGINAL, POWER, QUIET };
    double quiet = MARGIN / 5, wide = MARGIN * 10;
    bool stationary = shape->rho < 0.98 && !shape->trend && !shape->onset;
    int n = c->series;
    struct tally at_zero = tally_pairs(c, shape, count, quiet, 0, salt + QUIET);
    struct tally noisy = tally_pairs(c, shape, count, wide, 0, salt + WIDE);
    struct tally edge = tally_pairs(c, shape, count, quiet, MARGIN, salt + MARGINAL);
    struct tally power = {0};
    if (stationary)
        power = tally_pairs(c, shape, count, quiet, MARGIN + at_zero.detectable, salt + POWER);
    fprintf(c->out, "| %s | %lld |", shape->name, (long long)count);
    table_percent(c, at_zero.usable, n);
    table_percent(c, noisy.differs, n);
    table_percent(c, edge.differs, n);
    table_percent(c, edge.agrees, n);
    table_percent(c, at_zero.covered_95, at_zero.usable);
    table_percent(c, at_zero.covered_90, at_zero.usable);
    table_percent(c, power.differs, power.usable);
    bool sized = at_most(at_zero.differs, n, VERDICT_LEVEL) && at_most(noisy.differs, n, VERDICT_LEVEL) &&
                 at_most(edge.differs, n, VERDICT_LEVEL) && at_most(edge.agrees, n, VERDICT_LEVEL);
    bool seldom = at_zero.usable < n / 20;
    bool covered = seldom ? at_most(at_zero.usable - at_zero.covered_95, n, 0.01)
                          : at_least(at_zero.covered_95, at_zero.usable, 0.92) &&
                                (!stationary || at_most(at_zero.covered_95, at_zero.usable, 0.98));
    table_row(c, sized && covered && at_least(power.differs, power.usable, VERDICT_POWER));
}

void calibrate_pairs(struct calibration *c)
{
    static const struct {
        struct shape shape;
        int64_t counts[3];
    } rows[] = {
        {{.name = "white"}, {50, 200, 2000}},
        {{.name = "AR(1) 0.3", .rho = 0.3}, {200, 2000}},
        {{.name = "AR(1) 0.5", .rho = 0.5}, {200, 2000}},
        {{.name = "AR(1) 0.8", .rho = 0.8}, {200, 2000}},
        {{.name = "AR(1) 0.9", .rho = 0.9}, {200, 2000}},
        {{.name = "AR(1) 0.95", .rho = 0.95}, {300, 2000}},
        {{.name = "AR(1) 0.97", .rho = 0.97}, {300, 2000, 5000}},
        {{.name = "near-integrated, 0.99", .rho = 0.99}, {200, 2000}},
        {{.name = "near-integrated, 0.999", .rho = 0.999}, {200, 2000}},
        {{.name = "random walk", .rho = 1}, {200, 2000}},
        {{.name = "trend of 1 sd over AR(1) 0.5", .rho = 0.5, .trend = 1}, {200, 2000}},
        {{.name = "trend of 3 sd over AR(1) 0.5", .rho = 0.5, .trend = 3}, {200, 2000}},
        {{.name = "onset of 0.5 sd over AR(1) 0.5", .rho = 0.5, .onset = 0.5}, {200, 2000}},
        {{.name = "onset of 2 sd over AR(1) 0.5", .rho = 0.5, .onset = 2}, {200, 2000}},
        {{.name = "spikes of 10 sd at 1 %", .spikes = 0.01}, {200, 2000}},
        {{.name = "spikes of 10 sd at 1 % over AR(1) 0.8", .rho = 0.8, .spikes = 0.01}, {2000}},
    };
    table_begin(
        c, "This pair",
        "Usable: worth 30 effective values, so that a verdict may be given. Gap 0, wide: DIFFERS at a gap of 0 "
        "when the error of the mean is ten times the margin. At the margin: the error is a fifth of it; there "
        "both claims are wrong. Coverage: of the two-sided 95 % and 90 % interval at a gap of 0, over usable "
        "series. Power: DIFFERS at the margin plus the mean declared detectable gap, over usable series. "
        "Must hold: wrong claims at most 5 %, 95 % intervals cover in 92 to 98 %, power at least 80 %; trends, "
        "onsets and near-integrated series may cover more than that, and have no power to promise. Where fewer "
        "than 5 % of the series are usable, those that are usable and not covered may be 1 % of all.",
        "| differences | steps | usable | DIFFERS, gap 0, wide | DIFFERS, at the margin | AGREES, at the margin | "
        "95 % covers | 90 % covers | power | holds |");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int k = 0; k < 3 && rows[r].counts[k]; k++)
            if (rows[r].counts[k] <= c->longest)
                calibrate_shape(c, &rows[r].shape, rows[r].counts[k], 100 * (10 * r + (uint64_t)k));
}
