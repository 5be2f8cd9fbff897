/* recompute.h - what a recompute policy is, in Megatron-LM's words and with its semantics.
 *
 * - none: every activation is stored.
 * - full, block, N: the first N layers keep only their input; each is rebuilt alone, just before its backward.
 * - full, uniform, N: the layers are cut into chunks of N (the last may be shorter). A chunk keeps only its input and
 *   is rebuilt as a whole; every layer is recomputed.
 * - selective: in every layer the named modules drop what is inside them.
 *   core_attn: attention output and log-sum-exp, rebuilt from q, k, v.
 *   mlp: gate_up and activated, rebuilt from the post-attention norm's output.
 *   layernorm: both norms' outputs and rstd, rebuilt from the residual stream.
 * - precision fp32: the rebuild stores f32, so it differs from a bf16 forward by design.
 *
 * Policy becomes plan in one place (recompute_plan_make). The rest of the model asks the plan "kept or rebuilt?",
 * "which ops?", "which chunk?" and never looks at a flag. Source: Megatron-LM, megatron/core/recompute.py and
 * transformer_config.py; edge values: block 0 = none; uniform 0, which never ends there, is an error.
 *
 * What the rebuild of a chunk runs: every op of its layers, except that its last layer runs neither DOWN nor
 * MLP_DROPOUT, because no backward reads their results and the next chunk's input is stored. Megatron's selective mlp
 * runs its last GEMM again as well; we leave it out for the same reason.
 */
#ifndef REMATCH_MODEL_RECOMPUTE_H
#define REMATCH_MODEL_RECOMPUTE_H

#include "model/shape.h"

enum recompute_granularity { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_SELECTIVE };
enum recompute_method { METHOD_NONE, METHOD_BLOCK, METHOD_UNIFORM };
enum recompute_module { MODULE_CORE_ATTN = 1, MODULE_MLP = 2, MODULE_LAYERNORM = 4 };

struct recompute_policy {
    enum recompute_granularity granularity;
    enum recompute_method method;
    int num_layers;       /* block: layers recomputed; uniform: layers per chunk; else 0 */
    unsigned modules;     /* selective: enum recompute_module, or-ed */
    enum dtype precision; /* BF16 (as the forward) or F32 */
};

/* From Megatron's words; NULL or "" where a flag is absent, num_layers -1 where absent. ERR_USAGE says which flags
 * contradict each other and what to write instead. */
status recompute_parse(struct recompute_policy *out, const char *granularity, const char *method, int num_layers,
                       const char *modules, const char *precision);

/* "r0", "r16", "u8", "core_attn+mlp", with "-fp32" when so: the word that names a point. */
void recompute_word(const struct recompute_policy *p, char word[64]);

const char *recompute_granularity_name(enum recompute_granularity g); /* "none" (null in JSON), "full", "selective" */
const char *recompute_method_name(enum recompute_method m);           /* "", "block", "uniform" */
void recompute_modules_name(unsigned modules, char text[64]);         /* "core_attn,mlp" */

/* A policy applied to a number of layers.
 *
 * `rebuilt` has the bit of every tensor that the forward does not keep and the rebuild makes, transients (QKV_RAW,
 * PROJECTED, DOWN) included. Inside a chunk the OUTPUT of one layer is the INPUT of the next: both bits are set, since
 * both say "not stored"; it is one tensor, made, digested and counted as the OUTPUT.
 * A chunk's stored input is the INPUT of its first layer, under full granularity only: what a selective rebuild reads
 * is kept for the backward anyway, by every layer. */
struct recompute_layer {
    int chunk_first, chunk_last; /* the chunk that this layer is rebuilt with; itself alone when nothing is rebuilt */
    unsigned rebuilt;            /* bit t: enum block_tensor t */
    unsigned ops;                /* bit o: block_op o runs in the rebuild */
    bool verifies_input;         /* INPUT is the stored input of a chunk, which the certificate verifies */
};

struct recompute_plan {
    struct recompute_policy policy;
    int layers;
    int longest_chunk; /* layers whose rebuilt tensors are alive at once; 0 when nothing is rebuilt */
    struct recompute_layer *layer;
};

/* ERR_USAGE when the policy does not fit the number of layers (block N > layers, uniform N < 1 or > layers). */
status recompute_plan_make(struct recompute_plan **out, const struct recompute_policy *p, int layers);
void recompute_plan_free(struct recompute_plan *plan);

static inline bool recompute_is_rebuilt(const struct recompute_plan *plan, int layer, enum block_tensor t)
{
    return plan->layer[layer].rebuilt >> t & 1u;
}

static inline bool recompute_runs(const struct recompute_plan *plan, int layer) { return plan->layer[layer].ops != 0; }

/* Tensors that the certificate compares in one micro-batch: each rebuilt tensor once (an INPUT counts as the OUTPUT of
 * the layer before), and each chunk's stored input. */
int recompute_compared_tensors(const struct recompute_plan *plan);

#endif
