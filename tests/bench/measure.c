/* Figures in rounds, and what the rounds say. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "data/file.h"
#include "kernels/philox.h"
#include "tests/bench/bench.h"

/* Long enough for the clock and the start of a team of threads, short enough for a hundred figures a round. */
static const double shortest_s = 0.02;

/* The peak is looked at as long as a share of the figure before it: a moment says little about a step of seconds. */
static const double peak_share = 0.05, peak_shortest_s = 0.005;

struct owned {
    void *what;
    void (*close)(void *what);
    struct owned *next;
};

static void give_up(size_t bytes)
{
    fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
    exit(EXIT_FAILURE);
}

void bench_own(struct bench *b, void *what, void (*close)(void *what))
{
    struct owned *o = malloc(sizeof *o);
    if (!o)
        give_up(sizeof *o);
    *o = (struct owned){what, close, b->owned};
    b->owned = o;
}

void *bench_new(struct bench *b, size_t bytes)
{
    void *fresh = calloc(1, bytes);
    if (!fresh)
        give_up(bytes);
    bench_own(b, fresh, free);
    return fresh;
}

void bench_close(struct bench *b)
{
    while (b->owned) {
        struct owned *next = b->owned->next;
        b->owned->close(b->owned->what);
        free(b->owned);
        b->owned = next;
    }
    free(b->figure);
    *b = (struct bench){0};
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_fill(const struct view *v, uint64_t seed)
{
    const struct random_site where = {.seed = seed};
    for (int64_t r = 0; r < v->rows; r++)
        for (int64_t c = 0; c < v->cols; c++) {
            float x = (float)(philox_u64(&where, (uint64_t)(r * v->cols + c)) >> 40) * 0x1p-23f - 1.0f;
            uint16_t half = bf16_of_f32(x);
            memcpy(view_at(v, r, c), v->type == BF16 ? (void *)&half : (void *)&x, dtype_bytes(v->type));
        }
}

/* ---- figures ---- */

static status measure(const struct figure *f, struct sample *s)
{
    if (f->timed)
        return f->timed(f->self, f->repeats, s);
    double wall = bench_now(), cpu = bench_cpu_now();
    for (int i = 0; i < f->repeats; i++)
        TRY(f->run(f->self));
    s->wall_s = (bench_now() - wall) / f->repeats;
    s->cpu_s = (bench_cpu_now() - cpu) / f->repeats;
    return OK;
}

status bench_add(struct bench *b, const struct figure *what, const struct figure **out)
{
    struct figure *f = bench_new(b, sizeof *f);
    *f = *what;
    f->sample = bench_new(b, (size_t)b->rounds * sizeof *f->sample);
    f->repeats = 1;
    struct sample s;
    TRY(measure(f, &s));
    TRY(measure(f, &s));
    if (s.wall_s < shortest_s)
        f->repeats = (int)ceil(shortest_s / s.wall_s);
    struct figure **longer = realloc(b->figure, ((size_t)b->figures + 1) * sizeof *longer);
    if (!longer)
        give_up(((size_t)b->figures + 1) * sizeof *longer);
    b->figure = longer;
    b->figure[b->figures++] = f;
    if (out)
        *out = f;
    return OK;
}

const struct figure *bench_find(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->figures; i++)
        if (!strcmp(b->figure[i]->name, name))
            return b->figure[i];
    return NULL;
}

static void show_progress(const struct bench *b, int figure)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rround %d of %d, figure %d of %d: %-40.40s", b->round + 1, b->rounds, figure + 1, b->figures,
                b->figure[figure]->name);
    else if (figure == 0)
        fprintf(stderr, "round %d of %d, %d figures\n", b->round + 1, b->rounds, b->figures);
}

status bench_measure(struct bench *b)
{
    struct sample before, after;
    peak_fma(b->threads, shortest_s, &before);
    for (b->round = 0; b->round < b->rounds; b->round++)
        for (int i = 0; i < b->figures; i++) {
            struct sample *s = &b->figure[i]->sample[b->round];
            show_progress(b, i);
            TRY(measure(b->figure[i], s));
            double long_s = s->wall_s * b->figure[i]->repeats * peak_share;
            peak_fma(b->threads, long_s > peak_shortest_s ? long_s : peak_shortest_s, &after);
            s->peak = (before.peak + after.peak) / 2;
            s->cpu_peak = (before.cpu_peak + after.cpu_peak) / 2;
            before = after;
        }
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    return OK;
}

double bench_own_time(const struct bench *b)
{
    double sum = 0;
    for (int i = 0; i < b->figures; i++)
        for (int round = 0; round < b->rounds; round++) {
            const struct sample *s = &b->figure[i]->sample[round];
            sum += s->peak / (s->cpu_peak * b->threads);
        }
    return sum / (b->figures * b->rounds);
}

static status write_row(struct file_draft *draft, const struct bench *b, const struct figure *f, int round)
{
    const struct sample *s = &f->sample[round];
    json_t *row = json_pack("{sisssisisfsfsfsfsfsf}", "round", round + 1, "figure", f->name, "threads", b->threads,
                            "repeats", f->repeats, "wall_s", s->wall_s, "cpu_s", s->cpu_s, "flop", f->flops, "bytes",
                            f->bytes, "peak_flop_s", s->peak, "peak_flop_cpu_s", s->cpu_peak);
    char *text = row ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    if (!text)
        return FAIL(ERR_MEMORY, "no memory for a row of '%s'", f->name);
    status st = file_draft_write(draft, text, strlen(text));
    free(text);
    TRY(st);
    return file_draft_write(draft, "\n", 1);
}

status bench_write_rows(const struct bench *b, const char *path)
{
    struct file_draft draft = {0};
    status st = OK;
    TRY_DONE(file_draft_open(&draft, path));
    for (int round = 0; round < b->rounds; round++)
        for (int i = 0; i < b->figures; i++)
            TRY_DONE(write_row(&draft, b, b->figure[i], round));
    TRY_DONE(file_draft_commit(&draft, false));
done:
    file_draft_abandon(&draft);
    return st;
}

/* ---- what the rounds say ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between the two order statistics around it. */
static double quantile(const double *sorted, int count, double q)
{
    double place = q * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

struct spread spread_of(const double *values, int count)
{
    double sorted[ROUNDS_MOST];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (struct spread){quantile(sorted, count, 0.25), quantile(sorted, count, 0.5), quantile(sorted, count, 0.75)};
}

struct spread spread_seconds(const struct bench *b, const struct figure *f)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->sample[i].wall_s;
    return spread_of(value, b->rounds);
}

struct spread spread_cpu_seconds(const struct bench *b, const struct figure *f)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->sample[i].cpu_s;
    return spread_of(value, b->rounds);
}

struct spread spread_rate(const struct bench *b, const struct figure *f, double amount)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = amount / f->sample[i].wall_s;
    return spread_of(value, b->rounds);
}

struct spread spread_share_of_peak(const struct bench *b, const struct figure *f)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->flops / f->sample[i].wall_s / f->sample[i].peak;
    return spread_of(value, b->rounds);
}

struct spread spread_share_of_cpu_peak(const struct bench *b, const struct figure *f)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->flops / f->sample[i].cpu_s / f->sample[i].cpu_peak;
    return spread_of(value, b->rounds);
}

struct spread spread_ratio(const struct bench *b, const struct figure *f, const struct figure *base)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->sample[i].wall_s / base->sample[i].wall_s;
    return spread_of(value, b->rounds);
}

struct spread spread_cpu_ratio(const struct bench *b, const struct figure *f, const struct figure *base)
{
    double value[ROUNDS_MOST] = {0};
    for (int i = 0; i < b->rounds; i++)
        value[i] = f->sample[i].cpu_s / base->sample[i].cpu_s;
    return spread_of(value, b->rounds);
}

const char *spread_text(struct spread s, double unit, int digits)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%.*f (%.*f-%.*f)", digits, s.median * unit, digits, s.low * unit, digits,
             s.high * unit);
    return text;
}
