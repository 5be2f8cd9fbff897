#include "stages/options.h"

#include <stdlib.h>
#include <string.h>

#include "stages/layout.h"

bool trainer_option(struct trainer_options *o, int key, char *argument)
{
    switch (key) {
    case OPTION_RUN:
        o->run = argument;
        return true;
    case OPTION_POINT:
        o->point = argument;
        return true;
    case OPTION_DEVICE:
        o->device = argument;
        return true;
    default:
        return false;
    }
}

/* What the command line changes about a planned point: another policy, fault or start is another point, with the name
 * that a study would give it. */
static status change_point(struct point *p, const struct trainer_options *o, const struct point *trunk)
{
    if (o->granularity || o->method || o->modules || o->precision || o->num_layers >= 0)
        TRY(recompute_parse(&p->recompute, o->granularity, o->method, (int)o->num_layers, o->modules, o->precision));
    if (o->fault) {
        if (strlen(o->fault) >= sizeof p->fault_text)
            return FAIL(ERR_USAGE, "--fault '%s': longer than %zu characters", o->fault, sizeof p->fault_text - 1);
        strcpy(p->fault_text, o->fault);
        TRY(fault_parse(&p->fault, o->fault));
    }
    if (o->start && strcmp(o->start, "branch") && strcmp(o->start, "scratch"))
        return FAIL(ERR_USAGE, "--start '%s': expected branch or scratch", o->start);
    if (o->start)
        p->scratch = !strcmp(o->start, "scratch");
    if (!p->scratch && !p->training.branch_at)
        return FAIL(ERR_USAGE, "--start branch: the study has no branch_at; start from scratch");
    const char *culprit;
    TRY(point_settle(p, trunk->training.micro_batch_size));
    return point_check(p, &culprit);
}

static status run_point(const struct trainer_options *o, bool baseline, struct comm *comm)
{
    char path[LAYOUT_PATH];
    struct point *points;
    const struct point *found;
    int count;
    TRY(points_read(&points, &count, layout_file(path, o->run, LAYOUT_POINTS)));
    status st = OK;
    TRY_DONE(points_find(&found, points, count, o->point, path));
    if (baseline != found->baseline)
        TRY_DONE(FAIL(ERR_USAGE, "point '%s' is %s: run it with %s", found->name,
                      found->baseline ? "the baseline" : "not the baseline",
                      found->baseline ? "rematch-baseline" : "rematch-sweep"));
    struct point point = *found;
    if (!baseline)
        TRY_DONE(change_point(&point, o, &points[0]));
    const struct trainer_request request = {
        .run = o->run,
        .point = &point,
        .trunk = point.scratch ? NULL : &points[0],
        .device = o->device ? o->device : "cpu",
        .comm = comm,
    };
    TRY_DONE(trainer_run(&request));
done:
    free(points);
    return st;
}

status trainer_main(const struct trainer_options *o, bool baseline, int *argc, char ***argv)
{
    if (!o->run || !o->point)
        return FAIL(ERR_USAGE, "--run and --point are needed: --run runs/demo --point %s",
                    baseline ? "h800-r0" : "l40s-r16");
    struct comm *comm;
    TRY(comm_open(&comm, argc, argv));
    trainer_catch_signals();
    status st = run_point(o, baseline, comm);
    st = comm_agree(comm, st);
    comm_close(comm);
    return st;
}
