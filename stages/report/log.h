/* log.h - runs that are known from another trainer's log alone: how they become runs of a report, which of them may be
 * compared, and what "equal" means for rounded numbers.
 *
 * Such a run has a loss and what else the log carries; no certificate, no weights, no plan. Nothing is interpolated:
 * pairs are judged at the steps that both logs print.
 */
#ifndef REMATCH_STAGES_REPORT_LOG_H
#define REMATCH_STAGES_REPORT_LOG_H

#include "stages/logs/logs.h"
#include "stages/report/document.h"
#include "stages/report/report.h"

struct run_log {
    struct logs logs;
    const struct log_run *run; /* the one that was chosen */
    /* NULL: not logged; the loss always is. A gradient norm counts when it is there at every step of the loss. */
    const struct log_series *loss, *held_out, *grad_norm, *learning_rate;
};

/* Whether a file is a record, by its suffix or its content; else it is read as a log. */
status log_is_record(bool *out, const char *path);
/* "FILE" or "FILE#RUN". ERR_USAGE when the file holds several runs and none is named; ERR_INPUT without a loss. */
status log_load(struct run *run, const char *path);
void log_free(struct run_log *log); /* NULL-safe */

/* ---- settings ---- */

/* Calls `differs` for each setting that both runs tell and that is not the same. `group`: what --allow calls it; "": it
 * does not forbid a comparison. */
typedef status log_differs(void *self, const char *key, const char *group, const char *a, const char *b);
status log_differences(const struct run *a, const struct run *b, log_differs *differs, void *self);
/* ERR_INPUT for a difference that is not allowed. Runs of two records are not its business. */
status log_check_comparable(const struct report *r, const struct run *a, const struct run *b);
/* ERR_USAGE, listing them, unless `word` is a group. */
status log_known_group(const char *word);

/* ---- judging ---- */

/* Values that are equal as far as they are printed, all of them, are made equal: *digits is how many digits of them are
 * seen at least. 0: they differ somewhere, or both runs are records. */
int log_equal_digits(const struct run *baseline, const struct run *candidate, enum gap_metric metric,
                     const struct paired_series *series, double *candidate_values);
/* One unit of the last printed digit, where it is largest; 0: exact. */
double log_resolution(const struct run *run, enum gap_metric metric);
/* The single differences behind a gap, at the common steps: what a reader of two logs looks for first. */
struct log_contrast {
    int64_t common, differing, finite;
    int64_t first, largest_at; /* steps */
    double first_baseline, first_candidate;
    double largest, mean; /* |candidate - baseline| / |baseline|, of steps where both are finite */
};
struct log_contrast log_contrast_of(const struct run *baseline, const struct run *candidate);
/* Says of IDENTICAL at which precision. */
void log_word_identity(struct judgement *pair, int digits);

/* UNDECIDED where losses are printed more coarsely than the margin, and the verdict lies within that rounding. */
void log_doubt_rounding(struct judgement *pair, double resolution, double margin);

/* One mean over a held-out set on each side: a gap, and nothing to judge it with. */
void log_word_held_out(struct judgement *pair, double baseline, double candidate);

/* ---- writing ---- */

void log_findings(struct document *d, const struct report *r);
void log_section(struct document *d, const struct report *r); /* nothing without logs */
const char *log_policy(const struct run *run);                /* "full, block, 24"; "not told" */
json_t *log_json(const struct run *run);                      /* NULL: no memory */

#endif
