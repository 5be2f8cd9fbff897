/* small_log.h - logs for tests: those of tests/logs/, and texts of a line or two. Helpers fail the test. */
#ifndef REMATCH_TESTS_SMALL_LOG_H
#define REMATCH_TESTS_SMALL_LOG_H

#include <stddef.h>

#include "stages/logs/logs.h"

#define SMALL_LOGS "tests/logs/" /* tests run in the root of the source */

/* The only run of a file of tests/logs/; *l is to be freed. */
const struct log_run *small_log_read(struct logs *l, const char *file);

/* A file of the temporary folder with this text; its path is borrowed as temporary_path says. */
const char *small_log_write(const char *name, const char *text, size_t size);
status small_log_text(struct logs *l, const char *text); /* writes and reads it */

/* The value at an index of a series. */
void small_log_check(const struct log_series *s, int64_t index, int64_t step, double value);
bool small_log_same(double a, double b); /* NaN is NaN */
/* Whether a note of the run holds these words. */
bool small_log_notes(const struct log_run *run, const char *words);

#endif
