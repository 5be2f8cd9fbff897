/* calibrate.c - `make calibrate`: all tables, 20,000 series a row; writes them to the file that it is given.
 *
 * Exit status 1 when a row does not hold.
 */
#include "tests/verdict/calibration.h"

enum { SERIES = 20000, LONGEST = 5000 };

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: calibrate RESULTS.md\n");
        return 2;
    }
    struct calibration c = {.out = fopen(argv[1], "w"), .series = SERIES, .longest = LONGEST};
    if (!c.out) {
        fprintf(stderr, "calibrate: cannot write '%s': give a file in a folder that is there\n", argv[1]);
        return 1;
    }
    fprintf(
        c.out,
        "# Calibration of the verdicts\n\nWritten by `make calibrate`: %d synthetic series a row, whose truth is "
        "known; the seeds are fixed, so the figures repeat. A rate may exceed its level by 3 standard deviations of "
        "a count.\n",
        SERIES);
    calibrate_pairs(&c);
    calibrate_policies(&c);
    calibrate_drift(&c);
    calibrate_holm(&c);
    calibrate_onset(&c);
    calibrate_sequential(&c);
    fprintf(c.out, "\n%d rows, %d do not hold.\n", c.rows, c.failed);
    if (fclose(c.out) != 0)
        return 1;
    printf("%d rows, %d do not hold: %s\n", c.rows, c.failed, argv[1]);
    return c.failed ? 1 : 0;
}
