/* holm.h - several tests at once, so that the chance of one false claim among all of them stays at the level.
 *
 * Holm: with the p-values in ascending order, adjusted p of the k-th of m is the largest of (m - i + 1) p_i for i <= k. A
 * claim survives when its adjusted p is at most the level. It holds whatever the tests have to do with each other, which
 * they have: points share a baseline, metrics share a run.
 * A TOST is an intersection-union test: its p is the larger of its two one-sided ones, and both are made at the full
 * level; it counts as one test.
 * "It differs" and "it does not" are families of their own. For each pair of points and metric exactly one of the two is
 * false, and the two errors, a false alarm and a false all-clear, cost different things; so each has 5 %, over all
 * points and metrics of the study, and a study's family is a scope and a kind of claim.
 * Source: Holm, Scandinavian Journal of Statistics 6, 1979; Berger and Hsu, Statistical Science 11(4), 1996, section 2
 * (intersection-union).
 */
#ifndef REMATCH_STAGES_HOLM_H
#define REMATCH_STAGES_HOLM_H

#include "kernels/status.h"
#include "stages/verdict.h"

/* Fills `adjusted` and `tests` of `count` tests, all made (p not NaN). ERR_MEMORY. */
status holm_adjust(struct evidence *const *test, int count);

#endif
