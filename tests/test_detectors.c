/* Factors and offsets that a log explains. */
#include <math.h>
#include <string.h>

#include "stages/detectors.h"
#include "tests/suite.h"
#include "tests/verdict/noise.h"

enum { STEPS = 200, ACCUMULATION = 8 };
static const double MARGIN = 0.01;

static int64_t step[STEPS];
static double baseline[STEPS], candidate[STEPS], own[STEPS];

/* A falling loss; `own` is what the candidate would be without what its log does to it: 0.002 of noise a step. */
static void make(void)
{
    noise_fill(own, STEPS, &(struct shape){.name = "AR", .rho = 0.5}, 0.0003, 3);
    for (int i = 0; i < STEPS; i++) {
        step[i] = 1 + i;
        baseline[i] = 2 + 3 * exp(-i / 60.0);
        own[i] += baseline[i];
    }
}

static struct likeness find(enum gap_kind kind, double margin, double resolution)
{
    struct likeness likeness;
    struct paired_series series = {STEPS, step, baseline, candidate, resolution};
    ck_ok(likeness_find(&likeness, &series, kind, ACCUMULATION, margin));
    return likeness;
}

static const struct {
    enum gap_kind kind;
    double factor, offset;
    const char *words;
} rows[] = {
    {GAP_DIFFERENCE, 2, 0, "a factor of 2; check whether it is summed over 2 ranks"},
    {GAP_DIFFERENCE, 0.5, 0, "a factor of 2, the other way round"},
    {GAP_DIFFERENCE, 4, 0, "a factor of 4"},
    {GAP_DIFFERENCE, ACCUMULATION, 0, "the number of accumulated micro-batches"},
    {GAP_DIFFERENCE, 1 / M_LN2, 0, "nats against bits (a factor of ln 2), the other way round"},
    {GAP_DIFFERENCE, M_LN2, 0, "nats against bits"},
    {GAP_DIFFERENCE, 1, M_LN2, "an offset of ln 2"},
    {GAP_DIFFERENCE, 1, -M_LN2, "an offset of ln 2, the other way round"},
    {GAP_DIFFERENCE, 1, 0.31, "a constant offset of +0.3"},
    {GAP_LOG_RATIO, M_SQRT2, 0, "the square root of 2"},
    {GAP_LOG_RATIO, 2, 0, "a factor of 2"},
    {GAP_LOG_RATIO, 2.8284271247461903, 0, "the square root of the accumulated micro-batches"},
};

START_TEST(factors_and_offsets_are_named)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = own[i] * rows[_i].factor + rows[_i].offset;
    struct likeness likeness = find(rows[_i].kind, MARGIN, 0);
    ck_assert_int_eq(likeness.kind, rows[_i].offset != 0 ? LIKENESS_OFFSET : LIKENESS_FACTOR);
    ck_contains(likeness.text, rows[_i].words);
    ck_assert(!likeness.exact);
    ck_assert_double_gt(likeness.low, -MARGIN);
    ck_assert_double_lt(likeness.high, MARGIN);
}
END_TEST

START_TEST(exact_doubling_is_called_exact)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = 2 * baseline[i];
    struct likeness likeness = find(GAP_DIFFERENCE, MARGIN, 0);
    ck_assert_int_eq(likeness.kind, LIKENESS_FACTOR);
    ck_assert_double_eq(likeness.value, 2);
    ck_assert(likeness.exact);
    ck_contains(likeness.text, "exact at every step");
}
END_TEST

/* A real difference is like nothing: a gap that grows, one that begins later, a factor of 2.02. */
START_TEST(differences_of_training_are_like_nothing)
{
    make();
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < STEPS; i++) {
            double grown = 0.3 * i / STEPS, late = i < 100 ? 0 : 0.3;
            candidate[i] = kind == 0 ? own[i] + grown : kind == 1 ? own[i] + late : 2.02 * own[i];
        }
        struct likeness likeness = find(GAP_DIFFERENCE, MARGIN, 0);
        ck_assert_msg(likeness.kind == LIKENESS_NONE, "%d: %s", kind, likeness.text);
        ck_assert_str_eq(likeness.text, "");
    }
}
END_TEST

/* An offset within the margin is none, and one beside a loss that does not move cannot be told from anything else. */
START_TEST(offsets_need_something_to_be_told_by)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = own[i] + 0.005;
    ck_assert_int_eq(find(GAP_DIFFERENCE, MARGIN, 0).kind, LIKENESS_NONE);
    for (int i = 0; i < STEPS; i++) {
        candidate[i] = own[i] - baseline[i] + 2.3;
        baseline[i] = 2;
    }
    ck_assert_int_eq(find(GAP_DIFFERENCE, MARGIN, 0).kind, LIKENESS_NONE);
}
END_TEST

/* Twice a loss that was printed to 0.1, each value off by up to half a digit in the same direction: without the
 * resolution the margin is too narrow for that. */
START_TEST(printed_digits_widen_the_tolerance)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = 2 * baseline[i] + 0.04 + 1e-4 * sin(i);
    ck_assert_int_eq(find(GAP_DIFFERENCE, MARGIN, 0).kind, LIKENESS_NONE);
    ck_assert_int_eq(find(GAP_DIFFERENCE, MARGIN, 0.1).kind, LIKENESS_FACTOR);
}
END_TEST

START_TEST(what_is_not_finite_is_like_nothing)
{
    make();
    for (int i = 0; i < STEPS; i++)
        candidate[i] = 2 * own[i];
    candidate[7] = INFINITY;
    ck_assert_int_eq(find(GAP_DIFFERENCE, MARGIN, 0).kind, LIKENESS_NONE);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {factors_and_offsets_are_named, COUNT(rows)},  {exact_doubling_is_called_exact, 1},
        {differences_of_training_are_like_nothing, 1}, {offsets_need_something_to_be_told_by, 1},
        {printed_digits_widen_the_tolerance, 1},       {what_is_not_finite_is_like_nothing, 1},
    };
    return suite_run("detectors", tests, COUNT(tests));
}
