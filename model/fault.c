#include "model/fault.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP(o) (1u << (o))
#define GEMMS (OP(OP_QKV) | OP(OP_PROJECTION) | OP(OP_GATE_UP) | OP(OP_DOWN))

/* Every fault, and the ops whose results it changes. */
static const struct {
    const char *name;
    unsigned ops;
} faults[] = {
    [FAULT_NONE] = {"", 0},
    [FAULT_RNG_REDRAWN] = {"rng-redrawn", OP(OP_ATTENTION_DROPOUT) | OP(OP_MLP_DROPOUT)},
    [FAULT_GEMM_ORDER] = {"gemm-order", GEMMS},
    [FAULT_STALE_WEIGHTS] = {"stale-weights", GEMMS | OP(OP_INPUT_NORM) | OP(OP_POST_NORM)},
};
enum { KINDS = sizeof faults / sizeof *faults };

static bool whole_number(const char *text, const char **end, int64_t *out)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return *out >= 0 && *out < INT_MAX;
}

enum option { OPTION_LAYERS = 1, OPTION_FROM = 2, OPTION_RANK = 4, OPTION_MODE = 8 };

static status parse_option(struct fault *f, const char *option, const char *whole, unsigned *given)
{
    const char *end = "?";
    int64_t first = 0, last = 0;
    enum option which;
    bool good;
    if (!strncmp(option, "layers=", 7)) {
        which = OPTION_LAYERS;
        good = whole_number(option + 7, &end, &first);
        last = first;
        if (good && *end == '-')
            good = whole_number(end + 1, &end, &last);
        good = good && !*end && first <= last;
        f->first_layer = (int)first;
        f->last_layer = (int)last;
    } else if (!strncmp(option, "from=", 5)) {
        which = OPTION_FROM;
        good = whole_number(option + 5, &end, &f->from) && !*end;
    } else if (!strncmp(option, "rank=", 5)) {
        which = OPTION_RANK;
        good = whole_number(option + 5, &end, &first) && !*end;
        f->rank = (int)first;
    } else if (f->kind == FAULT_GEMM_ORDER && !strncmp(option, "mode=", 5)) {
        which = OPTION_MODE;
        f->random = !strcmp(option + 5, "random");
        good = f->random || !strcmp(option + 5, "fixed");
    } else {
        return FAIL(ERR_USAGE, "fault '%s': '%s' is not an option of it: expected layers=A-B, from=STEP, rank=R%s",
                    whole, option, f->kind == FAULT_GEMM_ORDER ? ", mode=fixed or mode=random" : "");
    }
    if (!good)
        return FAIL(ERR_USAGE,
                    "fault '%s': '%s': expected layers=N or layers=FIRST-LAST, from=STEP, rank=R (whole numbers "
                    "below 2^31), mode=fixed or mode=random",
                    whole, option);
    if (*given & which)
        return FAIL(ERR_USAGE, "fault '%s': '%s': this option is given twice", whole, option);
    *given |= which;
    return OK;
}

/* "rng-redrawn, gemm-order, stale-weights" */
static void list_names(char text[128])
{
    size_t used = 0;
    for (int kind = 1; kind < KINDS; kind++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%s", kind > 1 ? ", " : "", faults[kind].name);
}

status fault_parse(struct fault *out, const char *text)
{
    *out = (struct fault){.kind = FAULT_NONE, .last_layer = INT_MAX, .rank = -1};
    if (!text || !*text)
        return OK;
    char copy[128];
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return FAIL(ERR_USAGE, "fault '%s': longer than %zu characters", text, sizeof copy - 1);
    char *options = strchr(copy, ':');
    if (options)
        *options++ = 0;
    int kind = 1;
    while (kind < KINDS && strcmp(copy, faults[kind].name))
        kind++;
    if (kind == KINDS) {
        char known[128];
        list_names(known);
        return FAIL(ERR_USAGE, "fault '%s' is not known: expected one of %s", copy, known);
    }
    out->kind = (enum fault_kind)kind;
    unsigned given = 0;
    for (char *rest, *option = options; option; option = rest) {
        rest = strchr(option, ',');
        if (rest)
            *rest++ = 0;
        TRY(parse_option(out, option, text, &given));
    }
    return OK;
}

status fault_check(const struct fault *f, const struct recompute_plan *plan, int64_t last_step, int ranks)
{
    const char *name = faults[f->kind].name;
    if (f->kind == FAULT_NONE)
        return OK;
    if (f->from > last_step)
        return FAIL(ERR_USAGE, "fault '%s' begins at step %lld, and the last is %lld: it would never act", name,
                    (long long)f->from, (long long)last_step);
    if (f->rank >= ranks)
        return FAIL(ERR_USAGE, "fault '%s' is for rank %d, and there are %d: it would never act", name, f->rank, ranks);
    for (int layer = f->first_layer; layer < plan->layers && layer <= f->last_layer; layer++)
        if (plan->layer[layer].ops & faults[f->kind].ops)
            return OK;
    return FAIL(
        ERR_USAGE,
        "fault '%s' would never act: no layer from %d to %d is recomputed with an op that it changes; recompute "
        "more, or choose other layers",
        name, f->first_layer, f->last_layer < plan->layers ? f->last_layer : plan->layers - 1);
}

bool fault_acts(const struct fault *f, int layer, int64_t step, int rank)
{
    return f->kind != FAULT_NONE && layer >= f->first_layer && layer <= f->last_layer && step >= f->from &&
           (f->rank < 0 || f->rank == rank);
}

void fault_edit(const struct fault *f, struct pass *pass, const struct fault_material *material)
{
    switch (f->kind) {
    case FAULT_NONE:
        break;
    case FAULT_RNG_REDRAWN:
        /* Any other key will do; the complement can never be the key itself. */
        pass->key.seed = ~pass->key.seed;
        break;
    case FAULT_GEMM_ORDER:
        pass->plans = material->other;
        pass->redraw = f->random;
        break;
    case FAULT_STALE_WEIGHTS:
        if (material->stale_weight)
            memcpy(pass->weight, material->stale_weight, sizeof pass->weight);
        break;
    }
}
