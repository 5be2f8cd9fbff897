/* evidence.h - what stands beside the verdicts of a contrast, and what they are worth together. */
#ifndef REMATCH_STAGES_REPORT_EVIDENCE_H
#define REMATCH_STAGES_REPORT_EVIDENCE_H

#include "stages/report/report.h"

/* Onset, likeness and cross-checks of losses and gradient norms, and the presets, from the steps that both runs have.
 * ERR_MEMORY. */
status evidence_take(struct contrast *out, const struct run *baseline, const struct run *candidate,
                     const struct paired_series series[GAP_METRICS]);

/* Prices of what is not decided; `common`: how many steps both runs have. */
void evidence_price(struct contrast *out, const struct run *baseline, const struct run *candidate, int64_t common);

/* Corrects all tests of the study, and decides its policies again. ERR_MEMORY. */
status evidence_correct(struct report *r);

#endif
