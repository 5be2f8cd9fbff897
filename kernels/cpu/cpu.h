/* cpu.h - what the CPU table's parts share and what does not depend on an instruction set. */
#ifndef REMATCH_KERNELS_CPU_CPU_H
#define REMATCH_KERNELS_CPU_CPU_H

#include "kernels/ops.h"

/* ERR_ARGUMENT when one of `count` operands is stored as neither BF16 nor F32; NULL operands are skipped. */
status cpu_check_storage(const char *op, int count, const struct view *const operands[]);

#define CPU_CHECK_STORAGE(op, ...)                                                              \
    cpu_check_storage(op, (int)(sizeof((const struct view *[]){__VA_ARGS__}) / sizeof(void *)), \
                      (const struct view *const[]){__VA_ARGS__})

/* Threads worth waking for an op that visits `elements`: one for little work. */
static inline int cpu_threads(const struct device *d, int64_t elements)
{
    enum { WORTH_A_TEAM = 8192 };
    return elements < WORTH_A_TEAM ? 1 : d->threads;
}

/* Hands out consecutive pieces of a workspace, each on a cache line. With base NULL it only counts: a plan's bytes and
 * an op's pointers come from the same walk. */
struct carving {
    char *base;
    size_t used;
};

static inline void *carve(struct carving *c, int64_t count, size_t element_bytes)
{
    void *at = c->base ? c->base + c->used : NULL;
    c->used += ((size_t)count * element_bytes + 63) / 64 * 64;
    return at;
}

/* Tables of one instruction set each. */
extern const struct ops cpu_ops_avx512, cpu_ops_avx2, cpu_ops_scalar;

#endif
