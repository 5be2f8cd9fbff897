/* bench.h - how the benchmark measures: figures in rounds, each beside the peak of the same moment.
 *
 * A figure is one thing that is measured once in every round. Between two figures the machine's fp32 FMA peak is measured
 * with the same number of threads, and a figure's share of the peak is taken against the mean of its two neighbours: a
 * shared machine moves by tens of percent within minutes, and a ratio of one moment survives that. What is reported is
 * the median of the rounds with its quartiles.
 * A group is a part of the benchmark: it adds figures before the first round and prints its tables after the last.
 *
 * Units: seconds, flop (a multiplication and an addition are two), bytes.
 */
#ifndef REMATCH_TESTS_BENCH_BENCH_H
#define REMATCH_TESTS_BENCH_BENCH_H

#include <stdio.h>

#include "kernels/status.h"
#include "kernels/tensor.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

enum { ROUNDS_MOST = 99 };

/* Of one run of a figure. CPU seconds are all threads'; what they exceed or miss of wall x threads tells waiting from
 * work, and a machine shared with others from one's own slowness. */
struct sample {
    double wall_s, cpu_s;
    double peak;     /* flop/s at that moment */
    double cpu_peak; /* flop a CPU second, of one thread */
};

struct figure {
    char name[96];
    status (*run)(void *self); /* once */
    /* Instead of `run`, where something else keeps the time: fills wall_s and cpu_s. */
    status (*timed)(void *self, int repeats, struct sample *s);
    void *self;          /* borrowed */
    double flops, bytes; /* of one run; 0: not counted */

    int repeats;           /* runs in one measurement, so that it lasts long enough */
    struct sample *sample; /* [rounds] */
};

struct bench {
    int threads, rounds;
    const char *onednn, *torch; /* shell commands that start these peers (peer.h); NULL: not measured */
    int round;                  /* the one that runs; 0 while figures are warmed up */
    struct figure **figure;
    int figures;
    struct owned *owned;
};

/* A group's word for the command line, what it adds, and what it prints. */
struct group {
    const char *name, *title;
    status (*open)(struct bench *b, void **self); /* *self is given to `print`; it is the bench's own */
    void (*print)(const struct bench *b, void *self, FILE *out);
};

extern const struct group group_peak, group_gemm, group_attention, group_step, group_recompute, group_certificate,
    group_head, group_arithmetic, group_profile, group_files, group_torch, group_gpt2;

/* Adds a figure (copied), warms it up and chooses its repeats. `out` may be NULL. */
status bench_add(struct bench *b, const struct figure *what, const struct figure **out);

/* The figure of that name; NULL when there is none. */
const struct figure *bench_find(const struct bench *b, const char *name);

/* Zeroed memory, and what `close` releases, until bench_close. Without memory there is nothing to measure: they print so
 * and exit. */
void *bench_new(struct bench *b, size_t bytes);
void bench_own(struct bench *b, void *what, void (*close)(void *what));

status bench_measure(struct bench *b); /* all rounds */
/* Of the processor time that the bench's threads could have had while the peak was measured, the share that they had: 1 on
 * a machine that nobody else uses. After bench_measure. */
double bench_own_time(const struct bench *b);
status bench_write_rows(const struct bench *b, const char *path);
void bench_close(struct bench *b);

double bench_now(void);     /* monotonic, seconds */
double bench_cpu_now(void); /* of all threads of this process */

/* Uniform values in [-1, 1), a function of `seed`. */
void bench_fill(const struct view *v, uint64_t seed);

/* ---- the machine's ceilings ---- */

/* fp32 FMA of the widest instruction set, from about `seconds`: fills peak and cpu_peak. */
void peak_fma(int threads, double seconds, struct sample *s);

/* The figure that copies memory with the bench's threads, added when it is first asked for. */
status peak_copy(struct bench *b, const struct figure **out);

/* ---- what the rounds say ---- */

struct spread {
    double low, median, high; /* quartiles */
};

struct spread spread_of(const double *values, int count);
struct spread spread_seconds(const struct bench *b, const struct figure *f);
struct spread spread_cpu_seconds(const struct bench *b, const struct figure *f);
struct spread spread_rate(const struct bench *b, const struct figure *f, double amount); /* amount / seconds */
struct spread spread_share_of_peak(const struct bench *b, const struct figure *f);
/* The same with CPU seconds on both sides: blind to waiting, and to other processes. */
struct spread spread_share_of_cpu_peak(const struct bench *b, const struct figure *f);
/* f's seconds over those of `base` in the same round. */
struct spread spread_ratio(const struct bench *b, const struct figure *f, const struct figure *base);
struct spread spread_cpu_ratio(const struct bench *b, const struct figure *f, const struct figure *base);

/* "88.1 (87.4-88.9)", times `unit`; borrowed until the eighth call from now. */
const char *spread_text(struct spread s, double unit, int digits);

/* "met" or "not met". */
static inline const char *met(bool is) { return is ? "met" : "not met"; }

#endif
