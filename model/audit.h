/* audit.h - what recompute does to a step's gradient.
 *
 * g1 is the step's gradient as policy, arithmetic and fault make it, g0 that of its control (decoder.h): the same weights,
 * micro-batches, masks and forward, and nothing different about the rebuild. e = g1 - g0 is what recompute adds; what the
 * forward's own arithmetic does is in both. Both are sums over all reduction groups and ranks, before clipping.
 *
 * Sums are kept for each parameter, because sums add up to layers and to the model and ratios do not. They are taken in
 * double over the elements of a parameter in flat order, one thread to a parameter, and over parameters in order of
 * shape.h: they depend on neither threads, instruction set nor ranks.
 *
 * The count-sketch of e throws every element, with a sign, into one of k buckets; bucket and sign are drawn from Philox by
 * parameter and element, the same in every audit of every run. So sketches add like gradients, and the inner product of
 * two sketches is that of the two errors, unbiased, with a standard deviation of at most sqrt(2/k) of the product of their
 * lengths. k = 256 for the model: over the 120 pairs of 16 audits that is below 1 % of |e|^2, so that a constant tenth of
 * |e| shows, and the length of a constant part is off by about 4 %. k = 32 for a layer (12 %), since a line holds all of
 * them. Source: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", ICALP 2002.
 *
 * Noise: a gradient is an average over sequences, so it has a covariance Sigma / B around the gradient of all data. From
 * the squared lengths of the reduction groups' shares of g0, with G >= 2 groups,
 *   tr(Sigma) / B = (G sum_k |share_k|^2 - |g0|^2) / (G - 1)    without bias (arXiv:1812.06162, appendix A.1, where the
 * small batch is a group). An error of this length in every step weighs as much as the choice of the batch.
 */
#ifndef REMATCH_MODEL_AUDIT_H
#define REMATCH_MODEL_AUDIT_H

#include "model/decoder.h"

enum { AUDIT_BUCKETS = 256, AUDIT_LAYER_BUCKETS = 32 };

/* Over the elements of a parameter, a layer or the model. w: master weights. u: the direction in which Adam moves the
 * weights when it steps with g1, without learning rate and decay. */
struct audit_sums {
    double g0_g0, e_e, e_g0, w_w, e_w, u_u, e_u;
    int64_t elements;
    int64_t same_sign; /* of g1 and g0: both above, both below or both equal to 0 */
    int64_t missing;   /* g1 is 0 and g0 is not */
};

struct audit {
    int64_t step;
    bool frozen;      /* of a set at the weights that the point starts from; no step follows it */
    int64_t expected; /* tensors that the control had to rebuild and compare, on all ranks */
    struct control_proof proof;
    int parameters, layers, groups;
    struct audit_sums *parameter; /* (parameters) in order of shape.h */
    double sketch[AUDIT_BUCKETS];
    double *layer_sketch; /* (layers * AUDIT_LAYER_BUCKETS) */
    double *group_square; /* (groups) squared length of each reduction group's share of g0 */
};

/* With everything 0 but the numbers of elements. */
status audit_new(struct audit **out, const struct model_shape *shape, int groups);
void audit_free(struct audit *a);

/* Whether the control was one: every tensor that it rebuilt was compared, and had the forward's bits. An audit without a
 * proven control says nothing. */
bool audit_proven(const struct audit *a);

/* Fills sums and sketches. g1 is state->grad, g0 `control`: (1, shape_elements) f32, as all of the state but the weights.
 * `how`: the step that Adam would make (optimizer_adamw). ERR_ARGUMENT for other types. */
status audit_measure(struct audit *a, const struct model_shape *shape, const struct optimizer_state *state,
                     const struct view *control, const struct adamw *how, int threads);

/* The sums of a layer, -1: of the parameters outside layers; of the model. */
struct audit_sums audit_layer(const struct audit *a, const struct model_shape *shape, int layer);
struct audit_sums audit_model(const struct audit *a);

/* tr(Sigma) / B of this audit, squared: by its own noise it may be negative. NaN with fewer than 2 groups. */
double audit_noise(const struct audit *a);

/* What sums say; NaN where a length is 0. */
struct audit_measures {
    double error;              /* |e| / |g0| */
    double cosine;             /* of g1 and g0 */
    double gain;               /* <e, g0> / |g0|^2: -0.01 is a gradient that is 1 % short */
    double error_cosine;       /* of e and g0 */
    double along_weights;      /* cosine of e and w */
    double along_update;       /* cosine of e and u */
    double same_sign, missing; /* of the elements */
};
struct audit_measures audit_measures(const struct audit_sums *s);

#endif
