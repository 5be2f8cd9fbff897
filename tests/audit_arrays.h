/* audit_arrays.h - gradients, weights and moments of a small shape that a test fills, and their audit. */
#ifndef REMATCH_TESTS_AUDIT_ARRAYS_H
#define REMATCH_TESTS_AUDIT_ARRAYS_H

#include "model/audit.h"

struct audit_arrays {
    struct model_shape shape; /* that of small_options */
    struct optimizer_state state;
    struct view control; /* g0; g1 is state.grad */
};

/* All 0, without weights in the run's storage, which audits do not read. */
struct audit_arrays audit_arrays_new(void);
void audit_arrays_free(struct audit_arrays *a);

/* One flat array, f32, zeros; element i of one. */
struct view audit_array_new(const struct model_shape *s);
float *audit_array_at(const struct view *v, int64_t i);

/* g0 standard normal, g1 = g0 + error * (standard normal), weights 1: other numbers for each `stream`. */
void audit_arrays_fill(const struct audit_arrays *a, uint32_t stream, double error);

/* Their audit, of 2 groups, with audit_plain_adam: without moments it moves a weight by -g1 / |g1|. */
struct audit *audit_arrays_measure(const struct audit_arrays *a, int threads);
extern const struct adamw audit_plain_adam;

/* The i-th standard normal number of a stream. */
double audit_normal(uint32_t stream, uint64_t i);

#endif
