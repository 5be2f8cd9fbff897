/* verdict.h - what a difference between runs says, in two scopes that are never mixed.
 *
 * This pair: d_t = candidate - baseline on the same batches (a log ratio for gradient norms).
 *   IDENTICAL   every value has equal bits, over all compared steps and not only the window
 *   AGREES      |mean| >= margin is rejected at 5 % (TOST): the 90 % interval lies inside (-margin, margin)
 *   DIFFERS     |mean| <= margin is rejected at 5 %: the interval lies outside, far enough that a margin which is small
 *               beside the error does not count both tails at 5 % each
 *   UNDECIDED   otherwise, or when fewer than 30 effective values stand behind the mean
 * The policy: the unit of replication is the run; Welch's t on one mean per run. His degrees of freedom take estimated
 * variances for true ones, and with few runs on the noisier side err in up to 8 %: they are the harmonic mean of his and of
 * those of the smaller side, which alone would never err, and at most what two sides as small as it would have.
 *   EQUIVALENT, DIVERGED    as AGREES and DIFFERS
 *   DRIFTING                the gap grows: its slope over the window lies outside what runs of the baseline show among
 *                           themselves; `horizon` is the step at which it leaves the margin when it goes on like this
 *   INCONCLUSIVE            otherwise, or with fewer than two runs on a side, or when replicates show no spread
 *
 * Steps: loss differences are strongly autocorrelated, so errors come from batch means (series.h). A value that is not
 * finite is never dropped and comes before equal bits: in the baseline it makes the verdict UNDECIDED (it diverged
 * itself), in the candidate alone DIFFERS; the reason names the step.
 * Slopes: the regression error of a near-integrated series is far too small, so a slope is one number of one run, and
 * candidates are held against baselines alone: under the null a candidate is one more baseline run,
 * t = (mean of candidates - mean of baselines) / (s sqrt(1/n + 1/m)), s and n - 1 degrees of freedom of the n baselines.
 * Several tests: `adjusted` is p until holm.h has corrected it; policies are decided by it, pairs by p alone.
 * `detectable`: the smallest gap that a two-sided 5 % test finds with power 80 %: (t_0.975 + t_0.8) SE.
 * `runs_needed`, `steps_needed`: with which AGREES or EQUIVALENT is reached at a true gap of 0 with power 80 %.
 * Source: Schuirmann 1987 (TOST); Welch 1947; Mickey and Brown 1966 (the smaller side's
 * degrees of freedom are safe); Berger and Delampady 1987 (a null that is an interval: the p-value is taken
 * at its edge, from both tails).
 *
 * Units: those of the values (nats), or natural logarithms of ratios; slopes per step. What is not known is NaN.
 */
#ifndef REMATCH_STAGES_VERDICT_H
#define REMATCH_STAGES_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/status.h"

enum { VERDICT_EFFECTIVE = 30 };
#define VERDICT_LEVEL 0.05
#define VERDICT_POWER 0.80

enum verdict {
    VERDICT_IDENTICAL, /* this pair */
    VERDICT_AGREES,
    VERDICT_UNDECIDED,
    VERDICT_DIFFERS,
    VERDICT_EQUIVALENT, /* the policy */
    VERDICT_INCONCLUSIVE,
    VERDICT_DRIFTING,
    VERDICT_DIVERGED,
    VERDICTS
};
const char *verdict_name(enum verdict v); /* "IDENTICAL", ... */

/* One test: NaN when it was not made, 1 when its claim may not be made (too few effective values). */
struct evidence {
    double p, adjusted;
    int tests; /* among how many it was adjusted; 0: not yet */
};

struct judgement {
    enum verdict verdict;
    double gap, low, high; /* mean of candidate - baseline, its 90 % interval */
    double error, dof;     /* standard error of the gap, degrees of freedom */
    double detectable;
    struct evidence inside, outside; /* |gap| < margin; |gap| > margin */
    double effective;                /* this pair: effective number of values */
    int64_t first, last;             /* steps: the window that was judged */
    int64_t steps_needed;            /* this pair: values in the window; 0: decided, or not known */
    int baselines, candidates;       /* the policy: runs on each side */
    int runs_needed;                 /* the policy: runs a side; 0: decided, or not known */
    struct drift {                   /* the policy */
        double slope, low, high;     /* of the gap, its 90 % interval */
        double detectable;
        struct evidence grows;
        int64_t horizon; /* 0: it does not leave the margin */
    } drift;
    char reason[512]; /* why there is no better verdict; "" when there is */
};

enum gap_kind { GAP_DIFFERENCE, GAP_LOG_RATIO };

/* Two runs at the same steps, ascending. */
struct paired_series {
    int64_t count;
    const int64_t *step;
    const double *baseline, *candidate;
    double resolution; /* one unit of the last printed digit; 0: exact */
};

/* The gap at index i. */
double paired_gap(const struct paired_series *series, enum gap_kind kind, int64_t i);

/* `window`: fractions of the compared steps, fixed beforehand. ERR_MEMORY. */
status verdict_pair_steps(struct judgement *out, const struct paired_series *series, enum gap_kind kind, double margin,
                          const double window[2]);

/* Indices [*first, *end) of the window within `count` compared steps. */
void verdict_window(int64_t *first, int64_t *end, int64_t count, const double window[2]);

/* Held-out loss of the same sequences under both weights: paired t, sequences independent. */
void verdict_pair_sequences(struct judgement *out, int count, const double *baseline, const double *candidate,
                            double margin);

/* A mean and a slope of each run, over steps `first` to `last`. `slope` NULL: none was taken. */
struct policy_runs {
    int count;
    const double *mean, *slope;
};
void verdict_policy(struct judgement *out, const struct policy_runs *baseline, const struct policy_runs *candidate,
                    int64_t first, int64_t last, double margin);

/* The policy's verdict from its evidence, again when that was adjusted. */
void verdict_policy_decide(struct judgement *j, double margin);

/* Runs a side with which a TOST at a true gap of 0 succeeds with the wanted power, when one run's variance is known:
 * (t_{1-level} + t_{1-(1-power)/2}) sqrt(2 variance / n) <= margin. 0 when no reasonable number does. */
int verdict_runs_needed(double variance, double margin);

/* No verdict: UNDECIDED or INCONCLUSIVE, with the reason. */
void verdict_none(struct judgement *out, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the reason, after "; ". */
void verdict_note(struct judgement *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The interval, the power and the two p-values of a gap with this error, shared by both scopes. */
void verdict_measure(struct judgement *out, double gap, double error, double dof, double margin);

#endif
