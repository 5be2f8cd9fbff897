/* The texts of planted faults, and the runs in which one would never act: both are refused. */
#include <limits.h>

#include "tests/small_model.h"
#include "tests/suite.h"

static struct recompute_policy block(int layers) { return small_policy("full", "block", layers, NULL, NULL); }
static struct recompute_policy uniform(int layers) { return small_policy("full", "uniform", layers, NULL, NULL); }
static struct recompute_policy selective(const char *modules)
{
    return small_policy("selective", NULL, -1, modules, NULL);
}

/* ---- texts ---- */

START_TEST(fault_text_is_parsed_whole)
{
    struct fault f;
    ck_ok(fault_parse(&f, "gemm-order:layers=8-15,from=3,rank=1,mode=random"));
    ck_assert_int_eq(f.kind, FAULT_GEMM_ORDER);
    ck_assert(f.first_layer == 8 && f.last_layer == 15 && f.from == 3 && f.rank == 1);
    ck_assert_int_eq(f.mode, FAULT_MODE_RANDOM);
    ck_ok(fault_parse(&f, "bit-flip:layers=4,rate=1e-3"));
    ck_assert(f.kind == FAULT_BIT_FLIP && f.first_layer == 4 && f.last_layer == 4 && f.rate == 1e-3);
    ck_ok(fault_parse(&f, "grad-dropped:parameter=gate_up"));
    ck_assert(f.kind == FAULT_GRAD_DROPPED && f.parameter == PARAMETER_GATE_UP);
    ck_ok(fault_parse(&f, "cp-offset:offset=3"));
    ck_assert(f.kind == FAULT_CP_OFFSET && f.offset == 3);
    ck_ok(fault_parse(&f, "biased-rounding:mode=truncating"));
    ck_assert(f.kind == FAULT_BIASED_ROUNDING && f.mode == FAULT_MODE_TRUNCATING);
    ck_ok(fault_parse(&f, "precision-lost:mode=fp8"));
    ck_assert(f.kind == FAULT_PRECISION_LOST && f.mode == FAULT_MODE_FP8);
}
END_TEST

START_TEST(fault_text_has_defaults)
{
    struct fault f;
    ck_ok(fault_parse(&f, "chunk-input"));
    ck_assert(f.first_layer == 0 && f.last_layer == INT_MAX && f.from == 0 && f.rank == -1);
    static const struct {
        const char *text;
        enum fault_mode mode;
    } modes[] = {{"gemm-order", FAULT_MODE_FIXED},
                 {"attention-order", FAULT_MODE_FIXED},
                 {"biased-rounding", FAULT_MODE_ZERO},
                 {"precision-lost", FAULT_MODE_FP32}};
    for (int i = 0; i < COUNT(modes); i++) {
        ck_ok(fault_parse(&f, modes[i].text));
        ck_assert_int_eq(f.mode, modes[i].mode);
    }
    ck_ok(fault_parse(&f, "grad-dropped"));
    ck_assert_int_eq(f.parameter, PARAMETER_QKV);
    ck_ok(fault_parse(&f, "bit-flip"));
    ck_assert_double_eq(f.rate, 0.001);
}
END_TEST

START_TEST(wrong_fault_text_is_refused)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"gemm", "expected one of rng-redrawn, gemm-order, attention-order, biased-rounding, precision-lost, "
                 "stale-weights, chunk-input, grad-dropped, bit-flip, cp-offset"},
        {"x:y=1", "is not known"},
        {"rng-redrawn:", "'' is not an option of it: expected layers=N or FIRST-LAST, from=STEP, rank=R"},
        {"rng-redrawn:layers", "'layers' is not an option"},
        {"rng-redrawn:mode=fixed", "is not an option"},
        {"rng-redrawn:rate=0.5", "is not an option"},
        {"bit-flip:offset=2", "is not an option"},
        {"cp-offset:parameter=qkv", "is not an option"},
        {"gemm-order:layers=5-2", "'layers=5-2': expected"},
        {"gemm-order:layers=", "'layers=': expected"},
        {"gemm-order:layers=1-", "'layers=1-': expected"},
        {"gemm-order:from=-1", "'from=-1': expected"},
        {"gemm-order:from=1x", "'from=1x': expected"},
        {"gemm-order:rank=2147483648", "whole numbers below 2^31"},
        {"rng-redrawn:layers=1,layers=2", "given twice"},
        {"gemm-order:mode=other", "mode=fixed|random"},
        {"gemm-order:mode=zero", "mode=fixed|random"},
        {"attention-order:mode=random", "rank=R, mode=fixed ("},
        {"biased-rounding:mode=to-zero", "mode=zero|truncating"},
        {"precision-lost:mode=bf16", "mode=fp32|fp8"},
        {"grad-dropped:parameter=rope", "parameter=input_norm|qkv|projection|post_norm|gate_up|down"},
        {"grad-dropped:parameter=", "'parameter=': expected"},
        {"bit-flip:rate=0", "rate=R with 0 < R <= 1"},
        {"bit-flip:rate=1.5", "'rate=1.5': expected"},
        {"bit-flip:rate=-0.5", "'rate=-0.5': expected"},
        {"bit-flip:rate=nan", "'rate=nan': expected"},
        {"bit-flip:rate=0.1x", "'rate=0.1x': expected"},
        {"cp-offset:offset=0", "offset=N of at least 1"},
        {"cp-offset:offset=x", "'offset=x': expected"},
    };
    struct fault f;
    for (int i = 0; i < COUNT(wrong); i++) {
        ck_assert_msg(fault_parse(&f, wrong[i].text) == ERR_USAGE, "'%s' was accepted", wrong[i].text);
        ck_said(wrong[i].said);
    }
}
END_TEST

/* ---- runs in which a fault never acts ---- */

struct checked {
    struct recompute_policy policy;
    const char *fault;
    enum dtype storage;
    enum arithmetic_mode recompute;
};

static status check_in(const struct checked *c, const struct model_shape *shape)
{
    struct fault f;
    struct recompute_plan *plan;
    ck_ok(fault_parse(&f, c->fault));
    ck_ok(recompute_plan_make(&plan, &c->policy, SMALL_LAYERS));
    const struct fault_run run = {plan, shape, c->storage, c->recompute, 10, 2};
    status st = fault_check(&f, &run);
    recompute_plan_free(plan);
    return st;
}

static void check_refused(struct recompute_policy policy, const char *fault, const char *why)
{
    const struct model_shape shape = small_options().shape;
    ck_assert_msg(check_in(&(struct checked){policy, fault, BF16, ARITHMETIC_FIXED}, &shape) == ERR_USAGE,
                  "'%s' was accepted", fault);
    ck_said("would never act");
    ck_said(why);
}

static void check_acts(struct recompute_policy policy, const char *fault)
{
    const struct model_shape shape = small_options().shape;
    ck_ok(check_in(&(struct checked){policy, fault, BF16, ARITHMETIC_FIXED}, &shape));
}

START_TEST(fault_without_an_op_to_change_is_refused)
{
    static const char *const all[] = {"rng-redrawn",    "gemm-order",    "attention-order", "biased-rounding",
                                      "precision-lost", "stale-weights", "chunk-input",     "grad-dropped",
                                      "bit-flip",       "cp-offset"};
    struct recompute_policy none = small_policy(NULL, NULL, -1, NULL, NULL);
    for (int i = 0; i < COUNT(all); i++) {
        check_refused(none, all[i], "no layer from 0 to 4 is recomputed with an op that it changes");
        check_acts(uniform(2), all[i]);
    }
    check_refused(block(2), "bit-flip:layers=2-3", "no layer from 2 to 3");
    check_refused(selective("core_attn"), "gemm-order", "no layer");
    check_refused(selective("layernorm"), "attention-order", "no layer");
    check_refused(selective("layernorm"), "biased-rounding", "no layer");
    check_refused(selective("core_attn,layernorm"), "precision-lost", "no layer");
    check_refused(selective("layernorm"), "precision-lost:mode=fp8", "no layer");
    check_refused(selective("core_attn"), "grad-dropped:parameter=down", "no layer");
    check_refused(selective("mlp"), "cp-offset", "no layer");
    check_acts(selective("mlp"), "precision-lost");
    check_acts(selective("mlp"), "grad-dropped:parameter=down");
    check_acts(selective("core_attn"), "cp-offset");
}
END_TEST

START_TEST(chunk_input_needs_a_chunk_of_several_layers)
{
    check_refused(block(5), "chunk-input", "(one behind the first of a uniform chunk)");
    check_refused(uniform(1), "chunk-input", "no layer from 0 to 4");
    check_refused(uniform(2), "chunk-input:layers=2", "no layer from 2 to 2");
    check_refused(selective("core_attn,mlp,layernorm"), "chunk-input", "no layer");
    check_acts(uniform(2), "chunk-input:layers=3");
}
END_TEST

START_TEST(fault_outside_the_run_is_refused)
{
    check_refused(block(2), "grad-dropped:from=11", "begins at step 11, and the last is 10");
    check_refused(block(2), "cp-offset:rank=2", "for rank 2, and there are 2");
    check_acts(block(2), "cp-offset:rank=1,from=10");
    check_refused(block(2), "cp-offset:offset=32", "the offset is a multiple of the sequence");
}
END_TEST

START_TEST(fault_that_the_run_cannot_show_is_refused)
{
    struct model_shape shape = small_options().shape;
    struct checked c = {block(2), "biased-rounding", BF16, ARITHMETIC_TO_ZERO};
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    ck_said("rounds like that already");
    c.recompute = ARITHMETIC_TRUNCATING;
    ck_ok(check_in(&c, &shape));
    c.fault = "biased-rounding:mode=truncating";
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    c = (struct checked){block(2), "biased-rounding:mode=zero", F32, ARITHMETIC_FIXED};
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    ck_said("stored as bf16");
    c.fault = "precision-lost";
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    ck_said("widens bf16");
    c.fault = "precision-lost:mode=fp8";
    ck_ok(check_in(&c, &shape));
    shape.hidden_dropout = 0;
    c.fault = "rng-redrawn";
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    ck_said("hidden_dropout 0");
    shape.sequence = 1;
    c.fault = "attention-order";
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
    ck_said("one block of keys");
    c.fault = "cp-offset";
    ck_assert_int_eq(check_in(&c, &shape), ERR_USAGE);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {fault_text_is_parsed_whole, 1},
        {fault_text_has_defaults, 1},
        {wrong_fault_text_is_refused, 1},
        {fault_without_an_op_to_change_is_refused, 1},
        {chunk_input_needs_a_chunk_of_several_layers, 1},
        {fault_outside_the_run_is_refused, 1},
        {fault_that_the_run_cannot_show_is_refused, 1},
    };
    return suite_run("fault_text", tests, COUNT(tests));
}
