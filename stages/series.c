#include "stages/series.h"

#include <math.h>

double series_mean(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

void series_moments(const double *x, int64_t count, double *mean, double *variance)
{
    double squares = 0;
    *mean = series_mean(x, count);
    for (int64_t i = 0; i < count; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = count > 1 ? squares / (double)(count - 1) : NAN;
}

double series_autocovariance(const double *x, int64_t count, double mean, int64_t lag)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = lag; i < count; i++)
        sum += (x[i] - mean) * (x[i - lag] - mean);
    return sum / (double)count;
}

/* ---- effective number of values ---- */

/* Values that one independent value stands for, without a model. */
static double time_geyer(const double *x, int64_t count, double mean, double at_zero)
{
    double sum = 0, previous = INFINITY;
    for (int64_t lag = 0; lag + 1 < count; lag += 2) {
        double pair = series_autocovariance(x, count, mean, lag) + series_autocovariance(x, count, mean, lag + 1);
        if (!(pair > 0))
            break;
        previous = fmin(previous, pair);
        sum += previous;
    }
    return 2 * sum / at_zero - 1; /* the pair at lag 0 counts its own variance once */
}

/* The same of a first-order autoregression. */
static double time_autoregression(const double *x, int64_t count, double mean, double at_zero)
{
    double rho = series_autocovariance(x, count, mean, 1) / at_zero;
    rho += (1 + 3 * rho) / (double)count;
    return rho < 1 ? (1 + rho) / (1 - rho) : INFINITY;
}

double series_effective(const double *x, int64_t count)
{
    double mean = series_mean(x, count), at_zero = count > 1 ? series_autocovariance(x, count, mean, 0) : 0;
    if (!(sqrt(at_zero) > 1e-13 * fabs(mean)))
        return (double)count; /* constant but for the rounding of its mean */
    double time = fmax(time_geyer(x, count, mean, at_zero), time_autoregression(x, count, mean, at_zero));
    return fmax(time > 1 ? (double)count / time : (double)count, 1);
}

/* ---- the error of the mean ---- */

void series_batches(double *batch, int batches, const double *x, int64_t count)
{
    for (int b = 0; b < batches; b++) {
        int64_t from = count * b / batches, to = count * (b + 1) / batches;
        batch[b] = series_mean(x + from, to - from);
    }
}

/* What the spread of batch means shows of the variance of the mean. A mean of n values of an autoregression has the
 * variance v / n (1 - c / n), c = 2 rho / (1 - rho^2); with time = (1 + rho) / (1 - rho) that is (time - 1 / time) / 2.
 * Below one effective value a batch nothing is known, and the correction stays at its value there. */
static double share_shown(int64_t count, double effective)
{
    double time = (double)count / fmax(effective, SERIES_BATCHES);
    double c = (time - 1 / time) / 2 / (double)count;
    double ratio =
        SERIES_BATCHES * (1 - SERIES_BATCHES * c) / (1 - c); /* variance of a batch mean to that of the mean */
    return (ratio - 1) / (SERIES_BATCHES - 1);
}

double series_error(const double *x, int64_t count, double effective)
{
    double batch[SERIES_BATCHES], mean, variance;
    series_batches(batch, SERIES_BATCHES, x, count);
    series_moments(batch, SERIES_BATCHES, &mean, &variance);
    double doubt = 3 / sqrt(effective) * (1 - effective / (double)count);
    return sqrt(variance / SERIES_BATCHES / share_shown(count, effective) * (1 + doubt));
}

double series_slope(const double *x, int64_t count)
{
    double middle = 0.5 * (double)(count - 1), product = 0, square = 0;
    for (int64_t i = 0; i < count; i++) {
        double away = (double)i - middle;
        product += away * x[i];
        square += away * away;
    }
    return product / square;
}
