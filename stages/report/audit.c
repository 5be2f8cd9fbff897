#include "stages/report/audit.h"

#include <stdlib.h>

#include "stages/report/words.h"

/* ---- loading ---- */

static status judge_sets(struct run_audits *out, const struct audits *audits, const struct model_shape *shape)
{
    for (int k = 0; k < AUDIT_KINDS; k++)
        TRY(audit_set_judge(&out->set[k], audits, (enum audit_kind)k, shape));
    return OK;
}

status audit_load(struct run *run, struct record *record)
{
    const struct point *p = &run->point;
    struct audits audits = {0};
    const void *bytes;
    size_t size;
    char name[LAYOUT_PATH + 32];
    if (!point_takes_audits(p))
        return OK;
    TRY(record_read(record, "audits.jsonl", &bytes, &size));
    snprintf(name, sizeof name, "%s: audits.jsonl", record_path(record));
    run->audits = calloc(1, sizeof *run->audits);
    if (!run->audits)
        return FAIL(ERR_MEMORY, "no memory for the audits of %s", name);
    status st = audits_read(&audits, &p->model, p->training.reduction_groups, name, bytes, size);
    if (st == OK)
        st = judge_sets(run->audits, &audits, &p->model);
    audits_free(&audits);
    return st;
}

void audit_unload(struct run_audits *audits)
{
    for (int k = 0; audits && k < AUDIT_KINDS; k++)
        audit_set_free(&audits->set[k]);
    free(audits);
}

/* ---- report.json ---- */

static json_t *test_json(const struct bias_test *t)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "estimate", json_number(t->estimate), "low",
                     json_number(t->low), "high", json_number(t->high), "t", json_number(t->t), "p", json_number(t->p),
                     "adjusted_p", json_number(t->adjusted), "detectable", json_number(t->detectable), "audits_needed",
                     json_number(t->needed));
}

static json_t *mean_json(const struct audit_measures *m)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "error", json_number(m->error), "cosine",
                     json_number(m->cosine), "gain", json_number(m->gain), "error_cosine", json_number(m->error_cosine),
                     "along_weights", json_number(m->along_weights), "along_update", json_number(m->along_update),
                     "same_sign", json_number(m->same_sign), "missing", json_number(m->missing));
}

static json_t *layers_json(const struct audit_set *set)
{
    json_t *layers = json_array();
    for (int l = 0; l <= set->layers; l++) {
        const struct audit_layer_set *layer = &set->layer[l];
        json_array_append_new(layers, json_pack("{s:o, s:o, s:o, s:o}", "layer",
                                                l < set->layers ? json_integer(l) : json_null(), "mean",
                                                mean_json(&layer->mean), "constant", test_json(&layer->constant),
                                                "gain", test_json(&layer->gain)));
    }
    return layers;
}

static json_t *set_json(const struct audit_set *set)
{
    if (set->count + set->unproven == 0)
        return json_null();
    json_t *object = json_pack("{s:i, s:i, s:s}", "audits", set->count, "unproven", set->unproven, "conclusion",
                               audit_conclusion_name(set->conclusion));
    if (!object || !set->count)
        return object;
    json_object_set_new(object, "first_step", json_integer(set->first));
    json_object_set_new(object, "last_step", json_integer(set->last));
    json_object_set_new(object, "mean", mean_json(&set->mean));
    json_object_set_new(object, "noise", json_number(set->noise));
    json_object_set_new(object, "constant_relative_to", json_string(set->sized_by_noise ? "noise" : "gradient"));
    json_object_set_new(object, "constant", test_json(&set->constant));
    json_object_set_new(object, "error_cosine", test_json(&set->cosine));
    json_object_set_new(object, "gain", test_json(&set->gain));
    json_object_set_new(object, "steps_to_noise", json_number(set->steps_to_noise));
    json_object_set_new(object, "layers", layers_json(set));
    return object;
}

json_t *audit_json(const struct run *run)
{
    if (!run->audits)
        return json_null();
    return json_pack("{s:o, s:o}", "frozen", set_json(&run->audits->set[AUDIT_FROZEN]), "steps",
                     set_json(&run->audits->set[AUDIT_STEPS]));
}
