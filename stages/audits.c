#include "stages/audits.h"

#include <stddef.h>
#include <stdlib.h>

/* The exact sums of a parameter, and its counts, by their names in the file: an array each, over parameters. */
static const struct {
    const char *name;
    size_t at;
} exact[] =
    {
        {"g0_g0", offsetof(struct audit_sums, g0_g0)}, {"e_e", offsetof(struct audit_sums, e_e)},
        {"e_g0", offsetof(struct audit_sums, e_g0)},   {"w_w", offsetof(struct audit_sums, w_w)},
        {"e_w", offsetof(struct audit_sums, e_w)},     {"u_u", offsetof(struct audit_sums, u_u)},
        {"e_u", offsetof(struct audit_sums, e_u)},
},
  counted[] = {
      {"same_sign", offsetof(struct audit_sums, same_sign)},
      {"missing", offsetof(struct audit_sums, missing)},
};
enum { EXACT = sizeof exact / sizeof *exact, COUNTED = sizeof counted / sizeof *counted };

static double *exact_of(const struct audit *a, int parameter, int i)
{
    return (double *)((char *)&a->parameter[parameter] + exact[i].at);
}

static int64_t *count_of(const struct audit *a, int parameter, int i)
{
    return (int64_t *)((char *)&a->parameter[parameter] + counted[i].at);
}

/* ---- writing ---- */

static json_t *exact_array(const double *x, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_exact(x[i]));
    return array;
}

static json_t *parameters_json(const struct audit *a)
{
    json_t *object = json_object();
    for (int i = 0; i < EXACT; i++) {
        json_t *array = json_array();
        for (int p = 0; p < a->parameters; p++)
            json_array_append_new(array, json_exact(*exact_of(a, p, i)));
        json_object_set_new(object, exact[i].name, array);
    }
    for (int i = 0; i < COUNTED; i++) {
        json_t *array = json_array();
        for (int p = 0; p < a->parameters; p++)
            json_array_append_new(array, json_integer(*count_of(a, p, i)));
        json_object_set_new(object, counted[i].name, array);
    }
    return object;
}

/* A line that memory was too short for is one that cannot be read: its arrays are too short. */
status audits_append(struct jsonl *j, const struct audit *a)
{
    return jsonl_append(j, json_pack("{s:I, s:b, s:{s:I, s:I, s:I}, s:o, s:o, s:o, s:o}", "step", (json_int_t)a->step,
                                     "frozen", a->frozen, "control", "expected", (json_int_t)a->expected, "compared",
                                     (json_int_t)a->proof.compared, "mismatched", (json_int_t)a->proof.mismatched,
                                     "parameters", parameters_json(a), "sketch", exact_array(a->sketch, AUDIT_BUCKETS),
                                     "layer_sketches", exact_array(a->layer_sketch, a->layers * AUDIT_LAYER_BUCKETS),
                                     "group_squares", exact_array(a->group_square, a->groups)));
}

/* ---- reading ---- */

static status array_of(const json_t **out, const json_t *object, const char *field, int count, const char *where)
{
    *out = json_object_get(object, field);
    if (json_is_array(*out) && json_array_size(*out) == (size_t)count)
        return OK;
    return FAIL(ERR_INPUT, "%s: \"%s\": expected an array of %d values; run the point again", where, field, count);
}

/* Element i goes to `out` + i * stride bytes. */
static status read_exact(void *out, size_t stride, int count, const json_t *object, const char *field,
                         const char *where)
{
    const json_t *array;
    TRY(array_of(&array, object, field, count, where));
    for (int i = 0; i < count; i++) {
        json_t *one = json_pack("{sO}", field, json_array_get(array, (size_t)i));
        status st = json_exact_read((double *)((char *)out + (size_t)i * stride), one, field, where);
        json_decref(one);
        TRY(st);
    }
    return OK;
}

static status read_counts(struct audit *a, int i, const json_t *object, const char *where)
{
    const json_t *array;
    const char *field = counted[i].name;
    TRY(array_of(&array, object, field, a->parameters, where));
    for (int p = 0; p < a->parameters; p++) {
        const json_t *one = json_array_get(array, (size_t)p);
        int64_t most = a->parameter[p].elements;
        if (!json_is_integer(one) || json_integer_value(one) < 0 || json_integer_value(one) > most)
            return FAIL(ERR_INPUT, "%s: \"%s\" of parameter %d: expected a whole number from 0 to %lld", where, field,
                        p, (long long)most);
        *count_of(a, p, i) = json_integer_value(one);
    }
    return OK;
}

static status read_parameters(struct audit *a, const json_t *object, const char *where)
{
    TRY(json_fields(object, EXACT + COUNTED, where));
    for (int i = 0; i < EXACT; i++)
        TRY(read_exact(exact_of(a, 0, i), sizeof *a->parameter, a->parameters, object, exact[i].name, where));
    for (int i = 0; i < COUNTED; i++)
        TRY(read_counts(a, i, object, where));
    return OK;
}

static status read_control(struct audit *a, const json_t *object, const char *where)
{
    int64_t compared, mismatched;
    TRY(json_fields(object, 3, where));
    TRY(json_integer_read(&a->expected, object, "expected", 0, where));
    TRY(json_integer_read(&compared, object, "compared", 0, where));
    TRY(json_integer_read(&mismatched, object, "mismatched", 0, where));
    a->proof = (struct control_proof){(uint64_t)compared, (uint64_t)mismatched};
    return OK;
}

static status read_audit(struct audit *a, const json_t *object, const char *where)
{
    const json_t *frozen = json_object_get(object, "frozen");
    size_t real = sizeof(double);
    TRY(json_fields(object, 7, where));
    TRY(json_integer_read(&a->step, object, "step", 1, where));
    if (!json_is_boolean(frozen))
        return FAIL(ERR_INPUT, "%s: \"frozen\": expected true or false", where);
    a->frozen = json_is_true(frozen);
    TRY(read_control(a, json_object_get(object, "control"), where));
    TRY(read_parameters(a, json_object_get(object, "parameters"), where));
    TRY(read_exact(a->sketch, real, AUDIT_BUCKETS, object, "sketch", where));
    TRY(read_exact(a->layer_sketch, real, a->layers * AUDIT_LAYER_BUCKETS, object, "layer_sketches", where));
    return read_exact(a->group_square, real, a->groups, object, "group_squares", where);
}

struct reading {
    struct audits *into;
    const struct model_shape *shape;
    int groups;
};

static status check_order(const struct audits *all, const char *where)
{
    if (all->count < 2)
        return OK;
    const struct audit *last = all->at[all->count - 1], *before = all->at[all->count - 2];
    if (last->frozen == before->frozen ? last->step > before->step : before->frozen)
        return OK;
    return FAIL(ERR_INPUT, "%s: an audit of step %lld%s follows one of step %lld%s; lines are lost or doubled", where,
                (long long)last->step, last->frozen ? " at frozen weights" : "", (long long)before->step,
                before->frozen ? " at frozen weights" : "");
}

static status read_line(void *self, json_t *object, const char *where)
{
    struct reading *reading = self;
    struct audits *all = reading->into;
    struct audit **longer = realloc(all->at, ((size_t)all->count + 1) * sizeof *all->at);
    if (!longer)
        return FAIL(ERR_MEMORY, "%s: no memory for %d audits", where, all->count + 1);
    all->at = longer;
    TRY(audit_new(&all->at[all->count], reading->shape, reading->groups));
    all->count++;
    TRY(read_audit(all->at[all->count - 1], object, where));
    return check_order(all, where);
}

status audits_read(struct audits *out, const struct model_shape *shape, int groups, const char *name, const void *bytes,
                   size_t size)
{
    struct reading reading = {out, shape, groups};
    *out = (struct audits){0};
    return jsonl_each(name, bytes, size, read_line, &reading);
}

void audits_free(struct audits *a)
{
    for (int i = 0; i < a->count; i++)
        audit_free(a->at[i]);
    free(a->at);
    *a = (struct audits){0};
}
