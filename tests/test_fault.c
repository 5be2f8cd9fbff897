/* Planted faults: whom the certificate accuses, where and from when, and what each changes. */
#include <math.h>
#include <stdio.h>

#include "kernels/element.h"
#include "tests/small_model.h"
#include "tests/suite.h"

static struct recompute_policy block(int layers) { return small_policy("full", "block", layers, NULL, NULL); }
static struct recompute_policy uniform(int layers) { return small_policy("full", "uniform", layers, NULL, NULL); }
static struct recompute_policy selective(const char *modules)
{
    return small_policy("selective", NULL, -1, modules, NULL);
}

/* ---- whom the certificate accuses ---- */

/* Another order changes some of the last bits in f32, and one element in ten thousand once rounded to bf16: too few for a
 * model as small as this one, so what changes sums runs in f32. */
static const struct accusation {
    const char *fault;
    enum dtype storage;
    int64_t step; /* of the first mismatch */
    int layer;    /* in which it is, where every layer is rebuilt alone */
    const char *family;
    enum block_tensor tensor;
} accusations[] = {
    {"rng-redrawn", BF16, 1, 0, "dropout", TENSOR_MIDDLE},
    {"gemm-order", F32, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"gemm-order:mode=random", F32, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"attention-order", F32, 1, 0, "attention", TENSOR_ATTENTION},
    {"attention-order:mode=fixed,layers=3", F32, 1, 3, "attention", TENSOR_ATTENTION},
    {"biased-rounding", BF16, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"biased-rounding:mode=zero,from=2", BF16, 2, 0, "gemm", TENSOR_QKV_RAW},
    {"biased-rounding:mode=truncating", F32, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"precision-lost", BF16, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"precision-lost:mode=fp32,layers=2-3,from=2", BF16, 2, 2, "gemm", TENSOR_QKV_RAW},
    {"precision-lost:mode=fp8", BF16, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"precision-lost:mode=fp8", F32, 1, 0, "gemm", TENSOR_QKV_RAW},
    {"stale-weights", BF16, 2, 0, "norm", TENSOR_NORM1},
    {"bit-flip:rate=1", BF16, 1, 0, "norm", TENSOR_NORM1},
    {"bit-flip:rate=1,layers=4", F32, 1, 4, "norm", TENSOR_NORM1},
    {"cp-offset", BF16, 1, 0, "rope", TENSOR_QKV},
    {"cp-offset:offset=1,layers=1,from=2", F32, 2, 1, "rope", TENSOR_QKV},
};

START_TEST(certificate_accuses_the_recompute_of_the_op)
{
    const struct accusation *a = &accusations[_i];
    struct small_model s;
    small_run_fault(&s, a->storage, a->fault, block(SMALL_LAYERS), 2);
    small_accused(&s, a->step, a->layer, a->family);
    ck_assert_str_eq(block_tensor_name(certificate_first(s.certificate)->tensor), block_tensor_name(a->tensor));
    for (int step = 1; step <= 2; step++)
        ck_assert_int_eq(s.certificate->step[step - 1].mismatched > 0, step >= a->step);
    small_close(&s);
}
END_TEST

/* Chunks are rebuilt, and events filed, from the last layer down; the first mismatch is the lowest all the same. */
START_TEST(events_are_filed_from_the_last_layer_down)
{
    struct small_model s;
    small_run_fault(&s, BF16, "rng-redrawn", block(3), 2);
    ck_assert_int_eq(s.certificate->event[0].layer, 2);
    ck_assert_uint_eq(certificate_at(s.certificate, 0, TENSOR_NORM1)->mismatched, 0);
    ck_assert_uint_eq(certificate_at(s.certificate, 0, TENSOR_MIDDLE)->mismatched, 4);
    small_close(&s);
}
END_TEST

/* ---- that they hold to layers=, from= and rank= ---- */

static const struct holding {
    const char *fault;
    enum dtype storage;
} holding[] = {{"rng-redrawn", BF16},        {"gemm-order", F32},
               {"attention-order", F32},     {"biased-rounding", BF16},
               {"precision-lost", BF16},     {"precision-lost:mode=fp8", BF16},
               {"stale-weights", BF16},      {"bit-flip:rate=1", BF16},
               {"cp-offset:offset=5", BF16}, {"biased-rounding:mode=truncating", F32}};

static void run_with(struct small_model *s, const struct holding *h, const char *where, int steps)
{
    char text[128];
    snprintf(text, sizeof text, "%s%c%s", h->fault, strchr(h->fault, ':') ? ',' : ':', where);
    small_run_fault(s, h->storage, text, block(4), steps);
}

static uint64_t mismatches_in(const struct small_model *s, int layer)
{
    uint64_t sum = 0;
    for (int t = 0; t < BLOCK_TENSORS; t++)
        sum += certificate_at(s->certificate, layer, (enum block_tensor)t)->mismatched;
    return sum;
}

START_TEST(fault_acts_only_in_its_layers_steps_and_rank)
{
    struct small_model s;
    run_with(&s, &holding[_i], "layers=1-2,from=2", 2);
    ck_assert_uint_eq(s.certificate->step[0].mismatched, 0);
    ck_assert_uint_gt(s.certificate->step[1].mismatched, 0);
    for (int layer = 0; layer < SMALL_LAYERS; layer++)
        ck_assert_int_eq(mismatches_in(&s, layer) > 0, layer == 1 || layer == 2);
    small_close(&s);
    run_with(&s, &holding[_i], "rank=3", 2);
    ck_assert_uint_gt(certificate_total(s.certificate).compared, 0);
    ck_assert_uint_eq(certificate_total(s.certificate).mismatched, 0);
    small_close(&s);
}
END_TEST

/* ---- precision-lost ---- */

/* A layer in f32 between two in bf16, all of one chunk: it reads what the one stored, and the other reads what it
 * stored. */
START_TEST(one_layer_of_a_chunk_may_be_wider)
{
    struct small_model s;
    small_run_fault(&s, BF16, "precision-lost:layers=1", uniform(3), 1);
    small_accused(&s, 1, 1, "gemm");
    ck_assert_uint_eq(mismatches_in(&s, 0), 0);
    ck_assert_uint_eq(certificate_at(s.certificate, 1, TENSOR_NORM1)->mismatched, 0);
    const struct comparison *wide = &certificate_at(s.certificate, 1, TENSOR_QKV)->values;
    const struct comparison *after = &certificate_at(s.certificate, 2, TENSOR_QKV)->values;
    ck_assert_double_lt(comparison_relative_l2(wide), 0x1p-7);
    ck_assert(comparison_relative_l2(after) > 0 && comparison_relative_l2(after) < 0x1p-5);
    ck_assert_uint_eq(mismatches_in(&s, 3), 0);
    small_close(&s);
}
END_TEST

/* As recompute_precision fp32 does it, whose mismatches are announced: the same gradient, bit for bit, in as much memory. */
START_TEST(fp32_fault_is_the_fp32_policy_unannounced)
{
    struct small_model fault, policy;
    small_run_fault(&fault, BF16, "precision-lost:mode=fp32", uniform(2), 1);
    small_run_fault(&policy, BF16, "", small_policy("full", "uniform", 2, NULL, "fp32"), 1);
    const struct view *a = small_gradient(&fault), *b = small_gradient(&policy);
    ck_assert_mem_eq(a->data, b->data, view_bytes(a));
    const struct certificate_totals unannounced = certificate_total(fault.certificate);
    const struct certificate_totals announced = certificate_total(policy.certificate);
    ck_assert(unannounced.expected == 0 && announced.mismatched == 0);
    ck_assert_uint_gt(announced.expected, 0);
    ck_assert_uint_eq(unannounced.mismatched, announced.expected);
    ck_assert_uint_eq(decoder_memory(fault.decoder)->arena_bytes, decoder_memory(policy.decoder)->arena_bytes);
    small_close(&fault);
    small_close(&policy);
}
END_TEST

/* By hand: with the largest just below 2^8, the numbers of E4M3 itself; and then all of them 2^-20 as large. */
START_TEST(fp8_rounds_to_e4m3)
{
    static const float from[] = {248, 1.0625f, 1.1875f, -1.1875f, 15.9f, 0x1p-6f, 0x1.3p-6f, 0x1.1p-9f, 0x1p-10f, 0};
    static const float to[] = {256, 1, 1.25f, -1.25f, 16, 0x1p-6f, 0x1.4p-6f, 0x1p-9f, 0, 0};
    const float scale = _i ? 0x1p-20f : 1;
    float value[COUNT(from)];
    struct fault f;
    ck_ok(fault_parse(&f, "precision-lost:mode=fp8"));
    const struct pass pass = {.damage = &f};
    const struct view v = view_of(value, F32, 2, COUNT(from) / 2);
    for (int i = 0; i < COUNT(from); i++)
        value[i] = scale * from[i];
    fault_damage(&pass, TENSOR_NORM1, &v);
    for (int i = 0; i < COUNT(from); i++)
        ck_assert_float_eq(value[i], scale * from[i]);
    fault_damage(&pass, TENSOR_DOWN, &v);
    for (int i = 0; i < COUNT(from); i++)
        ck_assert_float_eq(value[i], scale * to[i]);
}
END_TEST

START_TEST(fp8_keeps_what_is_not_finite)
{
    float value[] = {INFINITY, 1.0625f, NAN, -INFINITY};
    struct fault f;
    ck_ok(fault_parse(&f, "precision-lost:mode=fp8"));
    const struct pass pass = {.damage = &f};
    const struct view v = view_of(value, F32, 1, COUNT(value));
    fault_damage(&pass, TENSOR_QKV_RAW, &v);
    ck_assert(value[0] == INFINITY && value[1] == 1 && isnan(value[2]) && value[3] == -INFINITY);
}
END_TEST

/* ---- chunk-input ---- */

START_TEST(chunk_input_acts_from_the_second_layer_of_a_chunk)
{
    struct small_model s;
    small_run_fault(&s, BF16, "chunk-input", uniform(2), 1);
    small_accused(&s, 1, 1, "norm");
    for (int layer = 0; layer < SMALL_LAYERS; layer++)
        ck_assert_int_eq(mismatches_in(&s, layer) > 0, layer % 2);
    small_close(&s);
    small_run_fault(&s, BF16, "chunk-input:layers=2-4", uniform(2), 1);
    small_accused(&s, 1, 3, "norm");
    ck_assert_uint_eq(mismatches_in(&s, 1), 0);
    small_close(&s);
}
END_TEST

/* ---- grad-dropped ---- */

static bool is_zero(const struct view *v)
{
    for (int64_t i = 0; i < v->rows * v->cols; i++)
        if (element_load(v, i / v->cols, i % v->cols) != 0)
            return false;
    return true;
}

/* The gradient of exactly that parameter in exactly those layers is missing, the others are what they are without. */
static void check_dropped(const char *fault, struct recompute_policy policy, enum parameter_kind kind, int first,
                          int last)
{
    struct small_model s, right;
    small_run_fault(&s, BF16, fault, policy, 1);
    small_run_fault(&right, BF16, "", policy, 1);
    const struct certificate_totals totals = certificate_total(s.certificate);
    ck_assert(totals.compared > 0 && totals.mismatched == 0);
    const struct model_shape *shape = &s.options.shape;
    for (int i = 0; i < shape_parameter_count(shape); i++) {
        const struct parameter p = shape_parameter(shape, i);
        const struct view v = block_parameter(shape, small_gradient(&s), i);
        const struct view expected = block_parameter(shape, small_gradient(&right), i);
        ck_assert(!is_zero(&expected));
        if (p.kind == kind && p.layer >= first && p.layer <= last)
            ck_assert(is_zero(&v));
        else
            ck_assert_mem_eq(v.data, expected.data, view_bytes(&v));
    }
    small_close(&s);
    small_close(&right);
}

START_TEST(grad_dropped_leaves_a_clean_certificate_and_no_gradient)
{
    static const char *const names[] = {"input_norm", "qkv", "projection", "post_norm", "gate_up", "down"};
    char fault[64];
    snprintf(fault, sizeof fault, "grad-dropped:parameter=%s", names[_i]);
    check_dropped(fault, block(3), (enum parameter_kind)(PARAMETER_INPUT_NORM + _i), 0, 2);
}
END_TEST

START_TEST(grad_dropped_holds_to_its_layers)
{
    check_dropped("grad-dropped", block(3), PARAMETER_QKV, 0, 2);
    check_dropped("grad-dropped:layers=1-2", block(4), PARAMETER_QKV, 1, 2);
    check_dropped("grad-dropped:layers=2,parameter=down", uniform(2), PARAMETER_DOWN, 2, 2);
    check_dropped("grad-dropped:parameter=projection", selective("core_attn"), PARAMETER_PROJECTION, 0, 4);
    check_dropped("grad-dropped:from=2", block(3), PARAMETER_QKV, 0, -1);
    check_dropped("grad-dropped:rank=1", block(3), PARAMETER_QKV, 0, -1);
}
END_TEST

/* ---- bit-flip ---- */

START_TEST(every_rebuilt_tensor_is_flipped_at_rate_one)
{
    struct small_model s;
    small_run_fault(&s, BF16, "bit-flip:rate=1", block(SMALL_LAYERS), 1);
    const struct certificate_totals totals = certificate_total(s.certificate);
    /* All but the stored inputs, one in each layer and micro-batch. */
    ck_assert_uint_eq(totals.mismatched, totals.compared - SMALL_LAYERS * SMALL_SEQUENCES / 2);
    ck_assert_uint_eq(certificate_at(s.certificate, 3, TENSOR_INPUT)->mismatched, 0);
    const struct comparison *c = &certificate_at(s.certificate, 0, TENSOR_NORM1)->values;
    ck_assert_uint_eq(c->differing, SMALL_SEQUENCES / 2);
    small_close(&s);
}
END_TEST

/* Flips of a tensor, drawn often: a single bit each time, in `rate` of the draws within 5 standard deviations. */
START_TEST(flips_come_at_their_rate)
{
    enum { DRAWS = 20000, BYTES = 24 };
    struct fault f;
    ck_ok(fault_parse(&f, "bit-flip:rate=0.01"));
    int flips = 0;
    bool seen[8 * BYTES] = {false};
    for (int i = 0; i < DRAWS; i++) {
        unsigned char bytes[BYTES] = {0};
        const struct view v = view_of(bytes, BF16, 3, BYTES / 6);
        const struct pass pass = {
            .layer = i % 7, .key = {.seed = 5, .step = (uint32_t)i}, .micro_batch = (uint32_t)i % 3, .damage = &f};
        fault_damage(&pass, TENSOR_ACTIVATED, &v);
        int here = 0;
        for (int bit = 0; bit < 8 * BYTES; bit++)
            if (bytes[bit / 8] >> bit % 8 & 1) {
                seen[bit] = true;
                here++;
            }
        ck_assert_int_le(here, 1);
        flips += here;
    }
    ck_assert_double_le(fabs(flips - 0.01 * DRAWS), 5 * sqrt(0.01 * 0.99 * DRAWS));
    ck_assert(seen[0] || seen[1] || seen[2] || seen[3]);
    ck_assert(seen[188] || seen[189] || seen[190] || seen[191]);
}
END_TEST

/* A run of one rank and the second half of it, on another rank, thread for thread another team: the same flips. */
START_TEST(flips_depend_on_neither_threads_nor_ranks)
{
    struct decoder_options o = small_options();
    o.recompute = block(3);
    o.micro_batch = 1;
    ck_ok(fault_parse(&o.fault, "bit-flip:rate=0.1"));
    struct small_model whole, half;
    small_open(&whole, &o);
    small_step(&whole, 1);
    o.threads = 1;
    o.rank = 1;
    o.groups = 1;
    small_open(&half, &o);
    small_part_of_step(&half, 1, SMALL_SEQUENCES / 2, SMALL_SEQUENCES / 2);
    int at = 0;
    while (at < whole.certificate->event_count && whole.certificate->event[at].micro_batch < SMALL_SEQUENCES / 2)
        at++;
    ck_assert_int_gt(half.certificate->event_count, 0);
    ck_assert_int_eq(half.certificate->event_count, whole.certificate->event_count - at);
    for (int i = 0; i < half.certificate->event_count; i++) {
        struct certificate_event e = half.certificate->event[i];
        ck_assert_int_eq(e.rank, 1);
        e.rank = 0;
        ck_assert_mem_eq(&e, &whole.certificate->event[at + i], sizeof e);
    }
    small_close(&whole);
    small_close(&half);
}
END_TEST

/* ---- the control of an audit ---- */

/* It is the step without the fault, whatever the fault changes: a proof, and the other run's gradient bit for bit. */
START_TEST(control_knows_of_no_fault)
{
    static const char *const faults[] = {"precision-lost", "precision-lost:mode=fp8", "chunk-input",
                                         "grad-dropped",   "bit-flip:rate=1",         "cp-offset"};
    struct decoder_options o = small_options();
    o.recompute = uniform(2);
    o.audits = true;
    ck_ok(fault_parse(&o.fault, faults[_i]));
    struct small_model s, right;
    small_open(&s, &o);
    const struct control_proof proof = small_control(&s, 1);
    ck_assert(proof.compared > 0 && proof.mismatched == 0);
    small_step(&s, 1);
    small_run_fault(&right, BF16, "", uniform(2), 1);
    const struct view *control = decoder_control(s.decoder), *fault = small_gradient(&s);
    ck_assert_mem_eq(control->data, small_gradient(&right)->data, view_bytes(control));
    ck_assert_mem_ne(control->data, fault->data, view_bytes(control));
    small_close(&s);
    small_close(&right);
}
END_TEST

/* ---- arithmetic and positions ---- */

START_TEST(attention_blocks_are_halved)
{
    struct fault f;
    struct arithmetic base;
    ck_ok(fault_parse(&f, "attention-order"));
    ck_ok(arithmetic_find(&base, "l40s-sim"));
    ck_assert_int_eq(fault_arithmetic(&f, &base, 4096).attention_block, 32);
    ck_assert_int_eq(fault_arithmetic(&f, &base, 16).attention_block, 8);
    ck_assert_int_eq(fault_arithmetic(&f, &base, 2).attention_block, 1);
    ck_assert_int_eq(fault_arithmetic(&f, &base, 4096).gemm_chunk, base.gemm_chunk);
}
END_TEST

START_TEST(positions_wrap_at_the_sequence)
{
    struct fault f;
    ck_ok(fault_parse(&f, "cp-offset"));
    ck_assert(fault_position(&f, 0, 16) == 8 && fault_position(&f, 7, 16) == 15 && fault_position(&f, 8, 16) == 0);
    ck_ok(fault_parse(&f, "cp-offset:offset=19"));
    ck_assert(fault_position(&f, 0, 16) == 3 && fault_position(&f, 15, 16) == 2);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {certificate_accuses_the_recompute_of_the_op, COUNT(accusations)},
        {events_are_filed_from_the_last_layer_down, 1},
        {fault_acts_only_in_its_layers_steps_and_rank, COUNT(holding)},
        {one_layer_of_a_chunk_may_be_wider, 1},
        {fp32_fault_is_the_fp32_policy_unannounced, 1},
        {fp8_rounds_to_e4m3, 2},
        {fp8_keeps_what_is_not_finite, 1},
        {chunk_input_acts_from_the_second_layer_of_a_chunk, 1},
        {grad_dropped_leaves_a_clean_certificate_and_no_gradient, BLOCK_PARAMETERS},
        {grad_dropped_holds_to_its_layers, 1},
        {every_rebuilt_tensor_is_flipped_at_rate_one, 1},
        {flips_come_at_their_rate, 1},
        {flips_depend_on_neither_threads_nor_ranks, 1},
        {control_knows_of_no_fault, 6},
        {attention_blocks_are_halved, 1},
        {positions_wrap_at_the_sequence, 1},
    };
    return suite_run("fault", tests, COUNT(tests));
}
