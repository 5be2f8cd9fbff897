#include "model/fault.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"", "rng-redrawn", "gemm-order", "stale-weights"};
enum { KINDS = sizeof names / sizeof *names };

const char *fault_name(enum fault_kind kind) { return names[kind]; }

static bool whole_number(const char *text, const char **end, int64_t *out)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return *out >= 0 && *out < INT_MAX;
}

static status parse_option(struct fault *f, const char *option, const char *whole)
{
    const char *end = "?";
    int64_t first = 0, last = 0;
    if (!strncmp(option, "layers=", 7)) {
        bool good = whole_number(option + 7, &end, &first);
        last = first;
        if (good && *end == '-')
            good = whole_number(end + 1, &end, &last);
        if (good && !*end && first <= last) {
            f->first_layer = (int)first;
            f->last_layer = (int)last;
            return OK;
        }
        return FAIL(ERR_USAGE, "fault '%s': '%s': expected layers=FIRST-LAST or layers=N", whole, option);
    }
    if (!strncmp(option, "from=", 5) && whole_number(option + 5, &end, &f->from) && !*end)
        return OK;
    if (!strncmp(option, "rank=", 5) && whole_number(option + 5, &end, &first) && !*end) {
        f->rank = (int)first;
        return OK;
    }
    if (f->kind == FAULT_GEMM_ORDER && (!strcmp(option, "mode=fixed") || !strcmp(option, "mode=random"))) {
        f->random = !strcmp(option, "mode=random");
        return OK;
    }
    return FAIL(ERR_USAGE, "fault '%s': '%s' is not an option of it: expected layers=A-B, from=STEP, rank=R%s", whole,
                option, f->kind == FAULT_GEMM_ORDER ? ", mode=fixed or mode=random" : "");
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
    while (kind < KINDS && strcmp(copy, names[kind]))
        kind++;
    if (kind == KINDS)
        return FAIL(ERR_USAGE, "fault '%s' is not known: expected rng-redrawn, gemm-order or stale-weights", copy);
    out->kind = (enum fault_kind)kind;
    for (char *rest, *option = options; option; option = rest) {
        rest = strchr(option, ',');
        if (rest)
            *rest++ = 0;
        TRY(parse_option(out, option, text));
    }
    return OK;
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
        pass->plans = f->random ? material->other_random : material->other_fixed;
        pass->redraw = f->random;
        break;
    case FAULT_STALE_WEIGHTS:
        if (material->stale_weight)
            memcpy(pass->weight, material->stale_weight, sizeof pass->weight);
        break;
    }
}
