#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/memory.h"
#include "stages/point.h"

__attribute__((format(printf, 2, 3))) static void append(char name[128], const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(name);
    va_start(arguments, format);
    vsnprintf(name + used, 128 - used, format, arguments);
    va_end(arguments);
}

/* "-random" where both passes have the mode, else "-random-forward" and "-random-recompute". */
static void name_dial(struct point *p)
{
    const enum arithmetic_mode forward = p->dial.forward, recompute = p->dial.recompute;
    if (forward)
        append(p->name, "-%s%s", arithmetic_mode_name(forward), forward == recompute ? "" : "-forward");
    if (recompute && recompute != forward)
        append(p->name, "-%s-recompute", arithmetic_mode_name(recompute));
}

static void name_point(struct point *p, const struct point_training *usual)
{
    char word[64];
    recompute_word(&p->recompute, word);
    *p->name = '\0';
    append(p->name, "%s-%s", p->target.name, word);
    if (p->training.micro_batch_size != usual->micro_batch_size)
        append(p->name, "-m%d", p->training.micro_batch_size);
    if (p->training.storage != usual->storage)
        append(p->name, "-%s-storage", p->training.storage == F32 ? "fp32" : "bf16");
    name_dial(p);
    if (*p->fault_text)
        append(p->name, "-%s", p->fault_text);
    for (char *c = p->name; *c; c++)
        if (*c == ':' || *c == ',')
            *c = '-';
    if (p->scratch && !p->baseline)
        append(p->name, "-scratch");
    if (*p->replicate)
        append(p->name, "-%s", p->replicate);
}

static status plan_memory(struct point *p)
{
    struct recompute_plan *plan;
    struct memory_plan memory;
    struct memory_request request = {
        .shape = p->model,
        .micro_batch = p->training.micro_batch_size,
        .tokens = p->training.sequence_length / p->target.cp,
        .storage = p->training.storage,
        .reduction_groups = p->training.reduction_groups / p->target.dp,
        .shards = 1, /* every rank keeps the whole optimizer */
        .stale_weights = fault_keeps_weights(&p->fault),
        .wide_rebuild = fault_widens(&p->fault),
        .audits = point_takes_audits(p),
        .certificate = true,
    };
    TRY(recompute_plan_make(&plan, &p->recompute, p->model.layers));
    status st = memory_plan_make(&memory, &request, plan);
    recompute_plan_free(plan);
    TRY(st);
    p->planned_bytes = memory.arena_bytes;
    p->planned_activation_bytes = memory.activation_bytes;
    p->fits = p->planned_bytes <= p->target.memory_bytes;
    return OK;
}

status point_settle(struct point *p, const struct point_training *usual)
{
    name_point(p, usual);
    if (strlen(p->name) + 1 == sizeof p->name)
        return FAIL(ERR_USAGE, "the name '%s...' is too long: shorten the target's", p->name);
    return plan_memory(p);
}
