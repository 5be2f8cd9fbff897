#include "model/audit.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/philox.h"

/* ---- an audit ---- */

status audit_new(struct audit **out, const struct model_shape *shape, int groups)
{
    struct audit *a = calloc(1, sizeof *a);
    *out = NULL;
    if (a) {
        a->parameters = shape_parameter_count(shape);
        a->layers = shape->layers;
        a->groups = groups;
        a->parameter = calloc((size_t)a->parameters, sizeof *a->parameter);
        a->layer_sketch = calloc((size_t)a->layers * AUDIT_LAYER_BUCKETS, sizeof *a->layer_sketch);
        a->group_square = calloc((size_t)groups, sizeof *a->group_square);
    }
    if (!a || !a->parameter || !a->layer_sketch || !a->group_square) {
        audit_free(a);
        return FAIL(ERR_MEMORY, "no memory for an audit of %d layers", shape->layers);
    }
    for (int i = 0; i < a->parameters; i++) {
        struct parameter p = shape_parameter(shape, i);
        a->parameter[i].elements = p.rows * p.cols;
    }
    *out = a;
    return OK;
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    free(a->parameter);
    free(a->layer_sketch);
    free(a->group_square);
    free(a);
}

bool audit_proven(const struct audit *a)
{
    return a->proof.mismatched == 0 && a->proof.compared == (uint64_t)a->expected;
}

/* ---- measuring ---- */

/* One parameter: its elements of every array, its sums and its two sketches. */
struct part {
    const float *g1, *g0, *w, *m, *v;
    const struct adamw *how;
    uint32_t index;
    struct audit_sums sums;
    double sketch[AUDIT_BUCKETS], layer_sketch[AUDIT_LAYER_BUCKETS];
};

/* As op_adamw moves a weight, but for learning rate and decay. */
static double update_of(const struct part *p, int64_t i)
{
    const struct adamw *how = p->how;
    double g = (double)p->g1[i] * how->grad_scale;
    double mean = how->beta1 * (double)p->m[i] + (1 - (double)how->beta1) * g;
    double square = how->beta2 * (double)p->v[i] + (1 - (double)how->beta2) * g * g;
    return -(mean / how->correction1) / (sqrt(square / how->correction2) + how->eps);
}

static int sign_of(double x) { return (x > 0) - (x < 0); }

static void add_element(struct audit_sums *s, double g1, double g0, double w, double u)
{
    double e = g1 - g0;
    s->g0_g0 += g0 * g0;
    s->e_e += e * e;
    s->e_g0 += e * g0;
    s->w_w += w * w;
    s->e_w += e * w;
    s->u_u += u * u;
    s->e_u += e * u;
    s->same_sign += sign_of(g1) == sign_of(g0);
    s->missing += g1 == 0 && g0 != 0;
}

/* Bits 0 to 7 of a word choose the model's bucket, 8 to 12 the layer's, 31 and 30 their signs. */
static void throw(struct part * p, uint32_t word, double e)
{
    p->sketch[word % AUDIT_BUCKETS] += word >> 31 ? -e : e;
    p->layer_sketch[(word >> 8) % AUDIT_LAYER_BUCKETS] += word >> 30 & 1 ? -e : e;
}

static void measure_part(struct part *p)
{
    const struct random_site where = {.layer = p->index, .site = SITE_SKETCH};
    uint32_t word[4];
    for (int64_t i = 0; i < p->sums.elements; i++) {
        if (i % 4 == 0)
            philox_block(word, &where, (uint64_t)i / 4);
        add_element(&p->sums, p->g1[i], p->g0[i], p->w[i], update_of(p, i));
        throw(p, word[i % 4], (double)p->g1[i] - (double)p->g0[i]);
    }
}

static void add(double *into, const double *part, int count)
{
    for (int i = 0; i < count; i++)
        into[i] += part[i];
}

static void join_parts(struct audit *a, const struct model_shape *shape, const struct part *part)
{
    memset(a->sketch, 0, sizeof a->sketch);
    memset(a->layer_sketch, 0, (size_t)a->layers * AUDIT_LAYER_BUCKETS * sizeof *a->layer_sketch);
    for (int i = 0; i < a->parameters; i++) {
        int layer = shape_parameter(shape, i).layer;
        a->parameter[i] = part[i].sums;
        add(a->sketch, part[i].sketch, AUDIT_BUCKETS);
        if (layer >= 0)
            add(a->layer_sketch + layer * AUDIT_LAYER_BUCKETS, part[i].layer_sketch, AUDIT_LAYER_BUCKETS);
    }
}

static const float *elements_at(const struct view *flat, int64_t offset) { return view_at(flat, 0, offset); }

status audit_measure(struct audit *a, const struct model_shape *shape, const struct optimizer_state *state,
                     const struct view *control, const struct adamw *how, int threads)
{
    if (state->grad.type != F32 || control->type != F32 || state->master.type != F32)
        return FAIL(ERR_ARGUMENT, "an audit of gradients in %s: expected F32", dtype_name(state->grad.type));
    struct part *part = calloc((size_t)a->parameters, sizeof *part);
    if (!part)
        return FAIL(ERR_MEMORY, "no memory for the sums of %d parameters", a->parameters);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < a->parameters; i++) {
        int64_t offset = shape_parameter(shape, i).offset;
        part[i].g1 = elements_at(&state->grad, offset);
        part[i].g0 = elements_at(control, offset);
        part[i].w = elements_at(&state->master, offset);
        part[i].m = elements_at(&state->m, offset);
        part[i].v = elements_at(&state->v, offset);
        part[i].how = how;
        part[i].index = (uint32_t)i;
        part[i].sums.elements = a->parameter[i].elements;
        measure_part(&part[i]);
    }
    join_parts(a, shape, part);
    free(part);
    return OK;
}

/* ---- what the sums say ---- */

static void add_sums(struct audit_sums *into, const struct audit_sums *part)
{
    into->g0_g0 += part->g0_g0;
    into->e_e += part->e_e;
    into->e_g0 += part->e_g0;
    into->w_w += part->w_w;
    into->e_w += part->e_w;
    into->u_u += part->u_u;
    into->e_u += part->e_u;
    into->elements += part->elements;
    into->same_sign += part->same_sign;
    into->missing += part->missing;
}

struct audit_sums audit_layer(const struct audit *a, const struct model_shape *shape, int layer)
{
    struct audit_sums sum = {0};
    for (int i = 0; i < a->parameters; i++)
        if (shape_parameter(shape, i).layer == layer)
            add_sums(&sum, &a->parameter[i]);
    return sum;
}

struct audit_sums audit_model(const struct audit *a)
{
    struct audit_sums sum = {0};
    for (int i = 0; i < a->parameters; i++)
        add_sums(&sum, &a->parameter[i]);
    return sum;
}

double audit_noise(const struct audit *a)
{
    double shares = 0;
    for (int i = 0; i < a->groups; i++)
        shares += a->group_square[i];
    return a->groups < 2 ? NAN : (a->groups * shares - audit_model(a).g0_g0) / (a->groups - 1);
}

static double ratio(double above, double below) { return below == 0 ? NAN : above / below; }

struct audit_measures audit_measures(const struct audit_sums *s)
{
    double g1_g1 = s->g0_g0 + 2 * s->e_g0 + s->e_e;
    return (struct audit_measures){
        .error = ratio(sqrt(s->e_e), sqrt(s->g0_g0)),
        .cosine = ratio(s->g0_g0 + s->e_g0, sqrt(s->g0_g0) * sqrt(g1_g1)),
        .gain = ratio(s->e_g0, s->g0_g0),
        .error_cosine = ratio(s->e_g0, sqrt(s->e_e) * sqrt(s->g0_g0)),
        .along_weights = ratio(s->e_w, sqrt(s->e_e) * sqrt(s->w_w)),
        .along_update = ratio(s->e_u, sqrt(s->e_e) * sqrt(s->u_u)),
        .same_sign = ratio((double)s->same_sign, (double)s->elements),
        .missing = ratio((double)s->missing, (double)s->elements),
    };
}
