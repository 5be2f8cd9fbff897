#include "stages/student.h"

#include <math.h>

/* The continued fraction of I_x(a, b), evaluated from the front (modified Lentz); converges fast for
 * x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= 10000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double change = 1;
        for (int half = 0; half < 2; half++) {
            double coefficient = half ? odd : even;
            d = 1 + coefficient * d;
            c = 1 + coefficient / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            value *= change;
        }
        if (fabs(change - 1) < 1e-16)
            break;
    }
    return value;
}

/* ln(Gamma(a + 1/2) / Gamma(a)). Two large logarithms would cancel, so from 50 on its own asymptotic series. */
static double log_gamma_ratio(double a)
{
    int sign;
    if (a < 50)
        return lgamma_r(a + 0.5, &sign) - lgamma_r(a, &sign);
    double square = a * a;
    return 0.5 * log(a) - (1.0 / 8 - (1.0 / 192 - 1.0 / 640 / square) / square) / a;
}

/* The regularised incomplete beta function I_x(a, 1/2); y = 1 - x is passed too, because it is known more exactly. */
static double beta_regularised(double x, double y, double a)
{
    if (x <= 0)
        return 0;
    if (y <= 0)
        return 1;
    double front = exp(log_gamma_ratio(a) + a * log(x)) * sqrt(y / M_PI);
    if (x < (a + 1) / (a + 2.5))
        return front * beta_fraction(x, a, 0.5) / a;
    return 1 - 2 * front * beta_fraction(y, 0.5, a);
}

double student_cdf(double t, double dof)
{
    double square = t * t, total = dof + square;
    double tail = 0.5 * beta_regularised(dof / total, square / total, dof / 2);
    return t > 0 ? 1 - tail : tail;
}

static double student_density(double t, double dof)
{
    return exp(log_gamma_ratio(dof / 2) - (dof + 1) / 2 * log1p(t * t / dof)) / sqrt(dof * M_PI);
}

double student_quantile(double p, double dof)
{
    if (p == 0.5)
        return 0;
    /* In the lower tail, where the distribution function keeps its relative precision. Newton's steps from within a
     * bracket; one that leaves it is replaced by its middle. */
    double tail = p < 0.5 ? p : 1 - p, low = -1, high = 0;
    while (student_cdf(low, dof) > tail) {
        high = low;
        low *= 2;
    }
    double t = low + (high - low) / 2;
    for (int i = 0; i < 200 && low < t && t < high; i++) {
        double excess = student_cdf(t, dof) - tail;
        if (excess < 0)
            low = t;
        else
            high = t;
        double next = t - excess / student_density(t, dof);
        if (fabs(next - t) <= 1e-15 * fabs(t))
            break;
        t = next > low && next < high ? next : low + (high - low) / 2;
    }
    return p < 0.5 ? t : -t;
}
