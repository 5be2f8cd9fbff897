/* count.h - a device's op table that counts and times each op, for finding where a step's time goes.
 *
 * It is a copy of the device's table in which the ops of a training step first do their work and then add to a counter;
 * an op that it does not know passes through uncounted. A multiplication and an addition are two flop; attention is
 * counted as exactly the pairs that a causal mask leaves. Bytes are those of an op's operands, each once.
 */
#ifndef REMATCH_TESTS_BENCH_COUNT_H
#define REMATCH_TESTS_BENCH_COUNT_H

#include "kernels/ops.h"

enum counted {
    COUNT_GEMM_FORWARD,
    COUNT_GEMM_INPUT,  /* input gradient */
    COUNT_GEMM_WEIGHT, /* weight gradient */
    COUNT_HEAD_GEMM,   /* the output projection's three products */
    COUNT_CROSS_ENTROPY,
    COUNT_ATTENTION_FORWARD,
    COUNT_ATTENTION_BACKWARD,
    COUNT_NORM_FORWARD,
    COUNT_NORM_BACKWARD,
    COUNT_ROPE,
    COUNT_SWIGLU_FORWARD,
    COUNT_SWIGLU_BACKWARD,
    COUNT_DROPOUT_ADD,
    COUNT_DROPOUT_BACKWARD,
    COUNT_EMBEDDING_FORWARD,
    COUNT_EMBEDDING_BACKWARD,
    COUNT_ADAMW,
    COUNT_SUM_SQUARES,
    COUNT_DIGEST,
    COUNTED
};

const char *counted_name(enum counted c);

struct count {
    int64_t calls;
    double seconds, flops, bytes;
};

struct counter {
    struct ops table; /* first: the device's pointer to it leads back here */
    const struct ops *real;
    const void *head_weight, *head_gradient; /* how the output projection's products are known */
    struct count at[COUNTED];
};

/* Between begin and end the device runs on the counter's table; `c` is zeroed but for what names the head. */
void counter_begin(struct counter *c, struct device *d, const void *head_weight, const void *head_gradient);
void counter_end(struct counter *c, struct device *d);

double counter_flops(const struct counter *c); /* of all ops */

/* Of one call, forward and backward: B heads D T (T + 1) / 2 pairs, two and five products of D. */
double count_attention_flops(const struct attention_shape *shape, bool backward);

#endif
