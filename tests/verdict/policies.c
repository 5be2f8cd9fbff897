/* policies.c - the policy: runs against runs, their slopes, and many tests at once. */
#include "tests/verdict/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "stages/holm.h"
#include "stages/series.h"
#include "stages/student.h"
#include "tests/verdict/noise.h"

static const double MARGIN = 0.01;
enum { RUNS_MOST = 64 };

/* ---- gaps ---- */

struct sides {
    int baselines, candidates;
    double baseline_sd, candidate_sd; /* between runs, in margins */
};

static struct judgement judge(const struct sides *s, double gap, uint64_t seed)
{
    double baseline[RUNS_MOST], candidate[RUNS_MOST];
    struct judgement j;
    for (int i = 0; i < s->baselines; i++)
        baseline[i] = MARGIN * s->baseline_sd * noise_normal(&seed);
    for (int i = 0; i < s->candidates; i++)
        candidate[i] = gap + MARGIN * s->candidate_sd * noise_normal(&seed);
    verdict_policy(&j, &(struct policy_runs){s->baselines, baseline, NULL},
                   &(struct policy_runs){s->candidates, candidate, NULL}, 1, 200, MARGIN);
    return j;
}

struct tally {
    int equivalent, diverged, covered;
    double detectable;
};

static struct tally tally_policies(const struct calibration *c, const struct sides *s, double gap, uint64_t salt)
{
    int equivalent = 0, diverged = 0, covered = 0;
    double detectable = 0;
#pragma omp parallel for schedule(static) reduction(+ : equivalent, diverged, covered, detectable)
    for (int i = 0; i < c->series; i++) {
        struct judgement j = judge(s, gap, noise_seed(salt, (uint64_t)i));
        equivalent += j.verdict == VERDICT_EQUIVALENT;
        diverged += j.verdict == VERDICT_DIVERGED;
        covered += fabs(j.gap - gap) <= student_quantile(0.975, j.dof) * j.error;
        detectable += j.detectable;
    }
    return (struct tally){equivalent, diverged, covered, detectable / c->series};
}

/* Both sides with as many runs as are said to be needed. */
static struct tally tally_enough(const struct calibration *c, const struct sides *s, int *runs, uint64_t salt)
{
    double variance = (s->baseline_sd * s->baseline_sd + s->candidate_sd * s->candidate_sd) / 2;
    *runs = verdict_runs_needed(variance * MARGIN * MARGIN, MARGIN);
    *runs = *runs > RUNS_MOST ? RUNS_MOST : *runs;
    struct sides enough = {*runs, *runs, s->baseline_sd, s->candidate_sd};
    return tally_policies(c, &enough, 0, salt);
}

static void calibrate_sides(struct calibration *c, const struct sides *s, uint64_t salt)
{
    int n = c->series, runs;
    struct sides wide = *s;
    wide.baseline_sd *= 20;
    wide.candidate_sd *= 20;
    struct tally noisy = tally_policies(c, &wide, 0, salt), zero = tally_policies(c, s, 0, salt + 1);
    struct tally edge = tally_policies(c, s, MARGIN, salt + 2);
    struct tally power = tally_policies(c, s, MARGIN + zero.detectable, salt + 3);
    struct tally enough = tally_enough(c, s, &runs, salt + 4);
    fprintf(c->out, "| %d : %d | %g : %g |", s->candidates, s->baselines, s->candidate_sd, s->baseline_sd);
    table_percent(c, noisy.diverged, n);
    table_percent(c, edge.diverged, n);
    table_percent(c, edge.equivalent, n);
    table_percent(c, zero.covered, n);
    table_percent(c, power.diverged, n);
    fprintf(c->out, " %d |", runs);
    table_percent(c, enough.equivalent, n);
    bool sized = at_most(noisy.diverged, n, VERDICT_LEVEL) && at_most(edge.diverged, n, VERDICT_LEVEL) &&
                 at_most(edge.equivalent, n, VERDICT_LEVEL);
    bool covered = at_least(zero.covered, n, 0.92) &&
                   (s->baselines != s->candidates || s->baselines < 3 || at_most(zero.covered, n, 0.98));
    bool powerful = s->baselines < 3 || s->candidates < 3 || at_least(power.diverged, n, VERDICT_POWER);
    table_row(c, sized && covered && powerful && at_least(enough.equivalent, n, VERDICT_POWER));
}

void calibrate_policies(struct calibration *c)
{
    static const struct sides rows[] = {{2, 2, 0.3, 0.3},   {3, 2, 0.3, 0.3},   {3, 3, 0.3, 0.3}, {4, 4, 0.5, 0.5},
                                        {8, 8, 1, 1},       {8, 2, 0.25, 0.75}, {8, 3, 0.5, 0.5}, {4, 4, 0.25, 0.75},
                                        {8, 3, 0.25, 0.75}, {3, 8, 0.25, 0.75}};
    table_begin(
        c, "The policy, one gap",
        "Runs and their spread (in margins): candidates to baselines. Gap 0, wide: DIVERGED at a gap of 0 with 20 "
        "times the spread. Power: DIVERGED at the margin plus the mean declared detectable gap. Enough: runs a "
        "side that are said to be needed, and EQUIVALENT with them at a gap of 0. Must hold: wrong claims at "
        "most 5 %, coverage 92 to 98 %, both powers at least 80 %. Unequal sides, and sides of 2 runs, may cover "
        "more; with 2 runs on a side the error is too uncertain to promise a power.",
        "| runs | spread | DIVERGED, gap 0, wide | DIVERGED, at the margin | EQUIVALENT, at the margin | 95 % "
        "covers | power | enough | EQUIVALENT | holds |");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        calibrate_sides(c, &rows[r], 10000 + 10 * r);
}

/* ---- slopes ---- */

/* Runs whose loss wanders about a common curve; candidates' moves away by `drift` margins over the window. */
static struct judgement judge_slopes(const struct shape *shape, int64_t steps, const struct sides *s, double *work,
                                     double drift, uint64_t seed)
{
    double mean[2][RUNS_MOST], slope[2][RUNS_MOST];
    int counts[2] = {s->baselines, s->candidates};
    struct judgement j;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < counts[side]; i++) {
            noise_fill(work, steps, shape, 0.3 * MARGIN, noise_seed(seed, (uint64_t)(side * RUNS_MOST + i)));
            for (int64_t t = 0; t < steps; t++)
                work[t] += side * drift * MARGIN * ((double)t / (double)(steps - 1) - 0.5);
            mean[side][i] = series_mean(work, steps);
            slope[side][i] = series_slope(work, steps);
        }
    verdict_policy(&j, &(struct policy_runs){s->baselines, mean[0], slope[0]},
                   &(struct policy_runs){s->candidates, mean[1], slope[1]}, 1, steps, MARGIN);
    return j;
}

struct drifts {
    int drifting;
    double detectable; /* over the window, in margins */
};

static struct drifts tally_drifts(const struct calibration *c, const struct shape *shape, int64_t steps,
                                  const struct sides *s, double drift, uint64_t salt)
{
    int drifting = 0;
    double detectable = 0;
#pragma omp parallel reduction(+ : drifting, detectable)
    {
        double *work = malloc((size_t)steps * sizeof *work);
#pragma omp for schedule(static)
        for (int i = 0; i < c->series; i++) {
            struct judgement j = judge_slopes(shape, steps, s, work, drift, noise_seed(salt, (uint64_t)i));
            drifting += j.verdict == VERDICT_DRIFTING;
            detectable += j.drift.detectable * (double)(steps - 1) / MARGIN;
        }
        free(work);
    }
    return (struct drifts){drifting, detectable / c->series};
}

/* What regression would say of one series of differences: the usual error of a slope. */
static int regression_rejects(const struct calibration *c, const struct shape *shape, int64_t steps, uint64_t salt)
{
    int rejects = 0;
#pragma omp parallel reduction(+ : rejects)
    {
        double *x = malloc((size_t)steps * sizeof *x);
#pragma omp for schedule(static)
        for (int i = 0; i < c->series; i++) {
            noise_fill(x, steps, shape, 1, noise_seed(salt, (uint64_t)i));
            double slope = series_slope(x, steps), n = (double)steps, mean = series_mean(x, steps), squares = 0;
            for (int64_t t = 0; t < steps; t++) {
                double residual = x[t] - mean - slope * ((double)t - 0.5 * (n - 1));
                squares += residual * residual;
            }
            double error = sqrt(squares / (n - 2) / (n * (n * n - 1) / 12));
            rejects += fabs(slope) > 1.96 * error;
        }
        free(x);
    }
    return rejects;
}

void calibrate_drift(struct calibration *c)
{
    static const struct shape shapes[] = {{.name = "white"},
                                          {.name = "AR(1) 0.9", .rho = 0.9},
                                          {.name = "near-integrated, 0.99", .rho = 0.99},
                                          {.name = "random walk", .rho = 1}};
    static const struct sides sides[] = {{3, 3, 1, 1}, {5, 3, 1, 1}};
    enum { STEPS = 200 };
    table_begin(
        c, "The policy, drift",
        "200 steps. Said: DRIFTING at no drift; by regression: what the usual error of a slope would reject of one "
        "series at 5 %. Power: DRIFTING when the gap moves by the mean declared detectable slope. Must hold: said "
        "at most 5 %. The power is below 80 %: with two degrees of freedom the declared slope is itself uncertain.",
        "| runs wander as | runs | said, no drift | by regression | detectable over the window, margins | power | "
        "holds |");
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (size_t r = 0; r < sizeof sides / sizeof *sides; r++) {
            uint64_t salt = 20000 + 100 * k + 10 * r;
            struct drifts none = tally_drifts(c, &shapes[k], STEPS, &sides[r], 0, salt);
            struct drifts some = tally_drifts(c, &shapes[k], STEPS, &sides[r], none.detectable, salt + 1);
            fprintf(c->out, "| %s | %d : %d |", shapes[k].name, sides[r].candidates, sides[r].baselines);
            table_percent(c, none.drifting, c->series);
            table_percent(c, regression_rejects(c, &shapes[k], STEPS, salt + 2), c->series);
            fprintf(c->out, " %.2f |", none.detectable);
            table_percent(c, some.drifting, c->series);
            table_row(c, at_most(none.drifting, c->series, VERDICT_LEVEL));
        }
}

/* ---- many tests ---- */

enum { POINTS = 12 };

/* Points that share their baseline runs, all with the same true gap: whether any is called wrong, alone and corrected. */
static void judge_many(bool wrong[2], enum verdict claim, double gap, uint64_t seed)
{
    enum { RUNS = 4 };
    double baseline[RUNS], candidate[RUNS];
    struct judgement j[POINTS];
    struct evidence *inside[POINTS], *outside[POINTS];
    for (int i = 0; i < RUNS; i++)
        baseline[i] = 0.3 * MARGIN * noise_normal(&seed);
    wrong[0] = wrong[1] = false;
    for (int p = 0; p < POINTS; p++) {
        for (int i = 0; i < RUNS; i++)
            candidate[i] = gap + 0.3 * MARGIN * noise_normal(&seed);
        verdict_policy(&j[p], &(struct policy_runs){RUNS, baseline, NULL}, &(struct policy_runs){RUNS, candidate, NULL},
                       1, 200, MARGIN);
        wrong[0] |= j[p].verdict == claim;
        inside[p] = &j[p].inside;
        outside[p] = &j[p].outside;
    }
    if (holm_adjust(inside, POINTS) != OK || holm_adjust(outside, POINTS) != OK)
        abort();
    for (int p = 0; p < POINTS; p++) {
        verdict_policy_decide(&j[p], MARGIN);
        wrong[1] |= j[p].verdict == claim;
    }
}

void calibrate_holm(struct calibration *c)
{
    static const struct {
        const char *name;
        enum verdict claim;
        double gap;
    } rows[] = {{"DIVERGED, at the margin", VERDICT_DIVERGED, 0.01},
                {"EQUIVALENT, at the margin", VERDICT_EQUIVALENT, 0.01},
                {"DIVERGED, gap 0", VERDICT_DIVERGED, 0}};
    table_begin(c, "Many tests",
                "12 points with 4 runs each against the same 4 baseline runs: how often at least one of them is called "
                "wrong. Must hold: corrected at most 5 %.",
                "| wrong claim | each at 5 % | corrected (Holm) | holds |");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int alone = 0, corrected = 0;
#pragma omp parallel for schedule(static) reduction(+ : alone, corrected)
        for (int i = 0; i < c->series; i++) {
            bool wrong[2];
            judge_many(wrong, rows[r].claim, rows[r].gap, noise_seed(30000 + r, (uint64_t)i));
            alone += wrong[0];
            corrected += wrong[1];
        }
        fprintf(c->out, "| %s |", rows[r].name);
        table_percent(c, alone, c->series);
        table_percent(c, corrected, c->series);
        table_row(c, at_most(corrected, c->series, VERDICT_LEVEL));
    }
}
