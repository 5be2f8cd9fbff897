/* onset.h - since when a pair differs: where the mean of d_t changes, over all compared steps.
 *
 * `first_bits`: the first step whose values have other bits: exact, and all there is to say about rounding.
 * Whether the mean changes: Shao and Zhang's self-normalised CUSUM, against the value that 2.5 % of long series without a
 * change exceed, as autocorrelation makes it more: up to 5 % at 0.95. Its noise is taken from the partial sums on both
 * sides of each split, so there is no bandwidth to choose, and autocorrelation costs mostly power; a series whose
 * residuals are worth fewer than 30 values is not tested. Where: the split with the least squared error (Bai), at least 5 %
 * of the steps and 8 of them on either side. Its 90 % interval: split +- (7.69 w^2 / change^2 + 1) with w^2 the long-run
 * variance of the residuals, 7.69 the 95 % quantile of Bai's limit, argmax W(s) - |s| / 2.
 * A difference that is there from the first step has no onset, and one that grows evenly is put into the middle.
 * Source: Shao and Zhang, JASA 105, 2010, section 2.1 and table 1 (critical value 52.2); Bai, Review of Economics and
 * Statistics 79, 1997, section II.
 */
#ifndef REMATCH_STAGES_ONSET_H
#define REMATCH_STAGES_ONSET_H

#include "stages/verdict.h"

struct onset {
    int64_t first_bits; /* step; 0: all bits are equal */
    bool tested, found;
    double statistic;        /* of the test, significant above ONSET_CRITICAL */
    int64_t step, low, high; /* of the first value after the change, and its interval */
    double before, after;    /* means of d_t on both sides */
};

#define ONSET_CRITICAL 52.2

/* All values finite (the verdict says where not: nothing is tested then). ERR_MEMORY. */
status onset_find(struct onset *out, const struct paired_series *series, enum gap_kind kind);

#endif
