#include "stages/bias.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "stages/student.h"

static const double LEVEL = 0.05, POWER = 0.80;
/* Statistics that differ by rounding alone are equal. */
static const double EQUAL = 1e-9;

static struct bias_test unknown(void) { return (struct bias_test){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}; }

static bool all_finite(const double *x, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static double dot(const double *a, const double *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

int bias_block(int n)
{
    int block = 1;
    while ((block + 1) * (block + 1) * (block + 1) <= n)
        block++;
    return block;
}

/* ---- sign flips ---- */

/* |sum of +-block|^2, for `count` vectors of `width`; for a number per block the width is 1. */
struct flips {
    const double *block;
    double *sum; /* (width) */
    int count, width;
};

/* block 0 keeps its sign: all signs turned give the same length. */
static void begin_flips(struct flips *f)
{
    memset(f->sum, 0, (size_t)f->width * sizeof *f->sum);
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < f->width; k++)
            f->sum[k] += f->block[i * f->width + k];
}

static void add_block(struct flips *f, int i, double times)
{
    for (int k = 0; k < f->width; k++)
        f->sum[k] += times * f->block[i * f->width + k];
}

/* All signs in the order of a Gray code, so that a single block turns between two. */
static double flip_all(struct flips *f)
{
    begin_flips(f);
    double observed = dot(f->sum, f->sum, f->width);
    int64_t all = (int64_t)1 << (f->count - 1), reached = 1;
    uint32_t negative = 0;
    for (int64_t i = 1; i < all; i++) {
        int turned = __builtin_ctzll((unsigned long long)i) + 1;
        negative ^= 1u << turned;
        add_block(f, turned, negative >> turned & 1 ? -2 : 2);
        reached += dot(f->sum, f->sum, f->width) >= observed * (1 - EQUAL);
    }
    return (double)reached / (double)all;
}

static double flip_some(struct flips *f)
{
    begin_flips(f);
    double observed = dot(f->sum, f->sum, f->width);
    int reached = 1;
    for (uint32_t draw = 1; draw <= BIAS_FLIPS; draw++) {
        const struct random_site where = {.step = draw};
        uint64_t signs = 0;
        memset(f->sum, 0, (size_t)f->width * sizeof *f->sum);
        for (int i = 0; i < f->count; i++) {
            if (i % 64 == 0)
                signs = philox_u64(&where, (uint64_t)i / 64);
            add_block(f, i, signs >> (i % 64) & 1 ? -1 : 1);
        }
        reached += dot(f->sum, f->sum, f->width) >= observed * (1 - EQUAL);
    }
    return (double)reached / (BIAS_FLIPS + 1);
}

static status flip(double *p, const double *block, int count, int width)
{
    struct flips f = {block, malloc((size_t)width * sizeof(double)), count, width};
    if (!f.sum)
        return FAIL(ERR_MEMORY, "no memory for the signs of %d blocks", count);
    *p = count <= BIAS_EXACT ? flip_all(&f) : flip_some(&f);
    free(f.sum);
    return OK;
}

/* ---- how many ---- */

/* The smallest number, at least `least`, from which on `enough` holds; NaN: beyond MOST. */
enum { MOST = 1 << 20 };
typedef bool enough_test(const void *self, int n);

static double smallest_enough(enough_test *enough, const void *self, int least)
{
    int low = least - 1, high = MOST; /* low is not enough, high is not known to be */
    while (high - low > 1) {
        int n = low + (high - low) / 2;
        if (enough(self, n))
            high = n;
        else
            low = n;
    }
    return high < MOST ? high : NAN;
}

/* Fewer signs cannot reach 5 %. */
enum { FEWEST = 6 };

/* ---- a mean ---- */

/* Standard errors that a two-sided 5 % test needs to find an effect with the wanted power. */
static double errors_wanted(double dof) { return student_quantile(1 - LEVEL / 2, dof) + student_quantile(POWER, dof); }

/* Sums of `blocks` runs of neighbours, sizes equal up to one. */
static void sum_blocks(double *sum, double *mean, const double *x, int n, int blocks)
{
    for (int b = 0; b < blocks; b++) {
        int from = (int)((int64_t)n * b / blocks), to = (int)((int64_t)n * (b + 1) / blocks);
        sum[b] = 0;
        for (int i = from; i < to; i++)
            sum[b] += x[i];
        mean[b] = sum[b] / (to - from);
    }
}

struct spread {
    double mean, deviation; /* of one block */
};

static bool finds_mean(const void *self, int blocks)
{
    const struct spread *s = self;
    return errors_wanted(blocks - 1) * s->deviation <= fabs(s->mean) * sqrt(blocks);
}

static void judge_mean(struct bias_test *out, const double *mean, int blocks, int block)
{
    double centre = 0, squares = 0;
    for (int b = 0; b < blocks; b++)
        centre += mean[b] / blocks;
    for (int b = 0; b < blocks; b++)
        squares += (mean[b] - centre) * (mean[b] - centre);
    double variance = squares / (blocks - 1), error = sqrt(variance / blocks);
    double half = student_quantile(1 - LEVEL, blocks - 1) * error;
    out->low = out->estimate - half;
    out->high = out->estimate + half;
    out->t = error > 0 ? out->estimate / error : NAN;
    out->detectable = errors_wanted(blocks - 1) * error;
    const struct spread spread = {out->estimate, sqrt(variance)};
    out->needed = out->estimate == 0 ? NAN : block * smallest_enough(finds_mean, &spread, FEWEST);
}

status bias_mean(struct bias_test *out, const double *x, int n, int block)
{
    int blocks = n / block;
    *out = unknown();
    if (blocks < 3 || !all_finite(x, n))
        return OK;
    double *sum = malloc(2 * (size_t)blocks * sizeof *sum);
    if (!sum)
        return FAIL(ERR_MEMORY, "no memory for %d blocks", blocks);
    sum_blocks(sum, sum + blocks, x, n, blocks);
    out->estimate = 0;
    for (int i = 0; i < n; i++)
        out->estimate += x[i] / n;
    judge_mean(out, sum + blocks, blocks, block);
    status st = flip(&out->p, sum, blocks, 1);
    free(sum);
    return st;
}

/* ---- a constant part ---- */

/* s_i . s_j, and the sums of its rows without their diagonal. */
struct products {
    double *at, *row; /* (n * n), (n) */
    int n;
    double total;
};

static status multiply(struct products *g, const double *s, int n, int k)
{
    *g = (struct products){calloc((size_t)n * (size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double)), n, 0};
    if (!g->at || !g->row) {
        free(g->at);
        free(g->row);
        return FAIL(ERR_MEMORY, "no memory for the products of %d sketches", n);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double product = dot(s + (size_t)i * (size_t)k, s + (size_t)j * (size_t)k, k);
            g->at[i * n + j] = product;
            g->row[i] += i == j ? 0 : product;
        }
    for (int i = 0; i < n; i++)
        g->total += g->row[i];
    return OK;
}

/* Mean square of the products of two different errors, freed from what they share: what a product is by chance. */
static double chance_square(const struct products *g)
{
    int n = g->n;
    double squares = 0, grand = 0, *full = g->row;
    for (int i = 0; i < n; i++)
        grand += (full[i] + g->at[i * n + i]) / n / n;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double left = (full[i] + g->at[i * n + i]) / n, right = (full[j] + g->at[j * n + j]) / n;
            double product = g->at[i * n + j] - left - right + grand;
            squares += i == j ? 0 : product * product;
        }
    return squares / n / (n - 1);
}

/* Squared size and its interval, in units of the mean of scale_square, by leaving out one audit after another. */
static void jackknife(struct bias_test *out, const struct products *g, const double *scale_square, double scale, int k)
{
    int n = g->n;
    double mean = 0, squares = 0, error;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            double square = (g->total - 2 * g->row[i]) / (n - 1) / (n - 2);
            double without = square * (n - 1) / (scale - scale_square[i]);
            if (pass == 0)
                mean += without / n;
            else
                squares += (without - mean) * (without - mean);
        }
    out->estimate = g->total / (n - 1) / scale; /* total / (n (n - 1)) over the mean scale / n */
    error = sqrt(squares * (n - 1) / n + 2.0 / k * out->estimate * out->estimate);
    out->low = out->estimate - student_quantile(1 - LEVEL, n - 1) * error;
    out->high = out->estimate + student_quantile(1 - LEVEL, n - 1) * error;
}

static double length(double square) { return square < 0 ? 0 : sqrt(square); }

/* What chance does to the squared size. */
struct chance {
    double square; /* of a product of two errors */
    double square_found;
    int k;
};

/* The smallest U with U >= z_0.95 s + z_0.8 sqrt(4 v U / n + s^2): s is the deviation of the estimate without a constant
 * part, v the variance of an error along one that is there, taken as equal in all k directions. */
static double detectable_square(const struct chance *c, int n)
{
    double s_s = 2 * c->square / n / (n - 1), v = sqrt(c->square / c->k);
    double a = student_quantile(1 - LEVEL, n - 1) * sqrt(s_s), z = student_quantile(POWER, n - 1);
    double half = a + 2 * z * z * v / n;
    return half + sqrt(half * half - a * a + z * z * s_s);
}

static bool finds_constant(const void *self, int n)
{
    const struct chance *c = self;
    return detectable_square(c, n) <= c->square_found;
}

static void judge_constant(struct bias_test *out, const struct products *g, const double *scale_square, int k)
{
    int n = g->n;
    double scale = 0;
    const struct chance chance = {chance_square(g), g->total / n / (n - 1), k};
    for (int i = 0; i < n; i++)
        scale += scale_square[i];
    if (chance.square_found > 0)
        out->needed = smallest_enough(finds_constant, &chance, FEWEST);
    if (!(scale > 0))
        return;
    jackknife(out, g, scale_square, scale, k);
    out->estimate = length(out->estimate);
    out->low = length(out->low);
    out->high = length(out->high);
    out->detectable = sqrt(detectable_square(&chance, n) * n / scale);
}

status bias_constant(struct bias_test *out, const double *s, int n, int k, const double *scale_square)
{
    struct products g;
    *out = unknown();
    if (n < 3 || !all_finite(s, n * k))
        return OK;
    TRY(multiply(&g, s, n, k));
    judge_constant(out, &g, scale_square, k);
    free(g.at);
    free(g.row);
    return flip(&out->p, s, n, k);
}

/* ---- several tests ---- */

void bias_holm(struct bias_test *const *test, int count)
{
    int made = 0;
    for (int i = 0; i < count; i++)
        made += !isnan(test[i]->p);
    /* The largest of (made - rank) p over all p up to one's own; ties share their lowest rank. */
    for (int i = 0; i < count; i++) {
        double largest = 0;
        for (int j = 0; j < count; j++) {
            int rank = 0;
            for (int l = 0; l < count; l++)
                rank += test[l]->p < test[j]->p;
            if (test[j]->p <= test[i]->p)
                largest = fmax(largest, fmin(1, (made - rank) * test[j]->p));
        }
        test[i]->adjusted = isnan(test[i]->p) ? NAN : largest;
    }
}
