/* jsonl.h - JSON lines: append-only series of a run, and exact numbers in JSON.
 *
 * Exact values travel as hex floats in strings ("0x1.8p+1"), never as rounded decimals. A file is cut back to the
 * offset that a checkpoint names before a run continues.
 */
#ifndef REMATCH_DATA_JSONL_H
#define REMATCH_DATA_JSONL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/status.h"

struct jsonl;

/* Opens for appending; cuts the file to `offset` bytes first. ERR_INPUT when it is shorter. */
status jsonl_open(struct jsonl **out, const char *path, uint64_t offset);
/* Steals the reference. To NULL, a series that another process keeps, nothing is written. */
status jsonl_append(struct jsonl *j, json_t *object);
status jsonl_sync(struct jsonl *j); /* flush and fsync: what a checkpoint counts on */
uint64_t jsonl_offset(const struct jsonl *j);
void jsonl_close(struct jsonl *j);

/* Calls `line` for each object of a JSON-lines text; the object is borrowed. `name` begins messages
 * ("record: metrics.jsonl:12"). Each line ends in a newline; an empty or unfinished line is ERR_INPUT. */
status jsonl_each(const char *name, const void *bytes, size_t size,
                  status (*line)(void *self, json_t *object, const char *where), void *self);

/* A double as a hex-float string, and back (exact; infinities too; every NaN is "nan"). ERR_INPUT for anything that
 * json_exact would not write. */
json_t *json_exact(double value);
status json_exact_read(double *out, const json_t *object, const char *field, const char *where);

/* The other fields of records, as strict: a whole number of at least `least`; a text, borrowed from the object. */
status json_integer_read(int64_t *out, const json_t *object, const char *field, int64_t least, const char *where);
status json_text_read(const char **out, const json_t *object, const char *field, const char *where);
/* ERR_INPUT unless the object has exactly `count` fields: unknown ones are not passed over. */
status json_fields(const json_t *object, size_t count, const char *where);

/* Whether JSON can hold a text: it must be UTF-8. */
bool json_is_utf8(const char *text);

/* An object from a text of which every byte counts: no duplicate keys, nothing behind it. */
status json_object_parse(json_t **out, const char *text, size_t size, const char *where);
/* malloc'ed compact text with sorted keys and a newline: the same object gives the same bytes. */
status json_text(char **text, size_t *size, const json_t *object);

/* ---- the two series of a run; see data/FORMATS.md ----
 * metrics_read: steps follow each other without a hole; *out is malloc'ed. evaluations_read fills what evaluations_free
 * releases, also when it fails. */

struct metric {
    int64_t step;                          /* 1, 2, ... */
    double loss, grad_norm, learning_rate; /* nats; L2 norm before clipping */
    int64_t tokens;
};
status metric_append(struct jsonl *j, const struct metric *m);
status metrics_read(struct metric **out, int64_t *count, const char *name, const void *bytes, size_t size);

/* Held-out loss after a step: one value per fixed sequence, so that two runs are paired. */
struct evaluation {
    int64_t step;
    int sequences;
    double *loss; /* mean nats of each sequence */
};
status evaluation_append(struct jsonl *j, const struct evaluation *e);
/* Downstream scores of one held-out file: counts, so that they are exact. */
struct score {
    int64_t step;
    char file[200];
    int64_t tokens, tokens_right, lines, lines_right;
};
status score_append(struct jsonl *j, const struct score *s);
struct evaluations {
    struct evaluation *at;
    int count;
    struct score *score;
    int scores;
};
status evaluations_read(struct evaluations *out, const char *name, const void *bytes, size_t size);
void evaluations_free(struct evaluations *e);

#endif
