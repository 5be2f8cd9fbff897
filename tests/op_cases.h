/* op_cases.h - operands for tests of ops: strided, padded, filled from a fixed stream of random numbers.
 *
 * Memory: all operands come from one pool, freed after each test.
 */
#ifndef REMATCH_TESTS_OP_CASES_H
#define REMATCH_TESTS_OP_CASES_H

#include "kernels/ops.h"
#include "tests/suite.h"

/* suite_run, where each test begins with the same random stream and an empty pool, and ends with `after` (or NULL). */
int cases_run(const char *name, const struct suite_test *tests, int count, void (*after)(void));

/* The CPU table with an instruction set (NULL: the machine's choice); NULL where the machine lacks the set. */
struct device *case_cpu(const char *isa, int threads);

/* `bytes` from the pool, 64-byte aligned. */
void *case_memory(size_t bytes);

/* A number in [0, 1), and one in [0, below). */
double case_random(void);
int64_t case_below(int64_t below);

/* Rows x cols with a few guard elements behind each row; every element is NaN (I32: -1) until written. */
struct view case_view(enum dtype type, int64_t rows, int64_t cols);

/* The same shape with random elements in [-1, 1); with integers in [-largest, largest]. */
struct view case_uniform(enum dtype type, int64_t rows, int64_t cols);
struct view case_integers(enum dtype type, int64_t rows, int64_t cols, int largest);

/* A new view with x's elements, or their magnitudes, converted to `type`. */
struct view case_copy(const struct view *x, enum dtype type);
struct view case_magnitude(const struct view *x, enum dtype type);

/* Every element of v = value. */
void case_fill(const struct view *v, double value);

/* Largest magnitude of any element. */
double case_largest(const struct view *v);

/* Are all guard elements of a case's view untouched? */
bool case_guards_intact(const struct view *v);

/* How many elements differ in their bits (same type and shape). */
uint64_t case_differing(const struct view *a, const struct view *b);

/* first, first + step, ...: row ids or positions. */
int64_t *case_row_ids(int64_t count, int64_t first, int64_t step);
int32_t *case_positions(int64_t count, int32_t first, int32_t step);

/* Random numbers in [0, below): tokens, targets. */
int32_t *case_tokens(int64_t count, int32_t below);

#endif
