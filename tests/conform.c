#include "tests/conform.h"

#include <math.h>

#include "kernels/element.h"

/* The first is the one that others are held against, and it is called once more at the end. */
static const struct {
    const char *isa; /* NULL: the machine's choice */
    int threads;
} ways[] = {{NULL, 2}, {NULL, 1}, {NULL, 3}, {"avx512", 2}, {"avx2", 2}, {"scalar", 2}, {NULL, 2}};

enum { WAYS = COUNT(ways), OUTPUTS = 8 };

static struct device *reference, *cpu[WAYS]; /* NULL where the machine lacks the instruction set */

static void open_devices(void)
{
    if (reference)
        return;
    ck_ok(device_open(&reference, "reference", 1, 0));
    for (int i = 0; i < WAYS; i++)
        cpu[i] = case_cpu(ways[i].isa, ways[i].threads);
}

void conform_close(void)
{
    device_close(reference);
    reference = NULL;
    for (int i = 0; i < WAYS; i++) {
        device_close(cpu[i]);
        cpu[i] = NULL;
    }
}

struct device *conform_cpu(void)
{
    open_devices();
    return cpu[0];
}

struct device *conform_reference(void)
{
    open_devices();
    return reference;
}

struct view bound_of(int64_t rows, int64_t cols, double value)
{
    const struct view bound = case_view(F64, rows, cols);
    case_fill(&bound, value);
    return bound;
}

static void run(const char *name, op_call *call, struct device *d, const void *self, const struct output *output,
                int count, struct view *out)
{
    for (int i = 0; i < count; i++) {
        const bool wide = d == reference && output[i].bound;
        const enum dtype type = wide ? F64 : output[i].type;
        out[i] = output[i].start ? case_copy(output[i].start, type) : case_view(type, output[i].rows, output[i].cols);
    }
    const status st = call(d, self, out);
    ck_assert_msg(st == OK, "%s on %s: %s", name, d->ops->name, status_text());
    for (int i = 0; i < count; i++)
        ck_assert_msg(case_guards_intact(&out[i]), "%s on %s wrote beside output %d", name, d->ops->name, i);
}

/* Half the distance between stored numbers around `value`: relative for normal ones, absolute for denormal ones. */
static double half_unit(enum dtype type, double value)
{
    return type == BF16 ? fmax(0x1p-8 * fabs(value), 0x1p-134) : fmax(0x1p-24 * fabs(value), 0x1p-150);
}

static void hold_against(const char *name, int index, const struct view *got, const struct view *expected,
                         const struct view *bound)
{
    for (int64_t r = 0; r < got->rows; r++)
        for (int64_t c = 0; c < got->cols; c++) {
            const double value = element_load(got, r, c), exact = element_load(expected, r, c);
            const double error = element_load(bound, r, c);
            const double allowed = error + half_unit(got->type, fabs(exact) + error);
            /* Not an assertion per element: Check writes a message to a file for each one that holds. */
            if (value != exact && !(isfinite(exact) && fabs(value - exact) <= allowed))
                ck_abort_msg("%s: output %d (%d,%d) is %.9g, reference %.9g, off by %.3g of the allowed %.3g", name,
                             index, (int)r, (int)c, value, exact, value - exact, allowed);
        }
}

void conform(const char *name, op_call *call, const void *self, const struct output *output, int count)
{
    struct view expected[OUTPUTS], first[OUTPUTS], again[OUTPUTS];
    ck_assert_int_le(count, OUTPUTS);
    open_devices();
    run(name, call, reference, self, output, count, expected);
    run(name, call, cpu[0], self, output, count, first);
    for (int w = 1; w < WAYS; w++) {
        if (!cpu[w])
            continue;
        run(name, call, cpu[w], self, output, count, again);
        for (int i = 0; i < count; i++)
            ck_assert_msg(case_differing(&first[i], &again[i]) == 0,
                          "%s: output %d has other bits with %d threads on %s than with %d on the widest set", name, i,
                          ways[w].threads, ways[w].isa ? ways[w].isa : "the widest set", ways[0].threads);
    }
    for (int i = 0; i < count; i++)
        if (output[i].bound)
            hold_against(name, i, &first[i], &expected[i], output[i].bound);
        else
            ck_assert_msg(case_differing(&first[i], &expected[i]) == 0, "%s: output %d is not the reference's", name,
                          i);
}
