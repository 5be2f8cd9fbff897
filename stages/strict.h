/* strict.h - YAML read through a table of fields, and nothing beside it.
 *
 * Unknown and duplicate keys, wrong types, half-parsed numbers, missing keys, anchors, aliases, tags, directives and
 * several documents are errors. Library: libyaml's document API, whose nodes carry exact marks.
 * Errors: ERR_USAGE "file:line: ..." with what was expected.
 * Memory: nodes are borrowed until strict_close.
 */
#ifndef REMATCH_STAGES_STRICT_H
#define REMATCH_STAGES_STRICT_H

#include <yaml.h>

#include "kernels/status.h"
#include "stages/field.h"

struct strict {
    const char *path; /* borrowed: what messages call the file */
    yaml_document_t document;
    yaml_node_t *root; /* a mapping */
};

/* Parses `text`; on an error nothing is left to close. */
status strict_open(struct strict *y, const char *path, const char *text, size_t size);
void strict_close(struct strict *y);

/* Line of a node, from 1. */
int strict_line(const yaml_node_t *node);

/* Value of `key` in a mapping; NULL when it is absent, or `mapping` is NULL. */
yaml_node_t *strict_find(struct strict *y, yaml_node_t *mapping, const char *key);

/* Item i of a list, which must be a mapping; *item NULL past the end. */
status strict_item(yaml_node_t **item, struct strict *y, yaml_node_t *sequence, int i);

/* A table, and which of its sections a mapping is. */
struct strict_section {
    const struct field *fields;
    int count;
    const char *name;
};

/* Reads `mapping` (NULL: nothing is there) into the struct at `base`. With `complete`, required keys must be there and
 * absent ones get their defaults; without, only the keys that are there change anything. */
status strict_read(struct strict *y, const struct strict_section *section, yaml_node_t *mapping, void *base,
                   bool complete);

#define STRICT_FAIL(y, node, format, ...) FAIL(ERR_USAGE, "%s:%d: " format, (y)->path, strict_line(node), ##__VA_ARGS__)

#endif
