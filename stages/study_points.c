#include "stages/study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/digest.h"

/* Points so far, and the line of the study that asked for each (0: nothing did, it is automatic). */
struct builder {
    const struct study *study;
    struct study_points made;
    int *line;
    int capacity;
};

static status at_line(const struct builder *b, int line)
{
    return FAIL(ERR_USAGE, "%s:%d: %s", b->study->path, line, status_text());
}

/* ---- one point ---- */

static status grow(struct builder *b)
{
    if (b->made.count < b->capacity)
        return OK;
    int capacity = b->capacity ? 2 * b->capacity : 32;
    struct point *point = realloc(b->made.point, (size_t)capacity * sizeof *point);
    if (point)
        b->made.point = point;
    bool *automatic = realloc(b->made.automatic, (size_t)capacity * sizeof *automatic);
    if (automatic)
        b->made.automatic = automatic;
    int *line = realloc(b->line, (size_t)capacity * sizeof *line);
    if (line)
        b->line = line;
    if (!point || !automatic || !line)
        return FAIL(ERR_MEMORY, "%s: no memory for %d points", b->study->path, capacity);
    b->capacity = capacity;
    return OK;
}

static int find_name(const struct builder *b, const char *name)
{
    for (int i = 0; i < b->made.count; i++)
        if (!strcmp(b->made.point[i].name, name))
            return i;
    return -1;
}

/* Names, plans and checks a point, and puts it at the end. `line` 0: automatic. */
static status add_point(struct builder *b, const struct point *wanted, int line)
{
    const char *culprit;
    struct point p = *wanted;
    TRY(grow(b));
    TRY(point_settle(&p, &b->study->common.training));
    p.index = b->made.count;
    int same = find_name(b, p.name);
    if (same == 0 || (same > 0 && b->made.automatic[same])) {
        /* The trunk, or an automatic r0, that the study lists as well: the same point. */
        b->made.automatic[same] = false;
        return OK;
    }
    if (same > 0)
        return FAIL(ERR_USAGE, "point '%s' is there twice, first in line %d", p.name, b->line[same]);
    TRY(point_check(&p, &culprit));
    b->made.point[p.index] = p;
    b->made.automatic[p.index] = !line;
    b->line[p.index] = line;
    b->made.count++;
    return OK;
}

/* ---- an entry ---- */

/* Puts the r0 with which `p` will be compared before it, where there is none yet and it fits. */
static status add_reference(struct builder *b, const struct point *p)
{
    if (p->recompute.granularity == RECOMPUTE_NONE)
        return OK;
    for (int i = 0; i < b->made.count; i++)
        if (point_is_reference(&b->made.point[i], p))
            return OK;
    struct point r0 = *p;
    r0.recompute = (struct recompute_policy){.precision = BF16};
    *r0.fault_text = *r0.replicate = '\0';
    r0.dial.recompute = ARITHMETIC_FIXED;
    r0.certificate = b->study->common.certificate;
    TRY(fault_parse(&r0.fault, ""));
    TRY(point_settle(&r0, &b->study->common.training));
    return r0.fits ? add_point(b, &r0, 0) : OK;
}

/* Replicates of two points are independent runs: each draws its orders under a seed of its own. */
static status draw_own_orders(struct builder *b, struct point *p)
{
    TRY(point_settle(p, &b->study->common.training));
    uint64_t seed = p->arithmetic_seed;
    for (const char *c = p->name; *c; c++)
        seed = digest_mix(seed ^ (unsigned char)*c);
    p->arithmetic_seed = seed >> 11; /* below FIELD_MOST */
    return OK;
}

static status add_replicates(struct builder *b, const struct point *p, const struct study_replicates *wanted, int line)
{
    for (int i = 1; i <= wanted->arithmetic; i++) {
        struct point r = *p;
        snprintf(r.replicate, sizeof r.replicate, "a%d", i);
        TRY(draw_own_orders(b, &r));
        TRY(add_point(b, &r, line));
    }
    for (int i = 1; i <= wanted->seed; i++) {
        struct point r = *p;
        r.seed = p->seed + (uint64_t)i;
        snprintf(r.replicate, sizeof r.replicate, "s%d", i);
        TRY(add_point(b, &r, line));
    }
    return OK;
}

static status add_policy(struct builder *b, const struct study_entry *e, int num_layers)
{
    struct point p = e->point;
    TRY(recompute_parse(&p.recompute, e->granularity, e->method, num_layers, e->modules, e->precision));
    TRY(add_reference(b, &p));
    TRY(add_point(b, &p, e->line));
    return add_replicates(b, &p, &e->replicates, e->line);
}

static status add_entry(struct builder *b, const struct study_entry *e)
{
    if (!e->num_layers_count)
        return add_policy(b, e, -1);
    for (int i = 0; i < e->num_layers_count; i++)
        TRY(add_policy(b, e, (int)e->num_layers[i]));
    return OK;
}

static status add_trunk(struct builder *b)
{
    const struct study *s = b->study;
    struct point trunk = s->common;
    trunk.target = s->target[s->baseline];
    trunk.baseline = trunk.scratch = true;
    trunk.recompute = (struct recompute_policy){.precision = BF16};
    TRY(add_point(b, &trunk, s->baseline_line));
    /* Replicates branch from the trunk, where there is a branch. */
    trunk.baseline = false;
    trunk.scratch = !trunk.training.branch_at;
    return add_replicates(b, &trunk, &s->replicates, s->baseline_line);
}

status study_points_make(struct study_points *out, const struct study *s)
{
    struct builder b = {.study = s};
    status st = add_trunk(&b);
    if (st == ERR_USAGE)
        st = at_line(&b, s->baseline_line);
    for (int i = 0; i < s->entries && st == OK; i++) {
        st = add_entry(&b, &s->entry[i]);
        if (st == ERR_USAGE)
            st = at_line(&b, s->entry[i].line);
    }
    free(b.line);
    if (st != OK)
        study_points_free(&b.made);
    *out = b.made;
    return st;
}

void study_points_free(struct study_points *p)
{
    free(p->point);
    free(p->automatic);
    *p = (struct study_points){0};
}
