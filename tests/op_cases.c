#include "tests/op_cases.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/element.h"

enum { POOL_BLOCKS = 16384, GUARD_ELEMENTS = 5, GUARD_BYTE = 0xA5 };

static void *pool[POOL_BLOCKS];
static int pool_used;
static uint64_t drawn;
static void (*test_end)(void);

static void begin(void) { drawn = 0; }

static void end(void)
{
    if (test_end)
        test_end();
    while (pool_used)
        free(pool[--pool_used]);
}

int cases_run(const char *name, const struct suite_test *tests, int count, void (*after)(void))
{
    test_end = after;
    return suite_run_with(name, tests, count, &(const struct suite_options){.before = begin, .after = end});
}

struct device *case_cpu(const char *isa, int threads)
{
    struct device *d = NULL;
    const char *chosen = getenv("REMATCH_ISA");
    char *restored = chosen ? strdup(chosen) : NULL;
    if (isa)
        setenv("REMATCH_ISA", isa, 1);
    const status st = device_open(&d, "cpu", threads, 0);
    if (isa && st == ERR_USAGE)
        ck_said("this machine lacks it");
    else
        ck_ok(st);
    if (restored)
        setenv("REMATCH_ISA", restored, 1);
    else
        unsetenv("REMATCH_ISA");
    free(restored);
    return st == OK ? d : NULL;
}

void *case_memory(size_t bytes)
{
    ck_assert_int_lt(pool_used, POOL_BLOCKS);
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    ck_assert_ptr_nonnull(block);
    pool[pool_used++] = block;
    return block;
}

static uint64_t draw(void)
{
    const struct random_site stream = {.seed = 20200101};
    return philox_u64(&stream, drawn++);
}

double case_random(void) { return (double)(draw() >> 11) * 0x1p-53; }

int64_t case_below(int64_t below) { return (int64_t)(draw() % (uint64_t)below); }

struct view case_view(enum dtype type, int64_t rows, int64_t cols)
{
    struct view v = view_of(NULL, type, rows, cols);
    v.stride = cols + GUARD_ELEMENTS;
    const size_t bytes = (size_t)(rows * v.stride) * dtype_bytes(type);
    v.data = case_memory(bytes);
    memset(v.data, GUARD_BYTE, bytes);
    for (int64_t r = 0; r < rows; r++)
        memset(view_at(&v, r, 0), 0xFF, (size_t)cols * dtype_bytes(type));
    return v;
}

struct view case_uniform(enum dtype type, int64_t rows, int64_t cols)
{
    const struct view v = case_view(type, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            element_store(&v, r, c, 2 * case_random() - 1);
    return v;
}

struct view case_integers(enum dtype type, int64_t rows, int64_t cols, int largest)
{
    const struct view v = case_view(type, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            element_store(&v, r, c, (double)(case_below(2 * largest + 1) - largest));
    return v;
}

struct view case_copy(const struct view *x, enum dtype type)
{
    const struct view v = case_view(type, x->rows, x->cols);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->cols; c++)
            element_store(&v, r, c, element_load(x, r, c));
    return v;
}

struct view case_magnitude(const struct view *x, enum dtype type)
{
    const struct view v = case_view(type, x->rows, x->cols);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->cols; c++)
            element_store(&v, r, c, fabs(element_load(x, r, c)));
    return v;
}

void case_fill(const struct view *v, double value)
{
    for (int64_t r = 0; r < v->rows; r++)
        for (int64_t c = 0; c < v->cols; c++)
            element_store(v, r, c, value);
}

double case_largest(const struct view *v)
{
    double largest = 0;
    for (int64_t r = 0; r < v->rows; r++)
        for (int64_t c = 0; c < v->cols; c++)
            largest = fmax(largest, fabs(element_load(v, r, c)));
    return largest;
}

bool case_guards_intact(const struct view *v)
{
    for (int64_t r = 0; r < v->rows; r++) {
        const unsigned char *guard = view_at(v, r, v->cols);
        for (size_t i = 0; i < GUARD_ELEMENTS * dtype_bytes(v->type); i++)
            if (guard[i] != GUARD_BYTE)
                return false;
    }
    return true;
}

uint64_t case_differing(const struct view *a, const struct view *b)
{
    uint64_t differing = 0;
    ck_assert(a->type == b->type && a->rows == b->rows && a->cols == b->cols);
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++)
            differing += memcmp(view_at(a, r, c), view_at(b, r, c), dtype_bytes(a->type)) != 0;
    return differing;
}

int64_t *case_row_ids(int64_t count, int64_t first, int64_t step)
{
    int64_t *ids = case_memory((size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = first + i * step;
    return ids;
}

int32_t *case_positions(int64_t count, int32_t first, int32_t step)
{
    int32_t *positions = case_memory((size_t)count * sizeof *positions);
    for (int64_t i = 0; i < count; i++)
        positions[i] = first + (int32_t)i * step;
    return positions;
}

int32_t *case_tokens(int64_t count, int32_t below)
{
    int32_t *tokens = case_memory((size_t)count * sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)case_below(below);
    return tokens;
}
