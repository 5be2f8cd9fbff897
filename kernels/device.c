#include "kernels/device.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/ops.h"

struct plan_node {
    struct plan plan;
    struct plan_node *next;
};

static size_t round_up(size_t bytes) { return (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT; }

size_t device_span_bytes(size_t bytes) { return round_up(bytes) + DEVICE_GUARD_BYTES; }

status device_open(struct device **out, const char *backend, int threads, size_t arena_bytes)
{
    *out = NULL;
    const struct ops *ops;
    TRY(ops_find(backend, &ops));
    if (threads <= 0)
        threads = omp_get_max_threads();
    if (threads > DEVICE_THREADS)
        return FAIL(ERR_USAGE, "%d threads: at most %d; set OMP_NUM_THREADS to the cores of this machine", threads,
                    DEVICE_THREADS);
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return FAIL(ERR_MEMORY, "no memory for a device");
    d->ops = ops;
    d->threads = threads;
    if (arena_bytes) {
        void *arena =
            mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) {
            status st = FAIL(ERR_MEMORY, "an arena of %zu bytes: %s; use a smaller model or recompute more layers",
                             arena_bytes, strerror(errno));
            free(d);
            return st;
        }
        d->arena = arena;
        d->arena_bytes = arena_bytes;
    }
    *out = d;
    return OK;
}

void device_close(struct device *d)
{
    if (!d)
        return;
    while (d->plans) {
        struct plan_node *next = d->plans->next;
        free(d->plans);
        d->plans = next;
    }
    if (d->arena)
        munmap(d->arena, d->arena_bytes);
    free(d->workspace);
    free(d->spans);
    free(d);
}

status device_take(struct device *d, const char *name, size_t bytes, void **out)
{
    size_t needed = device_span_bytes(bytes);
    if (needed > d->arena_bytes - d->arena_used)
        return FAIL(ERR_MEMORY, "'%s' takes %zu bytes and the arena has %zu of %zu left: the memory plan is too small",
                    name, needed, d->arena_bytes - d->arena_used, d->arena_bytes);
    if (d->span_count == d->span_capacity) {
        int capacity = d->span_capacity ? 2 * d->span_capacity : 64;
        struct span *spans = realloc(d->spans, (size_t)capacity * sizeof *spans);
        if (!spans)
            return FAIL(ERR_MEMORY, "no memory for %d spans", capacity);
        d->spans = spans;
        d->span_capacity = capacity;
    }
    struct span *s = &d->spans[d->span_count++];
    *s = (struct span){name, d->arena_used, bytes};
    unsigned char *start = d->arena + s->offset;
    memset(start, DEVICE_POISON, bytes);
    memset(start + bytes, DEVICE_GUARD, needed - bytes);
    d->arena_used += needed;
    *out = start;
    return OK;
}

status device_take_view(struct device *d, const char *name, enum dtype type, int64_t rows, int64_t cols,
                        struct view *out)
{
    *out = view_of(NULL, type, rows, cols);
    return device_take(d, name, view_bytes(out), &out->data);
}

status device_check_guards(const struct device *d)
{
    for (int i = 0; i < d->span_count; i++) {
        const struct span *s = &d->spans[i];
        const unsigned char *guard = d->arena + s->offset + s->bytes;
        size_t length = device_span_bytes(s->bytes) - s->bytes;
        for (size_t j = 0; j < length; j++)
            if (guard[j] != DEVICE_GUARD)
                return FAIL(ERR_DEVICE, "byte %zu behind span '%s' of %zu bytes was overwritten", j, s->name, s->bytes);
    }
    return OK;
}

static status reserve_workspace(struct device *d, size_t bytes)
{
    if (bytes <= d->workspace_bytes)
        return OK;
    void *fresh = aligned_alloc(DEVICE_ALIGNMENT, round_up(bytes));
    if (!fresh)
        return FAIL(ERR_MEMORY, "no memory for a workspace of %zu bytes", bytes);
    free(d->workspace);
    d->workspace = fresh;
    d->workspace_bytes = round_up(bytes);
    return OK;
}

static bool plan_is(const struct plan *p, const struct plan *wanted)
{
    return p->op == wanted->op && p->order == wanted->order && p->chunk == wanted->chunk &&
           p->rounding == wanted->rounding && !memcmp(p->dims, wanted->dims, sizeof p->dims);
}

status device_plan(struct device *d, const struct arithmetic *how, enum plan_op op, const int64_t dims[6],
                   const struct plan **out)
{
    bool attention = op == PLAN_ATTENTION;
    struct plan wanted = {
        .op = op,
        .order = attention ? ORDER_ASCENDING : how->order,
        .chunk = attention ? how->attention_block : how->gemm_chunk,
        .rounding = how->rounding,
    };
    for (int i = 0, used = attention ? 6 : 3; i < used; i++) {
        if (dims[i] < 1)
            return FAIL(ERR_ARGUMENT, "a plan's dimension %d is %lld, expected 1 or more", i, (long long)dims[i]);
        wanted.dims[i] = dims[i];
    }
    struct plan_node **end = &d->plans;
    for (; *end; end = &(*end)->next)
        if (plan_is(&(*end)->plan, &wanted)) {
            *out = &(*end)->plan;
            return OK;
        }
    TRY(d->ops->plan(d, &wanted));
    TRY(reserve_workspace(d, wanted.workspace_bytes));
    struct plan_node *node = malloc(sizeof *node);
    if (!node)
        return FAIL(ERR_MEMORY, "no memory for a plan");
    *node = (struct plan_node){wanted, NULL};
    *end = node;
    *out = &node->plan;
    return OK;
}

void device_each_plan(const struct device *d, void (*visit)(void *self, const struct plan *plan), void *self)
{
    for (const struct plan_node *n = d->plans; n; n = n->next)
        visit(self, &n->plan);
}
