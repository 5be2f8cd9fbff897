/* compare.h - two versions of one tensor, element by element.
 *
 * Used by the certificate (recompute against first forward) and by rematch-diff (run against run).
 * A ULP distance is counted in units of the last place of `unit`, the type in which the values are stored; values of
 * other types are rounded to it first.
 */
#ifndef REMATCH_KERNELS_COMPARE_H
#define REMATCH_KERNELS_COMPARE_H

#include "kernels/status.h"
#include "kernels/tensor.h"

/* Buckets of the ULP histogram: 0, 1, 2, 3-4, 5-8, ... up to 2^14, then more; last: NaN on exactly one side. */
enum { ULP_BUCKETS = 18 };

struct comparison {
    uint64_t elements, differing;
    uint64_t first_differing;  /* flat index (row * cols + col) of the first difference; UINT64_MAX if none */
    uint64_t larger, smaller;  /* sign balance: b > a, b < a */
    uint64_t grown, shrunk;    /* balance of magnitudes: |b| > |a|, |b| < |a|; what rounding toward zero shows in */
    uint64_t ulp[ULP_BUCKETS]; /* ulp[0] counts equal bits */
    double largest;            /* max |b - a| over finite pairs */
    double sum_aa, sum_bb, sum_ab, sum_dd; /* a.a, b.b, a.b, |b-a|^2, in double, over finite pairs */
};

/* An empty comparison. */
void comparison_clear(struct comparison *c);

/* Adds the elements of a and b (same rows and cols; any types). ERR_ARGUMENT when shapes differ. */
status comparison_add(struct comparison *c, const struct view *a, const struct view *b, enum dtype unit);

/* Adds what `part` found in elements that follow those of `c`. */
void comparison_join(struct comparison *c, const struct comparison *part);

/* ||b - a|| / ||a||; 0 when both are zero, inf when only a is. Cosine of a and b; 1 when both are zero. */
double comparison_relative_l2(const struct comparison *c);
double comparison_cosine(const struct comparison *c);

/* "0", "1", "2", "3-4", ..., ">16384", "NaN" */
const char *comparison_bucket_name(int bucket);

#endif
