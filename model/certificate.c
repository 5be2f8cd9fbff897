#include "model/certificate.h"

#include <stdlib.h>
#include <string.h>

/* ---- the counters ---- */

const char *accused_name(enum accused a)
{
    static const char *const names[] = {"nobody", "forward", "recompute", "stored input", "unknown"};
    return names[a];
}

status certificate_new(struct certificate **out, int layers, bool expects_mismatch)
{
    *out = NULL;
    struct certificate *c = calloc(1, sizeof *c);
    if (!c)
        return FAIL(ERR_MEMORY, "no memory for a certificate");
    c->layers = layers;
    c->expects_mismatch = expects_mismatch;
    c->cell = calloc((size_t)layers * BLOCK_TENSORS, sizeof *c->cell);
    c->event = calloc(CERTIFICATE_EVENTS, sizeof *c->event);
    if (!c->cell || !c->event) {
        certificate_free(c);
        return FAIL(ERR_MEMORY, "no memory for a certificate of %d layers", layers);
    }
    for (int i = 0; i < layers * BLOCK_TENSORS; i++)
        comparison_clear(&c->cell[i].values);
    *out = c;
    return OK;
}

void certificate_free(struct certificate *c)
{
    if (!c)
        return;
    free(c->cell);
    free(c->event);
    free(c->step);
    free(c);
}

struct certificate_totals certificate_total(const struct certificate *c)
{
    struct certificate_totals sum = {.events = c->event_total};
    for (int i = 0; i < c->layers * BLOCK_TENSORS; i++) {
        sum.compared += c->cell[i].compared;
        sum.mismatched += c->cell[i].mismatched;
        sum.expected += c->cell[i].expected;
        sum.differing += c->cell[i].values.differing;
        sum.grown += c->cell[i].values.grown;
        sum.shrunk += c->cell[i].values.shrunk;
    }
    return sum;
}

static bool comes_before(const struct certificate_event *a, const struct certificate_event *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->micro_batch != b->micro_batch)
        return a->micro_batch < b->micro_batch;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return a->layer != b->layer ? a->layer < b->layer : a->tensor < b->tensor;
}

const struct certificate_event *certificate_first(const struct certificate *c)
{
    const struct certificate_event *first = NULL;
    for (int i = 0; i < c->event_count; i++)
        if (!first || comes_before(&c->event[i], first))
            first = &c->event[i];
    return first;
}

status certificate_add_step(struct certificate *c, const struct certificate_step *line)
{
    if (c->step_count == c->step_capacity) {
        int64_t capacity = c->step_capacity ? 2 * c->step_capacity : 256;
        struct certificate_step *step = realloc(c->step, (size_t)capacity * sizeof *step);
        if (!step)
            return FAIL(ERR_MEMORY, "no memory for %lld steps of a certificate", (long long)capacity);
        c->step = step;
        c->step_capacity = capacity;
    }
    c->step[c->step_count++] = *line;
    return OK;
}

/* ---- the ranks' parts of one ---- */

/* Whether a was filed first. Events of one micro-batch on one rank stand in one part, in the order that they keep. */
static bool filed_before(const struct certificate_event *a, const struct certificate_event *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    return a->micro_batch != b->micro_batch ? a->micro_batch < b->micro_batch : a->rank < b->rank;
}

static status merge_events(struct certificate *into, const struct certificate *part)
{
    struct certificate_event *event = calloc(CERTIFICATE_EVENTS, sizeof *event);
    if (!event)
        return FAIL(ERR_MEMORY, "no memory for the events of two certificates");
    int count = 0;
    for (int a = 0, b = 0; count < CERTIFICATE_EVENTS && (a < into->event_count || b < part->event_count); count++) {
        bool mine =
            b == part->event_count || (a < into->event_count && !filed_before(&part->event[b], &into->event[a]));
        event[count] = mine ? into->event[a++] : part->event[b++];
    }
    free(into->event);
    into->event = event;
    into->event_count = count;
    into->event_total += part->event_total;
    return OK;
}

/* The step of line i; behind the last one, a step that never comes. */
static int64_t step_of_line(const struct certificate *c, int64_t i)
{
    return i < c->step_count ? c->step[i].step : INT64_MAX;
}

static void add_line(struct certificate_step *sum, const struct certificate_step *line)
{
    sum->compared += line->compared;
    sum->mismatched += line->mismatched;
    sum->expected += line->expected;
}

static status merge_steps(struct certificate *into, const struct certificate *part)
{
    struct certificate both = {0};
    status st = OK;
    for (int64_t a = 0, b = 0; a < into->step_count || b < part->step_count;) {
        int64_t mine = step_of_line(into, a), other = step_of_line(part, b);
        struct certificate_step line = {.step = mine < other ? mine : other};
        if (mine == line.step)
            add_line(&line, &into->step[a++]);
        if (other == line.step)
            add_line(&line, &part->step[b++]);
        TRY_DONE(certificate_add_step(&both, &line));
    }
    free(into->step);
    into->step = both.step;
    into->step_count = both.step_count;
    into->step_capacity = both.step_capacity;
    both.step = NULL;
done:
    free(both.step);
    return st;
}

status certificate_merge(struct certificate *into, const struct certificate *part)
{
    if (into->layers != part->layers || into->expects_mismatch != part->expects_mismatch)
        return FAIL(ERR_ARGUMENT,
                    "certificates of %d layers%s and of %d layers%s cannot be merged: they are parts of different runs",
                    into->layers, into->expects_mismatch ? " in fp32" : "", part->layers,
                    part->expects_mismatch ? " in fp32" : "");
    TRY(merge_events(into, part));
    TRY(merge_steps(into, part));
    for (int i = 0; i < into->layers * BLOCK_TENSORS; i++) {
        into->cell[i].compared += part->cell[i].compared;
        into->cell[i].mismatched += part->cell[i].mismatched;
        into->cell[i].expected += part->cell[i].expected;
        comparison_join(&into->cell[i].values, &part->cell[i].values);
    }
    return OK;
}

/* ---- certificate.bin: little-endian, field by field; see data/FORMATS.md ---- */

static const char magic[8] = "RMCERT\0\2";

struct stream {
    unsigned char *bytes; /* NULL: only counts */
    size_t at, size;
    bool reading, failed;
};

static void pass_bytes(struct stream *s, unsigned char *value, size_t count)
{
    if (s->failed || (s->bytes && s->size - s->at < count)) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; s->bytes && i < count; i++) {
        if (s->reading)
            value[i] = s->bytes[s->at + i];
        else
            s->bytes[s->at + i] = value[i];
    }
    s->at += count;
}

static void pass_u64(struct stream *s, uint64_t *value)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(*value >> 8 * i);
    pass_bytes(s, b, 8);
    if (!s->reading || s->failed)
        return;
    *value = 0;
    for (int i = 0; i < 8; i++)
        *value |= (uint64_t)b[i] << 8 * i;
}

static void pass_i64(struct stream *s, int64_t *value)
{
    uint64_t word = (uint64_t)*value;
    pass_u64(s, &word);
    *value = (int64_t)word;
}

/* Integers inside take 8 bytes each: the file stays small, and one width is one rule. `most` bounds what is read. */
static void pass_int(struct stream *s, int32_t *value, int64_t most)
{
    int64_t wide = *value;
    pass_i64(s, &wide);
    if (wide < 0 || wide > most)
        s->failed = true;
    else
        *value = (int32_t)wide;
}

static void pass_double(struct stream *s, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    pass_u64(s, &bits);
    memcpy(value, &bits, sizeof bits);
}

static void pass_cell(struct stream *s, struct certificate_cell *c)
{
    struct comparison *v = &c->values;
    uint64_t *const counts[] = {&c->compared,        &c->mismatched, &c->expected, &v->elements, &v->differing,
                                &v->first_differing, &v->larger,     &v->smaller,  &v->grown,    &v->shrunk};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        pass_u64(s, counts[i]);
    for (int i = 0; i < ULP_BUCKETS; i++)
        pass_u64(s, &v->ulp[i]);
    double *const sums[] = {&v->largest, &v->sum_aa, &v->sum_bb, &v->sum_ab, &v->sum_dd};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        pass_double(s, sums[i]);
}

static void pass_event(struct stream *s, struct certificate_event *e, int layers)
{
    int32_t tensor = (int32_t)e->tensor, accused = (int32_t)e->accused;
    pass_i64(s, &e->step);
    pass_int(s, &e->micro_batch, INT32_MAX);
    pass_int(s, &e->rank, INT32_MAX);
    pass_int(s, &e->layer, layers - 1);
    pass_int(s, &tensor, BLOCK_TENSORS - 1);
    pass_int(s, &accused, ACCUSED_UNKNOWN);
    pass_int(s, &e->tiles, INT32_MAX);
    pass_int(s, &e->tiles_differing, INT32_MAX);
    pass_int(s, &e->first_tile, INT32_MAX);
    e->tensor = (enum block_tensor)tensor;
    e->accused = (enum accused)accused;
}

static void pass_step(struct stream *s, struct certificate_step *line)
{
    pass_i64(s, &line->step);
    pass_u64(s, &line->compared);
    pass_u64(s, &line->mismatched);
    pass_u64(s, &line->expected);
}

static void pass_body(struct stream *s, struct certificate *c)
{
    for (int i = 0; i < c->layers * BLOCK_TENSORS; i++)
        pass_cell(s, &c->cell[i]);
    for (int i = 0; i < c->event_count; i++)
        pass_event(s, &c->event[i], c->layers);
    for (int64_t i = 0; i < c->step_count; i++)
        pass_step(s, &c->step[i]);
}

static void pass_header(struct stream *s, char seen[8], int32_t *layers, int32_t *tensors, int32_t *expects,
                        int32_t *events, uint64_t *event_total, int64_t *steps)
{
    pass_bytes(s, (unsigned char *)seen, 8);
    pass_int(s, layers, 1 << 12);
    pass_int(s, tensors, BLOCK_TENSORS);
    pass_int(s, expects, 1);
    pass_int(s, events, CERTIFICATE_EVENTS);
    pass_u64(s, event_total);
    pass_i64(s, steps);
}

status certificate_write(const struct certificate *c, void **bytes, size_t *size)
{
    /* Writing only reads through these pointers; one description of the layout serves both directions. */
    struct certificate *source = (struct certificate *)c;
    struct stream s = {NULL, 0, 0, false, false};
    *bytes = NULL;
    for (int round = 0; round < 2; round++) {
        char seen[8];
        memcpy(seen, magic, sizeof seen);
        int32_t layers = c->layers, tensors = BLOCK_TENSORS, expects = c->expects_mismatch, events = c->event_count;
        uint64_t total = c->event_total;
        int64_t steps = c->step_count;
        pass_header(&s, seen, &layers, &tensors, &expects, &events, &total, &steps);
        pass_body(&s, source);
        if (round == 0) {
            *size = s.at;
            s = (struct stream){malloc(s.at), 0, s.at, false, false};
            if (!s.bytes)
                return FAIL(ERR_MEMORY, "no memory for a certificate of %zu bytes", *size);
        }
    }
    *bytes = s.bytes;
    return OK;
}

static status check_header(const struct stream *s, const char *name, const char seen[8], int32_t layers,
                           int32_t tensors, int64_t steps)
{
    if (s->size < 8 || memcmp(seen, magic, 8))
        return FAIL(ERR_INPUT, "%s: not a certificate of this version (its first bytes are not RMCERT 2)", name);
    if (s->failed || layers < 1 || tensors != BLOCK_TENSORS || steps < 0 || (uint64_t)steps > s->size / 32)
        return FAIL(ERR_INPUT,
                    "%s: the header of this certificate is damaged (%d layers, %d tensors, %lld steps in %zu "
                    "bytes); take the record from its origin again",
                    name, (int)layers, (int)tensors, (long long)steps, s->size);
    return OK;
}

status certificate_read(struct certificate **out, const char *name, const void *bytes, size_t size)
{
    *out = NULL;
    struct stream s = {(unsigned char *)bytes, 0, size, true, false};
    char seen[8] = "";
    int32_t layers = 0, tensors = 0, expects = 0, events = 0;
    uint64_t total = 0;
    int64_t steps = 0;
    pass_header(&s, seen, &layers, &tensors, &expects, &events, &total, &steps);
    TRY(check_header(&s, name, seen, layers, tensors, steps));
    struct certificate *c;
    TRY(certificate_new(&c, layers, expects));
    c->event_count = events;
    c->event_total = total;
    c->step = steps ? calloc((size_t)steps, sizeof *c->step) : NULL;
    if (steps && !c->step) {
        certificate_free(c);
        return FAIL(ERR_MEMORY, "%s: no memory for %lld steps", name, (long long)steps);
    }
    c->step_count = c->step_capacity = steps;
    pass_body(&s, c);
    if (s.failed || s.at != size) {
        size_t at = s.at;
        certificate_free(c);
        return FAIL(ERR_INPUT, "%s: damaged at byte %zu of %zu; take the record from its origin again", name, at, size);
    }
    *out = c;
    return OK;
}
