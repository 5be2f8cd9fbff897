/* synthetic_study.h - a study's folder whose records were written and not trained: what reports are tested on.
 *
 * Losses are a smooth curve plus noise that all runs share, plus a run's own gap and noise; certificates hold exactly
 * what the policy asks for, and the planted mismatches. Helpers abort the test when they cannot do their work.
 */
#ifndef REMATCH_TESTS_SYNTHETIC_STUDY_H
#define REMATCH_TESTS_SYNTHETIC_STUDY_H

#include "stages/report/report.h"

enum { SYNTHETIC_SEQUENCES = 32, SYNTHETIC_LAYERS = 4, SYNTHETIC_SPEED = 8192 /* tokens a second */ };

struct synthetic_run {
    const char *name, *target, *replicate, *fault; /* NULL: none */
    int layers;                                    /* recomputed, method block */
    enum recompute_method method;                  /* METHOD_NONE: block */
    unsigned modules;                              /* not 0: selective */
    bool baseline, scratch, absent, too_large;
    double gap, noise;             /* added to each loss: nat; and its own noise */
    int64_t gap_step;              /* the gap begins here; 0: from the first step */
    double drift;                  /* nat a step from the branch on */
    double factor;                 /* what the log makes of losses; 0: 1 */
    int64_t nan_step;              /* the loss of this step is NaN; 0: none */
    bool nan_on;                   /* and of all that follow */
    int64_t stops_at;              /* last step; 0: the study's */
    int64_t lost_step;             /* this step is missing in the certificate; 0: none */
    const char *weights, *shard;   /* digests; NULL: one of its own; one that all share */
    int64_t mismatch_step;         /* from here on one tensor of each layer differs; 0: none */
    bool fp32;                     /* recompute in FP32, whose mismatches are announced */
    int64_t every;                 /* of the certificate; 0: every step */
    int micro_batch;               /* 0: the study's */
    const char *backend, *profile; /* NULL: the record does not say; the target's */
    bool draws;                    /* forward and recompute draw their orders */
    uint64_t seed, hidden;         /* 0: the study's */
    int model_layers;              /* 0: SYNTHETIC_LAYERS */
    const char *checkpoint;        /* hash of what it starts from; NULL: a preset, its weights drawn */
};

struct synthetic_study {
    const char *name;
    int64_t steps, branch_at;
    const struct synthetic_run *run;
    int runs;
};

/* The point that the study has for a run. */
void synthetic_point(struct point *out, const struct synthetic_study *study, int index);

/* points.jsonl in `folder`, anew. */
void synthetic_points_write(const struct synthetic_study *study, const char *folder);

/* points.jsonl and records/ in the temporary folder's study/, which it replaces; its path is borrowed as temporary_path
 * says. The second also loads and judges the study. */
const char *synthetic_study_write(const struct synthetic_study *study);
void synthetic_study_judge(struct report *r, const struct synthetic_study *study);

/* The demo in small: three baseline runs, four points on another target, one planted fault, one that does not fit. */
enum { BASELINE, A1, A2, R0, R2, R4, FAULT, BIG, DEMO_RUNS };
enum { FIRST = 51, LAST = 200, BRANCHED = LAST - FIRST + 1, MICRO_BATCHES = 2 };
extern const struct synthetic_run demo_runs[DEMO_RUNS];
extern const struct synthetic_study demo;

/* The demo's baseline and a run that the caller has made; its target has no r0 unless it is one. */
struct synthetic_study two_runs(struct synthetic_run runs[2], const struct synthetic_run *second);

/* What report_markdown writes; malloc'ed. */
char *synthetic_markdown(const struct report *r);

#endif
