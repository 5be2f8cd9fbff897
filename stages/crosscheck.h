/* crosscheck.h - two other ways to take the error of a mean: shown beside the verdict, never deciding.
 *
 * Newey-West with its usual bandwidth floor(4 (T / 100)^(2/9)) is far too narrow for loss differences. The circular block
 * bootstrap's error needs no draws: blocks are drawn independently, so the variance of the mean is that of one block's
 * mean over all T starts, times block / T. Its block length is Politis and White's.
 * Source: Newey and West, Econometrica 55, 1987; Politis and Romano 1992 (circular blocks); Politis and White, Econometric
 * Reviews 23, 2004, section 3.2, corrected by Patton, Politis, White, Econometric Reviews 28, 2009.
 */
#ifndef REMATCH_STAGES_CROSSCHECK_H
#define REMATCH_STAGES_CROSSCHECK_H

#include <stdint.h>

/* Standard errors of the mean. */
double newey_west_error(const double *x, int64_t count);
double block_bootstrap_error(const double *x, int64_t count, double block);

/* Block length for the circular bootstrap, at least 1 and at most ceil(min(3 sqrt(count), count / 3)). */
double block_length(const double *x, int64_t count);

#endif
