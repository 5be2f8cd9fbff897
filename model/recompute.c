#include "model/recompute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(i) (1u << (i))

/* ---- words ---- */

static const struct {
    const char *name;
    enum recompute_module module;
    unsigned tensors, ops;
} modules_known[] = {
    {"core_attn", MODULE_CORE_ATTN, BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE), BIT(OP_ATTENTION)},
    {"mlp", MODULE_MLP, BIT(TENSOR_GATE_UP) | BIT(TENSOR_ACTIVATED), BIT(OP_GATE_UP) | BIT(OP_SWIGLU)},
    {"layernorm", MODULE_LAYERNORM, BIT(TENSOR_NORM1) | BIT(TENSOR_RSTD1) | BIT(TENSOR_NORM2) | BIT(TENSOR_RSTD2),
     BIT(OP_INPUT_NORM) | BIT(OP_POST_NORM)},
};
enum { MODULES_KNOWN = sizeof modules_known / sizeof *modules_known };

/* Modules of Megatron-LM that recompute parts which this model does not have. */
static const char *const modules_elsewhere[] = {"moe_act",      "mla_up_proj", "moe",     "shared_experts",
                                                "gdn_norm_out", "gdp_in_proj", "gdp_qkv", "mhc"};

static bool is_given(const char *word) { return word && *word; }

static bool word_is(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && !memcmp(word, name, length);
}

static status parse_module(unsigned *modules, const char *word, size_t length)
{
    for (int i = 0; i < MODULES_KNOWN; i++)
        if (word_is(word, length, modules_known[i].name)) {
            if (*modules & modules_known[i].module)
                return FAIL(ERR_USAGE, "recompute-modules: '%.*s' is named twice", (int)length, word);
            *modules |= modules_known[i].module;
            return OK;
        }
    for (size_t i = 0; i < sizeof modules_elsewhere / sizeof *modules_elsewhere; i++)
        if (word_is(word, length, modules_elsewhere[i]))
            return FAIL(ERR_USAGE,
                        "recompute-modules '%.*s': Megatron-LM recomputes a part with it that this model lacks; "
                        "there are core_attn, mlp and layernorm",
                        (int)length, word);
    return FAIL(ERR_USAGE, "recompute-modules '%.*s': no such module; there are core_attn, mlp and layernorm",
                (int)length, word);
}

static status parse_modules(unsigned *modules, const char *text)
{
    *modules = 0;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        TRY(parse_module(modules, word, length));
        word += length;
        if (!*word)
            return OK;
    }
}

static status parse_full(struct recompute_policy *p, const char *method, int num_layers, const char *modules)
{
    if (is_given(modules))
        return FAIL(ERR_USAGE,
                    "recompute-modules '%s' with recompute-granularity full, which recomputes whole layers: "
                    "leave it out, or use granularity selective",
                    modules);
    if (!is_given(method))
        return FAIL(ERR_USAGE, "recompute-granularity full needs recompute-method block or uniform");
    if (!strcmp(method, "block"))
        p->method = METHOD_BLOCK;
    else if (!strcmp(method, "uniform"))
        p->method = METHOD_UNIFORM;
    else
        return FAIL(ERR_USAGE, "recompute-method '%s': expected block or uniform", method);
    if (num_layers < 0)
        return FAIL(ERR_USAGE, "recompute-method %s needs recompute-num-layers: %s", method,
                    p->method == METHOD_BLOCK ? "how many layers to recompute" : "the layers of a chunk");
    if (num_layers == 0 && p->method == METHOD_UNIFORM)
        return FAIL(ERR_USAGE, "recompute-num-layers 0 with recompute-method uniform: chunks have at least 1 layer; "
                               "to store everything use recompute-method block");
    p->num_layers = num_layers;
    p->granularity = num_layers ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    if (!num_layers)
        p->method = METHOD_NONE;
    return OK;
}

static status parse_selective(struct recompute_policy *p, const char *method, int num_layers, const char *modules)
{
    if (is_given(method))
        return FAIL(ERR_USAGE,
                    "recompute-method '%s' with recompute-granularity selective, which applies to all "
                    "layers: leave it out, or use granularity full",
                    method);
    if (num_layers >= 0)
        return FAIL(ERR_USAGE,
                    "recompute-num-layers %d with recompute-granularity selective, which applies to all "
                    "layers: leave it out, or use granularity full",
                    num_layers);
    p->granularity = RECOMPUTE_SELECTIVE;
    return parse_modules(&p->modules, is_given(modules) ? modules : "core_attn");
}

static status parse_none(const char *method, int num_layers, const char *modules)
{
    /* Megatron-LM ignores these silently, and a run then stores everything against its author's intention. */
    if (is_given(method) || num_layers >= 0)
        return FAIL(ERR_USAGE, "%s without recompute-granularity would recompute nothing: add granularity full",
                    is_given(method) ? "recompute-method" : "recompute-num-layers");
    if (is_given(modules))
        return FAIL(ERR_USAGE,
                    "recompute-modules without recompute-granularity would recompute nothing: add granularity "
                    "selective");
    return OK;
}

status recompute_parse(struct recompute_policy *out, const char *granularity, const char *method, int num_layers,
                       const char *modules, const char *precision)
{
    struct recompute_policy p = {.precision = BF16};
    if (!is_given(granularity))
        TRY(parse_none(method, num_layers, modules));
    else if (!strcmp(granularity, "full"))
        TRY(parse_full(&p, method, num_layers, modules));
    else if (!strcmp(granularity, "selective"))
        TRY(parse_selective(&p, method, num_layers, modules));
    else
        return FAIL(ERR_USAGE, "recompute-granularity '%s': expected full or selective", granularity);

    if (is_given(precision) && !strcmp(precision, "fp32"))
        p.precision = F32;
    else if (is_given(precision) && strcmp(precision, "bf16"))
        return FAIL(ERR_USAGE, "recompute-precision '%s': expected bf16 or fp32", precision);
    if (p.precision == F32 && p.granularity == RECOMPUTE_NONE)
        return FAIL(ERR_USAGE, "recompute-precision fp32 where nothing is recomputed: leave it out");
    *out = p;
    return OK;
}

const char *recompute_granularity_name(enum recompute_granularity g)
{
    static const char *const names[] = {"none", "full", "selective"};
    return names[g];
}

const char *recompute_method_name(enum recompute_method m)
{
    static const char *const names[] = {"", "block", "uniform"};
    return names[m];
}

static void join_modules(unsigned modules, const char *between, char text[64])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < MODULES_KNOWN; i++)
        if (modules & modules_known[i].module)
            used += (size_t)snprintf(text + used, 64 - used, "%s%s", used ? between : "", modules_known[i].name);
}

void recompute_modules_name(unsigned modules, char text[64]) { join_modules(modules, ",", text); }

void recompute_word(const struct recompute_policy *p, char word[64])
{
    if (p->granularity == RECOMPUTE_SELECTIVE)
        join_modules(p->modules, "+", word);
    else
        snprintf(word, 64, "%c%d", p->method == METHOD_UNIFORM ? 'u' : 'r', p->num_layers);
    if (p->precision == F32)
        strcat(word, "-fp32");
}

/* ---- policy to plan ---- */

/* What the full rebuild of a layer makes, from its input to the input of its last GEMM. */
static const unsigned inner_tensors = BIT(TENSOR_NORM1) | BIT(TENSOR_RSTD1) | BIT(TENSOR_QKV_RAW) | BIT(TENSOR_QKV) |
                                      BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE) | BIT(TENSOR_PROJECTED) |
                                      BIT(TENSOR_MIDDLE) | BIT(TENSOR_NORM2) | BIT(TENSOR_RSTD2) | BIT(TENSOR_GATE_UP) |
                                      BIT(TENSOR_ACTIVATED);
static const unsigned ending_tensors = BIT(TENSOR_DOWN) | BIT(TENSOR_OUTPUT);
static const unsigned ending_ops = BIT(OP_DOWN) | BIT(OP_MLP_DROPOUT);
static const unsigned inner_ops = (BIT(BLOCK_OPS) - 1) & ~(BIT(OP_DOWN) | BIT(OP_MLP_DROPOUT));

static void plan_chunk(struct recompute_plan *plan, int first, int last)
{
    for (int l = first; l <= last; l++)
        plan->layer[l] = (struct recompute_layer){
            .chunk_first = first,
            .chunk_last = last,
            .rebuilt = inner_tensors | (l < last ? ending_tensors : 0) | (l > first ? BIT(TENSOR_INPUT) : 0),
            .ops = inner_ops | (l < last ? ending_ops : 0),
            .verifies_input = l == first,
        };
    if (plan->longest_chunk < last - first + 1)
        plan->longest_chunk = last - first + 1;
}

static void plan_selective(struct recompute_plan *plan, unsigned modules)
{
    for (int l = 0; l < plan->layers; l++)
        for (int i = 0; i < MODULES_KNOWN; i++)
            if (modules & modules_known[i].module) {
                plan->layer[l].rebuilt |= modules_known[i].tensors;
                plan->layer[l].ops |= modules_known[i].ops;
            }
    plan->longest_chunk = 1;
}

static status check_layers(const struct recompute_policy *p, int layers)
{
    if (layers < 1)
        return FAIL(ERR_USAGE, "layers %d: a model has at least 1", layers);
    if (p->granularity == RECOMPUTE_FULL && (p->num_layers < 1 || p->num_layers > layers))
        return FAIL(ERR_USAGE, "recompute-num-layers %d with recompute-method %s: the model has %d layers; expected %s",
                    p->num_layers, recompute_method_name(p->method), layers,
                    p->method == METHOD_BLOCK ? "0 to that many" : "1 to that many");
    return OK;
}

status recompute_plan_make(struct recompute_plan **out, const struct recompute_policy *p, int layers)
{
    *out = NULL;
    TRY(check_layers(p, layers));
    struct recompute_plan *plan = calloc(1, sizeof *plan);
    struct recompute_layer *layer = calloc((size_t)layers, sizeof *layer);
    if (!plan || !layer) {
        free(layer);
        free(plan);
        return FAIL(ERR_MEMORY, "no memory for a recompute plan of %d layers", layers);
    }
    *plan = (struct recompute_plan){*p, layers, 0, layer};
    for (int l = 0; l < layers; l++)
        layer[l].chunk_first = layer[l].chunk_last = l;

    if (p->granularity == RECOMPUTE_SELECTIVE)
        plan_selective(plan, p->modules);
    else if (p->method == METHOD_BLOCK)
        for (int l = 0; l < p->num_layers; l++)
            plan_chunk(plan, l, l);
    else if (p->method == METHOD_UNIFORM)
        for (int first = 0; first < layers; first += p->num_layers)
            plan_chunk(plan, first, (first + p->num_layers < layers ? first + p->num_layers : layers) - 1);
    *out = plan;
    return OK;
}

void recompute_plan_free(struct recompute_plan *plan)
{
    if (!plan)
        return;
    free(plan->layer);
    free(plan);
}

int recompute_compared_tensors(const struct recompute_plan *plan)
{
    int count = 0;
    for (int l = 0; l < plan->layers; l++)
        count += __builtin_popcount(plan->layer[l].rebuilt & ~BIT(TENSOR_INPUT)) + plan->layer[l].verifies_input;
    return count;
}
