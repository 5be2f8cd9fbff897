/* verdict.h - what a difference between runs says, in two scopes that are never mixed.
 *
 * This pair: d_t = candidate - baseline on the same batches (a log ratio for gradient norms).
 *   IDENTICAL   every value has equal bits, over all compared steps and not only the window
 *   AGREES      the 90 % interval of the mean lies inside (-margin, margin): both one-sided tests reject at 5 % (TOST)
 *   DIFFERS     the same interval lies wholly outside: |mean| > margin, rejected at 5 % as well
 *   UNDECIDED   otherwise, or when fewer than 30 effective values stand behind the mean
 * The policy: the unit of replication is the run; Welch's t on one mean per run.
 *   EQUIVALENT, DIVERGED    as AGREES and DIFFERS
 *   INCONCLUSIVE            otherwise, or with fewer than two runs on a side, or when replicates show no spread
 *
 * Steps: loss differences are strongly autocorrelated, so the interval comes from 8 batch means with a t quantile of 7
 * degrees of freedom. The effective sample size is T / (1 + 2 sum of autocorrelations), the sum cut by Geyer's initial
 * monotone positive sequence, and at most T. A value that is not finite is never dropped and comes before equal bits: in
 * the baseline it makes the verdict UNDECIDED (it diverged itself), in the candidate alone DIFFERS; the reason names the
 * step.
 * `detectable`: the smallest gap that a two-sided 5 % test finds with power 80 %: (t_0.975 + t_0.8) SE.
 * Source: Schuirmann 1987 (TOST); Geyer, Statistical Science 7(4), 1992, section 3.3; Welch 1947.
 *
 * Units: those of the values (nats), or natural logarithms of ratios. What is not known is NaN.
 */
#ifndef REMATCH_STAGES_VERDICT_H
#define REMATCH_STAGES_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/status.h"

enum { VERDICT_BATCHES = 8, VERDICT_EFFECTIVE = 30 };

enum verdict {
    VERDICT_IDENTICAL, /* this pair */
    VERDICT_AGREES,
    VERDICT_UNDECIDED,
    VERDICT_DIFFERS,
    VERDICT_EQUIVALENT, /* the policy */
    VERDICT_INCONCLUSIVE,
    VERDICT_DIVERGED,
    VERDICTS
};
const char *verdict_name(enum verdict v); /* "IDENTICAL", ... */

struct judgement {
    enum verdict verdict;
    double gap, low, high; /* mean of candidate - baseline, its 90 % interval */
    double detectable;
    double effective;          /* this pair: effective number of values */
    int64_t first, last;       /* this pair, steps: the window that was judged */
    int baselines, candidates; /* the policy: runs on each side */
    int runs_needed;           /* the policy: runs a side for EQUIVALENT at a true gap of 0, power 80 %; 0: not known */
    char reason[400];          /* why there is no better verdict; "" when there is */
};

enum gap_kind { GAP_DIFFERENCE, GAP_LOG_RATIO };

/* Two runs at the same steps, ascending. */
struct paired_series {
    int64_t count;
    const int64_t *step;
    const double *baseline, *candidate;
};

/* `window`: fractions of the compared steps, fixed beforehand. ERR_MEMORY. */
status verdict_pair_steps(struct judgement *out, const struct paired_series *series, enum gap_kind kind, double margin,
                          const double window[2]);

/* Indices [*first, *end) of the window within `count` compared steps. */
void verdict_window(int64_t *first, int64_t *end, int64_t count, const double window[2]);

/* Held-out loss of the same sequences under both weights: paired t, sequences independent. */
void verdict_pair_sequences(struct judgement *out, int count, const double *baseline, const double *candidate,
                            double margin);

/* One mean per run on each side. */
void verdict_policy(struct judgement *out, int baselines, const double *baseline, int candidates,
                    const double *candidate, double margin);

/* No verdict: UNDECIDED or INCONCLUSIVE, with the reason. */
void verdict_none(struct judgement *out, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Effective number of values among `count` (autocorrelation of x); `count` for a constant series. */
double verdict_effective(const double *x, int64_t count);

#endif
