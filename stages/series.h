/* series.h - what verdicts need to know of one series of numbers whose neighbours are correlated.
 *
 * The standard error of the mean comes from the means of 8 batches. Their spread is a little too small while neighbouring
 * batches still hang together: for a first-order autoregression whose mean weighs as `effective` independent values the
 * ratio is known (to first order), and is taken out. `effective` is an estimate, and a series that passes for worth
 * enough values does so more easily when it is too large: so the variance is raised by three of its standard errors, about
 * 1 / sqrt(effective) for an autoregression, and less where there is nothing to estimate (effective = T). The result goes
 * with 7 degrees of freedom.
 * Effective number of values: T / (1 + 2 sum of autocorrelations), the smaller of two estimates, at most T and at least 1:
 * Geyer's initial monotone positive sequence, which knows no model and scatters widely; and a first-order autoregression
 * whose coefficient is corrected for its bias -(1 + 3 rho) / T, which does not take a near-integrated series for a quiet
 * one.
 * Source: Geyer, Statistical Science 7(4), 1992, section 3.3; Marriott and Pope, Biometrika 41, 1954 (the bias).
 */
#ifndef REMATCH_STAGES_SERIES_H
#define REMATCH_STAGES_SERIES_H

#include <stdint.h>

enum { SERIES_BATCHES = 8 };

double series_mean(const double *x, int64_t count);
/* Mean and variance (n - 1); the variance of one value is NaN. */
void series_moments(const double *x, int64_t count, double *mean, double *variance);
/* Sum of (x[i] - mean)(x[i - lag] - mean), divided by count. */
double series_autocovariance(const double *x, int64_t count, double mean, int64_t lag);

/* Effective number of values for the mean; `count` for a constant series. */
double series_effective(const double *x, int64_t count);

/* Means of batches whose sizes are equal up to one. */
void series_batches(double *batch, int batches, const double *x, int64_t count);
/* Standard error of the mean; count at least SERIES_BATCHES, `effective` as above. */
double series_error(const double *x, int64_t count, double effective);

/* Least squares, x against its index. */
double series_slope(const double *x, int64_t count);

#endif
