/* device.h - a backend at work: its op table, its one arena, its plans.
 *
 * All tensors of a run live in one arena whose size the memory plan fixes at start; nothing is allocated while
 * training. Spans are aligned to 256 bytes (the alignment that keeps cuBLASLt's choice of kernel constant) and
 * separated by guard bytes. A fresh arena is poisoned: reading a byte that nobody wrote gives NaN, not zero.
 *
 * Memory: device_close releases arena, workspace and plans. Plans are borrowed until then.
 * Errors: ERR_MEMORY when the arena or a span does not fit.
 */
#ifndef REMATCH_KERNELS_DEVICE_H
#define REMATCH_KERNELS_DEVICE_H

#include "kernels/plan.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

struct ops;

enum { DEVICE_ALIGNMENT = 256, DEVICE_GUARD_BYTES = 256, DEVICE_THREADS = 1024 };

/* 0xFF in every byte: NaN in BF16, F32 and F64. */
enum { DEVICE_POISON = 0xFF, DEVICE_GUARD = 0xA5 };

struct span {
    const char *name; /* borrowed: a literal, or a name that outlives the device */
    size_t offset, bytes;
};

struct device {
    const struct ops *ops;
    int threads; /* OpenMP threads of the CPU table; results never depend on it */
    unsigned char *arena;
    size_t arena_bytes, arena_used;
    struct span *spans;
    int span_count, span_capacity;
    void *workspace; /* one, sized to the largest plan's workspace_bytes */
    size_t workspace_bytes;
    struct plan_node *plans;
};

/* "cpu" or "reference"; `threads` 0 takes OpenMP's default, ERR_USAGE beyond DEVICE_THREADS. arena_bytes 0 opens a device that can only make plans. */
status device_open(struct device **out, const char *backend, int threads, size_t arena_bytes);
void device_close(struct device *d);

/* What a span of `bytes` takes from an arena, guard and alignment included: the memory plan adds these up. */
size_t device_span_bytes(size_t bytes);

/* Carves the next span, poisoned. ERR_MEMORY names the span and what is left. */
status device_take(struct device *d, const char *name, size_t bytes, void **out);

/* Same, as a packed view. */
status device_take_view(struct device *d, const char *name, enum dtype type, int64_t rows, int64_t cols,
                        struct view *out);

/* ERR_DEVICE naming the first span beside which a guard byte changed. */
status device_check_guards(const struct device *d);

/* The plan for (arithmetic, op, dims), made on first use: the same pointer every time after. May grow the workspace,
 * which holds nothing between ops. dims as in struct plan. ERR_ARGUMENT for dims below 1. */
status device_plan(struct device *d, const struct arithmetic *how, enum plan_op op, const int64_t dims[6],
                   const struct plan **out);

/* Calls `visit` for each plan in order of creation: for plans.json. */
void device_each_plan(const struct device *d, void (*visit)(void *self, const struct plan *plan), void *self);

#endif
