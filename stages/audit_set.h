/* audit_set.h - what the audits of a run say together: is the error of the gradient noise, a bias, or a gain?
 *
 * A set is the audits at frozen weights, or those of steps; only audits with a proven control count. Tests of the whole
 * model decide: the constant part (at frozen weights), the mean over layers of the cosine of e and g0, and the gain. They
 * are corrected among themselves (Holm); so are those of the layers, which say where. A set, not a study, is the family.
 */
#ifndef REMATCH_STAGES_AUDIT_SET_H
#define REMATCH_STAGES_AUDIT_SET_H

#include "stages/audits.h"
#include "stages/bias.h"

enum audit_kind { AUDIT_FROZEN, AUDIT_STEPS, AUDIT_KINDS };
const char *audit_kind_name(enum audit_kind k); /* "frozen", "steps" */

enum audit_conclusion {
    CONCLUSION_EXACT,     /* g1 has the bits of g0 in every audit */
    CONCLUSION_NOISE,     /* no test finds a direction in e */
    CONCLUSION_GAIN,      /* e follows g0: the gain or the cosine has a mean */
    CONCLUSION_BIAS,      /* e has a constant part */
    CONCLUSION_BOTH,      /* both */
    CONCLUSION_UNDECIDED, /* no test finds anything, in fewer than BIAS_LEAST audits or where values are not finite */
    CONCLUSIONS
};
const char *audit_conclusion_name(enum audit_conclusion c); /* "exact", "noise", "gain", "bias", "bias and gain", ... */

/* Means over the audits, and tests; the size of the constant part relative to the layer's gradient. */
struct audit_layer_set {
    struct audit_measures mean;
    struct bias_test constant, gain;
};

struct audit_set {
    enum audit_kind kind;
    int count, unproven; /* audits that count, and that do not */
    int64_t first, last; /* their steps */
    enum audit_conclusion conclusion;
    struct audit_measures mean;
    double noise;        /* sqrt(tr(Sigma) / B) relative to |g0|, NaN where it is not known */
    bool sized_by_noise; /* the size of the constant part is relative to the noise, else to |g0| */
    struct bias_test constant, cosine, gain;
    double steps_to_noise; /* after which a constant part of that size weighs as much as the noise; NaN: not known */
    int layers;
    struct audit_layer_set *layer; /* (layers + 1): the last is what lies outside layers */
};

/* Of the audits of one kind. ERR_MEMORY. audit_set_free releases it, also when this fails. */
status audit_set_judge(struct audit_set *out, const struct audits *audits, enum audit_kind kind,
                       const struct model_shape *shape);
void audit_set_free(struct audit_set *set);

#endif
