/* Sums of products, as plan.h rounds them. */
#include <math.h>

#include "kernels/element.h"
#include "kernels/reference/reference.h"

static float plain_sum(float sum, const float *term, int count)
{
    for (int i = 0; i < count; i++)
        sum += term[i];
    return sum;
}

/* What is left of a whole number of quanta in a binary32 number: its 24 leading bits. */
static double leading_bits(double whole)
{
    int exponent;
    frexp(whole, &exponent);
    const int lost = exponent > 24 ? exponent - 24 : 0;
    return ldexp(trunc(ldexp(whole, -lost)), lost);
}

/* Quanta are counted in double: at most 17 times 2^26 of them, so all of this is exact. */
static float truncated_sum(float sum, const float *term, int count)
{
    float largest = fabsf(sum);
    int exponent;
    for (int i = 0; i < count; i++) {
        if (!isfinite(term[i]) || !isfinite(sum))
            return plain_sum(sum, term, count);
        largest = fmaxf(largest, fabsf(term[i]));
    }
    frexp(largest, &exponent); /* of a number in [1/2, 1) */
    const double quantum = fmax(ldexp(1, exponent - 1 - 23 - TRUNCATE_EXTRA_BITS), 0x1p-126);
    double whole = trunc(sum / quantum);
    for (int i = 0; i < count; i++)
        whole += trunc(term[i] / quantum);
    return (float)(leading_bits(whole) * quantum) + 0.0f;
}

static void end_group(struct sum *s)
{
    s->value = truncated_sum((float)s->value, s->product, s->waiting);
    s->waiting = 0;
}

void sum_add(struct sum *s, double a, double b)
{
    if (s->rounding != ROUND_TRUNCATE) {
        s->value += a * b;
        return;
    }
    s->product[s->waiting++] = (float)(a * b);
    if (s->waiting == TRUNCATE_GROUP)
        end_group(s);
}

double sum_take(struct sum *s)
{
    if (s->waiting)
        end_group(s);
    const double value = s->value;
    s->value = 0;
    return value;
}

void sum_store(const struct view *x, int64_t row, int64_t col, double value, enum plan_rounding rounding)
{
    const float rounded = (float)value;
    const bool cut = rounding == ROUND_TO_ZERO && x->type == BF16 && !isnan(rounded);
    element_store(x, row, col, cut ? (double)f32_of_bits(f32_bits(rounded) & 0xffff0000u) : value);
}
