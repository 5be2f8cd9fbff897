/* bias.h - whether an error that returns in every audit is noise or has a direction.
 *
 * Two questions, since a test of one misses the other:
 *   constant   do the errors e_i of n audits share a vector? From their sketches s_i (model/audit.h), at frozen weights
 *              only: along a trajectory the constant part turns with the weights, and the test has no power.
 *              squared size of it, without bias: sum_{i != j} s_i . s_j / (n (n - 1))
 *   mean       has a number of each audit (the gain <e,g0> / |g0|^2; the cosine of e and g0) a mean other than 0? An e that
 *              is proportional to g0, whose direction changes from batch to batch, shows here and not as a constant.
 *
 * p-values come from sign flips: without bias e and -e are equally likely, so the statistic is compared with what it
 * would be with other signs. Neighbouring audits of a trajectory are not independent and flip together, in blocks. All
 * signs are tried where there are at most BIAS_EXACT blocks; else BIAS_FLIPS drawn from Philox, the observed one counted
 * among them. Under drawn orders of sums this is exact; a fixed other order need not be symmetric, and is then found
 * biased, which it is.
 * Intervals are of 90 %: Student's t of block means for a mean; for the size of a constant part the jackknife over audits
 * joined with the sketch's own error (variance 2/k of the squared size), in the scale of the squared size. `detectable`
 * is the smallest size that a 5 % test of these audits finds with power 80 %, `needed` how many audits find the size that
 * was estimated.
 * Source: Romano, Wolf, "Exact and approximate stepdown methods", JASA 100, 2005 (sign flips); Efron, Stein, Annals of
 * Statistics 9(3), 1981 (jackknife); block length n^(1/3), Kuensch, Annals of Statistics 17(3), 1989.
 */
#ifndef REMATCH_STAGES_BIAS_H
#define REMATCH_STAGES_BIAS_H

#include "kernels/status.h"

/* Fewer audits than BIAS_LEAST that show nothing decide nothing. */
enum { BIAS_EXACT = 16, BIAS_FLIPS = 9999, BIAS_LEAST = 16 };

/* NaN: not known, as for fewer than 3 audits or values that are not finite. */
struct bias_test {
    double estimate, low, high; /* its 90 % interval */
    double t;                   /* of a mean */
    double p, adjusted;         /* adjusted: among the tests that bias_holm was given */
    double detectable, needed;
};

/* Length of a block of neighbours in a trajectory of n audits. */
int bias_block(int n);

/* Whether x (n) has a mean other than 0, either way. ERR_MEMORY. */
status bias_mean(struct bias_test *out, const double *x, int n, int block);

/* The constant part of n sketches of k buckets, s[i * k + b]: its size relative to `scale`, root of the mean of
 * scale_square (n); where that mean is not above 0 sizes are not known, and p is. ERR_MEMORY. */
status bias_constant(struct bias_test *out, const double *s, int n, int k, const double *scale_square);

/* Holm's correction over those tests that have a p: Scandinavian Journal of Statistics 6, 1979. */
void bias_holm(struct bias_test *const *test, int count);

#endif
