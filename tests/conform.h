/* conform.h - one call of an op on the reference table and on the CPU table, compared.
 *
 * The CPU table runs with 1, 2 and 3 threads, twice, and for each instruction set that the machine has; all of these
 * must give the same bits. Their result is then held against the reference within a bound that the test states.
 */
#ifndef REMATCH_TESTS_CONFORM_H
#define REMATCH_TESTS_CONFORM_H

#include "tests/op_cases.h"

/* Unit roundoff of binary32, and the classic gamma_n = n u / (1 - n u): the relative error of n roundings in a row.
 * Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1. */
static const double u = 0x1p-24;
static inline double gamma_of(double n) { return n * u / (1 - n * u); }

/* The CPU table's exp and log are allowed 2 units in the last place: 4 u. */
static const double exp_error = 4 * 0x1p-24;

/* `self` holds the inputs, `out` the outputs, operands that are changed in place among them. */
typedef status op_call(struct device *d, const void *self, const struct view *out);

struct output {
    enum dtype type; /* as the CPU table stores it */
    int64_t rows, cols;
    const struct view *start; /* what it holds before the call; NULL: nothing */
    /* Largest error of each element before it is stored, F64 of the same shape; half a unit of the storage type is
     * added. NULL: the bits are equal, with the reference in the same storage. */
    const struct view *bound;
};

/* Fails the test where the tables disagree; `name` says which call it was. */
void conform(const char *name, op_call *call, const void *self, const struct output *output, int count);

/* A bound that is the same for all elements. */
struct view bound_of(int64_t rows, int64_t cols, double value);

/* The CPU table with 2 threads, and the reference; they live until conform_close. */
struct device *conform_cpu(void);
struct device *conform_reference(void);

/* Closes the devices: `after` of cases_run. */
void conform_close(void);

#endif
