#include "stages/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "stages/field.h"

enum { POINTS_LIMIT = 64 << 20 };

/* ---- writing ---- */

static json_t *text_or_null(const char *text) { return *text ? json_string(text) : json_null(); }

static json_t *word_to_json(const struct field *f, int index)
{
    int length = 0;
    const char *word = field_word_at(f->words, index, &length);
    if (!word)
        return NULL;
    return length == 4 && !memcmp(word, "null", 4) ? json_null() : json_stringn(word, (size_t)length);
}

static json_t *modules_to_json(unsigned modules)
{
    char text[64];
    recompute_modules_name(modules, text);
    return text_or_null(text);
}

static json_t *list_to_json(const struct field *f, const char *base, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const char *at = base + f->offset + (size_t)i * 8;
        json_t *item = f->kind == FIELD_REALS ? json_exact(*(const double *)at) : json_integer(*(const int64_t *)at);
        if (json_array_append_new(list, item)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *field_to_json(const struct field *f, const char *base)
{
    const void *at = base + f->offset;
    const int *split = at;
    switch (f->kind) {
    case FIELD_INT:
        return json_integer(*(const int *)at);
    case FIELD_INT64:
    case FIELD_UINT64:
    case FIELD_BYTES:
        return json_integer(*(const int64_t *)at);
    case FIELD_FLOAT:
        return json_exact(*(const float *)at);
    case FIELD_DOUBLE:
        return json_exact(*(const double *)at);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_TEXT:
    case FIELD_NAME:
        return json_string(at);
    case FIELD_OPTIONAL:
        return text_or_null(at);
    case FIELD_WORD:
        return word_to_json(f, *(const int *)at);
    case FIELD_FLAG:
        return word_to_json(f, *(const bool *)at);
    case FIELD_SPLIT:
        return json_sprintf("%d,%d,%d", split[0], split[1], split[2]);
    case FIELD_MODULES:
        return modules_to_json(*(const unsigned *)at);
    case FIELD_INTEGERS:
        return list_to_json(f, base, *(const int *)(base + f->count));
    case FIELD_REALS:
        return list_to_json(f, base, (int)(f->size / sizeof(double)));
    default: /* kinds of study files only */
        return NULL;
    }
}

json_t *point_to_json(const struct point *p)
{
    json_t *object = json_object();
    for (int i = 0; i < point_field_count; i++) {
        const struct field *f = &point_fields[i];
        json_t *section = object;
        if (*f->section) {
            section = json_object_get(object, f->section);
            if (!section) {
                section = json_object();
                json_object_set_new(object, f->section, section);
            }
        }
        if (json_object_set_new(section, f->name, field_to_json(f, (const char *)p))) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* ---- reading ---- */

/* A value on its way in: what it is and where it stands. */
struct incoming {
    const struct field *field;
    const json_t *section, *value;
    const char *where;
};

static status refuse(const struct incoming *in, const char *expected)
{
    const struct field *f = in->field;
    return FAIL(ERR_INPUT, "%s: \"%s%s%s\": expected %s; was it written by another version?", in->where, f->section,
                *f->section ? "." : "", f->name, expected);
}

static status integer_from_json(int64_t *out, const struct incoming *in, const json_t *value)
{
    char expected[96];
    const struct field *f = in->field;
    snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", f->least, f->most);
    if (!json_is_integer(value))
        return refuse(in, expected);
    *out = json_integer_value(value);
    return (double)*out < f->least || (double)*out > f->most ? refuse(in, expected) : OK;
}

static status real_from_json(double *out, const struct incoming *in, const json_t *section, const char *name)
{
    char expected[96];
    const struct field *f = in->field;
    TRY(json_exact_read(out, section, name, in->where));
    snprintf(expected, sizeof expected, "a number from %g to %g", f->least, f->most);
    return *out >= f->least && *out <= f->most ? OK : refuse(in, expected);
}

static status text_from_json(char *out, const struct incoming *in)
{
    if (in->field->kind == FIELD_OPTIONAL && json_is_null(in->value)) {
        *out = '\0';
        return OK;
    }
    const char *text = json_string_value(in->value);
    size_t length = json_string_length(in->value);
    if (!text || !length || length != strlen(text) || length >= in->field->size)
        return refuse(in, "a text, not empty and not too long");
    if (in->field->kind == FIELD_NAME && !field_is_name(text))
        return refuse(in, "a name of letters, digits and . _ - + =, with a letter or digit at both ends");
    memcpy(out, text, length + 1);
    return OK;
}

static status word_from_json(int *out, const struct incoming *in)
{
    const char *word = json_is_null(in->value) ? "null" : json_string_value(in->value);
    *out = word ? field_word(in->field->words, word, strlen(word)) : -1;
    return *out < 0 ? refuse(in, in->field->words) : OK;
}

static status modules_from_json(unsigned *out, const struct incoming *in)
{
    struct recompute_policy policy = {0};
    if (!json_is_null(in->value)) {
        const char *text = json_string_value(in->value);
        if (!text || recompute_parse(&policy, "selective", NULL, -1, text, NULL) != OK)
            return refuse(in, "modules such as core_attn,mlp, or null");
    }
    *out = policy.modules;
    return OK;
}

static status list_from_json(char *base, const struct incoming *in)
{
    const struct field *f = in->field;
    size_t count = json_array_size(in->value), most = f->size / 8;
    if (!json_is_array(in->value) || count > most || (f->kind == FIELD_REALS && count != most))
        return refuse(in, "a list of the right length");
    for (size_t i = 0; i < count; i++) {
        char *at = base + f->offset + i * 8;
        json_t *item = json_array_get(in->value, i);
        if (f->kind == FIELD_INTEGERS) {
            TRY(integer_from_json((int64_t *)at, in, item));
            continue;
        }
        json_t *alone = json_pack("{s:O}", f->name, item);
        status st = alone ? real_from_json((double *)at, in, alone, f->name) : FAIL(ERR_MEMORY, "no memory");
        json_decref(alone);
        TRY(st);
    }
    if (f->kind == FIELD_INTEGERS)
        *(int *)(base + f->count) = (int)count;
    return OK;
}

static status field_from_json(char *base, const struct incoming *in)
{
    const struct field *f = in->field;
    void *at = base + f->offset;
    int64_t integer;
    double real;
    int word;
    switch (f->kind) {
    case FIELD_INT:
        TRY(integer_from_json(&integer, in, in->value));
        *(int *)at = (int)integer;
        return OK;
    case FIELD_INT64:
    case FIELD_UINT64:
    case FIELD_BYTES:
        return integer_from_json(at, in, in->value);
    case FIELD_FLOAT:
        TRY(real_from_json(&real, in, in->section, f->name));
        *(float *)at = (float)real;
        return *(float *)at == real ? OK : refuse(in, "a single-precision number");
    case FIELD_DOUBLE:
        return real_from_json(at, in, in->section, f->name);
    case FIELD_BOOL:
        *(bool *)at = json_is_true(in->value);
        return json_is_boolean(in->value) ? OK : refuse(in, "true or false");
    case FIELD_TEXT:
    case FIELD_NAME:
    case FIELD_OPTIONAL:
        return text_from_json(at, in);
    case FIELD_WORD:
        return word_from_json(at, in);
    case FIELD_FLAG:
        TRY(word_from_json(&word, in));
        *(bool *)at = word;
        return OK;
    case FIELD_SPLIT:
        return json_is_string(in->value) && field_split(at, json_string_value(in->value))
                   ? OK
                   : refuse(in, "three shares such as 969,30,1");
    case FIELD_MODULES:
        return modules_from_json(at, in);
    case FIELD_INTEGERS:
    case FIELD_REALS:
        return list_from_json(base, in);
    default:
        return FAIL(ERR_ARGUMENT, "field %s is of study files only", f->name);
    }
}

static bool is_section(const char *name)
{
    for (int i = 0; i < point_field_count; i++)
        if (*name && !strcmp(point_fields[i].section, name))
            return true;
    return false;
}

static bool is_known(const char *section, const char *name)
{
    for (int i = 0; i < point_field_count; i++)
        if (!strcmp(point_fields[i].section, section) && !strcmp(point_fields[i].name, name))
            return true;
    return !*section && is_section(name);
}

static status refuse_unknown(const json_t *object, const char *section, const char *where)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        if (!is_known(section, name))
            return FAIL(ERR_INPUT, "%s: unknown field \"%s%s%s\"; was it written by another version?", where, section,
                        *section ? "." : "", name);
        if (!*section && is_section(name))
            TRY(refuse_unknown(value, name, where));
    }
    return OK;
}

/* The policy must be what its own words say: no method under selective, and so on. */
static status check_policy(const struct recompute_policy *p, const char *where)
{
    struct recompute_policy again;
    char modules[64];
    bool full = p->granularity == RECOMPUTE_FULL;
    recompute_modules_name(p->modules, modules);
    if (recompute_parse(&again, p->granularity ? recompute_granularity_name(p->granularity) : NULL,
                        recompute_method_name(p->method), full || p->num_layers ? p->num_layers : -1, modules,
                        p->precision == F32 ? "fp32" : NULL) != OK)
        return FAIL(ERR_INPUT, "%s: %s", where, status_text());
    if (again.granularity != p->granularity)
        return FAIL(ERR_INPUT, "%s: \"recompute\": granularity %s recomputes no layer; expected null", where,
                    recompute_granularity_name(p->granularity));
    return OK;
}

status point_from_json(struct point *out, const json_t *object, const char *where)
{
    struct point p = {0};
    const char *culprit;
    TRY(refuse_unknown(object, "", where));
    for (int i = 0; i < point_field_count; i++) {
        const struct field *f = &point_fields[i];
        const json_t *section = *f->section ? json_object_get(object, f->section) : object;
        struct incoming in = {f, section, json_object_get(section, f->name), where};
        if (!in.value)
            return refuse(&in, "a value, and it is missing");
        TRY(field_from_json((char *)&p, &in));
    }
    p.model.sequence = p.training.sequence_length;
    TRY(check_policy(&p.recompute, where));
    TRY(check_policy(&p.vit_recompute, where));
    if (fault_parse(&p.fault, p.fault_text) != OK || point_check(&p, &culprit) != OK)
        return FAIL(ERR_INPUT, "%s: %s", where, status_text());
    *out = p;
    return OK;
}

/* ---- points.jsonl ---- */

struct reading {
    struct point *point;
    int count, capacity;
};

static status read_line(void *self, json_t *object, const char *where)
{
    struct reading *r = self;
    if (r->count == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 16;
        struct point *point = realloc(r->point, (size_t)capacity * sizeof *point);
        if (!point)
            return FAIL(ERR_MEMORY, "no memory for %d points", capacity);
        r->point = point;
        r->capacity = capacity;
    }
    struct point *p = &r->point[r->count];
    TRY(point_from_json(p, object, where));
    if (p->index != r->count)
        return FAIL(ERR_INPUT, "%s: \"index\" is %d, expected %d, the line's place; plan the study again", where,
                    p->index, r->count);
    if (p->baseline != (r->count == 0))
        return FAIL(ERR_INPUT, "%s: the baseline is the first line and no other; plan the study again", where);
    if (strcmp(p->study, r->point[0].study))
        return FAIL(ERR_INPUT, "%s: is of study '%s', the first line of '%s'; plan the study again", where, p->study,
                    r->point[0].study);
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->point[i].name, p->name))
            return FAIL(ERR_INPUT, "%s: '%s' is line %d as well; plan the study again", where, p->name, i + 1);
    r->count++;
    return OK;
}

status points_read(struct point **points, int *count, const char *path)
{
    status st;
    char *text = NULL;
    size_t size = 0;
    struct reading r = {0};
    TRY_DONE(file_read(path, POINTS_LIMIT, &text, &size));
    TRY_DONE(jsonl_each(path, text, size, read_line, &r));
    if (!r.count)
        TRY_DONE(FAIL(ERR_INPUT, "'%s': holds no points; plan the study again", path));
    *points = r.point;
    *count = r.count;
    r.point = NULL;
done:
    free(r.point);
    free(text);
    return st;
}

status points_find(const struct point **out, const struct point *points, int count, const char *name, const char *path)
{
    char names[1024] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (!strcmp(points[i].name, name)) {
            *out = &points[i];
            return OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", points[i].name);
    }
    return FAIL(ERR_USAGE, "'%s' has no point '%s'; there are %s", path, name, names);
}

bool point_takes_audits(const struct point *p)
{
    return p->recompute.granularity != RECOMPUTE_NONE && (p->audit.every || p->audit.frozen);
}

bool point_is_reference(const struct point *other, const struct point *p)
{
    return other->recompute.granularity == RECOMPUTE_NONE && !*other->fault_text && !*other->replicate &&
           other->dial.forward == p->dial.forward && !strcmp(other->target.name, p->target.name) &&
           !strcmp(other->target.profile, p->target.profile) &&
           other->training.micro_batch_size == p->training.micro_batch_size &&
           other->training.storage == p->training.storage && (other->scratch == p->scratch || other->baseline);
}

int points_reference(const struct point *points, int count, int i)
{
    if (point_is_reference(&points[i], &points[i]))
        return -1;
    for (int other = 0; other < count; other++)
        if (other != i && point_is_reference(&points[other], &points[i]))
            return other;
    return -1;
}
