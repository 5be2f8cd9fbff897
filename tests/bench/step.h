/* step.h - whole training steps as figures: a decoder of any shape, with the work of one of its steps counted.
 *
 * The text is random, and the learning rate too small to matter: what a step costs does not depend on what it learns.
 */
#ifndef REMATCH_TESTS_BENCH_STEP_H
#define REMATCH_TESTS_BENCH_STEP_H

#include "model/decoder.h"
#include "tests/bench/bench.h"
#include "tests/bench/count.h"

struct step_choice {
    int layers, hidden, ffn, heads, vocab, sequence, batch;
    int recomputed; /* of the layers, with Megatron's method `block` */
    bool certificate;
    const char *arithmetic; /* a profile's name */
    struct arithmetic_dial dial;
    float dropout;
};

struct step {
    struct step_choice choice;
    struct model_shape shape;
    struct decoder *decoder;
    struct certificate *certificate;
    int32_t *token, *target;
    double *loss;
    int64_t number;
    double tokens, parameters;
    double digest_bytes;         /* of one step */
    const struct figure *figure; /* flops: all that ran, recompute included */
};

/* 32 layers of 8 x 256 tokens with heads of 64 columns and 256 tokens of vocabulary: the shapes of the targets. */
enum { STEP_SHAPES = 3 };
extern const struct step_choice step_shapes[STEP_SHAPES];

/* The step of this choice: made, with its figure, when it is first asked for. */
status step_find(struct bench *b, const struct step_choice *choice, struct step **out);

status step_run(void *step);

/* A step on the counter's table. */
status step_count(struct step *s, struct counter *c);

#endif
