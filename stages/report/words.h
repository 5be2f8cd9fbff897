/* words.h - facts of a report as short texts, shared by markdown, HTML, recommendations and configurations. */
#ifndef REMATCH_STAGES_REPORT_WORDS_H
#define REMATCH_STAGES_REPORT_WORDS_H

#include "stages/report/report.h"

enum { WORDS = 160, COUNT = 32 };

/* Each prints into the caller's buffer and returns it. */
const char *words_count(char text[COUNT], uint64_t count);                /* "2,995,200" */
const char *words_bytes(char text[WORDS], uint64_t bytes);                /* "1.5 GiB" */
const char *words_gap(char text[WORDS], const struct judgement *j);       /* "+0.0021 [+0.0003, +0.0039]" */
const char *words_gap_short(char text[WORDS], const struct judgement *j); /* "+0.0021 ± 0.0018" */
const char *words_detectable(char text[WORDS], const struct judgement *j);
/* In 1,000 steps: "+0.002 [-0.001, +0.005], detectable 0.004"; "-" where no slope was judged. */
const char *words_drift(char text[WORDS], const struct drift *drift);
/* "step 120 [100, 131]", "no step of the mean", ... */
const char *words_onset(char text[WORDS], const struct onset *o);
/* "2 more runs, 0.5 device hours"; "" when nothing is missing. `stable` leaves out the hours, which are measured. */
const char *words_price(char text[WORDS], const struct price *p, bool stable);
const char *words_target(char text[WORDS], const struct run *run);            /* "l40s (simulated)" */
const char *words_policy(char text[WORDS], const struct recompute_policy *p); /* "24 layers", "nothing", ... */
const char *words_mismatch(char text[WORDS], const struct run *run);    /* "step 151, layer 3, attention_dropout ..." */
const char *words_certificate(char text[WORDS], const struct run *run); /* "0 of 2,995,200 tensors mismatched" */
const char *words_progress(char text[WORDS], const struct run *run);    /* "stopped at step 80 of 250" */
const char *words_divergence(char text[WORDS], const struct run *run);  /* "step 151 (loss is not finite)" */

/* "a, b, c", or "a, b and 17 more" where they would not fit. Begins as {0}. */
struct names {
    char text[1024];
    size_t used;
    int more;
};
void names_add(struct names *n, const char *name);
const char *names_text(struct names *n); /* once, when all were added */

/* JSON has no infinities: what is not finite is null. */
json_t *json_number(double value);

const char *metric_name(enum gap_metric m);  /* "loss", "held_out", "grad_norm": of report.json */
const char *metric_title(enum gap_metric m); /* "loss", "held-out loss", "gradient norm" */

#endif
