/* build_internal.h - what the two halves of the builder share: filling runs (build.c) and ending them (build_end.c). */
#ifndef REMATCH_STAGES_LOGS_BUILD_INTERNAL_H
#define REMATCH_STAGES_LOGS_BUILD_INTERNAL_H

#include "stages/logs/readers.h"

enum { SERIES_MOST = 1024 };

/* What a run needs only while it is read. */
struct run_state {
    char tag[LOG_NAME];
    int ordinal; /* among the runs of its tag, from 1 */
    bool begun;
    int64_t first, last;                                /* steps */
    int64_t heard;                                      /* settings: how many the run knows */
    int64_t repeated, contradicted, first_contradicted; /* steps printed twice in a row */
    int64_t rewound;                                    /* values that others of the same steps replaced */
    int64_t left_out_series;
    /* Losses before the last seam, which those behind it replace. */
    int64_t seam, replaced_count, compared, differing, first_differing;
    struct log_point *replaced;
};

static inline struct run_state *state_of(const struct builder *b) { return &b->state[b->current]; }
static inline struct log_run *run_of(const struct builder *b) { return &b->logs->run[b->current]; }

status build_no_memory(const struct builder *b);
bool build_same_value(double a, double b); /* NaN is NaN */
status build_note_of(const struct builder *b, struct log_run *run, const char *text);
/* What was heard since the run's last step is its own; what it changes in a run that goes on is noted. */
status build_take_settings(struct builder *b, int64_t step);
/* Notes what the steps that are there twice say about each other. */
status build_end_seam(struct builder *b);

#endif
