/* small_model.h - a decoder small enough for tests, one training step at a time. */
#ifndef REMATCH_TESTS_SMALL_MODEL_H
#define REMATCH_TESTS_SMALL_MODEL_H

#include "model/decoder.h"

enum { SMALL_LAYERS = 5, SMALL_SEQUENCES = 4, SMALL_TOKENS = 16 };

struct small_model {
    struct decoder *decoder;
    struct certificate *certificate;
    struct decoder_options options;
    double loss[SMALL_SEQUENCES]; /* of the last step: sums over tokens */
};

/* The options that the tests start from: cpu, BF16, 5 layers, dropout 0.1, two groups, profile h800-sim, certified. */
struct decoder_options small_options(void);

/* Policies in Megatron's words. */
struct recompute_policy small_policy(const char *granularity, const char *method, int layers, const char *modules,
                                     const char *precision);

/* Opens (aborts the test on failure) and draws weights. */
void small_open(struct small_model *s, const struct decoder_options *options);
void small_close(struct small_model *s);

/* The tokens of step `step`; the whole global batch in micro-batches; then the end of the step without an optimizer.
 * Gradients are summed over groups into the first. */
void small_step(struct small_model *s, int64_t step);
/* The same of sequences first to first + count - 1 of the global batch: what one of several ranks does. */
void small_part_of_step(struct small_model *s, int64_t step, int64_t first, int64_t count);

/* The step's control, for options with audits: before the step itself, or without it. */
struct control_proof small_control(struct small_model *s, int64_t step);

/* Moves the weights a little, so that the weights of two steps differ. */
void small_optimizer_step(struct small_model *s, int64_t step);

/* The gradient of all parameters, after small_step. */
const struct view *small_gradient(struct small_model *s);

/* Opens with a planted fault and trains `steps` steps. */
void small_run_fault(struct small_model *s, enum dtype storage, const char *fault, struct recompute_policy policy,
                     int steps);

/* Asserts where the first mismatch is, in order of the forward, and that the recompute is accused of it. */
void small_accused(const struct small_model *s, int64_t step, int layer, const char *family);

#endif
