/* point.h - one training run in full: what rematch-plan writes as a line of points.jsonl and the trainers read.
 *
 * A line holds everything that decides the run, defaults filled in; it is also the record's config.json. Programs match
 * fields, never names.
 * Errors: ERR_INPUT names file, line and field.
 */
#ifndef REMATCH_STAGES_POINT_H
#define REMATCH_STAGES_POINT_H

#include <jansson.h>

#include "kernels/plan.h"
#include "model/fault.h"
#include "model/optimizer.h"
#include "model/recompute.h"

enum { POINT_AUDITS = 1024 }; /* at frozen weights, at most */

struct point_target {
    char name[32], profile[32], partition[32];
    uint64_t memory_bytes;
    int dp, cp;
};

struct point_training {
    struct optimizer_rule rule; /* its steps: the last step of the schedule, whole run */
    int64_t branch_at;          /* step after which the trunk archives its state; 0: none */
    int sequence_length, micro_batch_size, global_batch_size, reduction_groups;
    enum dtype storage; /* "bf16" or "fp32" */
};

struct point {
    char study[64], name[128];
    int index;     /* line number in points.jsonl, from 0 */
    bool baseline; /* the trunk: the run that rematch-baseline makes */
    struct point_target target;
    struct model_shape model;
    struct {
        char path[256]; /* a folder in Hugging Face's layout whose weights the trunk starts from; "": they are drawn */
        char hash[33];  /* of the folder, see stages/huggingface.h */
    } checkpoint;
    struct {
        char source[256]; /* "corpus", or a path */
        int split[3];     /* train, valid, test weights */
    } data;
    struct point_training training;
    struct {
        int64_t every;
        int batches; /* of global_batch_size sequences, fixed */
    } evaluate;
    int64_t checkpoint_every;
    int64_t dump_step[16];
    int dump_steps;
    struct {
        int64_t every; /* steps; 0: none */
        int frozen;    /* at the weights that the point starts from; 0: none */
    } audit;
    struct {
        int64_t every;
        bool stop; /* on_mismatch: stop, or continue */
    } certificate;
    struct {
        double margin, grad_norm_margin, window[2];
    } verdict;
    struct recompute_policy recompute, vit_recompute;
    char replicate[16];          /* "", "a1" (arithmetic), "s1" (seed) */
    uint64_t seed;               /* data order, initial weights, dropout */
    uint64_t arithmetic_seed;    /* of ORDER_RANDOM */
    struct arithmetic_dial dial; /* the arithmetic factor */
    struct fault fault;
    char fault_text[128];   /* as given, "" for none */
    bool scratch;           /* start: scratch, not branch */
    uint64_t planned_bytes; /* the whole arena of a rank; see model/memory.h */
    uint64_t planned_activation_bytes;
    bool fits; /* planned_bytes <= target.memory_bytes */
};

/* The whole point as a JSON object (new reference), every field of it, exact. NULL: no memory. */
json_t *point_to_json(const struct point *p);

/* `where` ("runs/S/points.jsonl:3") begins every message. Unknown or missing fields are errors. */
status point_from_json(struct point *out, const json_t *object, const char *where);

/* Gives the point its name, planned memory and fit from its other fields. Micro-batch and storage are part of the name
 * where they are not the study's usual ones. */
status point_settle(struct point *p, const struct point_training *usual);

/* ERR_USAGE when fields contradict each other; *culprit then names the field, "training.branch_at". */
status point_check(const struct point *p, const char **culprit);

/* Where nothing is recomputed there is nothing to audit, whatever the study says. */
bool point_takes_audits(const struct point *p);

/* `other` stores everything where `p` recomputes, and is otherwise alike: same target, start, micro-batch, storage and
 * arithmetic of the forward, no fault, no replicate. The trunk is alike in its start to the points that branch from it. */
bool point_is_reference(const struct point *other, const struct point *p);

/* Index of the first point that is a reference of points[i], itself excepted; -1: none, or points[i] is one. */
int points_reference(const struct point *points, int count, int i);

/* Reads runs/S/points.jsonl: at least one point, the baseline first and only once. *points is malloc'ed. */
status points_read(struct point **points, int *count, const char *path);

/* The point called `name`; ERR_USAGE lists the names. */
status points_find(const struct point **out, const struct point *points, int count, const char *name, const char *path);

#endif
