#include "stages/crosscheck.h"

#include <math.h>

#include "stages/series.h"

double newey_west_error(const double *x, int64_t count)
{
    double mean = series_mean(x, count), sum = series_autocovariance(x, count, mean, 0);
    int64_t lags = (int64_t)floor(4 * pow((double)count / 100, 2.0 / 9));
    for (int64_t l = 1; l <= lags && l < count; l++)
        sum += 2 * (1 - (double)l / (double)(lags + 1)) * series_autocovariance(x, count, mean, l);
    return sqrt(sum / (double)count);
}

/* The first of `run` insignificant autocorrelations in a row; `most` when there is none below it. */
static int64_t first_insignificant(const double *x, int64_t count, double mean, double at_zero, int64_t run,
                                   int64_t most)
{
    double bound = 2 * sqrt(log10((double)count) / (double)count);
    int64_t quiet = 0;
    for (int64_t lag = 1; lag < most; lag++) {
        double rho = series_autocovariance(x, count, mean, lag) / at_zero;
        quiet = fabs(rho) < bound ? quiet + 1 : 0;
        if (quiet == run)
            return lag - run + 1;
    }
    return most;
}

double block_length(const double *x, int64_t count)
{
    double n = (double)count, mean = series_mean(x, count), at_zero = series_autocovariance(x, count, mean, 0);
    int64_t run = (int64_t)fmax(5, floor(log10(n))), most = (int64_t)ceil(sqrt(n)) + run;
    double longest = ceil(fmin(3 * sqrt(n), n / 3));
    if (!(at_zero > 0) || most >= count)
        return 1;
    int64_t lags = 2 * first_insignificant(x, count, mean, at_zero, run, most);
    lags = lags < most ? lags : most;
    double g = 0, spectrum = at_zero;
    for (int64_t lag = 1; lag <= lags; lag++) {
        double share = (double)lag / (double)lags, weight = share <= 0.5 ? 1 : 2 * (1 - share); /* flat-top window */
        double covariance = series_autocovariance(x, count, mean, lag);
        g += 2 * weight * (double)lag * covariance;
        spectrum += 2 * weight * covariance;
    }
    double block = cbrt(2 * g * g / (4.0 / 3 * spectrum * spectrum) * n);
    return fmin(fmax(block, 1), longest);
}

double block_bootstrap_error(const double *x, int64_t count, double block)
{
    int64_t length = (int64_t)ceil(block);
    double mean = series_mean(x, count), sum = 0, squares = 0;
    for (int64_t i = 0; i < length; i++)
        sum += x[i];
    for (int64_t start = 0; start < count; start++) {
        double away = sum / (double)length - mean;
        squares += away * away;
        sum += x[(start + length) % count] - x[start];
    }
    return sqrt(squares / (double)count * (double)length / (double)count);
}
