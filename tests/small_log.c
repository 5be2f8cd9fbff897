#include "tests/small_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/suite.h"
#include "tests/temporary.h"

const struct log_run *small_log_read(struct logs *l, const char *file)
{
    char path[256];
    const struct log_run *run = NULL;
    snprintf(path, sizeof path, SMALL_LOGS "%s", file);
    ck_ok(logs_read(l, path));
    ck_ok(logs_choose(&run, l, NULL));
    return run;
}

const char *small_log_write(const char *name, const char *text, size_t size)
{
    const char *path = temporary_path(name);
    FILE *out = fopen(path, "w"); /* not file_write: thousands of them need not be safe on the disk */
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(text, 1, size, out), size);
    ck_assert_int_eq(fclose(out), 0);
    return path;
}

status small_log_text(struct logs *l, const char *text)
{
    return logs_read(l, small_log_write("text.log", text, strlen(text)));
}

bool small_log_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

void small_log_check(const struct log_series *s, int64_t index, int64_t step, double value)
{
    ck_assert_msg(index >= 0 && index < s->count, "%s: no value %lld", s->name, (long long)index);
    ck_assert_int_eq(s->point[index].step, step);
    ck_assert_msg(small_log_same(s->point[index].value, value), "%s at step %lld: %.17g, expected %.17g", s->name,
                  (long long)step, s->point[index].value, value);
}

bool small_log_notes(const struct log_run *run, const char *words)
{
    for (int i = 0; i < run->notes; i++)
        if (strstr(run->note[i], words))
            return true;
    return false;
}
