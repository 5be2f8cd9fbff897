/* study.h - a study file, and the points that it asks for.
 *
 * A study names a model, data, a training, targets, and which recompute policies to run where. The baseline target's r0
 * is the trunk: points[0], from scratch. Behind it come its replicates, then the entries of `points` in their order,
 * each policy of an entry in its order, each followed by its replicates. Where a point recomputes and its target's r0
 * (point_is_reference) has not come yet, that r0 is put before it. So entries added at the end of a study only add
 * points at the end.
 *
 * Names: target, word of the policy, then only what is not the study's default: -m2 (micro-batch), -fp32-storage or
 * -bf16-storage (of the whole run), the arithmetic (-random, or of one pass -random-forward, -truncating-recompute), the
 * fault, -scratch, -a1 or -s1.
 * In an entry, recompute_num_layers alone means granularity full, method block. A replicate aN draws the reduction
 * order of every GEMM from a seed of its own, whatever else its arithmetic is, and its recompute repeats what its forward
 * drew; sN has another seed for data order, dropout and, where they are drawn, the first weights.
 * Errors: ERR_USAGE "file:line: ...".
 */
#ifndef REMATCH_STAGES_STUDY_H
#define REMATCH_STAGES_STUDY_H

#include "stages/point.h"

enum { STUDY_TARGETS = 16, STUDY_POLICIES = 64, STUDY_REPLICATES = 99, STUDY_LIMIT = 1 << 20 };

struct study_replicates {
    int arithmetic, seed;
};

/* An entry of `points`: one policy, or one for each of its numbers of layers. */
struct study_entry {
    int line;
    struct point point; /* the study's settings with the entry's own; name, policy and memory come later */
    char granularity[16], method[16], modules[64], precision[8];
    int64_t num_layers[STUDY_POLICIES];
    int num_layers_count;
    struct study_replicates replicates;
};

struct study {
    char path[256];      /* what messages call the file */
    struct point common; /* the trunk's settings, without its target */
    struct point_target target[STUDY_TARGETS];
    int targets;
    int baseline, baseline_line; /* index of its target */
    struct study_replicates replicates;
    struct study_entry *entry;
    int entries;
};

/* Reads and checks the text of a study, and the checkpoint that it names; `path` is what messages call it. */
status study_parse(struct study **out, const char *path, const char *text, size_t size);
void study_free(struct study *s);

/* The points of a study, checked and with their memory planned. automatic[i]: an r0 that the study does not list. */
struct study_points {
    struct point *point;
    bool *automatic;
    int count;
};
status study_points_make(struct study_points *out, const struct study *s);
void study_points_free(struct study_points *p);

#endif
