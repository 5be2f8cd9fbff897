#include "stages/audit_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEVEL = 0.05;

const char *audit_kind_name(enum audit_kind k) { return k == AUDIT_FROZEN ? "frozen" : "steps"; }

const char *audit_conclusion_name(enum audit_conclusion c)
{
    static const char *const names[CONCLUSIONS] = {"exact", "noise", "gain", "bias", "bias and gain", "undecided"};
    return names[c];
}

/* ---- the audits that count ---- */

struct chosen {
    const struct audit **at;
    const struct model_shape *shape;
    int count, block;
};

static status choose(struct audit_set *out, struct chosen *chosen, const struct audits *audits)
{
    chosen->at = calloc((size_t)audits->count + 1, sizeof *chosen->at);
    if (!chosen->at)
        return FAIL(ERR_MEMORY, "no memory for %d audits", audits->count);
    for (int i = 0; i < audits->count; i++) {
        const struct audit *a = audits->at[i];
        if (a->frozen != (out->kind == AUDIT_FROZEN))
            continue;
        if (!audit_proven(a)) {
            out->unproven++;
            continue;
        }
        out->first = chosen->count ? out->first : a->step;
        out->last = a->step;
        chosen->at[chosen->count++] = a;
    }
    out->count = chosen->count;
    /* Batches of a frozen set are drawn apart and their weights are the same. */
    chosen->block = out->kind == AUDIT_FROZEN ? 1 : bias_block(chosen->count);
    return OK;
}

/* ---- means and tests ---- */

/* Of a layer, of what lies outside layers (index `layers`), or of the model (-1). */
static struct audit_sums sums_of(const struct chosen *c, int audit, int layer)
{
    int layers = c->shape->layers;
    return layer < 0 ? audit_model(c->at[audit]) : audit_layer(c->at[audit], c->shape, layer == layers ? -1 : layer);
}

static struct audit_measures mean_measures(const struct chosen *c, int layer)
{
    enum { MEASURES = sizeof(struct audit_measures) / sizeof(double) };
    double sum[MEASURES] = {0};
    struct audit_measures out;
    for (int i = 0; i < c->count; i++) {
        const struct audit_sums sums = sums_of(c, i, layer);
        const struct audit_measures one = audit_measures(&sums);
        double x[MEASURES];
        memcpy(x, &one, sizeof x);
        for (int m = 0; m < MEASURES; m++)
            sum[m] += x[m];
    }
    for (int m = 0; m < MEASURES; m++)
        sum[m] /= c->count;
    memcpy(&out, sum, sizeof out);
    return out;
}

static status test_gain(struct bias_test *out, const struct chosen *c, int layer, double *x)
{
    for (int i = 0; i < c->count; i++) {
        const struct audit_sums sums = sums_of(c, i, layer);
        x[i] = audit_measures(&sums).gain;
    }
    return bias_mean(out, x, c->count, c->block);
}

/* The mean over those layers that have an error. */
static status test_cosine(struct bias_test *out, const struct chosen *c, double *x)
{
    for (int i = 0; i < c->count; i++) {
        double sum = 0;
        int layers = 0;
        for (int l = 0; l < c->shape->layers; l++) {
            const struct audit_sums sums = sums_of(c, i, l);
            if (sums.e_e == 0)
                continue;
            sum += audit_measures(&sums).error_cosine;
            layers++;
        }
        x[i] = layers ? sum / layers : 0;
    }
    return bias_mean(out, x, c->count, c->block);
}

static double mean_noise(const struct chosen *c)
{
    double sum = 0;
    for (int i = 0; i < c->count; i++)
        sum += audit_noise(c->at[i]) / c->count;
    return sum;
}

/* Sketches of a layer or the model side by side, and the scale of each audit. */
static status test_constant(struct bias_test *out, const struct chosen *c, int layer, bool by_noise, double *scale)
{
    int k = layer < 0 ? AUDIT_BUCKETS : AUDIT_LAYER_BUCKETS;
    double *s = malloc((size_t)c->count * (size_t)k * sizeof *s);
    if (!s)
        return FAIL(ERR_MEMORY, "no memory for %d sketches", c->count);
    for (int i = 0; i < c->count; i++) {
        const struct audit *a = c->at[i];
        const double *sketch = layer < 0 ? a->sketch : a->layer_sketch + layer * AUDIT_LAYER_BUCKETS;
        memcpy(s + i * k, sketch, (size_t)k * sizeof *s);
        scale[i] = by_noise ? audit_noise(a) : sums_of(c, i, layer).g0_g0;
    }
    status st = bias_constant(out, s, c->count, k, scale);
    free(s);
    return st;
}

static const struct bias_test not_made = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};

static status judge_model(struct audit_set *out, const struct chosen *c, double *x)
{
    double noise = mean_noise(c), square = 0;
    struct bias_test *tests[] = {&out->constant, &out->cosine, &out->gain};
    for (int i = 0; i < c->count; i++)
        square += audit_model(c->at[i]).g0_g0 / c->count;
    out->mean = mean_measures(c, -1);
    out->sized_by_noise = noise > 0;
    out->noise = noise > 0 ? sqrt(noise / square) : NAN;
    out->constant = not_made;
    if (out->kind == AUDIT_FROZEN)
        TRY(test_constant(&out->constant, c, -1, out->sized_by_noise, x));
    TRY(test_cosine(&out->cosine, c, x));
    TRY(test_gain(&out->gain, c, -1, x));
    bias_holm(tests, 3);
    double size = out->sized_by_noise ? out->constant.estimate : NAN;
    out->steps_to_noise = size > 0 ? 1 / (size * size) : NAN;
    return OK;
}

static status judge_layers(struct audit_set *out, const struct chosen *c, double *x)
{
    int tests = 0;
    struct bias_test **test = calloc(2 * ((size_t)out->layers + 1), sizeof(struct bias_test *));
    if (!test)
        return FAIL(ERR_MEMORY, "no memory for the tests of %d layers", out->layers);
    status st = OK;
    for (int l = 0; l <= out->layers; l++) {
        struct audit_layer_set *layer = &out->layer[l];
        layer->mean = mean_measures(c, l);
        layer->constant = layer->gain = not_made;
        /* Where there is no error there is nothing to test. */
        if (layer->mean.error == 0)
            continue;
        if (out->kind == AUDIT_FROZEN && l < out->layers)
            TRY_DONE(test_constant(&layer->constant, c, l, false, x));
        TRY_DONE(test_gain(&layer->gain, c, l, x));
        test[tests++] = &layer->constant;
        test[tests++] = &layer->gain;
    }
    bias_holm(test, tests);
done:
    free(test);
    return st;
}

/* ---- the conclusion ---- */

static bool found(const struct bias_test *test) { return test->adjusted <= LEVEL; }

static bool is_exact(const struct chosen *c)
{
    for (int i = 0; i < c->count; i++)
        if (audit_model(c->at[i]).e_e != 0)
            return false;
    return true;
}

static enum audit_conclusion conclude(const struct audit_set *set, const struct chosen *c)
{
    bool gain = found(&set->gain) || found(&set->cosine), constant = found(&set->constant);
    if (is_exact(c))
        return CONCLUSION_EXACT;
    if (gain || constant)
        return gain && constant ? CONCLUSION_BOTH : gain ? CONCLUSION_GAIN : CONCLUSION_BIAS;
    return c->count >= BIAS_LEAST && isfinite(set->mean.error) ? CONCLUSION_NOISE : CONCLUSION_UNDECIDED;
}

status audit_set_judge(struct audit_set *out, const struct audits *audits, enum audit_kind kind,
                       const struct model_shape *shape)
{
    struct chosen chosen = {.shape = shape};
    double *x = NULL;
    status st = OK;
    *out = (struct audit_set){.kind = kind, .layers = shape->layers};
    TRY_DONE(choose(out, &chosen, audits));
    x = malloc(((size_t)chosen.count + 1) * sizeof *x);
    out->layer = calloc((size_t)out->layers + 1, sizeof *out->layer);
    if (!x || !out->layer)
        TRY_DONE(FAIL(ERR_MEMORY, "no memory for the tests of %d audits", chosen.count));
    if (!chosen.count)
        goto done;
    TRY_DONE(judge_model(out, &chosen, x));
    TRY_DONE(judge_layers(out, &chosen, x));
    out->conclusion = conclude(out, &chosen);
done:
    free(chosen.at);
    free(x);
    return st;
}

void audit_set_free(struct audit_set *set)
{
    free(set->layer);
    set->layer = NULL;
}
