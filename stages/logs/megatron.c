/* Megatron-LM and Megatron-DeepSpeed, of all ages: " iteration N/ M | key: value | ... |".
 *
 * Every field ends in " |", so that a cut value is seen. Keys came and went with the versions, so none but the first is
 * expected. A NaN loss is not printed at all (`avg > 0.0` is false for it), nor is that of an interval in which every
 * iteration was skipped: the counts tell the two apart.
 */
#include "stages/logs/readers.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { RECORD_LONGEST = 1 << 14, JOINED_MOST = 4 };

/* ---- finding a record ---- */

/* Where "iteration N/" begins in the line; NULL: nowhere. Behind it stand the fields. */
static const char *find_iteration(struct text line, int64_t *step, int64_t *planned, const char **fields)
{
    static const char word[] = "iteration ";
    for (const char *at = line.at; (at = text_find(text_from(line, at), word)); at += sizeof word - 1) {
        struct text rest = text_trim(text_from(line, at + sizeof word - 1));
        char *end;
        char copy[48];
        text_copy(copy, sizeof copy, rest);
        if (!isdigit((unsigned char)*copy))
            continue;
        *step = strtoll(copy, &end, 10);
        if (*end != '/')
            continue;
        *planned = strtoll(end + 1, &end, 10);
        end += strspn(end, " ");
        if (*end != '|')
            continue;
        *fields = rest.at + (end - copy) + 1;
        return at;
    }
    return NULL;
}

/* Where the validation's text begins: " validation loss at iteration N | lm loss value: ... |". */
static const char *find_validation(struct text line) { return text_find(line, " loss at iteration "); }

static int64_t count_iterations(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    int64_t count = 0, step, planned;
    struct text rest = s->head;
    const char *fields;
    for (struct line line = {0}; line_next(&line, &rest);)
        count += line.text.size < RECORD_LONGEST && find_iteration(line.text, &step, &planned, &fields);
    return count;
}

/* ---- one record ---- */

struct record {
    int64_t step, planned;
    struct text fields; /* "key: value | key: value |" */
};

struct megatron {
    struct builder *b;
    int64_t skipped; /* intervals without a loss, as all their iterations were skipped */
    int64_t first_absent, absent;
    double max_allocated; /* MB, of any rank; 0: not told */
    struct text rest;     /* of the file, behind the line being read */
    struct line line;
    char joined[RECORD_LONGEST];
    char plain[LINE_LONGEST];
};

static bool next_field(struct text *fields, struct text *key, struct text *value)
{
    const char *bar = fields->size ? memchr(fields->at, '|', fields->size) : NULL;
    if (!bar)
        return false;
    struct text field = text_trim((struct text){fields->at, (size_t)(bar - fields->at)});
    *fields = text_from(*fields, bar + 1);
    /* "throughput per GPU (TFLOP/s/GPU): 1.8", "elapsed time: 1m 52s": the last colon parts them. */
    const char *colon = field.size ? memrchr(field.at, ':', field.size) : NULL;
    *key = colon ? text_trim((struct text){field.at, (size_t)(colon - field.at)}) : (struct text){field.at, 0};
    *value = colon ? text_trim(text_from(field, colon + 1)) : field;
    return true;
}

/* A record without the last words of its printing was cut. v1.0, which knows no consumed samples, ends with the scale. */
static bool is_whole(struct text fields)
{
    fields = text_trim(fields);
    const char *last = text_find(fields, "consumed samples:") ? "number of nan iterations:" : "loss scale:";
    return fields.size && fields.at[fields.size - 1] == '|' && text_find(fields, last);
}

static const char *canonical(struct text key) { return text_is(key, "lm-loss") ? "lm loss" : NULL; }

static status take_field(struct megatron *m, struct text key, struct text value, bool *has_loss)
{
    struct log_point number;
    if (canonical(key))
        key = text_of(canonical(key));
    enum log_role role = name_find(key)->role;
    *has_loss |= role == LOG_LOSS;
    if (!text_is_number(value, &number)) {
        if (role == LOG_LOSS)
            build_unread(m->b);
        return OK;
    }
    return build_value(m->b, key, role, number);
}

static int64_t field_count(struct text fields, const char *name)
{
    struct text key, value;
    int64_t count = 0;
    while (next_field(&fields, &key, &value))
        if (text_is(key, name))
            text_is_integer(value, &count);
    return count;
}

/* A loss that is absent for no other reason is one that its program does not print: NaN, or not positive. */
static status take_absent_loss(struct megatron *m, const struct record *r, int64_t before)
{
    int64_t skipped = field_count(r->fields, "number of skipped iterations");
    if (skipped && skipped >= r->step - (before < r->step ? before : r->step - 1)) {
        m->skipped++;
        return OK;
    }
    if (!m->absent++)
        m->first_absent = r->step;
    return build_value(m->b, text_of("lm loss"), LOG_LOSS, (struct log_point){.value = NAN});
}

static status take_record(struct megatron *m, const struct record *r)
{
    struct text fields = r->fields, key, value;
    bool has_loss = false;
    int64_t before = build_last_step(m->b);
    TRY(build_step(m->b, r->step));
    build_planned(m->b, r->planned);
    while (next_field(&fields, &key, &value))
        TRY(take_field(m, key, value, &has_loss));
    return has_loss ? OK : take_absent_loss(m, r, before < 0 ? 0 : before);
}

/* A record that another process' output broke goes on in the next lines. */
static struct text join_lines(struct megatron *m, struct text fields)
{
    struct text rest = m->rest, tag;
    struct line line = m->line;
    size_t used = 0;
    int64_t step, planned;
    const char *next;
    if (fields.size >= sizeof m->joined)
        return fields;
    memcpy(m->joined, fields.at, used = fields.size);
    for (int i = 0; i < JOINED_MOST && line_next(&line, &rest); i++) {
        struct text more = line_strip(line.text, &tag, m->plain);
        if (find_iteration(more, &step, &planned, &next) || used + more.size > sizeof m->joined)
            break;
        memcpy(m->joined + used, more.at, more.size);
        used += more.size;
        struct text joined = {m->joined, used};
        if (is_whole(joined)) {
            m->rest = rest;
            m->line = line;
            return joined;
        }
    }
    return fields;
}

/* All records of a line: prints of two processes may stand on one. */
static status take_records(struct megatron *m, struct text line, struct text tag)
{
    struct record r, next;
    const char *fields, *behind;
    if (!find_iteration(line, &r.step, &r.planned, &fields))
        return OK;
    TRY(build_run(m->b, tag));
    for (bool more = true; more;) {
        struct text rest = text_from(line, fields);
        const char *at = find_iteration(rest, &next.step, &next.planned, &behind);
        more = at != NULL;
        r.fields = at ? (struct text){fields, (size_t)(at - fields)} : rest;
        /* Before the next record stands its time stamp or blank: fields end at the last bar. */
        const char *bar = at && r.fields.size ? memrchr(r.fields.at, '|', r.fields.size) : NULL;
        if (bar)
            r.fields.size = (size_t)(bar + 1 - r.fields.at);
        if (!is_whole(r.fields) && !at)
            r.fields = join_lines(m, r.fields);
        if (is_whole(r.fields))
            TRY(take_record(m, &r));
        else
            build_unread(m->b);
        r.step = next.step;
        r.planned = next.planned;
        fields = behind;
    }
    return OK;
}

/* ---- other lines ---- */

/* " validation loss at iteration 10 | lm loss value: 1.0E+01 | lm loss PPL: ... | "; of several sets each is a series,
 * and what was measured at the end on the test set is none of them. */
static status take_validation(struct megatron *m, struct text line, const char *at)
{
    int64_t step;
    struct text words = {at + strlen(" loss at iteration "), 0};
    words.size = (size_t)(line.at + line.size - words.at);
    size_t digits = 0;
    while (digits < words.size && isdigit((unsigned char)words.at[digits]))
        digits++;
    struct text fields = text_from(words, words.at + digits), key, value;
    if (!text_is_integer((struct text){words.at, digits}, &step) || m->b->current < 0)
        return OK;
    const char *bar = fields.size ? memchr(fields.at, '|', fields.size) : NULL;
    if (!bar || text_find((struct text){fields.at, (size_t)(bar - fields.at)}, "on test set"))
        return OK;
    bool whole_run = text_find((struct text){fields.at, (size_t)(bar - fields.at)}, "on validation set");
    fields = text_from(fields, bar + 1);
    /* A validation does not say when training goes on elsewhere: its step is a line's before it. */
    if (step != build_last_step(m->b))
        return OK;
    while (next_field(&fields, &key, &value)) {
        struct log_point number;
        char name[LOG_NAME];
        if (!text_ends(key, " value") || !text_is_number(value, &number))
            continue;
        key.size -= strlen(" value");
        const char *kind = canonical(key);
        text_copy(name, sizeof name - 32, kind ? text_of(kind) : key);
        bool is_loss = name_find(text_of(name))->role == LOG_LOSS;
        strcat(name, whole_run ? " validation at the end" : " validation");
        TRY(build_value(m->b, text_of(name), is_loss && !whole_run ? LOG_HELD_OUT : LOG_OTHER, number));
    }
    return OK;
}

/* "  seq_length ...................................... 2048", between the lines that frame the arguments. */
static status take_argument(struct megatron *m, struct text line)
{
    struct text t = text_trim(line);
    const char *dots = text_find(t, " .");
    if (!dots)
        return OK;
    struct text key = {t.at, (size_t)(dots - t.at)}, value = text_from(t, dots + 1);
    while (value.size && *value.at == '.')
        value = text_from(value, value.at + 1);
    if (key.size && !memchr(key.at, ' ', key.size) && (!value.size || *value.at == ' '))
        return build_setting(m->b, key, text_trim(value));
    return OK;
}

/* "[Rank 3] (after 1 iterations) memory (MB) | allocated: 1024.5 | max allocated: 2048.2 | ...", from many ranks. */
static void take_memory(struct megatron *m, struct text line)
{
    const char *at = text_find(line, " memory (MB) |");
    struct text fields = at ? text_from(line, at + strlen(" memory (MB) |")) : (struct text){0}, key, value;
    struct log_point number;
    while (next_field(&fields, &key, &value))
        if (text_is(key, "max allocated") && text_is_number(value, &number) && number.value > m->max_allocated)
            m->max_allocated = number.value;
}

/* ---- the end ---- */

static bool is_zero(const struct log_series *s)
{
    for (int64_t i = 0; i < s->count; i++)
        if (s->point[i].value != 0)
            return false;
    return true;
}

/* Of no weight in a comparison, and what recompute is for. */
static status set_memory(struct builder *b, double megabytes)
{
    char text[40];
    snprintf(text, sizeof text, "%.1f", megabytes);
    return build_setting(b, text_of("max allocated memory (MB)"), text_of(text));
}

static status end_megatron(struct megatron *m)
{
    struct builder *b = m->b;
    for (b->current = 0; b->current < b->logs->runs; b->current++) {
        struct log_run *run = &b->logs->run[b->current];
        TRY(build_constant(b, "global batch size", "global_batch_size"));
        for (int i = 0; i < run->series_count; i++) {
            struct log_series *s = &run->series[i];
            if (s->role != LOG_GRAD_NORM || !is_zero(s))
                continue;
            s->role = LOG_OTHER; /* DeepSpeed computes it elsewhere */
            TRY(build_note(b, "grad norm is 0 at every step: it was not computed, and is left out"));
        }
    }
    b->current = 0;
    if (m->max_allocated > 0 && b->logs->runs == 1)
        TRY(set_memory(b, m->max_allocated));
    if (m->skipped)
        TRY(build_note(b, "left out %" PRId64 " line%s without a loss, as all iterations were skipped", m->skipped,
                       plural(m->skipped)));
    if (m->absent)
        TRY(build_note(b,
                       "%" PRId64 " line%s without a loss although iterations were not skipped, first at step %" PRId64
                       ": the program leaves out NaN, and what is not positive; it counts as NaN",
                       m->absent, plural(m->absent), m->first_absent));
    return OK;
}

static status read_megatron(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    status st = OK;
    struct megatron *m = calloc(1, sizeof *m);
    bool arguments = false;
    if (!m)
        return FAIL(ERR_MEMORY, "'%s': no memory", s->path);
    m->b = b;
    m->rest = s->text;
    b->merges = true;
    while (st == OK && line_next(&m->line, &m->rest)) {
        struct text tag;
        b->line = m->line.number;
        if (m->line.text.size >= RECORD_LONGEST)
            continue;
        struct text line = line_strip(m->line.text, &tag, m->plain);
        const char *validation = find_validation(line);
        if (text_find(line, " arguments ----"))
            arguments = !text_find(line, "end of arguments");
        else if (arguments)
            st = take_argument(m, line);
        else if (validation)
            st = take_validation(m, line, validation);
        else {
            take_memory(m, line);
            st = take_records(m, line, tag);
        }
    }
    if (st == OK && b->logs->runs)
        st = end_megatron(m);
    free(m);
    return st;
}

static const struct log_reader readers[] = {{"Megatron-LM, Megatron-DeepSpeed", "v1.0 to main of 2026-08",
                                             "NVIDIA/Megatron-LM megatron/training/training.py; two real logs",
                                             count_iterations, read_megatron, NULL, NULL, false, true}};
const struct log_family family_megatron = {readers, 1};
