/* audits.h - audits.jsonl: the audits of a run, a line each; fields in data/FORMATS.md.
 *
 * Errors: ERR_INPUT names the place, the field and what was expected.
 */
#ifndef REMATCH_STAGES_AUDITS_H
#define REMATCH_STAGES_AUDITS_H

#include "data/jsonl.h"
#include "model/audit.h"

status audits_append(struct jsonl *j, const struct audit *a);

/* In order of the file: first those at frozen weights, then those of steps, both ascending. */
struct audits {
    struct audit **at;
    int count;
};

/* `shape` and `groups` are those of the run. Fills what audits_free releases, also when it fails. */
status audits_read(struct audits *out, const struct model_shape *shape, int groups, const char *name, const void *bytes,
                   size_t size);
void audits_free(struct audits *a);

#endif
