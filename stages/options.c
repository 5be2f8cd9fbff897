#include "stages/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "stages/command.h"
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

/* A policy in Megatron's words; see recompute_parse. */
struct words {
    const char *granularity, *method, *modules, *precision;
    int num_layers;
};

/* The point's policy with what the options change: what they do not name stays, unless they name another granularity. A
 * number of layers alone means what it means in a study: full, block. */
static status change_policy(struct recompute_policy *p, const struct trainer_options *o)
{
    char modules[64];
    struct words w = {.num_layers = -1};
    recompute_modules_name(p->modules, modules);
    if (!o->granularity && p->granularity != RECOMPUTE_NONE)
        w = (struct words){recompute_granularity_name(p->granularity), recompute_method_name(p->method), modules,
                           p->precision == F32 ? "fp32" : NULL, p->granularity == RECOMPUTE_FULL ? p->num_layers : -1};
    else if (!o->granularity && o->num_layers >= 0)
        w = (struct words){.granularity = "full", .method = "block"};
    if (o->granularity)
        w.granularity = o->granularity;
    if (o->method)
        w.method = o->method;
    if (o->modules)
        w.modules = o->modules;
    if (o->precision)
        w.precision = o->precision;
    if (o->num_layers >= 0)
        w.num_layers = (int)o->num_layers;
    return recompute_parse(p, w.granularity, w.method, w.num_layers, w.modules, w.precision);
}

static status change_fault(struct point *p, const char *fault)
{
    if (strlen(fault) >= sizeof p->fault_text)
        return FAIL(ERR_USAGE, "--fault '%s': longer than %zu characters", fault, sizeof p->fault_text - 1);
    strcpy(p->fault_text, fault);
    return fault_parse(&p->fault, fault);
}

/* Other audits than the study's leave another record: "l40s-r24-audit16". */
static status name_audits(struct point *p, const struct point *trunk)
{
    size_t used = strlen(p->name);
    if (p->audit.frozen == trunk->audit.frozen)
        return OK;
    if (!point_takes_audits(p) && p->audit.frozen)
        return FAIL(ERR_USAGE, "--audit %d: point '%s' recomputes nothing, so there is nothing to audit",
                    p->audit.frozen, p->name);
    int written = snprintf(p->name + used, sizeof p->name - used, "-audit%d", p->audit.frozen);
    if (written < 0 || (size_t)written >= sizeof p->name - used)
        return FAIL(ERR_USAGE, "the name '%s...' is too long: shorten the target's", p->name);
    return OK;
}

/* What the command line changes about a planned point: another policy, fault or start is another point, with the name
 * that a study would give it. */
static status change_point(struct point *p, const struct trainer_options *o, const struct point *trunk)
{
    if (o->granularity || o->method || o->modules || o->precision || o->num_layers >= 0)
        TRY(change_policy(&p->recompute, o));
    if (o->fault)
        TRY(change_fault(p, o->fault));
    if (o->start && strcmp(o->start, "branch") && strcmp(o->start, "scratch"))
        return FAIL(ERR_USAGE, "--start '%s': expected branch or scratch", o->start);
    if (o->start)
        p->scratch = !strcmp(o->start, "scratch");
    if (o->on_mismatch && strcmp(o->on_mismatch, "stop") && strcmp(o->on_mismatch, "continue"))
        return FAIL(ERR_USAGE, "--on-mismatch '%s': expected stop or continue", o->on_mismatch);
    if (o->on_mismatch)
        p->certificate.stop = !strcmp(o->on_mismatch, "stop");
    if (o->audit >= 0)
        p->audit.frozen = (int)o->audit;
    const char *culprit;
    TRY(point_settle(p, &trunk->training));
    TRY(name_audits(p, trunk));
    return point_check(p, &culprit);
}

static status run_point(const struct trainer_options *o, bool baseline, struct comm *comm)
{
    const struct ops *known;
    if (o->device)
        TRY(ops_find(o->device, &known));
    if (!o->run || !o->point)
        return FAIL(ERR_USAGE, "--run and --point are needed: --run runs/demo --point %s",
                    baseline ? "h800-r0" : "l40s-r16");
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
        .baseline = &points[0],
        .device = o->device ? o->device : "cpu",
        .comm = comm,
    };
    TRY_DONE(trainer_run(&request));
done:
    free(points);
    return st;
}

int trainer_main(const struct trainer_options *o, bool baseline, int *argc, char ***argv)
{
    struct comm *comm;
    status st = comm_open(&comm, argc, argv);
    if (st != OK)
        return command_exit(st);
    trainer_catch_signals();
    st = comm_agree(comm, run_point(o, baseline, comm));
    /* Said before anybody ends: mpirun kills the others when one ends with an error. */
    int code = comm_speaks(comm) ? command_exit(st) : status_exit_code(st);
    comm_close(comm);
    return code;
}
