/* student.h - Student's t distribution: the only distribution that verdicts need.
 *
 * Degrees of freedom may be fractional (Welch). Absolute error of the distribution function below 1e-13, relative error
 * of quantiles below 1e-10. Source: Abramowitz and Stegun 26.5.8 (continued fraction of the incomplete beta function)
 * and 26.7.1.
 */
#ifndef REMATCH_STAGES_STUDENT_H
#define REMATCH_STAGES_STUDENT_H

/* P(T <= t). dof > 0. */
double student_cdf(double t, double dof);

/* The t with P(T <= t) = p, 0 < p < 1. */
double student_quantile(double p, double dof);

#endif
