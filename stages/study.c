#include "stages/study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/huggingface.h"
#include "stages/strict.h"

/* ---- what a study file has beside the sections of a point ---- */

/* The nodes from which reading goes on. */
struct study_nodes {
    char name[64], baseline[32];
    uint64_t seed;
    void *model, *data, *training, *evaluate, *checkpoint, *dumps, *audit, *certificate, *verdict;
    void *targets, *replicates, *points;
};

#define TOP(called, is, member, ...)                                                                           \
    {                                                                                                          \
        .section = "", .name = called, .kind = FIELD_##is, FIELD_AT(struct study_nodes, member), ##__VA_ARGS__ \
    }

static const struct field top_fields[] = {
    TOP("study", NAME, name, .required = true),
    TOP("seed", UINT64, seed, FIELD_RANGE(0, FIELD_MOST - STUDY_REPLICATES), .fallback = "1234"),
    TOP("model", MAPPING, model, .required = true),
    TOP("data", MAPPING, data),
    TOP("training", MAPPING, training, .required = true),
    TOP("evaluate", MAPPING, evaluate),
    TOP("checkpoint", MAPPING, checkpoint),
    TOP("dumps", MAPPING, dumps),
    TOP("audit", MAPPING, audit),
    TOP("certificate", MAPPING, certificate),
    TOP("verdict", MAPPING, verdict),
    TOP("targets", SEQUENCE, targets, .required = true),
    TOP("baseline", NAME, baseline, .required = true),
    TOP("replicates", MAPPING, replicates),
    TOP("points", SEQUENCE, points, .required = true),
};

static const struct field replicate_fields[] = {
    {.section = "replicates",
     .name = "arithmetic",
     .kind = FIELD_INT,
     FIELD_AT(struct study_replicates, arithmetic),
     FIELD_RANGE(0, STUDY_REPLICATES),
     .fallback = "0"},
    {.section = "replicates",
     .name = "seed",
     .kind = FIELD_INT,
     FIELD_AT(struct study_replicates, seed),
     FIELD_RANGE(0, STUDY_REPLICATES),
     .fallback = "0"},
};

/* Of an entry: its words, and nodes for what is read elsewhere. */
struct entry_nodes {
    char target[32];
    struct study_entry entry;
    void *arithmetic, *certificate, *replicates;
};

#define ENTRY(called, is, member, ...)                                                                               \
    {                                                                                                                \
        .section = "points", .name = called, .kind = FIELD_##is, FIELD_AT(struct entry_nodes, member), ##__VA_ARGS__ \
    }
#define NO_VIT(called)                                                                     \
    {                                                                                      \
        .section = "points", .name = called, .kind = FIELD_REFUSED,                        \
        .words = "this model has no ViT; the vit_recompute keys belong to models with one" \
    }

static const struct field entry_fields[] = {
    ENTRY("target", NAME, target, .required = true),
    ENTRY("recompute_num_layers", INTEGERS, entry.num_layers, FIELD_RANGE(0, 1 << 12),
          .count = offsetof(struct entry_nodes, entry.num_layers_count)),
    ENTRY("recompute_granularity", TEXT, entry.granularity),
    ENTRY("recompute_method", TEXT, entry.method),
    ENTRY("recompute_modules", JOINED, entry.modules),
    ENTRY("recompute_precision", TEXT, entry.precision),
    ENTRY("fault", TEXT, entry.point.fault_text),
    ENTRY("start", FLAG, entry.point.scratch, .words = "branch scratch"),
    ENTRY("micro_batch_size", INT, entry.point.training.micro_batch_size, FIELD_RANGE(1, 1 << 16)),
    ENTRY("storage", WORD, entry.point.training.storage, .words = "bf16 fp32"),
    ENTRY("arithmetic", MAPPING, arithmetic),
    ENTRY("certificate", MAPPING, certificate),
    ENTRY("replicates", MAPPING, replicates),
    NO_VIT("vit_recompute_num_layers"),
    NO_VIT("vit_recompute_granularity"),
    NO_VIT("vit_recompute_method"),
    NO_VIT("vit_recompute_modules"),
    NO_VIT("vit_recompute_precision"),
};

#define TABLE(fields, section) (&(struct strict_section){fields, sizeof(fields) / sizeof *(fields), section})

/* A section of struct point. */
static status read_section(struct strict *y, const char *section, void *mapping, struct point *base, bool complete)
{
    return strict_read(y, &(struct strict_section){point_fields, point_field_count, section}, mapping, base, complete);
}

/* ---- reading ---- */

/* A checkpoint says everything about the model but what is only there while training. */
static status read_checkpoint(struct strict *y, yaml_node_t *mapping, const char *folder, struct point *p)
{
    struct huggingface h;
    for (int i = 0; i < point_field_count; i++) {
        const char *name = point_fields[i].name;
        yaml_node_t *node = strcmp(point_fields[i].section, "model") ? NULL : strict_find(y, mapping, name);
        if (node && strcmp(name, "checkpoint") && strcmp(name, "hidden_dropout"))
            return STRICT_FAIL(y, node, "%s: the checkpoint says it: leave %s out", name, name);
    }
    if (huggingface_open(&h, folder) != OK)
        return STRICT_FAIL(y, strict_find(y, mapping, "checkpoint"), "%s", status_text());
    p->model = h.shape;
    strcpy(p->checkpoint.hash, h.hash);
    huggingface_close(&h);
    return OK;
}

/* The preset or the checkpoint first: the other keys change what it says. */
static status read_model(struct strict *y, yaml_node_t *mapping, struct point *p)
{
    struct point named = {0};
    TRY(read_section(y, "model", mapping, &named, true));
    if (*named.checkpoint.path)
        TRY(read_checkpoint(y, mapping, named.checkpoint.path, p));
    else if (!*named.model.preset)
        return STRICT_FAIL(y, mapping, "model: give a preset, or the checkpoint to start from");
    else if (shape_preset(&p->model, named.model.preset) != OK)
        return STRICT_FAIL(y, strict_find(y, mapping, "preset"), "%s", status_text());
    return read_section(y, "model", mapping, p, true);
}

static status read_common(struct strict *y, const struct study_nodes *n, struct point *p)
{
    snprintf(p->study, sizeof p->study, "%s", n->name);
    p->seed = p->arithmetic_seed = n->seed;
    TRY(read_model(y, n->model, p));
    TRY(read_section(y, "data", n->data, p, true));
    TRY(read_section(y, "training", n->training, p, true));
    TRY(read_section(y, "evaluate", n->evaluate, p, true));
    TRY(read_section(y, "checkpoint", n->checkpoint, p, true));
    TRY(read_section(y, "dumps", n->dumps, p, true));
    TRY(read_section(y, "audit", n->audit, p, true));
    TRY(read_section(y, "certificate", n->certificate, p, true));
    TRY(read_section(y, "verdict", n->verdict, p, true));
    p->model.sequence = p->training.sequence_length;
    return fault_parse(&p->fault, "");
}

static int find_target(const struct study *s, const char *name)
{
    for (int i = 0; i < s->targets; i++)
        if (!strcmp(s->target[i].name, name))
            return i;
    return -1;
}

static status unknown_target(struct strict *y, const struct study *s, yaml_node_t *node, const char *name)
{
    char names[STUDY_TARGETS * 34] = "";
    for (int i = 0; i < s->targets; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", s->target[i].name);
    return STRICT_FAIL(y, node, "'%s' is not among the targets; there are %s", name, names);
}

static status read_targets(struct strict *y, yaml_node_t *list, struct study *s)
{
    for (int i = 0;; i++) {
        yaml_node_t *item;
        struct point p = {0};
        TRY(strict_item(&item, y, list, i));
        if (!item)
            return i ? OK : STRICT_FAIL(y, list, "targets: at least one is needed");
        if (i == STUDY_TARGETS)
            return STRICT_FAIL(y, item, "targets: more than %d", STUDY_TARGETS);
        TRY(read_section(y, "target", item, &p, true));
        if (find_target(s, p.target.name) >= 0)
            return STRICT_FAIL(y, item, "target '%s' is there twice", p.target.name);
        s->target[s->targets++] = p.target;
    }
}

static status read_baseline(struct strict *y, const struct study_nodes *n, struct study *s)
{
    yaml_node_t *node = strict_find(y, y->root, "baseline");
    s->baseline = find_target(s, n->baseline);
    s->baseline_line = strict_line(node);
    return s->baseline >= 0 ? OK : unknown_target(y, s, node, n->baseline);
}

static status read_entry(struct strict *y, yaml_node_t *item, const struct study *s, struct study_entry *out)
{
    struct entry_nodes n = {.entry = {.line = strict_line(item), .point = s->common}};
    struct study_entry *e = &n.entry;
    TRY(strict_read(y, TABLE(entry_fields, "points"), item, &n, true));
    TRY(read_section(y, "arithmetic", n.arithmetic, &e->point, false));
    TRY(read_section(y, "certificate", n.certificate, &e->point, false));
    TRY(strict_read(y, TABLE(replicate_fields, "replicates"), n.replicates, &e->replicates, true));
    int target = find_target(s, n.target);
    if (target < 0)
        return unknown_target(y, s, strict_find(y, item, "target"), n.target);
    e->point.target = s->target[target];
    if (fault_parse(&e->point.fault, e->point.fault_text) != OK)
        return STRICT_FAIL(y, strict_find(y, item, "fault"), "%s", status_text());
    yaml_node_t *layers = strict_find(y, item, "recompute_num_layers");
    if (layers && !e->num_layers_count)
        return STRICT_FAIL(y, layers, "recompute_num_layers: an empty list plans nothing");
    if (!layers && !*e->granularity && !*e->method)
        return STRICT_FAIL(y, item,
                           "says nothing about recompute: give recompute_num_layers (0 stores everything) or "
                           "recompute_granularity");
    if (!*e->granularity)
        strcpy(e->granularity, "full");
    if (!*e->method && layers && !strcmp(e->granularity, "full"))
        strcpy(e->method, "block");
    *out = n.entry;
    return OK;
}

static status read_entries(struct strict *y, yaml_node_t *list, struct study *s)
{
    long count = list->data.sequence.items.top - list->data.sequence.items.start;
    s->entry = calloc((size_t)count + 1, sizeof *s->entry);
    if (!s->entry)
        return FAIL(ERR_MEMORY, "%s: no memory for %ld points", y->path, count);
    for (; s->entries < count; s->entries++) {
        yaml_node_t *item;
        TRY(strict_item(&item, y, list, s->entries));
        TRY(read_entry(y, item, s, &s->entry[s->entries]));
    }
    return OK;
}

/* Line of "training.branch_at", or of its section where the key has its default. "target.profile" is a key of the item
 * `target` of the list `targets`. */
static int line_of(struct strict *y, const char *culprit, int target)
{
    char section[32] = "";
    const char *dot = strchr(culprit, '.');
    snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - culprit) : (int)strlen(culprit), culprit);
    yaml_node_t *node = strict_find(y, y->root, section), *key = NULL;
    if (!strcmp(section, "target") && strict_item(&node, y, strict_find(y, y->root, "targets"), target) != OK)
        node = NULL;
    if (node && dot && node->type == YAML_MAPPING_NODE)
        key = strict_find(y, node, dot + 1);
    return strict_line(key ? key : node ? node : y->root);
}

/* The trunk and all targets, so that what is wrong with the study itself is said with its own line. */
static status check_common(struct strict *y, const struct study *s)
{
    const char *culprit;
    for (int i = 0; i < s->targets; i++) {
        struct point p = s->common;
        p.target = s->target[i];
        p.baseline = p.scratch = p.fits = true;
        if (point_check(&p, &culprit) != OK)
            return FAIL(ERR_USAGE, "%s:%d: %s", y->path, line_of(y, culprit, i), status_text());
    }
    return OK;
}

status study_parse(struct study **out, const char *path, const char *text, size_t size)
{
    status st;
    struct strict y;
    struct study_nodes n = {0};
    struct study *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return FAIL(ERR_MEMORY, "%s: no memory to read it", path);
    snprintf(s->path, sizeof s->path, "%s", path);
    st = strict_open(&y, s->path, text, size);
    if (st != OK) {
        study_free(s);
        return st;
    }
    TRY_DONE(strict_read(&y, TABLE(top_fields, ""), y.root, &n, true));
    TRY_DONE(read_common(&y, &n, &s->common));
    TRY_DONE(strict_read(&y, TABLE(replicate_fields, "replicates"), n.replicates, &s->replicates, true));
    TRY_DONE(read_targets(&y, n.targets, s));
    TRY_DONE(read_baseline(&y, &n, s));
    TRY_DONE(check_common(&y, s));
    TRY_DONE(read_entries(&y, n.points, s));
    *out = s;
    s = NULL;
done:
    study_free(s);
    strict_close(&y);
    return st;
}

void study_free(struct study *s)
{
    if (!s)
        return;
    free(s->entry);
    free(s);
}
