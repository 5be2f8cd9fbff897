/* streams.c - since when a pair differs, and when it may be stopped. */
#include "tests/verdict/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "stages/onset.h"
#include "stages/sequential.h"
#include "tests/verdict/noise.h"

/* ---- onset ---- */

struct onsets {
    int found, covered, off; /* off: the sum of |step - true step| */
};

/* A change of `size` standard deviations of a value at 60 % of the steps. */
static struct onsets tally_onsets(const struct calibration *c, const struct shape *shape, int64_t count, double size,
                                  uint64_t salt)
{
    int found = 0, covered = 0, off = 0;
    struct shape changed = *shape;
    changed.onset = size;
#pragma omp parallel reduction(+ : found, covered, off)
    {
        double *zero = calloc((size_t)count, sizeof *zero), *x = calloc((size_t)count, sizeof *x);
        int64_t *step = calloc((size_t)count, sizeof *step), truth = 1 + count * 3 / 5;
        for (int64_t i = 0; i < count; i++)
            step[i] = 1 + i;
#pragma omp for schedule(static)
        for (int i = 0; i < c->series; i++) {
            struct onset onset;
            noise_fill(x, count, &changed, 1, noise_seed(salt, (uint64_t)i));
            struct paired_series series = {count, step, zero, x, 0};
            if (onset_find(&onset, &series, GAP_DIFFERENCE) != OK)
                abort();
            found += onset.found;
            covered += onset.found && onset.low <= truth && truth <= onset.high;
            off += onset.found ? (int)llabs(onset.step - truth) : 0;
        }
        free(zero);
        free(x);
        free(step);
    }
    return (struct onsets){found, covered, off};
}

void calibrate_onset(struct calibration *c)
{
    static const struct {
        struct shape shape;
        int64_t count;
        double size;
    } rows[] = {
        {{.name = "white"}, 200, 1},
        {{.name = "white"}, 200, 2},
        {{.name = "white"}, 2000, 0.5},
        {{.name = "AR(1) 0.5", .rho = 0.5}, 200, 2},
        {{.name = "AR(1) 0.5", .rho = 0.5}, 2000, 1},
        {{.name = "AR(1) 0.8", .rho = 0.8}, 2000, 1.5},
        {{.name = "AR(1) 0.95", .rho = 0.95}, 2000, 2},
        {{.name = "near-integrated, 0.99", .rho = 0.99}, 2000, 2},
        {{.name = "random walk", .rho = 1}, 2000, 1},
    };
    table_begin(
        c, "Onset",
        "A change of the mean (in standard deviations of a value; of a step for a random walk) at 60 % of the "
        "steps. Found, none: an onset is named although there is none. Of those found: how often the 90 % interval "
        "holds the true step, and how far the named step is away. Must hold: found without an onset at most 5 %; "
        "of at least 80 % found, 85 % of the intervals hold it.",
        "| differences | steps | change | found, none | found | 90 % covers | off by, steps | holds |");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (rows[r].count > c->longest)
            continue;
        struct onsets none = tally_onsets(c, &rows[r].shape, rows[r].count, 0, 40000 + 10 * r);
        struct onsets one = tally_onsets(c, &rows[r].shape, rows[r].count, rows[r].size, 40001 + 10 * r);
        fprintf(c->out, "| %s | %lld | %g |", rows[r].shape.name, (long long)rows[r].count, rows[r].size);
        table_percent(c, none.found, c->series);
        table_percent(c, one.found, c->series);
        table_percent(c, one.covered, one.found);
        if (one.found)
            fprintf(c->out, " %.1f |", share(one.off, one.found));
        else
            fputs(" - |", c->out);
        bool often = share(one.found, c->series) >= 0.8;
        table_row(c,
                  at_most(none.found, c->series, VERDICT_LEVEL) && (!often || at_least(one.covered, one.found, 0.85)));
    }
}

/* ---- stopping early ---- */

struct stops {
    int diverged, futile;
    double steps; /* sum over both, as a share of the planned ones */
};

static struct stops tally_stops(const struct calibration *c, const struct shape *shape, int64_t count, double error,
                                double gap, uint64_t salt)
{
    static const double MARGIN = 0.01;
    int diverged = 0, futile = 0;
    double steps = 0;
#pragma omp parallel reduction(+ : diverged, futile, steps)
    {
        double *x = malloc((size_t)count * sizeof *x);
#pragma omp for schedule(static)
        for (int i = 0; i < c->series; i++) {
            struct sequential s;
            enum decision decision = SEQUENTIAL_GO_ON;
            noise_fill(x, count, shape, error * MARGIN, noise_seed(salt, (uint64_t)i));
            sequential_start(&s, GAP_DIFFERENCE, MARGIN, 1, count);
            for (int64_t t = 0; t < count && decision == SEQUENTIAL_GO_ON; t++)
                decision = sequential_feed(&s, t + 1, 0, x[t] + gap * MARGIN);
            diverged += decision == SEQUENTIAL_DIVERGED;
            futile += decision == SEQUENTIAL_FUTILE;
            steps += decision == SEQUENTIAL_GO_ON ? 0 : (double)s.decided_at / (double)count;
        }
        free(x);
    }
    return (struct stops){diverged, futile, steps};
}

void calibrate_sequential(struct calibration *c)
{
    static const struct {
        struct shape shape;
        int64_t count;
    } rows[] = {
        {{.name = "white"}, 200},
        {{.name = "white"}, 2000},
        {{.name = "AR(1) 0.5", .rho = 0.5}, 2000},
        {{.name = "AR(1) 0.8", .rho = 0.8}, 2000},
        {{.name = "AR(1) 0.95", .rho = 0.95}, 2000},
        {{.name = "AR(1) 0.97", .rho = 0.97}, 2000},
        {{.name = "near-integrated, 0.99", .rho = 0.99}, 2000},
        {{.name = "random walk", .rho = 1}, 2000},
    };
    table_begin(
        c, "Stopping early",
        "Wide: the error of the mean at the planned end is ten margins, else a fifth of "
        "one. Power: stopped as DIVERGED at a gap of 3 margins, and after which share of the steps. Futile, wrong: "
        "at a gap of 0 that the planned end would decide; wide; and wide at a gap that the planned end would find "
        "with a power of 80 %. Must hold: wrong stops at most 5 %, of the last kind at most 20 %.",
        "| differences | steps | DIVERGED, gap 0, wide | DIVERGED, at the margin | power | after | futile, wrong | "
        "futile, wide | futile, wide, large gap | holds |");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (rows[r].count > c->longest)
            continue;
        const struct shape *shape = &rows[r].shape;
        int64_t count = rows[r].count;
        int n = c->series;
        struct stops wide = tally_stops(c, shape, count, 10, 0, 50000 + 10 * r);
        struct stops edge = tally_stops(c, shape, count, 0.2, 1, 50001 + 10 * r);
        struct stops power = tally_stops(c, shape, count, 0.2, 3, 50002 + 10 * r);
        struct stops zero = tally_stops(c, shape, count, 0.2, 0, 50003 + 10 * r);
        struct stops large = tally_stops(c, shape, count, 10, 33, 50004 + 10 * r); /* (2.36 + 0.90) errors */
        fprintf(c->out, "| %s | %lld |", shape->name, (long long)count);
        table_percent(c, wide.diverged, n);
        table_percent(c, edge.diverged, n);
        table_percent(c, power.diverged, n);
        table_percent(c, (int)power.steps, power.diverged + power.futile);
        table_percent(c, zero.futile, n);
        table_percent(c, wide.futile, n);
        table_percent(c, large.futile, n);
        table_row(c, at_most(wide.diverged, n, VERDICT_LEVEL) && at_most(edge.diverged, n, VERDICT_LEVEL) &&
                         at_most(zero.diverged + zero.futile, n, VERDICT_LEVEL) &&
                         at_most(large.futile, n, 1 - VERDICT_POWER));
    }
}
