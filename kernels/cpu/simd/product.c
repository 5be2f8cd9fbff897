#include "kernels/cpu/simd/product.h"

/* Register tiles: with 32 registers 14 x 2 sums, two of B and a spare; with 16, 6 x 1 pairs likewise. Plain C keeps
 * one row of sums in memory whatever we do. */
#if defined __AVX512F__
enum { TILE_ROWS = 14, TILE_VECTORS = 2 };
#elif defined __AVX2__
enum { TILE_ROWS = 6, TILE_VECTORS = 1 };
#else
enum { TILE_ROWS = 4, TILE_VECTORS = 1 };
#endif

struct tile {
    const float *a, *b;
    float *c;
    int64_t k, a_step, b_step, c_step;
    bool add, resume;
};

static inline __attribute__((always_inline)) void take_sums(vf sum[TILE_ROWS][TILE_VECTORS], const int rows,
                                                            const int vectors, const struct tile *t)
{
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[i][v] = vf_load(t->c + i * t->c_step + v * LANES);
}

/* rows, vectors and by_rows are constants where this is expanded, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply(const int rows, const int vectors, const bool by_rows,
                                                           const struct tile *t)
{
    vf sum[TILE_ROWS][TILE_VECTORS];
    const float *b = t->b, *group = t->a;
    const int64_t a_step = by_rows ? 1 : t->a_step, b_step = t->b_step, longest = by_rows ? PANEL : t->k;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[i][v] = vf_zero();
    if (t->resume)
        take_sums(sum, rows, vectors, t);
    for (int64_t left = t->k; left > 0; left -= longest, group += t->a_step) {
        const float *a = group;
        for (int64_t p = left < longest ? left : longest; p > 0; p--) {
            vf line[TILE_VECTORS];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                line[v] = vf_load(b + v * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                vf x = vf_set(a[by_rows ? i * PANEL : i]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++)
                    sum[i][v] = vf_fma(x, line[v], sum[i][v]);
            }
            a += a_step;
            b += b_step;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *c = t->c + i * t->c_step + v * LANES;
            vf_store(c, vf_add(t->add ? vf_load(c) : vf_zero(), sum[i][v]));
        }
}

/* One expansion of `multiply` for each number of rows. */
static inline __attribute__((always_inline)) void multiply_rows(int rows, const int vectors, const bool by_rows,
                                                                const struct tile *t)
{
#define CASE(n)                                                        \
    case n:                                                            \
        multiply(n <= TILE_ROWS ? n : TILE_ROWS, vectors, by_rows, t); \
        break;
    switch (rows) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
        CASE(9)
        CASE(10)
        CASE(11)
        CASE(12)
        CASE(13)
        CASE(14)
    }
#undef CASE
}

static void multiply_columns_1(int rows, const struct tile *t) { multiply_rows(rows, 1, false, t); }
static void multiply_columns_2(int rows, const struct tile *t) { multiply_rows(rows, TILE_VECTORS, false, t); }
static void multiply_rows_1(int rows, const struct tile *t) { multiply_rows(rows, 1, true, t); }
static void multiply_rows_2(int rows, const struct tile *t) { multiply_rows(rows, TILE_VECTORS, true, t); }

void NAME(product)(const struct product *p)
{
    static void (*const variants[2][2])(int rows, const struct tile *t) = {
        {multiply_columns_1, multiply_columns_2},
        {multiply_rows_1, multiply_rows_2},
    };
    if (p->rounding == ROUND_TRUNCATE) {
        NAME(product_truncating)(p);
        return;
    }
    const int tile_width = p->width < TILE_VECTORS * LANES ? p->width : TILE_VECTORS * LANES;
    const int64_t tiles = (p->rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = p->rows * i / tiles, count = p->rows * (i + 1) / tiles - first;
        for (int column = 0; column < p->width; column += tile_width) {
            const struct tile t = {
                .a = p->a + (p->a_by_rows ? first * PANEL : first),
                .b = p->b + column,
                .c = p->c + first * p->c_step + column,
                .k = p->k,
                .a_step = p->a_step,
                .b_step = p->b_step,
                .c_step = p->c_step,
                .add = p->add,
                .resume = p->resume,
            };
            variants[p->a_by_rows][tile_width > LANES]((int)count, &t);
        }
    }
}
