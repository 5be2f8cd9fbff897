/* The machine's ceilings: fp32 FMA, and memory. */
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/fma.h"

static fma_loop *widest(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return fma_avx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? fma_avx2 : fma_scalar;
}

static double multiply_add(int threads, int64_t turns)
{
    fma_loop *loop = widest();
    double flops = 0;
#pragma omp parallel num_threads(threads) reduction(+ : flops)
    {
        float sink = 1;
        flops += loop(turns, &sink);
    }
    return flops;
}

void peak_fma(int threads, double seconds, struct sample *s)
{
    static double turns_per_s = 1e8; /* of the last time: a guess is good enough */
    const int64_t turns = (int64_t)(seconds * turns_per_s) + 1;
    double cpu = bench_cpu_now(), wall = bench_now(), flops = multiply_add(threads, turns);
    s->wall_s = bench_now() - wall;
    s->cpu_s = bench_cpu_now() - cpu;
    s->peak = flops / s->wall_s;
    s->cpu_peak = flops / s->cpu_s;
    turns_per_s = (double)turns / s->wall_s;
}

/* ---- memory ---- */

/* Three arrays larger than most caches. */
enum { STREAM_BYTES = 1 << 28, STREAM = STREAM_BYTES / sizeof(float) };

struct memory {
    int threads;
    float *a, *b, *c;
};

static status triad(void *self)
{
    const struct memory *m = self;
    float *restrict a = m->a;
    const float *restrict b = m->b, *restrict c = m->c;
#pragma omp parallel for num_threads(m->threads) schedule(static)
    for (int i = 0; i < STREAM; i++)
        a[i] = b[i] + 3.0f * c[i];
    return OK;
}

static status copy(void *self)
{
    const struct memory *m = self;
    const int64_t part = STREAM / m->threads;
#pragma omp parallel for num_threads(m->threads) schedule(static)
    for (int i = 0; i < m->threads; i++)
        memcpy(m->a + i * part, m->b + i * part, (size_t)part * sizeof(float));
    return OK;
}

/* The arrays are made with the first of these figures and shared by the others. */
static float *stream_array(struct bench *b)
{
    float *fresh = bench_new(b, STREAM_BYTES);
    for (int i = 0; i < STREAM; i++)
        fresh[i] = 1;
    return fresh;
}

static status add_memory(struct bench *b, const char *what, int threads, const struct figure **out)
{
    struct figure figure = {.run = *what == 't' ? triad : copy};
    snprintf(figure.name, sizeof figure.name, "%s, threads %d", what, threads);
    *out = bench_find(b, figure.name);
    if (*out)
        return OK;
    static struct memory first;
    if (!first.a)
        first = (struct memory){1, stream_array(b), stream_array(b), stream_array(b)};
    struct memory *m = figure.self = bench_new(b, sizeof *m);
    *m = first;
    m->threads = threads;
    figure.bytes = (*what == 't' ? 3.0 : 2.0) * STREAM_BYTES;
    return bench_add(b, &figure, out);
}

status peak_copy(struct bench *b, const struct figure **out) { return add_memory(b, "copy", b->threads, out); }

/* ---- the group ---- */

struct ceilings {
    int threads[2], counts; /* 1, and all */
    const struct figure *fma[2], *triad[2], *copy[2];
};

enum { TURNS = 1000000 };

static status fma_run(void *self)
{
    const int *threads = self;
    multiply_add(*threads, TURNS);
    return OK;
}

static status add_fma(struct bench *b, int *threads, const struct figure **out)
{
    struct figure figure = {.run = fma_run, .self = threads, .flops = multiply_add(*threads, TURNS)};
    snprintf(figure.name, sizeof figure.name, "fma, threads %d", *threads);
    return bench_add(b, &figure, out);
}

static status open_peak(struct bench *b, void **self)
{
    struct ceilings *c = *self = bench_new(b, sizeof *c);
    c->counts = b->threads > 1 ? 2 : 1;
    for (int i = 0; i < c->counts; i++) {
        c->threads[i] = i ? b->threads : 1;
        TRY(add_fma(b, &c->threads[i], &c->fma[i]));
        TRY(add_memory(b, "triad", c->threads[i], &c->triad[i]));
        TRY(add_memory(b, "copy", c->threads[i], &c->copy[i]));
    }
    return OK;
}

static void print_peak(const struct bench *b, void *self, FILE *out)
{
    const struct ceilings *c = self;
    fputs("| threads | fp32 FMA, GFLOP/s | triad, GB/s | copy, GB/s |\n|---|---|---|---|\n", out);
    for (int i = 0; i < c->counts; i++)
        fprintf(out, "| %d | %s | %s | %s |\n", c->threads[i],
                spread_text(spread_rate(b, c->fma[i], c->fma[i]->flops), 1e-9, 0),
                spread_text(spread_rate(b, c->triad[i], c->triad[i]->bytes), 1e-9, 1),
                spread_text(spread_rate(b, c->copy[i], c->copy[i]->bytes), 1e-9, 1));
    fputs("\nTriad counts two reads and a write, copy a read and a write; arrays of 256 MiB.\n", out);
}

const struct group group_peak = {"peak", "Ceilings of this machine", open_peak, print_peak};
