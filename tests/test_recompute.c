/* Policies in Megatron-LM's words, and the plans that they become, bit by bit. */
#include "model/recompute.h"
#include "tests/suite.h"

#define BIT(i) (1u << (i))

/* Twelve tensors from the input norm to the input of the last GEMM; the last GEMM and its dropout make two more. */
static const unsigned inner_tensors = BIT(TENSOR_NORM1) | BIT(TENSOR_RSTD1) | BIT(TENSOR_QKV_RAW) | BIT(TENSOR_QKV) |
                                      BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE) | BIT(TENSOR_PROJECTED) |
                                      BIT(TENSOR_MIDDLE) | BIT(TENSOR_NORM2) | BIT(TENSOR_RSTD2) | BIT(TENSOR_GATE_UP) |
                                      BIT(TENSOR_ACTIVATED);
static const unsigned ending_tensors = BIT(TENSOR_DOWN) | BIT(TENSOR_OUTPUT);
static const unsigned inner_ops = 0x1ff, all_ops = 0x7ff;

static struct recompute_policy policy_of(const char *granularity, const char *method, int num_layers,
                                         const char *modules, const char *precision)
{
    struct recompute_policy p;
    ck_ok(recompute_parse(&p, granularity, method, num_layers, modules, precision));
    return p;
}

static struct recompute_plan *plan_of(const char *granularity, const char *method, int num_layers, const char *modules,
                                      int layers)
{
    struct recompute_policy p = policy_of(granularity, method, num_layers, modules, NULL);
    struct recompute_plan *plan;
    ck_ok(recompute_plan_make(&plan, &p, layers));
    return plan;
}

static void check_layer(const struct recompute_plan *plan, int l, int first, int last, unsigned rebuilt, unsigned ops,
                        bool verifies_input)
{
    const struct recompute_layer *layer = &plan->layer[l];
    ck_assert_int_eq(layer->chunk_first, first);
    ck_assert_int_eq(layer->chunk_last, last);
    ck_assert_uint_eq(layer->rebuilt, rebuilt);
    ck_assert_uint_eq(layer->ops, ops);
    ck_assert_int_eq(layer->verifies_input, verifies_input);
}

/* ---- plans ---- */

START_TEST(block_recomputes_the_first_layers_one_by_one)
{
    enum { LAYERS = 6 };
    int n = _i;
    struct recompute_plan *plan = plan_of("full", "block", n, NULL, LAYERS);
    for (int l = 0; l < LAYERS; l++)
        check_layer(plan, l, l, l, l < n ? inner_tensors : 0, l < n ? inner_ops : 0, l < n);
    ck_assert_int_eq(plan->longest_chunk, n > 0);
    ck_assert_int_eq(recompute_compared_tensors(plan), 13 * n);
    recompute_plan_free(plan);
}
END_TEST

/* 7 layers in chunks of 3: 0-2, 3-5, 6. */
START_TEST(uniform_recomputes_every_layer_in_chunks_with_a_rest)
{
    static const int first[] = {0, 0, 0, 3, 3, 3, 6}, last[] = {2, 2, 2, 5, 5, 5, 6};
    struct recompute_plan *plan = plan_of("full", "uniform", 3, NULL, 7);
    for (int l = 0; l < 7; l++) {
        bool begins = l == first[l], ends = l == last[l];
        check_layer(plan, l, first[l], last[l],
                    inner_tensors | (ends ? 0 : ending_tensors) | (begins ? 0 : BIT(TENSOR_INPUT)),
                    ends ? inner_ops : all_ops, begins);
    }
    ck_assert_int_eq(plan->longest_chunk, 3);
    /* 7 x 12 inner, 4 x 2 at the ends of layers inside chunks, 3 stored inputs. */
    ck_assert_int_eq(recompute_compared_tensors(plan), 84 + 8 + 3);
    recompute_plan_free(plan);
}
END_TEST

START_TEST(uniform_by_one_is_block_of_all)
{
    struct recompute_plan *uniform = plan_of("full", "uniform", 1, NULL, 5);
    struct recompute_plan *block = plan_of("full", "block", 5, NULL, 5);
    ck_assert_int_eq(uniform->longest_chunk, block->longest_chunk);
    for (int l = 0; l < 5; l++)
        check_layer(uniform, l, l, l, block->layer[l].rebuilt, block->layer[l].ops, true);
    recompute_plan_free(uniform);
    recompute_plan_free(block);
}
END_TEST

static const struct {
    const char *modules;
    unsigned tensors, ops;
} selective[] = {
    {"", BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE), BIT(OP_ATTENTION)},
    {"core_attn", BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE), BIT(OP_ATTENTION)},
    {"mlp", BIT(TENSOR_GATE_UP) | BIT(TENSOR_ACTIVATED), BIT(OP_GATE_UP) | BIT(OP_SWIGLU)},
    {"layernorm", BIT(TENSOR_NORM1) | BIT(TENSOR_RSTD1) | BIT(TENSOR_NORM2) | BIT(TENSOR_RSTD2),
     BIT(OP_INPUT_NORM) | BIT(OP_POST_NORM)},
    {"mlp,core_attn", BIT(TENSOR_ATTENTION) | BIT(TENSOR_LSE) | BIT(TENSOR_GATE_UP) | BIT(TENSOR_ACTIVATED),
     BIT(OP_ATTENTION) | BIT(OP_GATE_UP) | BIT(OP_SWIGLU)},
};

START_TEST(selective_recomputes_its_modules_in_every_layer)
{
    struct recompute_plan *plan = plan_of("selective", NULL, -1, selective[_i].modules, 3);
    for (int l = 0; l < 3; l++)
        check_layer(plan, l, l, l, selective[_i].tensors, selective[_i].ops, false);
    ck_assert_int_eq(plan->longest_chunk, 1);
    ck_assert_int_eq(recompute_compared_tensors(plan), 3 * __builtin_popcount(selective[_i].tensors));
    recompute_plan_free(plan);
}
END_TEST

/* A tensor is rebuilt exactly where the op that makes it runs. */
START_TEST(rebuilt_tensors_are_made_by_ops_that_run)
{
    static const struct {
        const char *granularity, *method, *modules;
        int num_layers;
    } policies[] = {{"full", "block", NULL, 4}, {"full", "uniform", NULL, 3}, {"selective", NULL, "mlp,layernorm", -1}};
    struct recompute_plan *plan =
        plan_of(policies[_i].granularity, policies[_i].method, policies[_i].num_layers, policies[_i].modules, 8);
    for (int l = 0; l < 8; l++)
        for (int t = TENSOR_NORM1; t < BLOCK_TENSORS; t++)
            ck_assert_int_eq(recompute_is_rebuilt(plan, l, t), plan->layer[l].ops >> block_tensor_op(t) & 1);
    recompute_plan_free(plan);
}
END_TEST

START_TEST(policy_that_does_not_fit_the_layers_is_refused)
{
    static const char *const method[] = {"block", "uniform"};
    struct recompute_policy p = policy_of("full", method[_i], 9, NULL, NULL);
    struct recompute_plan *plan;
    ck_assert_int_eq(recompute_plan_make(&plan, &p, 8), ERR_USAGE);
    ck_assert_ptr_null(plan);
    ck_said("recompute-num-layers 9");
    ck_said("8 layers");
}
END_TEST

/* ---- words ---- */

static const struct {
    const char *granularity, *method;
    int num_layers;
    const char *modules, *precision, *word;
} words[] = {
    {NULL, NULL, -1, NULL, NULL, "r0"},
    {"", "", -1, "", "", "r0"},
    {"full", "block", 0, NULL, NULL, "r0"},
    {"full", "block", 16, NULL, "bf16", "r16"},
    {"full", "uniform", 8, NULL, NULL, "u8"},
    {"full", "block", 16, NULL, "fp32", "r16-fp32"},
    {"selective", NULL, -1, NULL, NULL, "core_attn"},
    {"selective", NULL, -1, "layernorm,mlp,core_attn", "fp32", "core_attn+mlp+layernorm-fp32"},
};

START_TEST(policy_has_its_word)
{
    char word[64];
    struct recompute_policy p = policy_of(words[_i].granularity, words[_i].method, words[_i].num_layers,
                                          words[_i].modules, words[_i].precision);
    recompute_word(&p, word);
    ck_assert_str_eq(word, words[_i].word);
}
END_TEST

START_TEST(block_of_none_is_no_recompute)
{
    struct recompute_policy p = policy_of("full", "block", 0, NULL, NULL), none = policy_of(NULL, NULL, -1, NULL, NULL);
    ck_assert_int_eq(p.granularity, RECOMPUTE_NONE);
    ck_assert_int_eq(p.method, none.method);
    ck_assert_int_eq(p.num_layers, none.num_layers);
}
END_TEST

static const struct {
    const char *granularity, *method;
    int num_layers;
    const char *modules, *precision, *said;
} contradictions[] = {
    {NULL, NULL, 24, NULL, NULL, "recompute-num-layers without recompute-granularity would recompute nothing"},
    {NULL, "block", -1, NULL, NULL, "recompute-method without recompute-granularity"},
    {NULL, NULL, -1, "mlp", NULL, "recompute-modules without recompute-granularity"},
    {"full", NULL, 24, NULL, NULL, "needs recompute-method block or uniform"},
    {"full", "block", -1, NULL, NULL, "recompute-method block needs recompute-num-layers"},
    {"full", "uniform", -1, NULL, NULL, "recompute-method uniform needs recompute-num-layers"},
    {"full", "uniform", 0, NULL, NULL, "chunks have at least 1 layer"},
    {"full", "every", 2, NULL, NULL, "recompute-method 'every': expected block or uniform"},
    {"full", "block", 2, "mlp", NULL, "recompute-modules 'mlp' with recompute-granularity full"},
    {"selective", "block", -1, NULL, NULL, "recompute-method 'block' with recompute-granularity selective"},
    {"selective", NULL, 3, NULL, NULL, "recompute-num-layers 3 with recompute-granularity selective"},
    {"selective", NULL, -1, "moe_act", NULL, "a part with it that this model lacks; there are core_attn, mlp"},
    {"selective", NULL, -1, "atn", NULL, "'atn': no such module; there are core_attn, mlp and layernorm"},
    {"selective", NULL, -1, "mlp,", NULL, "'': no such module"},
    {"selective", NULL, -1, "mlp,mlp", NULL, "'mlp' is named twice"},
    {"some", NULL, -1, NULL, NULL, "recompute-granularity 'some': expected full or selective"},
    {"full", "block", 2, NULL, "fp16", "recompute-precision 'fp16': expected bf16 or fp32"},
    {NULL, NULL, -1, NULL, "fp32", "recompute-precision fp32 where nothing is recomputed"},
};

START_TEST(contradicting_flags_are_refused_with_what_to_write)
{
    struct recompute_policy p;
    ck_assert_int_eq(recompute_parse(&p, contradictions[_i].granularity, contradictions[_i].method,
                                     contradictions[_i].num_layers, contradictions[_i].modules,
                                     contradictions[_i].precision),
                     ERR_USAGE);
    ck_said(contradictions[_i].said);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {block_recomputes_the_first_layers_one_by_one, 7},
        {uniform_recomputes_every_layer_in_chunks_with_a_rest, 1},
        {uniform_by_one_is_block_of_all, 1},
        {selective_recomputes_its_modules_in_every_layer, COUNT(selective)},
        {rebuilt_tensors_are_made_by_ops_that_run, 3},
        {policy_that_does_not_fit_the_layers_is_refused, 2},
        {policy_has_its_word, COUNT(words)},
        {block_of_none_is_no_recompute, 1},
        {contradicting_flags_are_refused_with_what_to_write, COUNT(contradictions)},
    };
    return suite_run("recompute", tests, COUNT(tests));
}
