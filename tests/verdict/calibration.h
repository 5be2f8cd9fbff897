/* calibration.h - how often verdicts are wrong, on series whose truth is known.
 *
 * Each table prints its rows as markdown, and behind each row what it must satisfy and whether it does. A rate may exceed
 * its nominal level by 3 standard deviations of a binomial count, and no more.
 */
#ifndef REMATCH_TESTS_VERDICT_CALIBRATION_H
#define REMATCH_TESTS_VERDICT_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct calibration {
    FILE *out;
    int series;      /* of each row */
    int64_t longest; /* rows with longer series are left out */
    int rows, failed;
};

void calibrate_pairs(struct calibration *c);
void calibrate_policies(struct calibration *c);
void calibrate_drift(struct calibration *c);
void calibrate_holm(struct calibration *c);
void calibrate_onset(struct calibration *c);
void calibrate_sequential(struct calibration *c);

/* ---- what the tables share ---- */

/* A count as a share of a whole; NaN of nothing. */
double share(int count, int whole);
/* Whether count / whole is at most the level, or at least it, but for the scatter of counts. A whole of 0 holds. */
bool at_most(int count, int whole, double level);
bool at_least(int count, int whole, double level);

void table_begin(struct calibration *c, const char *title, const char *explanation, const char *columns);
/* A cell: a share in percent; of nothing "-". */
void table_percent(struct calibration *c, int count, int whole);
/* Ends a row whose cells are printed, and counts it. */
void table_row(struct calibration *c, bool holds);

#endif
