/* The tables of `make calibrate`, on a few series each: a method whose errors are off by much fails here. */
#include <stdlib.h>

#include "tests/suite.h"
#include "tests/verdict/calibration.h"

static void (*const tables[])(struct calibration *c) = {calibrate_pairs, calibrate_policies, calibrate_drift,
                                                        calibrate_holm,  calibrate_onset,    calibrate_sequential};

START_TEST(verdicts_err_as_often_as_they_say)
{
    char *text = NULL;
    size_t size;
    struct calibration c = {.out = open_memstream(&text, &size), .series = 500, .longest = 300};
    tables[_i](&c);
    fclose(c.out);
    ck_assert_int_gt(c.rows, 0);
    ck_assert_msg(c.failed == 0, "%d of %d rows do not hold:\n%s", c.failed, c.rows, text);
    free(text);
}
END_TEST

/* A rate is held against its level with the scatter of a count: 3 sqrt(0.05 x 0.95 / 1000) = 0.0207. */
START_TEST(rates_may_scatter_and_no_more)
{
    ck_assert(at_most(70, 1000, 0.05));
    ck_assert(!at_most(71, 1000, 0.05));
    ck_assert(at_least(763, 1000, 0.80)); /* 0.0379 */
    ck_assert(!at_least(762, 1000, 0.80));
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {{verdicts_err_as_often_as_they_say, COUNT(tables)},
                                       {rates_may_scatter_and_no_more, 1}};
    return suite_run("calibration", tests, COUNT(tests));
}
