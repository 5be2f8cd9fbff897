/* Mutations of every log in tests/logs/: none may crash a reader, and whatever it takes must be in order. Half of them are
 * damaged twice. REMATCH_FUZZ_S=60 goes on for so many seconds a file, with other mutations each time it is given. */
#include <stdlib.h>
#include <time.h>

#include "data/file.h"
#include "stages/logs/logs.h"
#include "tests/mutate.h"
#include "tests/small_log.h"
#include "tests/suite.h"
#include "tests/temporary.h"

enum { MUTATIONS = 200, FILES_MOST = 64 };

static char files[FILES_MOST][256];
static int file_count;

static status add_file(void *self, const char *path)
{
    (void)self;
    if (file_count == FILES_MOST)
        return FAIL(ERR_ARGUMENT, "more than %d fixtures", FILES_MOST);
    snprintf(files[file_count++], sizeof files[0], "%s", path);
    return OK;
}

/* Steps ascend, notes are texts, numbers have their place. */
static void check_logs(const struct logs *l)
{
    ck_assert_int_gt(l->runs, 0);
    for (int i = 0; i < l->runs; i++)
        for (int k = 0; k < l->run[i].series_count; k++) {
            const struct log_series *s = &l->run[i].series[k];
            for (int64_t n = 0; n < s->count; n++) {
                ck_assert(!n || s->point[n].step > s->point[n - 1].step);
                ck_assert(s->point[n].step >= 0 && s->point[n].half_unit >= 0);
                ck_assert(log_digits(&s->point[n]) >= 0 && log_digits(&s->point[n]) <= 17);
            }
        }
}

/* Says whether the mutant was taken for a log. */
static bool try_mutant(const struct mutant *original, uint64_t number)
{
    struct logs l;
    struct mutant m = mutated(original, number);
    if (number % 2 && m.size) {
        struct mutant again = mutated(&m, number * 7919);
        free(m.bytes);
        m = again;
    }
    status st = logs_read(&l, small_log_write("mutant.log", m.bytes, m.size));
    free(m.bytes);
    if (st == OK) {
        check_logs(&l);
        logs_free(&l);
    } else
        ck_assert_msg(st == ERR_INPUT && *status_text(), "mutation %llu: status %d: %s", (unsigned long long)number, st,
                      status_text());
    return st == OK;
}

START_TEST(mutated_log_is_read_in_order_or_refused)
{
    struct mutant original;
    const char *seconds = getenv("REMATCH_FUZZ_S");
    const time_t until = time(NULL) + (seconds ? atoi(seconds) : 0);
    uint64_t number = seconds ? (uint64_t)time(NULL) << 20 : 0, first = number;
    int taken = 0;
    ck_ok(file_read(files[_i], 1 << 20, &original.bytes, &original.size));
    while (number - first < MUTATIONS || time(NULL) < until)
        taken += try_mutant(&original, number++);
    free(original.bytes);
    if (!strstr(files[_i], "nameless") && !strstr(files[_i], ".gz") && !strstr(files[_i], ".zst"))
        ck_assert_msg(taken > 0, "no mutant of %s was read: the test tests nothing", files[_i]);
}
END_TEST

int main(void)
{
    if (file_walk(SMALL_LOGS, add_file, NULL) != OK) {
        fprintf(stderr, "%s\n", status_text());
        return EXIT_FAILURE;
    }
    const struct suite_test tests[] = {{mutated_log_is_read_in_order_or_refused, file_count}};
    return suite_run("log mutations", tests, COUNT(tests));
}
