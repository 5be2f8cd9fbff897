/* When a pair that still runs may be stopped. */
#include <math.h>
#include <string.h>

#include "stages/sequential.h"
#include "tests/suite.h"
#include "tests/verdict/noise.h"

enum { STEPS = 1000 };

static double x[STEPS];

/* Feeds steps 1 to `steps` of a window over all STEPS. */
static struct sequential feed(double gap, int steps)
{
    struct sequential s;
    sequential_start(&s, GAP_DIFFERENCE, 0.01, 1, STEPS);
    for (int i = 0; i < steps; i++)
        sequential_feed(&s, i + 1, 2, 2 + gap + x[i]);
    return s;
}

static void make_noise(double error) { noise_fill(x, STEPS, &(struct shape){.name = "AR", .rho = 0.5}, error, 11); }

/* sqrt((t + t0)(ln(1 + t / t0) + 2 ln 20)) / t at t = 100 of 400: t0 = 400 / (2 ln 20 + ln(1 + 2 ln 20)). The mixture of
 * likelihood ratios, integrated by scipy 1.17.1, reaches 20 at 100 times this: `make crosscheck`. */
START_TEST(half_width_equals_other_implementation)
{
    ck_assert_double_eq_tol(sequential_half(100, 400), 0.326429337182641, 1e-14);
}
END_TEST

START_TEST(large_gap_stops_early)
{
    make_noise(0.002);
    struct sequential s = feed(0.05, STEPS);
    ck_assert_int_eq(s.decision, SEQUENTIAL_DIVERGED);
    ck_assert_int_ge(s.decided_at, 32); /* not before half of the batches are there */
    ck_assert_int_lt(s.decided_at, STEPS / 2);
    ck_assert_double_gt(s.mean - s.half, 0.01);
}
END_TEST

START_TEST(no_gap_is_never_equivalent)
{
    make_noise(0.0005);
    struct sequential s = feed(0, STEPS);
    ck_assert_int_eq(s.decision, SEQUENTIAL_GO_ON);
    ck_assert_int_eq(s.fed, STEPS);
    ck_assert_double_lt(s.half, 0.01);
}
END_TEST

START_TEST(hopeless_noise_is_futile)
{
    make_noise(0.1);
    struct sequential s = feed(0, STEPS);
    ck_assert_int_eq(s.decision, SEQUENTIAL_FUTILE);
    ck_assert_str_eq(decision_name(s.decision), "futile");
}
END_TEST

/* After a restart the metrics so far are fed again: the state is the same, byte for byte, whatever was before. */
START_TEST(state_is_restored_from_the_metrics)
{
    make_noise(0.002);
    for (int steps = 1; steps < STEPS; steps += 97) {
        struct sequential first = feed(0.005, steps), again;
        memset(&again, 0xa5, sizeof again);
        sequential_start(&again, GAP_DIFFERENCE, 0.01, 1, STEPS);
        for (int i = 0; i < steps; i++)
            sequential_feed(&again, i + 1, 2, 2.005 + x[i]);
        ck_assert_mem_eq(&first, &again, sizeof first);
    }
}
END_TEST

/* Neighbours are joined when 64 batches are full: nothing fed is lost, and the length is a power of two. */
START_TEST(batches_hold_everything_that_was_fed)
{
    make_noise(0.002);
    for (int steps = 1; steps <= STEPS; steps += 13) {
        struct sequential s = feed(0, steps);
        double sum = s.open;
        for (int i = 0; i < s.batches; i++)
            sum += s.batch[i];
        ck_assert_double_eq_tol(sum, s.sum, 1e-12);
        ck_assert_int_lt(s.batches, SEQUENTIAL_BATCHES);
        ck_assert_int_eq(s.batches, steps / s.batch_length);
    }
}
END_TEST

/* What comes before the window counts for nothing but a value that is not finite. */
START_TEST(steps_before_the_window_are_left_out)
{
    struct sequential s;
    sequential_start(&s, GAP_DIFFERENCE, 0.01, 500, STEPS);
    for (int i = 1; i < 500; i++)
        ck_assert_int_eq(sequential_feed(&s, i, 2, 3), SEQUENTIAL_GO_ON);
    ck_assert_int_eq(s.fed, 0);
    ck_assert_int_eq(sequential_feed(&s, 500, 2, NAN), SEQUENTIAL_DIVERGED);
    ck_assert_int_eq(s.decided_at, 500);
    ck_assert_int_eq(sequential_feed(&s, 501, 2, 2), SEQUENTIAL_DIVERGED); /* it stays */
    sequential_start(&s, GAP_DIFFERENCE, 0.01, 500, STEPS);
    ck_assert_int_eq(sequential_feed(&s, 3, 2, INFINITY), SEQUENTIAL_DIVERGED);
}
END_TEST

START_TEST(baseline_that_diverged_is_futile)
{
    struct sequential s;
    sequential_start(&s, GAP_DIFFERENCE, 0.01, 1, STEPS);
    ck_assert_int_eq(sequential_feed(&s, 1, NAN, NAN), SEQUENTIAL_FUTILE);
    sequential_start(&s, GAP_LOG_RATIO, 0.05, 1, STEPS);
    ck_assert_int_eq(sequential_feed(&s, 1, 0, 1), SEQUENTIAL_FUTILE);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {half_width_equals_other_implementation, 1},
        {large_gap_stops_early, 1},
        {no_gap_is_never_equivalent, 1},
        {hopeless_noise_is_futile, 1},
        {state_is_restored_from_the_metrics, 1},
        {batches_hold_everything_that_was_fed, 1},
        {steps_before_the_window_are_left_out, 1},
        {baseline_that_diverged_is_futile, 1},
    };
    return suite_run("sequential", tests, COUNT(tests));
}
