/* policy.h - verdicts about a policy, from the runs of two families. */
#ifndef REMATCH_STAGES_REPORT_POLICY_H
#define REMATCH_STAGES_REPORT_POLICY_H

#include "stages/report/report.h"

/* The steps over which one mean per run is taken, and the one whose held-out losses are. */
struct mean_range {
    int64_t first, last, count, evaluated; /* evaluated -1: never */
};

/* Fills the policies and PRESET_RCP of `out` from the families of two runs. The seed replicates of both decide where each side has at
 * least two runs, else the arithmetic ones; a run belongs to the sample once, however often its weights occur. ERR_MEMORY. */
status policy_judge(struct contrast *out, const struct report *r, int baseline, int candidate,
                    const struct mean_range *range);

/* Adds to the policy's reason what it says of the runs that count: again whenever the verdict was. */
void policy_explain(struct contrast *c, enum gap_metric m);

#endif
