/* noise.h - synthetic differences of loss with a known mean: what verdicts are calibrated on.
 *
 * A series is a function of its shape, length and number. Its mean over all of its steps is 0 in expectation, and the
 * standard error of that mean, noise alone, is known.
 */
#ifndef REMATCH_TESTS_VERDICT_NOISE_H
#define REMATCH_TESTS_VERDICT_NOISE_H

#include <stdint.h>

struct shape {
    const char *name;
    double rho;    /* of the autoregression; 1: a random walk that starts at 0 */
    double trend;  /* from the first step to the last, in standard deviations of a value */
    double onset;  /* step of the mean at 60 % of the steps, in the same */
    double spikes; /* share of the steps with a spike of 10 standard deviations, either sign */
};

/* Uniform in (0, 1), and standard normal, from a counter that each call moves on. */
double noise_uniform(uint64_t *state);
double noise_normal(uint64_t *state);
uint64_t noise_seed(uint64_t a, uint64_t b);

/* `count` values of which the standard error of the mean is `error`. */
void noise_fill(double *x, int64_t count, const struct shape *shape, double error, uint64_t seed);

#endif
