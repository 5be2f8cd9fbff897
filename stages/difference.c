#include "stages/difference.h"

#include <stdlib.h>
#include <string.h>

#include "model/certificate.h"

/* ---- JSON ---- */

status difference_put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) ? FAIL(ERR_MEMORY, "no memory for the summary's '%s'", key) : OK;
}

status difference_append(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) ? FAIL(ERR_MEMORY, "no memory for the summary") : OK;
}

/* ---- the two records ---- */

status side_open(struct side *out, const char *path)
{
    status st = OK;
    struct side side = {0};
    const void *bytes;
    size_t size;
    char where[4096];
    json_error_t error;
    TRY_DONE(record_open(&side.record, path));
    if (!record_find(side.record, "config.json")) {
        st = FAIL(ERR_INPUT, "'%s' has no config.json, so it is not the record of a run: give runs/S/records/POINT%s",
                  path, RECORD_SUFFIX);
        goto done;
    }
    TRY_DONE(record_read(side.record, "config.json", &bytes, &size));
    snprintf(where, sizeof where, "%s: config.json", path);
    side.config = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!side.config) {
        st = FAIL(ERR_INPUT, "%s:%d: %s", where, error.line, error.text);
        goto done;
    }
    TRY_DONE(point_from_json(&side.point, side.config, where));
    *out = side;
    return OK;
done:
    side_close(&side);
    return st;
}

void side_close(struct side *s)
{
    record_close(s->record);
    json_decref(s->config);
    memset(s, 0, sizeof *s);
}

/* Tensors of other shapes have nothing to say to each other, so the models must be the same in all that shapes them. */
static status same_model(const struct side *a, const struct side *b)
{
    const struct model_shape *x = &a->point.model, *y = &b->point.model;
    const struct {
        const char *field;
        int a, b;
    } fields[] = {
        {"layers", x->layers, y->layers}, {"hidden", x->hidden, y->hidden},       {"ffn", x->ffn, y->ffn},
        {"heads", x->heads, y->heads},    {"kv_heads", x->kv_heads, y->kv_heads}, {"vocab", x->vocab, y->vocab},
        {"tied", x->tied, y->tied},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].a != fields[i].b)
            return FAIL(ERR_INPUT, "different models: %s is %d in '%s' and %d in '%s': compare runs of one model",
                        fields[i].field, fields[i].a, record_path(a->record), fields[i].b, record_path(b->record));
    return OK;
}

static bool same_batches(const struct point *a, const struct point *b)
{
    return a->seed == b->seed && !strcmp(a->data.source, b->data.source) &&
           !memcmp(a->data.split, b->data.split, sizeof a->data.split) &&
           a->training.sequence_length == b->training.sequence_length &&
           a->training.global_batch_size == b->training.global_batch_size;
}

static status point_json(json_t **out, const struct point *p)
{
    *out = json_pack("{s:s,s:s,s:s}", "study", p->study, "name", p->name, "target", p->target.name);
    return *out ? OK : FAIL(ERR_MEMORY, "no memory for the summary");
}

/* ---- config.json, field by field ---- */

static json_t *value_or_null(json_t *value) { return value ? json_incref(value) : json_null(); }

static status config_fields(json_t *list, const char *path, json_t *a, json_t *b)
{
    const char *key;
    json_t *value;
    char field[256];
    if (!json_is_object(a) || !json_is_object(b)) {
        if (a && b && json_equal(a, b))
            return OK;
        return difference_append(
            list, json_pack("{s:s,s:o,s:o}", "field", path, "a", value_or_null(a), "b", value_or_null(b)));
    }
    json_object_foreach(a, key, value)
    {
        snprintf(field, sizeof field, "%s%s%s", path, *path ? "." : "", key);
        TRY(config_fields(list, field, value, json_object_get(b, key)));
    }
    json_object_foreach(b, key, value) if (!json_object_get(a, key))
    {
        snprintf(field, sizeof field, "%s%s%s", path, *path ? "." : "", key);
        TRY(config_fields(list, field, NULL, value));
    }
    return OK;
}

/* ---- members, by checksum ---- */

static const char *member_word(const struct record_member *a, const struct record_member *b)
{
    if (!a)
        return "only_b";
    if (!b)
        return "only_a";
    if (a->measured && b->measured)
        return "measured";
    return a->size == b->size && !memcmp(a->hash.byte, b->hash.byte, sizeof a->hash.byte) ? "equal" : "differs";
}

static status members_json(json_t *object, const struct record *a, const struct record *b)
{
    for (int i = 0; i < record_count(a); i++) {
        const struct record_member *member = record_at(a, i);
        TRY(difference_put(object, member->name, json_string(member_word(member, record_find(b, member->name)))));
    }
    for (int i = 0; i < record_count(b); i++) {
        const struct record_member *member = record_at(b, i);
        if (!record_find(a, member->name))
            TRY(difference_put(object, member->name, json_string(member_word(NULL, member))));
    }
    return OK;
}

/* ---- certificates ---- */

static json_t *event_json(const struct certificate *c)
{
    const struct certificate_event *e = certificate_first(c);
    if (!e)
        return json_null();
    return json_pack("{s:I,s:i,s:i,s:i,s:s,s:s,s:s,s:i,s:i}", "step", (json_int_t)e->step, "micro_batch",
                     (int)e->micro_batch, "rank", (int)e->rank, "layer", (int)e->layer, "tensor",
                     block_tensor_name(e->tensor), "op", block_op_name(block_tensor_op(e->tensor)), "accused",
                     accused_name(e->accused), "tiles", (int)e->tiles, "tiles_differing", (int)e->tiles_differing);
}

static status certificate_json(json_t **out, struct side *s)
{
    const void *bytes;
    size_t size;
    char name[4096];
    struct certificate *c;
    if (!record_find(s->record, "certificate.bin")) {
        *out = json_null();
        return OK;
    }
    TRY(record_read(s->record, "certificate.bin", &bytes, &size));
    snprintf(name, sizeof name, "%s: certificate.bin", record_path(s->record));
    TRY(certificate_read(&c, name, bytes, size));
    struct certificate_totals total = certificate_total(c);
    *out = json_pack("{s:I,s:I,s:I,s:I,s:o}", "compared", (json_int_t)total.compared, "mismatched",
                     (json_int_t)total.mismatched, "expected", (json_int_t)total.expected, "events",
                     (json_int_t)total.events, "first", event_json(c));
    certificate_free(c);
    return *out ? OK : FAIL(ERR_MEMORY, "no memory for the summary");
}

static status certificates_json(json_t *object, struct side *a, struct side *b)
{
    json_t *one = NULL;
    TRY(certificate_json(&one, a));
    TRY(difference_put(object, "a", one));
    TRY(certificate_json(&one, b));
    return difference_put(object, "b", one);
}

/* ---- the whole ---- */

static status summarise(json_t *summary, FILE *lines, struct side *a, struct side *b)
{
    status st = OK;
    json_t *part = NULL, *config = json_array(), *members = json_object(), *certificates = json_object();
    TRY_DONE(point_json(&part, &a->point));
    TRY_DONE(difference_put(summary, "a", part));
    TRY_DONE(point_json(&part, &b->point));
    TRY_DONE(difference_put(summary, "b", part));
    TRY_DONE(difference_put(summary, "same_batches", json_boolean(same_batches(&a->point, &b->point))));
    TRY_DONE(config_fields(config, "", a->config, b->config));
    TRY_DONE(difference_put(summary, "config", json_incref(config)));
    TRY_DONE(members_json(members, a->record, b->record));
    TRY_DONE(difference_put(summary, "members", json_incref(members)));
    TRY_DONE(difference_metrics(&part, a, b));
    TRY_DONE(difference_put(summary, "metrics", part));
    TRY_DONE(difference_held_out(&part, a, b));
    TRY_DONE(difference_put(summary, "held_out", part));
    TRY_DONE(certificates_json(certificates, a, b));
    TRY_DONE(difference_put(summary, "certificate", json_incref(certificates)));
    TRY_DONE(difference_tensors(&part, lines, a, b));
    TRY_DONE(difference_put(summary, "tensors", part));
done:
    json_decref(config);
    json_decref(members);
    json_decref(certificates);
    return st;
}

static status seal(const char *out, const json_t *summary, const char *lines, size_t lines_size)
{
    status st = OK;
    struct record_writer *writer = NULL;
    char *text = json_dumps(summary, JSON_SORT_KEYS | JSON_INDENT(1));
    if (!text)
        return FAIL(ERR_MEMORY, "no memory for diff.json");
    TRY_DONE(record_create(&writer, out));
    TRY_DONE(record_add(writer, "diff.json", text, strlen(text), false));
    TRY_DONE(record_add(writer, "differences.jsonl", lines, lines_size, false));
    st = record_seal(writer);
    writer = NULL;
done:
    record_abandon(writer);
    free(text);
    return st;
}

status difference_write(json_t **summary, const char *path_a, const char *path_b, const char *out)
{
    status st = OK;
    struct side a = {0}, b = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&text, &size);
    json_t *object = json_object();
    if (!lines || !object) {
        st = FAIL(ERR_MEMORY, "no memory for the summary");
        goto done;
    }
    TRY_DONE(file_check_input(path_a, out));
    TRY_DONE(file_check_input(path_b, out));
    TRY_DONE(side_open(&a, path_a));
    TRY_DONE(side_open(&b, path_b));
    TRY_DONE(same_model(&a, &b));
    TRY_DONE(summarise(object, lines, &a, &b));
    if (fflush(lines) || ferror(lines)) {
        st = FAIL(ERR_MEMORY, "no memory for differences.jsonl");
        goto done;
    }
    TRY_DONE(seal(out, object, text, size));
    *summary = json_incref(object);
done:
    side_close(&a);
    side_close(&b);
    if (lines)
        fclose(lines);
    free(text);
    json_decref(object);
    return st;
}
