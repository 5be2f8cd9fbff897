#include "data/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/file.h"

#define REFUSED(what, path) FAIL(ERR_IO, "'%s': cannot %s: %s%s", path, what, strerror(errno), file_remedy(errno))

/* ---- appending ---- */

struct jsonl {
    FILE *stream;
    uint64_t offset;
    char *path;
};

static status cut(FILE *stream, const char *path, uint64_t offset)
{
    struct stat info;
    if (fstat(fileno(stream), &info))
        return REFUSED("stat", path);
    if ((uint64_t)info.st_size < offset)
        return FAIL(ERR_INPUT,
                    "'%s': has %lld bytes, the checkpoint counts on %llu; remove the checkpoint to start from an "
                    "earlier one",
                    path, (long long)info.st_size, (unsigned long long)offset);
    if (ftruncate(fileno(stream), (off_t)offset) || fseeko(stream, (off_t)offset, SEEK_SET))
        return REFUSED("cut", path);
    return OK;
}

status jsonl_open(struct jsonl **out, const char *path, uint64_t offset)
{
    status st = OK;
    struct jsonl *j = calloc(1, sizeof *j);
    if (!j || !(j->path = strdup(path))) {
        st = FAIL(ERR_MEMORY, "'%s': no memory to open it", path);
        goto done;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        st = REFUSED("open", path);
        goto done;
    }
    if (!(j->stream = fdopen(fd, "r+"))) {
        st = REFUSED("open", path);
        close(fd);
        goto done;
    }
    TRY_DONE(cut(j->stream, path, offset));
    j->offset = offset;
    *out = j;
    j = NULL;
done:
    jsonl_close(j);
    return st;
}

status jsonl_append(struct jsonl *j, json_t *object)
{
    char *text = j && object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!j)
        return OK;
    if (!text)
        return FAIL(ERR_MEMORY, "'%s': cannot make a line: no memory, or a text that is not UTF-8", j->path);
    /* Flushed, so that whoever watches the run sees whole lines. */
    int written = fprintf(j->stream, "%s\n", text);
    free(text);
    if (written < 0 || fflush(j->stream))
        return REFUSED("write", j->path);
    j->offset += (uint64_t)written;
    return OK;
}

status jsonl_sync(struct jsonl *j)
{
    return fflush(j->stream) || fsync(fileno(j->stream)) ? REFUSED("write", j->path) : OK;
}

uint64_t jsonl_offset(const struct jsonl *j) { return j->offset; }

void jsonl_close(struct jsonl *j)
{
    if (!j)
        return;
    if (j->stream)
        fclose(j->stream);
    free(j->path);
    free(j);
}

/* ---- reading ---- */

status json_object_parse(json_t **out, const char *text, size_t size, const char *where)
{
    json_error_t error;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return FAIL(ERR_INPUT, "%s: is not JSON: %s (column %d); the file is damaged or foreign", where, error.text,
                    error.column);
    if (!json_is_object(object)) {
        json_decref(object);
        return FAIL(ERR_INPUT, "%s: expected a JSON object {...}; the file is damaged or foreign", where);
    }
    *out = object;
    return OK;
}

status jsonl_each(const char *name, const void *bytes, size_t size,
                  status (*line)(void *self, json_t *object, const char *where), void *self)
{
    const char *at = bytes, *end = at + size;
    for (int64_t number = 1; at < end; number++) {
        char where[512];
        snprintf(where, sizeof where, "%s:%lld", name, (long long)number);
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return FAIL(ERR_INPUT, "%s: the last line does not end; the file was cut", where);
        json_t *object;
        TRY(json_object_parse(&object, at, (size_t)(newline - at), where));
        status st = line(self, object, where);
        json_decref(object);
        TRY(st);
        at = newline + 1;
    }
    return OK;
}

/* ---- fields ---- */

enum { EXACT_TEXT = 40 }; /* longest is "-0x1.fffffffffffffp-1022" */

static void exact_print(char text[EXACT_TEXT], double value)
{
    if (isnan(value))
        strcpy(text, "nan"); /* sign and payload of a NaN mean nothing, and differ between machines */
    else
        snprintf(text, EXACT_TEXT, "%a", value);
}

json_t *json_exact(double value)
{
    char text[EXACT_TEXT];
    exact_print(text, value);
    return json_string(text);
}

status json_exact_read(double *out, const json_t *object, const char *field, const char *where)
{
    const char *text;
    char again[EXACT_TEXT];
    TRY(json_text_read(&text, object, field, where));
    double value = strtod(text, NULL);
    exact_print(again, value);
    if (strcmp(text, again))
        return FAIL(ERR_INPUT, "%s: \"%s\" is '%.60s', expected a hex float such as \"0x1.8p+1\"", where, field, text);
    *out = value;
    return OK;
}

status json_integer_read(int64_t *out, const json_t *object, const char *field, int64_t least, const char *where)
{
    const json_t *value = json_object_get(object, field);
    if (!value)
        return FAIL(ERR_INPUT, "%s: \"%s\" is missing", where, field);
    if (!json_is_integer(value) || json_integer_value(value) < least)
        return FAIL(ERR_INPUT, "%s: \"%s\": expected a whole number of at least %lld", where, field, (long long)least);
    *out = json_integer_value(value);
    return OK;
}

status json_text_read(const char **out, const json_t *object, const char *field, const char *where)
{
    const json_t *value = json_object_get(object, field);
    if (!value)
        return FAIL(ERR_INPUT, "%s: \"%s\" is missing", where, field);
    if (!json_is_string(value))
        return FAIL(ERR_INPUT, "%s: \"%s\": expected a text in quotes", where, field);
    *out = json_string_value(value);
    return OK;
}

bool json_is_utf8(const char *text)
{
    json_t *value = json_string(text);
    json_decref(value);
    return value != NULL;
}

status json_fields(const json_t *object, size_t count, const char *where)
{
    if (json_object_size(object) != count)
        return FAIL(ERR_INPUT, "%s: has %zu fields, expected %zu; was it written by another version?", where,
                    json_object_size(object), count);
    return OK;
}

status json_text(char **text, size_t *size, const json_t *object)
{
    char *compact = object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int length = compact ? asprintf(text, "%s\n", compact) : -1;
    free(compact);
    if (length < 0)
        return FAIL(ERR_MEMORY, "no memory for a JSON text");
    *size = (size_t)length;
    return OK;
}
