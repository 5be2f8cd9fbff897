/* The tests of a gradient's error over audits: small cases by hand, p-values under noise, sizes that were planted. */
#include <math.h>
#include <stdlib.h>

#include "stages/bias.h"
#include "tests/audit_arrays.h"
#include "tests/suite.h"

static void is_near(double value, double expected, double tolerance)
{
    ck_assert_msg(fabs(value - expected) <= tolerance, "%.12g, expected %.12g +- %g", value, expected, tolerance);
}

/* ---- by hand ---- */

/* Signs of (1, 2, 3), all but turned ones: 6, 4 (with -1), 2, 0. */
START_TEST(mean_by_hand)
{
    struct bias_test t;
    const double x[] = {1, 2, 3};
    ck_ok(bias_mean(&t, x, 3, 1));
    is_near(t.estimate, 2, 1e-12);
    is_near(t.t, 2 / sqrt(1.0 / 3), 1e-12);
    is_near(t.p, 1.0 / 4, 0);
    /* t quantile 0.95 with 2 degrees of freedom: 2.91998558 */
    is_near(t.high - t.estimate, 2.91998558 * sqrt(1.0 / 3), 1e-7);
    is_near(t.estimate - t.low, 2.91998558 * sqrt(1.0 / 3), 1e-7);
}
END_TEST

/* Blocks of 2: the sums are 1, 2, 3 again, and neighbours keep their signs. */
START_TEST(blocks_flip_together)
{
    struct bias_test t;
    const double x[] = {3, -2, -5, 7, 1, 2};
    ck_ok(bias_mean(&t, x, 6, 2));
    is_near(t.estimate, 1, 1e-12);
    is_near(t.p, 1.0 / 4, 0);
    is_near(t.t, 1 / (0.5 / sqrt(3)), 1e-12);
    ck_assert_int_eq(bias_block(1), 1);
    ck_assert_int_eq(bias_block(7), 1);
    ck_assert_int_eq(bias_block(16), 2);
    ck_assert_int_eq(bias_block(26), 2);
    ck_assert_int_eq(bias_block(27), 3);
}
END_TEST

START_TEST(constant_by_hand)
{
    struct bias_test t;
    /* Products of different audits: (1,0) (1,1) (1,-1) give 1, 1, 0: 4 / 6. Scale: the mean of 1, 2, 3. */
    const double s[] = {1, 0, 1, 1, 1, -1}, scale[] = {1, 2, 3};
    ck_ok(bias_constant(&t, s, 3, 2, scale));
    is_near(t.estimate, sqrt(4.0 / 6 / 2), 1e-12);
    /* Squared sums under the signs +++ ++- +-+ -++: 9, 5, 5, 1. */
    is_near(t.p, 1.0 / 4, 0);
    /* Equal errors: every product is 1, leaving one out changes nothing, and only the sketch's own error is left. */
    const double equal[] = {1, 0, 1, 0, 1, 0}, one[] = {1, 1, 1};
    ck_ok(bias_constant(&t, equal, 3, 2, one));
    is_near(t.estimate, 1, 1e-12);
    is_near(t.high, sqrt(1 + 2.91998558 * sqrt(2.0 / 2)), 1e-7);
    is_near(t.low, 0, 0);
    is_near(t.p, 1.0 / 4, 0);
    is_near(t.detectable, 0, 1e-6);
}
END_TEST

START_TEST(no_error_is_no_bias)
{
    struct bias_test t;
    const double zero[16] = {0}, one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    ck_ok(bias_mean(&t, zero, 16, 1));
    is_near(t.p, 1, 0);
    is_near(t.estimate, 0, 0);
    ck_ok(bias_constant(&t, zero, 16, 1, one));
    is_near(t.p, 1, 0);
    is_near(t.estimate, 0, 0);
    ck_assert(isnan(t.needed));
}
END_TEST

START_TEST(what_is_not_known_is_nan)
{
    struct bias_test t;
    const double x[] = {1, NAN, 3, 4}, s[] = {1, 2, INFINITY, 4}, scale[] = {1, 1, 1, 1}, none[] = {0, 0, 0, 0};
    ck_ok(bias_mean(&t, x, 4, 1));
    ck_assert(isnan(t.p) && isnan(t.estimate) && isnan(t.low));
    ck_ok(bias_mean(&t, scale, 2, 1));
    ck_assert(isnan(t.p));
    ck_ok(bias_mean(&t, scale, 4, 2));
    ck_assert(isnan(t.p));
    ck_ok(bias_constant(&t, s, 4, 1, scale));
    ck_assert(isnan(t.p) && isnan(t.estimate));
    ck_ok(bias_constant(&t, scale, 4, 1, none));
    ck_assert(isnan(t.estimate) && isnan(t.low) && isnan(t.high) && isnan(t.detectable));
    is_near(t.p, 1.0 / 8, 0);
}
END_TEST

/* 0.01, 0.03, 0.03 and 0.04 of four, one not made: 4 x 0.01; 3 x 0.03, twice; no less for 0.04. */
START_TEST(holm_by_hand)
{
    struct bias_test t[] = {{.p = 0.03}, {.p = 0.01}, {.p = NAN}, {.p = 0.04}, {.p = 0.03}, {.p = 0.9}};
    struct bias_test *all[] = {&t[0], &t[1], &t[2], &t[3], &t[4]};
    bias_holm(all, 5);
    is_near(t[1].adjusted, 0.04, 1e-15);
    is_near(t[0].adjusted, 0.09, 1e-15);
    is_near(t[4].adjusted, 0.09, 1e-15);
    is_near(t[3].adjusted, 0.09, 1e-15);
    ck_assert(isnan(t[2].adjusted));
    struct bias_test *one[] = {&t[5]};
    bias_holm(one, 1);
    is_near(t[5].adjusted, 0.9, 0);
}
END_TEST

/* ---- calibration ---- */

enum { SETS = 400, WIDTH = 32, MOST = 24 };

/* Of `count` p-values as many at most `level` as chance allows: within 4 standard deviations. */
static void is_uniform(const double *p, int count)
{
    static const double levels[] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9};
    for (int l = 0; l < COUNT(levels); l++) {
        int below = 0;
        for (int i = 0; i < count; i++)
            below += p[i] <= levels[l];
        double expected = levels[l] * count, most = 4 * sqrt(expected * (1 - levels[l]));
        ck_assert_msg(fabs(below - expected) <= most, "%d of %d p-values up to %g, expected %g +- %g", below, count,
                      levels[l], expected, most);
    }
}

/* Errors of very different lengths: sign flips do not mind. n = 10 tries all signs, n = 24 draws some. */
static void draw_errors(double *s, double *scale, int n, uint32_t set, double constant)
{
    for (int i = 0; i < n; i++) {
        double length = exp(0.5 * audit_normal(set, (uint64_t)(1000000 + i)));
        for (int k = 0; k < WIDTH; k++)
            s[i * WIDTH + k] = length * audit_normal(set, (uint64_t)(i * WIDTH + k)) + (k == 3 ? constant : 0);
        scale[i] = 1;
    }
}

static const int sizes[] = {10, MOST};

START_TEST(p_values_of_noise_are_uniform)
{
    double s[MOST * WIDTH], scale[MOST], constant[SETS], mean[SETS];
    int sets = _i ? SETS / 10 : SETS; /* drawing signs takes long under the sanitizers */
    for (int set = 0; set < sets; set++) {
        struct bias_test t;
        draw_errors(s, scale, sizes[_i], (uint32_t)set, 0);
        ck_ok(bias_constant(&t, s, sizes[_i], WIDTH, scale));
        constant[set] = t.p;
        ck_ok(bias_mean(&t, s, sizes[_i], 1));
        mean[set] = t.p;
    }
    is_uniform(constant, sets);
    is_uniform(mean, sets);
}
END_TEST

/* Errors of length sqrt(WIDTH) that share a vector of length 2. 90 % intervals hold the truth in 80 % of the sets at least:
 * the jackknife's are approximate. The sketch's own error is in them and not in these data, so they may hold it more often. */
START_TEST(size_of_a_constant_part_is_recovered)
{
    enum { N = 20, TRIED = 200 };
    double s[N * WIDTH], scale[N], squares = 0;
    int held = 0, found = 0;
    for (uint32_t set = 0; set < TRIED; set++) {
        struct bias_test t;
        for (int i = 0; i < N * WIDTH; i++)
            s[i] = audit_normal(set, (uint64_t)i) + (i % WIDTH == 3 ? 2 : 0);
        for (int i = 0; i < N; i++)
            scale[i] = 1;
        ck_ok(bias_constant(&t, s, N, WIDTH, scale));
        squares += t.estimate * t.estimate / TRIED;
        held += t.low <= 2 && t.high >= 2;
        found += t.p <= 0.05;
    }
    /* Unbiased: one estimate of the square has a standard deviation of about 1. */
    is_near(squares, 4, 4 / sqrt(TRIED));
    ck_assert_msg(held >= 0.8 * TRIED, "the interval held the size in %d of %d sets", held, TRIED);
    ck_assert_int_eq(found, TRIED);
}
END_TEST

/* With as many audits as one set says are needed, most other sets find it: 80 % wanted, 65 % to 95 % allowed, because the
 * number rests on an estimate. */
START_TEST(power_is_what_was_promised)
{
    enum { N = 16, TRIED = 200 };
    double s[N * WIDTH], x[N], scale[N];
    int constant = 0, mean = 0;
    /* size^2 = 1.753 s + 0.866 sqrt(4 size^2 / N + s^2) with s^2 = 2 WIDTH / (N (N - 1)); (2.131 + 0.866) / sqrt(N) for the
     * mean: t quantiles of 15 degrees of freedom. */
    double size = sqrt(1.614), shift = 2.997 / sqrt(N);
    double needed = 0, detectable = 0;
    for (uint32_t set = 0; set < TRIED; set++) {
        struct bias_test t;
        for (int i = 0; i < N * WIDTH; i++)
            s[i] = audit_normal(set, (uint64_t)i) + (i % WIDTH == 3 ? size : 0);
        for (int i = 0; i < N; i++) {
            x[i] = audit_normal(set, (uint64_t)(1000000 + i)) + shift;
            scale[i] = 1;
        }
        ck_ok(bias_constant(&t, s, N, WIDTH, scale));
        constant += t.p <= 0.05;
        detectable += t.detectable / TRIED;
        ck_ok(bias_mean(&t, x, N, 1));
        mean += t.p <= 0.05;
        needed += fmin(t.needed, 200) / TRIED;
    }
    ck_assert_msg(constant >= 0.65 * TRIED && constant <= 0.95 * TRIED, "found %d of %d", constant, TRIED);
    ck_assert_msg(mean >= 0.65 * TRIED && mean <= 0.95 * TRIED, "found %d of %d", mean, TRIED);
    is_near(detectable, size, 0.1 * size);
    ck_assert_msg(needed >= N / 2 && needed <= 4 * N, "%g audits needed on average", needed);
}
END_TEST

/* e = -0.01 g with directions that change from audit to audit: no constant part, and a gain that is the same every time. */
START_TEST(gain_is_found_where_the_constant_part_is_not)
{
    enum { N = 16, TRIED = 40 };
    double s[N * WIDTH], gain[N], scale[N];
    int constant = 0, found = 0;
    for (uint32_t set = 0; set < TRIED; set++) {
        struct bias_test t;
        for (int i = 0; i < N; i++) {
            double g_g = 0, e_g = 0;
            for (int k = 0; k < WIDTH; k++) {
                double g = audit_normal(set, (uint64_t)(i * WIDTH + k)), e = -0.01 * g;
                s[i * WIDTH + k] = e;
                g_g += g * g;
                e_g += e * g;
            }
            gain[i] = e_g / g_g + 0.003 * audit_normal(set, (uint64_t)(1000000 + i));
            scale[i] = g_g;
        }
        ck_ok(bias_constant(&t, s, N, WIDTH, scale));
        constant += t.p <= 0.05;
        ck_ok(bias_mean(&t, gain, N, 1));
        found += t.p <= 0.001 && t.low < -0.01 + 0.005 && t.estimate < 0;
    }
    ck_assert_int_eq(found, TRIED);
    ck_assert_msg(constant <= 7, "the constant test found %d of %d at 5 %%", constant, TRIED);
}
END_TEST

/* Neighbours that resemble each other are not independent: with blocks, false alarms of a mean stay rare. */
START_TEST(blocks_keep_false_alarms_of_a_trajectory_rare)
{
    enum { N = 64, TRIED = 300 };
    int single = 0, blocks = 0;
    for (uint32_t set = 0; set < TRIED; set++) {
        struct bias_test t;
        double x[N], last = audit_normal(set, 9999);
        for (int i = 0; i < N; i++)
            x[i] = last = 0.5 * last + sqrt(0.75) * audit_normal(set, (uint64_t)i);
        ck_ok(bias_mean(&t, x, N, 1));
        single += t.p <= 0.05;
        ck_ok(bias_mean(&t, x, N, bias_block(N)));
        blocks += t.p <= 0.05;
    }
    ck_assert_msg(single > 0.15 * TRIED, "without blocks %d of %d false alarms", single, TRIED);
    ck_assert_msg(blocks < 0.12 * TRIED, "with blocks %d of %d false alarms", blocks, TRIED);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {mean_by_hand, 1},
        {blocks_flip_together, 1},
        {constant_by_hand, 1},
        {no_error_is_no_bias, 1},
        {what_is_not_known_is_nan, 1},
        {holm_by_hand, 1},
        {p_values_of_noise_are_uniform, COUNT(sizes)},
        {size_of_a_constant_part_is_recovered, 1},
        {power_is_what_was_promised, 1},
        {gain_is_found_where_the_constant_part_is_not, 1},
        {blocks_keep_false_alarms_of_a_trajectory_rare, 1},
    };
    return suite_run("bias", tests, COUNT(tests));
}
