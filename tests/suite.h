/* suite.h - what all test programs share: how a status is asserted, and how a table of tests is run.
 *
 * Every program has a temporary folder (temporary.h), made before its first test and removed after its last.
 */
#ifndef REMATCH_TESTS_SUITE_H
#define REMATCH_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/status.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* Fails unless the call is OK; says which call, why, and where it went wrong. */
#define ck_ok(call) ck_assert_msg((call) == OK, "%s: %s (%s)", #call, status_text(), status_origin())

/* Fails unless `text`, or the text of the last failure, holds `words`. */
#define ck_contains(text, words) \
    ck_assert_msg(strstr(text, words) != NULL, "expected '%s' in: %s", (const char *)(words), (const char *)(text))
#define ck_said(words) ck_contains(status_text(), words)
#define ck_said_first(words)                                                                                     \
    ck_assert_msg(!strncmp(status_text(), words, strlen(words)), "expected '%s' at the beginning of: %s", words, \
                  status_text())

struct suite_test {
    const TTest *test;
    int runs; /* with _i = 0, 1, ...: often one for each row of a table */
};

/* Runs the tests, each run in a process of its own, and prints Check's summary. The program's exit status. */
int suite_run(const char *name, const struct suite_test *tests, int count);

struct suite_options {
    void (*before)(void), (*after)(void); /* each run, in its process; NULL: nothing */
    bool one_process;                     /* for what does not survive a fork */
};

int suite_run_with(const char *name, const struct suite_test *tests, int count, const struct suite_options *options);

#endif
