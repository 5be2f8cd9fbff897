/* logs.h - what other trainers leave: their logs as runs of numbers, each told by its content, never by its name.
 *
 * A log holds rounded text where a record holds bits, so every value comes with half a unit of its last printed place,
 * and nothing is made up: what cannot be read is left out and noted, unknown text is "not recognised". data/FORMATS.md
 * lists the programs and versions; adding one is a row or a file here (CONTRIBUTING.md).
 *
 * Files may be compressed (gzip, zstd). Memory: the text is mapped, or unpacked as data/unpacked.h does; values are
 * bounded by LOG_VALUES_MOST. logs_free releases all.
 * Errors: ERR_INPUT names the file, the line and what was tried; ERR_USAGE when the caller must choose a run.
 */
#ifndef REMATCH_STAGES_LOGS_LOGS_H
#define REMATCH_STAGES_LOGS_LOGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/status.h"

enum { LOG_NAME = 160, LOG_VALUES_MOST = 1 << 24 };

enum log_role {
    LOG_OTHER,
    LOG_LOSS,      /* of the training batch */
    LOG_HELD_OUT,  /* of a validation set */
    LOG_GRAD_NORM, /* before clipping */
    LOG_LEARNING_RATE
};

enum log_unit { LOG_NATS, LOG_BITS }; /* of losses */

struct log_point {
    int64_t step;
    double value;     /* NaN: printed as such, or absent as its program leaves a NaN out */
    double half_unit; /* of the last printed place */
};

struct log_series {
    char name[LOG_NAME];
    enum log_role role;
    enum log_unit unit;
    bool mean;        /* over the steps since the point before; else of its step alone */
    int64_t interval; /* most frequent distance between its steps; 0: it has fewer than two points */
    int64_t count;
    struct log_point *point; /* steps ascending */
};

/* What the log says about how it was made. Keys are Megatron-LM's names of arguments. */
struct log_setting {
    char *key, *value;
};

struct log_run {
    char name[LOG_NAME]; /* within its file: "1", "default3", a column's run */
    int series_count, settings, notes;
    struct log_series *series;
    struct log_setting *setting;
    char **note;           /* sentences without a full stop: what was left out, repeated or joined, and why */
    int64_t planned_steps; /* 0: the log does not say */
    bool counted_steps;    /* the lines carry no step: they were counted */
};

struct logs {
    char *path;
    const char *format; /* "Megatron-LM", "TensorBoard", ... */
    int runs;
    struct log_run *run;
};

status logs_read(struct logs *out, const char *path);
void logs_free(struct logs *l);

/* Whether the file is an archive, as records are, rather than a log. */
status logs_is_archive(bool *out, const char *path);

/* The run called `name`, NULL: the only one. ERR_USAGE lists the names when there are several, or not this one. */
status logs_choose(const struct log_run **out, const struct logs *l, const char *name);

/* The series of a role with the most values, of equal ones the first; NULL: none. */
const struct log_series *log_run_series(const struct log_run *run, enum log_role role);
const char *log_run_setting(const struct log_run *run, const char *key); /* NULL: not told */

/* Decimal digits that a printed value shows, at most 17; 0 for what is not finite. */
int log_digits(const struct log_point *p);

/* A line for each format: program, versions, where its printing was looked up. */
void logs_print_formats(FILE *out);

#endif
