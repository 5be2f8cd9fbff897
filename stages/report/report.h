/* report.h - what a report knows: the records of a study, each run compared and judged.
 *
 * Loading reads and verifies records; judging compares each run with the same target's r0 of the same start (`against`:
 * what recompute did) and with the baseline (`against_baseline`: what everything did); writing prints the same facts
 * as JSON, markdown and HTML. Every claim is computed from the records.
 *
 * Memory: report_free releases all. Indices into `run` stand for "none" with -1.
 * Errors: ERR_INPUT names the record, the member and the remedy; runs that cannot be compared are refused.
 */
#ifndef REMATCH_STAGES_REPORT_REPORT_H
#define REMATCH_STAGES_REPORT_REPORT_H

#include <stdio.h>

#include "data/jsonl.h"
#include "model/certificate.h"
#include "stages/layout.h"
#include "stages/detectors.h"
#include "stages/onset.h"
#include "stages/point.h"
#include "stages/presets.h"
#include "stages/verdict.h"

enum run_state { RUN_MEASURED, RUN_MISSING, RUN_TOO_LARGE };
const char *run_state_name(enum run_state s); /* "measured", "missing", "does not fit" */

enum gap_metric { METRIC_LOSS, METRIC_HELD_OUT, METRIC_GRAD_NORM, GAP_METRICS };

/* Which spread between runs a policy's verdict measures a gap with. The two are never mixed in one sample. */
enum noise_floor {
    FLOOR_NONE,
    FLOOR_SEED,      /* runs with other data order, dropout and, from scratch, weights */
    FLOOR_ARITHMETIC /* runs whose sums are taken in other orders, and nothing else */
};
const char *noise_floor_name(enum noise_floor f); /* "", "seed", "arithmetic" */

/* What it would take to decide what is not: beyond the steps and runs that there are. */
struct price {
    int64_t steps; /* of both runs of a pair; 0: none, or not known */
    int runs;      /* of both sides of a policy */
    double hours;  /* of devices, at the speed of the runs so far (measured); NaN: not known */
};

/* One run against another. */
struct contrast {
    int other; /* -1: not compared */
    struct preset_result preset[PRESETS];
    struct {
        struct judgement pair, policy;
        struct price pair_price, policy_price;
        struct onset onset;                  /* over all common steps; of held-out losses there is none */
        struct likeness likeness;            /* the same */
        double newey_west, bootstrap, block; /* other errors of the gap over the window; NaN: none. crosscheck.h */
        enum noise_floor counted;            /* of the policy: the kind of its runs */
        enum noise_floor floor;              /* the same; FLOOR_NONE: without 2 runs of it on each side */
        int repeats;                         /* of the policy: runs left out, as their weights equal those of another */
        bool by_values;                      /* that is known from equal values, in logs */
        double margin;
    } metric[GAP_METRICS];
};

/* result.json */
struct run_result {
    int64_t steps_done, first_step;
    char weights_digest[40], shard[40]; /* shard: hash of the token shard */
    uint64_t planned_activation_bytes, activation_bytes, expected_compared;
};

/* Measured: memory from usage.json, of the last session; time from timing.jsonl, of all steps. */
struct run_usage {
    uint64_t peak_bytes, resident_bytes;
    double seconds, tokens_per_s;
};

struct run_log;    /* stages/report/log.h */
struct run_audits; /* stages/report/audit.h */

struct run {
    struct point point;
    char name[160]; /* shown; the point's name unless the command line gave one */
    char *path;
    enum run_state state;
    int family; /* runs of one family are replicates of each other */
    int64_t metrics;
    struct metric *metric;
    struct evaluations evaluations;
    struct certificate *certificate;
    uint64_t expected_count; /* report_expected_count */
    struct run_result result;
    struct run_usage usage;
    json_t *environment, *plans;
    struct run_log *log;       /* of a run that is known from another trainer's log alone; NULL: from a record */
    struct run_audits *audits; /* NULL: the point takes none */
    struct contrast against, against_baseline;
};

/* A scope and a kind of claim, over all points and metrics of the study; holm.h says why they are apart. */
enum test_family { TESTS_DIFFERS, TESTS_AGREES, TESTS_DIVERGED /* and DRIFTING */, TESTS_EQUIVALENT, TEST_FAMILIES };
const char *test_family_name(enum test_family f); /* "DIFFERS", "AGREES", "DIVERGED or DRIFTING", "EQUIVALENT" */

struct recommendation {
    int target_of; /* a run of the target */
    int run;       /* the recommended one, -1: none */
    char *why;
};

struct report {
    char study[64];
    int runs, baseline;
    struct run *run;
    int recommendations;
    struct recommendation *recommendation;
    struct multiplicity {
        int tests, claims, survive; /* claims at 5 % each, and those of them that are left among all tests (holm.h) */
    } multiplicity[TEST_FAMILIES];
    bool stable; /* leave out what is measured */
    /* Groups of settings that may differ between runs from logs; borrowed. */
    const char *const *allowed;
    int allowed_count;
};

/* ---- loading ---- */

/* All points of runs/S; those without a record stay RUN_MISSING. ERR_INPUT when the baseline's record is not there. */
status report_load_study(struct report *r, const char *folder);

/* A record or another trainer's log, told apart by content; FILE#RUN is one of several runs in a log. `name` NULL or what
 * the report calls it. */
struct report_file {
    const char *path, *name;
};
/* The first baseline is the reference, the others are its replicates; candidates that share a name are replicates. */
status report_load_files(struct report *r, const struct report_file *baseline, int baselines,
                         const struct report_file *candidate, int candidates);
void report_free(struct report *r);

/* ---- judging ---- */

/* Fills contrasts and recommendations. ERR_INPUT when runs cannot be compared, with the field that differs. */
status report_judge(struct report *r);

/* Tensors x steps x micro-batches that a certificate must have compared, counted from the policy's words and the steps
 * in metrics.jsonl, independently of the certificate and of the plan that it followed. */
uint64_t report_expected_count(const struct point *p, const struct metric *metric, int64_t metrics);

/* Downstream scores of the last evaluation, summed over the held-out files. False: none were taken. */
bool report_scores(struct score *total, const struct run *run);

/* What a measured run's certificate proves. */
enum proof {
    PROOF_NOT_NEEDED, /* nothing is recomputed */
    PROOF_EXACT,      /* every tensor that was due was compared, and had the bits of the first forward */
    PROOF_MISMATCH,   /* at least one had other bits */
    PROOF_INCOMPLETE, /* fewer were compared than were due */
    PROOF_NONE,       /* none was due and none compared: no step was sampled */
    PROOF_ANNOUNCED,  /* FP32 recompute: other bits by design, and nobody judges how large the differences are */
    PROOFS
};
const char *proof_name(enum proof p); /* "not needed", "bit-exact", "mismatch", "incomplete", "none", "announced" */
enum proof run_proof(const struct run *run);

bool run_recomputes(const struct run *run);
/* The first step whose loss or gradient norm is not finite; NULL: none. */
const struct metric *run_divergence(const struct run *run);
/* Measured, and ended before its schedule did. */
bool run_stopped_early(const struct run *run);
/* A point of the study proper: no replicate, no planted fault, the profile's arithmetic, `block` or nothing in BF16, the
 * study's default start and the baseline's storage. */
bool run_is_plain(const struct report *r, const struct run *run);
/* Weights at the end bit-equal. */
bool runs_equal_weights(const struct run *a, const struct run *b);
/* The same run once more: equal weights, or from logs, which know none, equal values at equal steps. */
bool runs_repeat(const struct run *a, const struct run *b);
/* A record always does. */
bool run_has_grad_norm(const struct run *run);
/* An arithmetic that stands in for a card. A record says which backend made it, and only "cuda" is a card; without a
 * record the profile's name is all there is. */
bool run_is_simulated(const struct run *run);
/* NULL: not evaluated after this step. */
const struct evaluation *run_evaluation(const struct run *run, int64_t step);

status report_recommend(struct report *r);

/* ERR_USAGE unless `word` is a verdict or MISMATCH. */
status report_known_verdict(const char *word);
/* ERR_RESULT naming the runs for which the report says `word`. */
status report_fail_on(const struct report *r, const char *word);

/* ---- writing ---- */

status report_json(json_t **out, const struct report *r);
/* Text forms, written to an open stream; a full disk is noticed by whoever closes it. */
void report_markdown(FILE *out, const struct report *r);
/* `library` is the folder with dygraph.min.js and .css. */
status report_html(FILE *out, const struct report *r, const char *library);

/* configs/<target>.yaml for every target with a recommendation. */
status report_configs(const struct report *r, const char *folder);

#endif
