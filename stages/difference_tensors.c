#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "data/safetensors.h"
#include "kernels/compare.h"
#include "stages/difference.h"
#include "stages/layout.h"

/* ---- every tensor that a run may leave, in the order in which a step makes them ---- */

enum part { PART_FORWARD, PART_RECOMPUTE, PART_GRADIENT, PART_WEIGHTS, PART_MASTER, PART_M, PART_V };

static const char *const part_names[] = {"forward", "recompute", "gradient", "weights", "master", "m", "v"};

struct place {
    enum part part;
    int layer;       /* -1 outside blocks */
    const char *op;  /* NULL for parameters */
    char tensor[96]; /* the name without its prefix */
    char name[160];
};

struct places {
    struct place *at;
    int count;
};

static void add_activations(struct places *p, const struct model_shape *s, enum part part)
{
    for (int layer = 0; layer < s->layers; layer++)
        for (enum block_tensor t = 0; t < BLOCK_TENSORS; t++) {
            struct place *place = &p->at[p->count++];
            *place = (struct place){.part = part, .layer = layer, .op = block_op_name(block_tensor_op(t))};
            snprintf(place->tensor, sizeof place->tensor, "%s", block_tensor_name(t));
            snprintf(place->name, sizeof place->name, "%s.layers.%d.%s", part_names[part], layer, place->tensor);
        }
}

static void add_parameter(struct places *p, const struct model_shape *s, enum part part, int index)
{
    int64_t row, rows;
    for (int i = 0; i < shape_hf_count(s, index); i++) {
        struct place *place = &p->at[p->count++];
        *place = (struct place){.part = part, .layer = shape_parameter(s, index).layer};
        shape_hf_tensor(s, index, i, place->tensor, &row, &rows);
        snprintf(place->name, sizeof place->name, "%s%s%s", part == PART_WEIGHTS ? "" : part_names[part],
                 part == PART_WEIGHTS ? "" : ".", place->tensor);
    }
}

/* A backward begins at the loss, and so does the search for its first difference. */
static void add_gradients(struct places *p, const struct model_shape *s)
{
    for (int index = shape_parameter_count(s) - 1; index >= 0; index--) {
        struct parameter parameter = shape_parameter(s, index);
        add_parameter(p, s, PART_GRADIENT, index);
        if (parameter.kind == PARAMETER_INPUT_NORM) {
            struct place *place = &p->at[p->count++];
            *place = (struct place){.part = PART_GRADIENT, .layer = parameter.layer, .tensor = "input"};
            snprintf(place->name, sizeof place->name, "gradient.layers.%d.input", parameter.layer);
        }
    }
}

/* The tensors of a dump (`final` false) or of final.safetensors. p->at is malloc'ed. */
static status places_make(struct places *p, const struct model_shape *s, bool final)
{
    int parameters = shape_parameter_count(s), hf_most = 3;
    int count = final ? 4 * hf_most * parameters : s->layers * (2 * BLOCK_TENSORS + 1) + hf_most * parameters;
    p->count = 0;
    p->at = calloc((size_t)count, sizeof *p->at);
    if (!p->at)
        return FAIL(ERR_MEMORY, "no memory for the names of %d tensors", count);
    if (final) {
        for (enum part part = PART_WEIGHTS; part <= PART_V; part++)
            for (int index = 0; index < parameters; index++)
                add_parameter(p, s, part, index);
    } else {
        add_activations(p, s, PART_FORWARD);
        add_activations(p, s, PART_RECOMPUTE);
        add_gradients(p, s);
    }
    return OK;
}

/* A tensor under a name of no place would be left out in silence. */
static status no_stranger(const struct places *p, const struct safetensors *file, const char *name)
{
    for (int i = 0; i < safetensors_count(file); i++) {
        const char *tensor = safetensors_at(file, i)->name;
        int j = 0;
        while (j < p->count && strcmp(p->at[j].name, tensor))
            j++;
        if (j == p->count)
            return FAIL(ERR_INPUT, "%s: tensor '%s' is none of this model's: the member is foreign or damaged", name,
                        tensor);
    }
    return OK;
}

/* ---- one part of one member ---- */

struct tally {
    const char *at;
    enum part part;
    int64_t compared, identical, other_shape, only_a, only_b;
    uint64_t elements, differing;
    json_t *first, *worst; /* lines, owned */
    double worst_l2;
};

static status tally_close(struct tally *t, json_t *list)
{
    status st = OK;
    if (t->compared || t->other_shape || t->only_a || t->only_b)
        st = difference_append(list, json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:O?,s:O?}", "at", t->at, "pass",
                                               part_names[t->part], "compared", (json_int_t)t->compared, "identical",
                                               (json_int_t)t->identical, "other_shape", (json_int_t)t->other_shape,
                                               "only_a", (json_int_t)t->only_a, "only_b", (json_int_t)t->only_b,
                                               "elements", (json_int_t)t->elements, "differing",
                                               (json_int_t)t->differing, "first", t->first, "worst", t->worst));
    json_decref(t->first);
    json_decref(t->worst);
    t->first = t->worst = NULL;
    return st;
}

static void keep(json_t **slot, json_t *line)
{
    json_decref(*slot);
    *slot = json_incref(line);
}

/* ---- one tensor ---- */

struct pair {
    const struct view *a, *b;
    const char *stored; /* rebuilt tensors: the run that kept it instead, so that its forward stands for it */
};

static const struct view *find(const struct safetensors *file, const char *name)
{
    const struct named_tensor *tensor = safetensors_find(file, name);
    return tensor ? &tensor->view : NULL;
}

/* What the backward of each run read: where one run rebuilt a tensor and the other kept it, that is the kept one. */
static struct pair pair_find(const struct place *p, const struct safetensors *a, const struct safetensors *b)
{
    struct pair pair = {find(a, p->name), find(b, p->name), NULL};
    if (p->part == PART_RECOMPUTE && !pair.a != !pair.b) {
        char kept[160];
        snprintf(kept, sizeof kept, "forward.layers.%d.%s", p->layer, p->tensor);
        const struct view *other = find(pair.a ? b : a, kept);
        if (other)
            pair.stored = pair.a ? "b" : "a";
        *(pair.a ? &pair.b : &pair.a) = other;
    }
    return pair;
}

static json_t *line_head(const char *at, const struct place *p)
{
    return json_pack("{s:s,s:s,s:o,s:s,s:s?}", "at", at, "pass", part_names[p->part], "layer",
                     p->layer < 0 ? json_null() : json_integer(p->layer), "tensor", p->tensor, "op", p->op);
}

static status put_comparison(json_t *line, const struct comparison *c, int64_t cols)
{
    status st = OK;
    json_t *ulp = json_array();
    for (int i = 0; i < ULP_BUCKETS; i++)
        TRY_DONE(difference_append(ulp, json_integer((json_int_t)c->ulp[i])));
    TRY_DONE(difference_put(line, "elements", json_integer((json_int_t)c->elements)));
    TRY_DONE(difference_put(line, "differing", json_integer((json_int_t)c->differing)));
    TRY_DONE(difference_put(line, "first",
                            c->differing ? json_pack("[I,I]", (json_int_t)(c->first_differing / (uint64_t)cols),
                                                     (json_int_t)(c->first_differing % (uint64_t)cols))
                                         : json_null()));
    TRY_DONE(difference_put(line, "larger", json_integer((json_int_t)c->larger)));
    TRY_DONE(difference_put(line, "smaller", json_integer((json_int_t)c->smaller)));
    TRY_DONE(difference_put(line, "grown", json_integer((json_int_t)c->grown)));
    TRY_DONE(difference_put(line, "shrunk", json_integer((json_int_t)c->shrunk)));
    TRY_DONE(difference_put(line, "largest", json_exact(c->largest)));
    TRY_DONE(difference_put(line, "relative_l2", json_exact(comparison_relative_l2(c))));
    TRY_DONE(difference_put(line, "cosine", json_exact(comparison_cosine(c))));
    TRY_DONE(difference_put(line, "ulp", json_incref(ulp)));
done:
    json_decref(ulp);
    return st;
}

static status write_line(FILE *lines, const json_t *line)
{
    if (json_dumpf(line, lines, JSON_SORT_KEYS | JSON_COMPACT) || fputc('\n', lines) == EOF)
        return FAIL(ERR_MEMORY, "no memory for differences.jsonl");
    return OK;
}

static status compare_pair(struct tally *t, FILE *lines, const struct place *p, const struct pair *pair)
{
    status st = OK;
    const struct view *a = pair->a, *b = pair->b;
    json_t *line = line_head(t->at, p);
    if (p->part == PART_RECOMPUTE)
        TRY_DONE(difference_put(line, "stored", pair->stored ? json_string(pair->stored) : json_null()));
    if (a->rows != b->rows || a->cols != b->cols) {
        t->other_shape++;
        TRY_DONE(difference_put(line, "shape_a", json_pack("[I,I]", (json_int_t)a->rows, (json_int_t)a->cols)));
        TRY_DONE(difference_put(line, "shape_b", json_pack("[I,I]", (json_int_t)b->rows, (json_int_t)b->cols)));
    } else {
        struct comparison c;
        comparison_clear(&c);
        /* Of two storage types the coarser one says what a last place is. */
        TRY_DONE(comparison_add(&c, a, b, dtype_bytes(a->type) <= dtype_bytes(b->type) ? a->type : b->type));
        TRY_DONE(put_comparison(line, &c, a->cols));
        t->compared++;
        t->identical += !c.differing;
        t->elements += c.elements;
        t->differing += c.differing;
        if (c.differing && !t->first)
            keep(&t->first, line);
        if (c.differing && (!t->worst || comparison_relative_l2(&c) > t->worst_l2)) {
            t->worst_l2 = comparison_relative_l2(&c);
            keep(&t->worst, line);
        }
    }
    TRY_DONE(write_line(lines, line));
done:
    json_decref(line);
    return st;
}

/* ---- one member, and all of them ---- */

static status compare_files(json_t *list, FILE *lines, const char *at, const struct places *places,
                            const struct safetensors *a, const struct safetensors *b)
{
    status st = OK;
    struct tally tally = {.at = at, .part = places->at[0].part};
    for (int i = 0; i < places->count; i++) {
        const struct place *p = &places->at[i];
        if (p->part != tally.part) {
            TRY_DONE(tally_close(&tally, list));
            tally = (struct tally){.at = at, .part = p->part};
        }
        struct pair pair = pair_find(p, a, b);
        if (pair.a && pair.b)
            TRY_DONE(compare_pair(&tally, lines, p, &pair));
        else if (pair.a)
            tally.only_a++;
        else if (pair.b)
            tally.only_b++;
    }
    return tally_close(&tally, list);
done:
    json_decref(tally.first);
    json_decref(tally.worst);
    return st;
}

static status side_tensors(struct safetensors **out, struct side *s, const char *member, const struct places *places)
{
    const void *bytes;
    size_t size;
    char name[4096];
    snprintf(name, sizeof name, "%s: %s", record_path(s->record), member);
    TRY(record_read(s->record, member, &bytes, &size));
    TRY(safetensors_parse(out, name, bytes, size));
    return no_stranger(places, *out, name);
}

static status compare_member(json_t *list, FILE *lines, const char *member, struct side *a, struct side *b)
{
    status st = OK;
    struct safetensors *ta = NULL, *tb = NULL;
    struct places places = {0};
    char at[96];
    snprintf(at, sizeof at, "%.*s", (int)strcspn(member, "."), member);
    TRY_DONE(places_make(&places, &a->point.model, !strcmp(at, "final")));
    TRY_DONE(side_tensors(&ta, a, member, &places));
    TRY_DONE(side_tensors(&tb, b, member, &places));
    TRY_DONE(compare_files(list, lines, at, &places, ta, tb));
done:
    safetensors_close(ta);
    safetensors_close(tb);
    free(places.at);
    return st;
}

static bool dump_step(const char *member, int64_t *step)
{
    char again[LAYOUT_MEMBER];
    return sscanf(member, "dump-%" SCNd64, step) == 1 && !strcmp(member, layout_dump(again, *step));
}

/* The smallest dumped step after `after` that both records have; -1: none. */
static int64_t next_dump(const struct side *a, const struct side *b, int64_t after)
{
    int64_t next = -1, step;
    for (int i = 0; i < record_count(a->record); i++) {
        const char *name = record_at(a->record, i)->name;
        if (dump_step(name, &step) && step > after && (next < 0 || step < next) && record_find(b->record, name))
            next = step;
    }
    return next;
}

status difference_tensors(json_t **out, FILE *lines, struct side *a, struct side *b)
{
    status st = OK;
    char member[LAYOUT_MEMBER];
    json_t *list = json_array();
    for (int64_t step = next_dump(a, b, -1); step >= 0; step = next_dump(a, b, step))
        TRY_DONE(compare_member(list, lines, layout_dump(member, step), a, b));
    if (record_find(a->record, "final.safetensors") && record_find(b->record, "final.safetensors"))
        TRY_DONE(compare_member(list, lines, "final.safetensors", a, b));
    *out = json_incref(list);
done:
    json_decref(list);
    return st;
}
