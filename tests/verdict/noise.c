#include "tests/verdict/noise.h"

#include <math.h>

static uint64_t mix(uint64_t x) /* the finalizer of SplitMix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t noise_seed(uint64_t a, uint64_t b) { return mix(mix(a) + b); }

double noise_uniform(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return ((double)(mix(*state) >> 11) + 0.5) * 0x1p-53;
}

double noise_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(noise_uniform(state)));
    return radius * cos(2 * M_PI * noise_uniform(state));
}

static const double SPIKE = 10;

/* Variance of the mean of `count` values whose own variance is 1 (whose steps' is, for a random walk). */
static double variance_of_mean(int64_t count, const struct shape *shape)
{
    double n = (double)count, rho = shape->rho;
    if (rho == 1)
        return (n + 1) * (2 * n + 1) / 6 / n;
    double correlated = (1 + rho) / (1 - rho) / n - 2 * rho * (1 - pow(rho, n)) / ((1 - rho) * (1 - rho) * n * n);
    return correlated + shape->spikes * SPIKE * SPIKE / n;
}

void noise_fill(double *x, int64_t count, const struct shape *shape, double error, uint64_t seed)
{
    double scale = error / sqrt(variance_of_mean(count, shape)), rho = shape->rho;
    double fresh = rho < 1 ? sqrt(1 - rho * rho) : 1, value = rho < 1 ? noise_normal(&seed) : 0;
    int64_t change = count * 3 / 5;
    double above = shape->onset * (double)(count - change) / (double)count;
    for (int64_t i = 0; i < count; i++) {
        value = i == 0 && rho < 1 ? value : rho * value + fresh * noise_normal(&seed);
        double spike = noise_uniform(&seed) < shape->spikes ? copysign(SPIKE, noise_uniform(&seed) - 0.5) : 0;
        double trend = shape->trend * ((double)i / (double)(count - 1) - 0.5);
        x[i] = scale * (value + spike + trend + (i < change ? 0 : shape->onset) - above);
    }
}
