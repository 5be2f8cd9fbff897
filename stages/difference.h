/* difference.h - two training records set side by side: what rematch-diff writes.
 *
 * A difference record has two members. differences.jsonl: one line per tensor that both runs left, in the order in
 * which a step makes them (forward, rebuild, gradients from the loss down; then the final weights and the optimizer's
 * state). diff.json, the summary:
 *   a, b          study, name and target of the two points
 *   same_batches  both saw the same tokens in the same order, so that losses are paired
 *   config        [{field, a, b}], every field that differs
 *   members       {member: equal | differs | only_a | only_b}, by checksum; `measured`: holds times or environments
 *   metrics       {common_steps, only_a, only_b, loss: GAP, grad_norm: GAP}
 *   held_out      [{step, sequences, equal, mean, largest, not_finite, difference: [per sequence]}]
 *   certificate   {a, b: null | {compared, mismatched, expected, events, first: null | EVENT}}
 *   tensors       [{at, pass, compared, identical, other_shape, only_a, only_b, elements, differing, first, worst}]
 * GAP: {equal_steps, first_differing_step, largest, largest_step, not_finite}. Differences are b - a; exact doubles are
 * hex-float strings. Equal means equal bits. No name of a file goes in: the same records give the same bytes.
 *
 * `first` of a certificate: first by step, micro-batch, layer and tensor. `expected`: mismatches that the point's
 * settings announce.
 *
 * Errors: ERR_INPUT for a damaged or foreign record, and for runs of different models; ERR_USAGE when `out` is one of the
 * two records.
 */
#ifndef REMATCH_STAGES_DIFFERENCE_H
#define REMATCH_STAGES_DIFFERENCE_H

#include <jansson.h>
#include <stdio.h>

#include "data/record.h"
#include "stages/point.h"

/* A record of a run that is open for comparison. */
struct side {
    struct record *record;
    json_t *config; /* config.json as it stands */
    struct point point;
};

status side_open(struct side *out, const char *path);
void side_close(struct side *s);

/* Compares; writes the difference record `out` whole or not at all. *summary (new reference) is diff.json. */
status difference_write(json_t **summary, const char *path_a, const char *path_b, const char *out);

/* ---- its parts ---- */

/* Each gives a new reference. */
status difference_metrics(json_t **out, struct side *a, struct side *b);
status difference_held_out(json_t **out, struct side *a, struct side *b);

/* Also prints the lines of differences.jsonl. */
status difference_tensors(json_t **out, FILE *lines, struct side *a, struct side *b);

/* Puts `value` (stolen) into an object or at the end of an array. ERR_MEMORY, also when `value` is NULL. */
status difference_put(json_t *object, const char *key, json_t *value);
status difference_append(json_t *array, json_t *value);

#endif
