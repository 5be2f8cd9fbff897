/* presets.h - gates that others use, computed as their rules say and shown beside the verdict; they decide nothing.
 *
 * A relative difference is |candidate - baseline| / |baseline|. Where a rule names no steps, all compared steps count; "the
 * tail" is the judged window. What a rule cannot be asked of these runs (too few of them, no gradient norms) does not apply.
 */
#ifndef REMATCH_STAGES_PRESETS_H
#define REMATCH_STAGES_PRESETS_H

#include "stages/verdict.h"

enum preset {
    PRESET_NATS,            /* nats-0.02 */
    PRESET_MEAN_REL_1,      /* mean-rel-1 */
    PRESET_MEAN_REL_2,      /* mean-rel-2 */
    PRESET_XPU_GPU,         /* xpu-gpu */
    PRESET_MEGATRON_APPROX, /* megatron-approx */
    PRESET_LAST_STEP_5,     /* last-step-5 */
    PRESET_RCP,             /* rcp */
    PRESETS
};

enum preset_outcome { PRESET_NOT_APPLICABLE, PRESET_PASSES, PRESET_FAILS };
const char *preset_outcome_name(enum preset_outcome o); /* "n/a", "passes", "fails" */

struct preset_rule {
    const char *name, *rule, *source, *weakness;
};
const struct preset_rule *preset_rule(enum preset p);

struct preset_result {
    enum preset_outcome outcome;
    char text[160]; /* the figures that the rule looks at, or why it does not apply */
};

/* Two runs at their common steps. */
struct preset_runs {
    struct paired_series loss, norm;
    double window[2];
};

/* Fills out[PRESETS] but for PRESET_RCP. A value that is not finite fails what looks at it. ERR_MEMORY. */
status presets_apply(struct preset_result out[PRESETS], const struct preset_runs *runs);

/* PRESET_RCP, from one mean per run of the loss over the tail. */
void preset_rcp(struct preset_result *out, int baselines, const double *baseline, int candidates,
                const double *candidate);

#endif
