#include "kernels/compare.h"

#include <math.h>

#include "kernels/element.h"

void comparison_clear(struct comparison *c) { *c = (struct comparison){.first_differing = UINT64_MAX}; }

/* One element, rounded to the unit: its value, and its bits as an integer that orders as the values do. Negative
 * numbers count down from -1, so that +0 and -0 are neighbours and the distance is 0 only between equal bits. */
struct element {
    double value;
    int64_t ordered;
};

/* The compiler makes a loop of its own for the types that occur by the million; inlining is what lets it. */
#define INLINE static inline __attribute__((always_inline))

INLINE struct element element_of(const struct view *v, int64_t row, int64_t col, enum dtype unit)
{
    const uint64_t bits = element_bits(v, row, col, unit);
    const int sign_bit = 8 * (int)dtype_bytes(unit) - 1;
    const int64_t magnitude = (int64_t)(bits & (((uint64_t)1 << sign_bit) - 1));
    const bool negative = bits >> sign_bit & 1;
    return (struct element){element_of_bits(bits, unit), negative ? -magnitude - 1 : magnitude};
}

/* 0, 1, 2, then (2^(i-2), 2^(i-1)] for bucket i >= 3, the last of them open. */
INLINE int bucket_of(uint64_t distance)
{
    int bucket = distance <= 1 ? (int)distance : 65 - __builtin_clzll(distance - 1);
    return bucket < ULP_BUCKETS - 2 ? bucket : ULP_BUCKETS - 2;
}

INLINE void add_pair(struct comparison *c, const struct element *a, const struct element *b)
{
    const uint64_t distance = a->ordered > b->ordered ? (uint64_t)a->ordered - (uint64_t)b->ordered
                                                      : (uint64_t)b->ordered - (uint64_t)a->ordered;
    c->ulp[isnan(a->value) != isnan(b->value) ? ULP_BUCKETS - 1 : bucket_of(distance)]++;
    if (distance) {
        c->larger += b->value > a->value;
        c->smaller += b->value < a->value;
        c->grown += fabs(b->value) > fabs(a->value);
        c->shrunk += fabs(b->value) < fabs(a->value);
        if (!c->differing++)
            c->first_differing = c->elements;
    }
    c->elements++;
    if (!isfinite(a->value) || !isfinite(b->value))
        return;
    const double difference = b->value - a->value;
    c->largest = fabs(difference) > c->largest ? fabs(difference) : c->largest;
    c->sum_aa += a->value * a->value;
    c->sum_bb += b->value * b->value;
    c->sum_ab += a->value * b->value;
    c->sum_dd += difference * difference;
}

INLINE void add_elements(struct comparison *c, struct view a, struct view b, enum dtype type_a, enum dtype type_b,
                         enum dtype unit)
{
    a.type = type_a;
    b.type = type_b;
    for (int64_t row = 0; row < a.rows; row++)
        for (int64_t col = 0; col < a.cols; col++) {
            const struct element left = element_of(&a, row, col, unit), right = element_of(&b, row, col, unit);
            add_pair(c, &left, &right);
        }
}

static void add_rows(struct comparison *c, const struct view *a, const struct view *b, enum dtype unit)
{
    if (a->type == BF16 && b->type == BF16 && unit == BF16)
        add_elements(c, *a, *b, BF16, BF16, BF16);
    else if (a->type == F32 && b->type == F32 && unit == F32)
        add_elements(c, *a, *b, F32, F32, F32);
    else
        add_elements(c, *a, *b, a->type, b->type, unit);
}

void comparison_join(struct comparison *c, const struct comparison *part)
{
    if (!c->differing && part->differing)
        c->first_differing = c->elements + part->first_differing;
    c->elements += part->elements;
    c->differing += part->differing;
    c->larger += part->larger;
    c->smaller += part->smaller;
    c->grown += part->grown;
    c->shrunk += part->shrunk;
    for (int i = 0; i < ULP_BUCKETS; i++)
        c->ulp[i] += part->ulp[i];
    c->largest = part->largest > c->largest ? part->largest : c->largest;
    c->sum_aa += part->sum_aa;
    c->sum_bb += part->sum_bb;
    c->sum_ab += part->sum_ab;
    c->sum_dd += part->sum_dd;
}

/* Always as many parts, joined in order: the sums do not depend on the number of threads. */
enum { PARTS = 16 };

status comparison_add(struct comparison *c, const struct view *a, const struct view *b, enum dtype unit)
{
    if (a->rows != b->rows || a->cols != b->cols)
        return FAIL(ERR_ARGUMENT, "comparison: (%lld,%lld) against (%lld,%lld), expected one shape", (long long)a->rows,
                    (long long)a->cols, (long long)b->rows, (long long)b->cols);
    if (a->type == I32 || b->type == I32 || unit == I32)
        return FAIL(ERR_ARGUMENT, "comparison: %s against %s in units of %s, expected floating-point types",
                    dtype_name(a->type), dtype_name(b->type), dtype_name(unit));
    struct comparison part[PARTS];
#pragma omp parallel for schedule(static) if (a->rows * a->cols > 1 << 14)
    for (int i = 0; i < PARTS; i++) {
        int64_t first = a->rows * i / PARTS, count = a->rows * (i + 1) / PARTS - first;
        const struct view a_rows = view_rows(a, first, count), b_rows = view_rows(b, first, count);
        comparison_clear(&part[i]);
        add_rows(&part[i], &a_rows, &b_rows, unit);
    }
    for (int i = 0; i < PARTS; i++)
        comparison_join(c, &part[i]);
    return OK;
}

double comparison_relative_l2(const struct comparison *c)
{
    if (c->sum_aa == 0)
        return c->sum_dd == 0 ? 0 : INFINITY;
    return sqrt(c->sum_dd / c->sum_aa);
}

double comparison_cosine(const struct comparison *c)
{
    if (c->sum_aa == 0 && c->sum_bb == 0)
        return 1;
    if (c->sum_aa == 0 || c->sum_bb == 0)
        return 0;
    return c->sum_ab / (sqrt(c->sum_aa) * sqrt(c->sum_bb));
}

const char *comparison_bucket_name(int bucket)
{
    static const char *const names[ULP_BUCKETS] = {
        "0",       "1",       "2",        "3-4",       "5-8",       "9-16",      "17-32",      "33-64",  "65-128",
        "129-256", "257-512", "513-1024", "1025-2048", "2049-4096", "4097-8192", "8193-16384", ">16384", "NaN"};
    return names[bucket];
}
