/* sequential.h - whether a pair that still runs may be stopped: never because it looks alike.
 *
 * After each batch of steps of the window the mean of d_t has an interval that holds at all times at once (two-sided 5 %), of the
 * normal mixture: |S - t mean| <= w sqrt((t + t0)(ln(1 + t / t0) + 2 ln(1 / level))), w^2 the long-run variance of a step,
 * t0 such that it is narrowest at the planned end: t0 = planned / (2 ln(1 / level) + ln(1 + 2 ln(1 / level))).
 *   DIVERGED   the interval lies outside the margin, or the candidate alone is not finite
 *   FUTILE     neither verdict is in reach at the planned end: even at a gap of 0 the interval would cross the margin, and
 *              the largest gap that the steps so far allow would not clear it; or the baseline itself is not finite
 * EQUIVALENT is only said at the planned end: d_t are no martingale differences, and some causes start late. What is stopped
 * is this pair; the policy is judged from finished runs.
 * w is estimated: from the means of 32 to 64 batches, which grow with the series (when 64 are full, neighbours are joined),
 * and from how these hang together. So the guarantee is asymptotic: nothing is decided before 32 batches are worth 30
 * effective values; tests/verdict/RESULTS.md has what it measures.
 * State: a few hundred bytes, a function of the values fed so far alone: feed the metrics again after a restart.
 * Source: Howard, Ramdas, McAuliffe, Sekhon, arXiv:1810.08240, equation 14; Waudby-Smith et al., arXiv:2103.06476 (the
 * variance plugged in).
 */
#ifndef REMATCH_STAGES_SEQUENTIAL_H
#define REMATCH_STAGES_SEQUENTIAL_H

#include "stages/verdict.h"

enum { SEQUENTIAL_BATCHES = 64 };

enum decision { SEQUENTIAL_GO_ON, SEQUENTIAL_DIVERGED, SEQUENTIAL_FUTILE };
const char *decision_name(enum decision d); /* "go on", "DIVERGED", "futile" */

struct sequential {
    double margin;
    enum gap_kind kind;
    int64_t first, last;              /* steps: the planned window */
    int64_t fed;                      /* values so far, of the window */
    double sum;                       /* of them */
    int64_t batch_length;             /* values that a whole batch holds */
    int batches;                      /* whole ones */
    double batch[SEQUENTIAL_BATCHES]; /* sums */
    double open;                      /* sum of the batch that is not whole */
    enum decision decision;           /* once it is not to go on, it stays */
    int64_t decided_at;               /* step; 0: not yet */
    double mean, half;                /* the interval at the last batch; NaN: too early */
};

/* The window is the one that verdict_window will judge when the run has ended. */
void sequential_start(struct sequential *s, enum gap_kind kind, double margin, int64_t first, int64_t last);

/* The next step, in order. Steps outside the window are looked at only for values that are not finite. */
enum decision sequential_feed(struct sequential *s, int64_t step, double baseline, double candidate);

/* The half width of the interval around the mean of `count` values, for long-run variance 1. */
double sequential_half(int64_t count, int64_t planned);

#endif
