#include "model/fault.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(o) (1u << (o))
#define GEMMS (BIT(OP_QKV) | BIT(OP_PROJECTION) | BIT(OP_GATE_UP) | BIT(OP_DOWN))

enum option {
    OPTION_LAYERS,
    OPTION_FROM,
    OPTION_RANK,
    OPTION_MODE,
    OPTION_PARAMETER,
    OPTION_RATE,
    OPTION_OFFSET,
    OPTIONS
};

/* Every fault, the ops whose results it changes, its modes (the first is the default) and options of its own. */
static const struct {
    const char *name;
    unsigned ops, modes, options;
} faults[] = {
    [FAULT_NONE] = {"", 0, 0, 0},
    [FAULT_RNG_REDRAWN] = {"rng-redrawn", BIT(OP_ATTENTION_DROPOUT) | BIT(OP_MLP_DROPOUT), 0, 0},
    [FAULT_GEMM_ORDER] = {"gemm-order", GEMMS, BIT(FAULT_MODE_FIXED) | BIT(FAULT_MODE_RANDOM), BIT(OPTION_MODE)},
    [FAULT_ATTENTION_ORDER] = {"attention-order", BIT(OP_ATTENTION), BIT(FAULT_MODE_FIXED), BIT(OPTION_MODE)},
    [FAULT_BIASED_ROUNDING] = {"biased-rounding", GEMMS | BIT(OP_ATTENTION),
                               BIT(FAULT_MODE_ZERO) | BIT(FAULT_MODE_TRUNCATING), BIT(OPTION_MODE)},
    [FAULT_PRECISION_LOST] = {"precision-lost", 0, BIT(FAULT_MODE_FP32) | BIT(FAULT_MODE_FP8), BIT(OPTION_MODE)},
    [FAULT_STALE_WEIGHTS] = {"stale-weights", GEMMS | BIT(OP_INPUT_NORM) | BIT(OP_POST_NORM), 0, 0},
    [FAULT_CHUNK_INPUT] = {"chunk-input", BIT(OP_INPUT_NORM), 0, 0},
    [FAULT_GRAD_DROPPED] = {"grad-dropped", 0, 0, BIT(OPTION_PARAMETER)},
    [FAULT_BIT_FLIP] = {"bit-flip", BIT(BLOCK_OPS) - 1, 0, BIT(OPTION_RATE)},
    [FAULT_CP_OFFSET] = {"cp-offset", BIT(OP_ROPE) | BIT(OP_ATTENTION), 0, BIT(OPTION_OFFSET)},
};
enum { KINDS = sizeof faults / sizeof *faults };

static const char *const modes[] = {"fixed", "random", "zero", "truncating", "fp32", "fp8"};
enum { MODES = sizeof modes / sizeof *modes };

/* By kind - PARAMETER_INPUT_NORM: the op that reads the parameter, whose name it goes by, and the op whose result the
 * parameter's gradient is taken from. */
static const struct {
    enum block_op reader, maker;
} parameters[BLOCK_PARAMETERS] = {
    {OP_INPUT_NORM, OP_INPUT_NORM}, {OP_QKV, OP_INPUT_NORM},    {OP_PROJECTION, OP_ATTENTION},
    {OP_POST_NORM, OP_POST_NORM},   {OP_GATE_UP, OP_POST_NORM}, {OP_DOWN, OP_SWIGLU},
};

/* ---- options: each reads its whole value, or is false ---- */

static bool whole_number(const char *text, const char **end, int64_t *out)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return *out >= 0 && *out < INT_MAX;
}

static bool read_layers(struct fault *f, const char *value)
{
    const char *end;
    int64_t first, last;
    if (!whole_number(value, &end, &first))
        return false;
    last = first;
    if (*end == '-' && !whole_number(end + 1, &end, &last))
        return false;
    f->first_layer = (int)first;
    f->last_layer = (int)last;
    return !*end && first <= last;
}

static bool read_from(struct fault *f, const char *value)
{
    const char *end;
    return whole_number(value, &end, &f->from) && !*end;
}

static bool read_rank(struct fault *f, const char *value)
{
    const char *end;
    int64_t rank;
    if (!whole_number(value, &end, &rank) || *end)
        return false;
    f->rank = (int)rank;
    return true;
}

static bool read_mode(struct fault *f, const char *value)
{
    for (int mode = 0; mode < MODES; mode++)
        if (faults[f->kind].modes & BIT(mode) && !strcmp(value, modes[mode])) {
            f->mode = (enum fault_mode)mode;
            return true;
        }
    return false;
}

static bool read_parameter(struct fault *f, const char *value)
{
    for (int i = 0; i < BLOCK_PARAMETERS; i++)
        if (!strcmp(value, block_op_name(parameters[i].reader))) {
            f->parameter = (enum parameter_kind)(PARAMETER_INPUT_NORM + i);
            return true;
        }
    return false;
}

static bool read_rate(struct fault *f, const char *value)
{
    char *end;
    if (*value < '0' || *value > '9')
        return false;
    f->rate = strtod(value, &end);
    return !*end && f->rate > 0 && f->rate <= 1;
}

static bool read_offset(struct fault *f, const char *value)
{
    const char *end;
    return whole_number(value, &end, &f->offset) && !*end && f->offset > 0;
}

static const struct {
    const char *name, *values; /* values NULL: the fault's modes */
    bool (*read)(struct fault *f, const char *value);
} options[OPTIONS] = {
    [OPTION_LAYERS] = {"layers", "N or FIRST-LAST", read_layers},
    [OPTION_FROM] = {"from", "STEP", read_from},
    [OPTION_RANK] = {"rank", "R", read_rank},
    [OPTION_MODE] = {"mode", NULL, read_mode},
    [OPTION_PARAMETER] = {"parameter", "input_norm|qkv|projection|post_norm|gate_up|down", read_parameter},
    [OPTION_RATE] = {"rate", "R with 0 < R <= 1", read_rate},
    [OPTION_OFFSET] = {"offset", "N of at least 1", read_offset},
};

static unsigned options_of(const struct fault *f)
{
    return BIT(OPTION_LAYERS) | BIT(OPTION_FROM) | BIT(OPTION_RANK) | faults[f->kind].options;
}

/* "fixed|random" of bits 0 and 1 */
static void list_modes(unsigned set, char text[64])
{
    size_t used = 0;
    for (int mode = 0; mode < MODES; mode++)
        if (set & BIT(mode))
            used += (size_t)snprintf(text + used, 64 - used, "%s%s", used ? "|" : "", modes[mode]);
}

/* "layers=N or FIRST-LAST, from=STEP, rank=R, mode=fixed|random" */
static void list_options(const struct fault *f, char text[256])
{
    char known[64] = "";
    size_t used = 0;
    list_modes(faults[f->kind].modes, known);
    for (int i = 0; i < OPTIONS; i++)
        if (options_of(f) & BIT(i))
            used += (size_t)snprintf(text + used, 256 - used, "%s%s=%s", used ? ", " : "", options[i].name,
                                     options[i].values ? options[i].values : known);
}

static status parse_option(struct fault *f, const char *option, const char *whole, unsigned *given)
{
    char expected[256];
    const size_t length = strcspn(option, "=");
    int i = 0;
    while (i < OPTIONS && !(options_of(f) & BIT(i) && option[length] && strlen(options[i].name) == length &&
                            !strncmp(option, options[i].name, length)))
        i++;
    list_options(f, expected);
    if (i == OPTIONS)
        return FAIL(ERR_USAGE, "fault '%s': '%s' is not an option of it: expected %s", whole, option, expected);
    if (!options[i].read(f, option + length + 1))
        return FAIL(ERR_USAGE, "fault '%s': '%s': expected %s (whole numbers below 2^31)", whole, option, expected);
    if (*given & BIT(i))
        return FAIL(ERR_USAGE, "fault '%s': '%s': this option is given twice", whole, option);
    *given |= BIT(i);
    return OK;
}

/* ---- the whole text ---- */

/* "rng-redrawn, gemm-order, ..." */
static void list_names(char text[256])
{
    size_t used = 0;
    for (int kind = 1; kind < KINDS; kind++)
        used += (size_t)snprintf(text + used, 256 - used, "%s%s", kind > 1 ? ", " : "", faults[kind].name);
}

static enum fault_mode default_mode(int kind)
{
    return faults[kind].modes ? (enum fault_mode)__builtin_ctz(faults[kind].modes) : FAULT_MODE_FIXED;
}

status fault_parse(struct fault *out, const char *text)
{
    *out = (struct fault){
        .kind = FAULT_NONE, .last_layer = INT_MAX, .rank = -1, .parameter = PARAMETER_QKV, .rate = 0.001};
    if (!text || !*text)
        return OK;
    char copy[128];
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return FAIL(ERR_USAGE, "fault '%s': longer than %zu characters", text, sizeof copy - 1);
    char *rest = strchr(copy, ':');
    if (rest)
        *rest++ = 0;
    int kind = 1;
    while (kind < KINDS && strcmp(copy, faults[kind].name))
        kind++;
    if (kind == KINDS) {
        char known[256];
        list_names(known);
        return FAIL(ERR_USAGE, "fault '%s' is not known: expected one of %s", copy, known);
    }
    out->kind = (enum fault_kind)kind;
    out->mode = default_mode(kind);
    unsigned given = 0;
    for (char *option = rest; option; option = rest) {
        rest = strchr(option, ',');
        if (rest)
            *rest++ = 0;
        TRY(parse_option(out, option, text, &given));
    }
    return OK;
}

/* ---- whether it can act ---- */

static unsigned changed_ops(const struct fault *f)
{
    /* A wider tensor shows, rounded as the forward's, only in what is made of it. */
    if (f->kind == FAULT_PRECISION_LOST)
        return f->mode == FAULT_MODE_FP8 ? GEMMS : BIT(OP_QKV) | BIT(OP_SWIGLU);
    if (f->kind == FAULT_GRAD_DROPPED)
        return BIT(parameters[f->parameter - PARAMETER_INPUT_NORM].maker);
    return faults[f->kind].ops;
}

static bool changes_layer(const struct fault *f, const struct recompute_plan *plan, int layer)
{
    const struct recompute_layer *l = &plan->layer[layer];
    return l->ops & changed_ops(f) && (f->kind != FAULT_CHUNK_INPUT || layer > l->chunk_first);
}

/* What keeps it from acting in any layer; NULL: nothing. */
static const char *obstacle(const struct fault *f, const struct fault_run *run)
{
    const bool zero = f->mode == FAULT_MODE_ZERO;
    switch (f->kind) {
    case FAULT_RNG_REDRAWN:
        return run->shape->hidden_dropout > 0 ? NULL : "the model has no dropout (hidden_dropout 0)";
    case FAULT_ATTENTION_ORDER:
        return run->shape->sequence > 1 ? NULL : "a sequence of one token has one block of keys";
    case FAULT_BIASED_ROUNDING:
        if (zero && run->storage != BF16)
            return "mode=zero cuts results that are stored as bf16, and this run stores none";
        return run->recompute == (zero ? ARITHMETIC_TO_ZERO : ARITHMETIC_TRUNCATING)
                   ? "the run's recompute rounds like that already"
                   : NULL;
    case FAULT_PRECISION_LOST:
        return f->mode == FAULT_MODE_FP32 && run->storage != BF16 ? "mode=fp32 widens bf16, and this run stores none"
                                                                  : NULL;
    case FAULT_CP_OFFSET:
        return fault_position(f, 0, run->shape->sequence) ? NULL : "the offset is a multiple of the sequence";
    default:
        return NULL;
    }
}

status fault_check(const struct fault *f, const struct fault_run *run)
{
    const char *name = faults[f->kind].name, *why = obstacle(f, run);
    if (f->kind == FAULT_NONE)
        return OK;
    if (f->from > run->last_step)
        return FAIL(ERR_USAGE, "fault '%s' begins at step %lld, and the last is %lld: it would never act", name,
                    (long long)f->from, (long long)run->last_step);
    if (f->rank >= run->ranks)
        return FAIL(ERR_USAGE, "fault '%s' is for rank %d, and there are %d: it would never act", name, f->rank,
                    run->ranks);
    if (why)
        return FAIL(ERR_USAGE, "fault '%s' would never act: %s", name, why);
    const int layers = run->plan->layers;
    for (int layer = f->first_layer; layer < layers && layer <= f->last_layer; layer++)
        if (changes_layer(f, run->plan, layer))
            return OK;
    return FAIL(ERR_USAGE,
                "fault '%s' would never act: no layer from %d to %d is recomputed with an op that it changes%s; "
                "recompute more, or choose other layers",
                name, f->first_layer, f->last_layer < layers ? f->last_layer : layers - 1,
                f->kind == FAULT_CHUNK_INPUT ? " (one behind the first of a uniform chunk)" : "");
}
