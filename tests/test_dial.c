/* The dial: what it changes about a profile, about a whole model's training, and how a study names it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "stages/study.h"
#include "tests/small_model.h"
#include "tests/suite.h"

static const enum arithmetic_mode modes[] = {ARITHMETIC_FIXED, ARITHMETIC_RANDOM, ARITHMETIC_TRUNCATING,
                                             ARITHMETIC_TO_ZERO, ARITHMETIC_OTHER_ORDER};
enum { MODES = COUNT(modes) };

/* ---- profiles and plans ---- */

START_TEST(mode_changes_what_it_names_and_nothing_else)
{
    struct arithmetic base, expected;
    ck_ok(arithmetic_find(&base, "h800-sim"));
    for (int i = 0; i < MODES; i++) {
        const struct arithmetic how = arithmetic_turned(&base, modes[i]), again = arithmetic_turned(&how, modes[i]);
        expected = base;
        if (modes[i] == ARITHMETIC_RANDOM)
            expected.order = ORDER_RANDOM, expected.gemm_chunk = 16;
        if (modes[i] == ARITHMETIC_TRUNCATING)
            expected.rounding = ROUND_TRUNCATE;
        if (modes[i] == ARITHMETIC_TO_ZERO)
            expected.rounding = ROUND_TO_ZERO;
        if (modes[i] == ARITHMETIC_OTHER_ORDER)
            expected.order = ORDER_DESCENDING, expected.gemm_chunk = 16;
        ck_assert_mem_eq(&how, &expected, sizeof how);
        if (modes[i] != ARITHMETIC_OTHER_ORDER) /* which turns round again */
            ck_assert_mem_eq(&again, &how, sizeof how);
    }
}
END_TEST

struct plans {
    int count, truncating, random;
};

static void count_plan(void *self, const struct plan *plan)
{
    struct plans *plans = self;
    plans->count++;
    plans->truncating += strstr(plan->identity, " truncating") != NULL;
    plans->random += strstr(plan->identity, " random") != NULL;
}

static struct plans plans_of(struct arithmetic_dial dial)
{
    struct decoder_options o = small_options();
    struct small_model s;
    struct plans plans = {0};
    o.dial = dial;
    small_open(&s, &o);
    device_each_plan(decoder_device(s.decoder), count_plan, &plans);
    small_close(&s);
    return plans;
}

/* Rounding is part of a plan's identity and key; an arithmetic is planned once, and only where something uses it. */
START_TEST(only_the_plans_in_use_are_made)
{
    const struct plans fixed = plans_of((struct arithmetic_dial){ARITHMETIC_FIXED, ARITHMETIC_FIXED});
    ck_assert_int_gt(fixed.count, 0);
    ck_assert_int_eq(fixed.truncating + fixed.random, 0);
    const struct plans both = plans_of((struct arithmetic_dial){ARITHMETIC_TRUNCATING, ARITHMETIC_TRUNCATING});
    ck_assert_int_eq(both.count, 2 * fixed.count);
    ck_assert_int_eq(both.truncating, fixed.count);
    const struct plans recompute = plans_of((struct arithmetic_dial){ARITHMETIC_FIXED, ARITHMETIC_TRUNCATING});
    ck_assert_int_eq(recompute.count, 2 * fixed.count);
    ck_assert_int_eq(recompute.truncating, fixed.count);
}
END_TEST

/* ---- whole models ---- */

static bool same_bits(const struct view *a, const struct view *b)
{
    return view_bytes(a) == view_bytes(b) && !memcmp(a->data, b->data, view_bytes(a));
}

/* To-zero changes nothing that is stored as F32, and the others little of what is stored as BF16. */
static enum dtype telling_storage(enum arithmetic_mode mode) { return mode == ARITHMETIC_TO_ZERO ? BF16 : F32; }

static void open_turned(struct small_model *s, struct arithmetic_dial dial, enum dtype storage,
                        struct recompute_policy policy)
{
    struct decoder_options o = small_options();
    o.dial = dial;
    o.storage = storage;
    o.recompute = policy;
    small_open(s, &o);
}

/* Whatever the forward does, a fixed recompute does it again: draws, truncation and all. */
START_TEST(fixed_recompute_repeats_every_forward)
{
    const struct arithmetic_dial dial = {modes[_i], ARITHMETIC_FIXED};
    const enum dtype storage = telling_storage(modes[_i]);
    struct small_model stored, rebuilt, plain;
    open_turned(&stored, dial, storage, small_policy(NULL, NULL, -1, NULL, NULL));
    open_turned(&rebuilt, dial, storage, small_policy("full", "uniform", 2, NULL, NULL));
    open_turned(&plain, (struct arithmetic_dial){0}, storage, small_policy(NULL, NULL, -1, NULL, NULL));
    for (int64_t step = 1; step <= 2; step++) {
        small_step(&stored, step);
        small_step(&rebuilt, step);
        small_step(&plain, step);
        ck_assert_mem_eq(stored.loss, rebuilt.loss, sizeof stored.loss);
        ck_assert(same_bits(small_gradient(&stored), small_gradient(&rebuilt)));
        ck_assert_int_eq(same_bits(small_gradient(&stored), small_gradient(&plain)), modes[_i] == ARITHMETIC_FIXED);
        small_optimizer_step(&stored, step);
        small_optimizer_step(&rebuilt, step);
        small_optimizer_step(&plain, step);
    }
    ck_assert_uint_gt(certificate_total(rebuilt.certificate).compared, 0);
    ck_assert_uint_eq(certificate_total(rebuilt.certificate).mismatched, 0);
    small_close(&stored);
    small_close(&rebuilt);
    small_close(&plain);
}
END_TEST

/* A recompute with an arithmetic of its own is accused, first in a GEMM of the first layer. Where the forward has that
 * arithmetic too, it differs only if it draws. */
START_TEST(recompute_with_another_arithmetic_is_accused)
{
    const enum arithmetic_mode mode = modes[1 + _i];
    struct small_model s;
    open_turned(&s, (struct arithmetic_dial){ARITHMETIC_FIXED, mode}, telling_storage(mode),
                small_policy("full", "block", SMALL_LAYERS, NULL, NULL));
    small_step(&s, 1);
    const struct certificate_event *first = certificate_first(s.certificate);
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(first->layer, 0);
    ck_assert_str_eq(block_op_name(block_tensor_op(first->tensor)), block_op_name(OP_QKV));
    ck_assert_str_eq(accused_name(first->accused), "recompute");
    small_close(&s);
    /* In one chunk the last GEMM of a layer is rebuilt too: it alone has more than two chunks, whose order matters. */
    open_turned(&s, (struct arithmetic_dial){mode, mode}, telling_storage(mode),
                small_policy("full", "uniform", SMALL_LAYERS, NULL, NULL));
    small_step(&s, 1);
    ck_assert_int_eq(certificate_total(s.certificate).mismatched > 0, mode == ARITHMETIC_RANDOM);
    small_close(&s);
}
END_TEST

/* Of what the recompute of one module makes straight from stored tensors, in all layers of one step: how far grown and
 * shrunk magnitudes are from balance, in standard deviations. */
static double imbalance(enum arithmetic_mode mode, const char *modules, enum block_tensor t, struct comparison *sum)
{
    struct small_model s;
    open_turned(&s, (struct arithmetic_dial){ARITHMETIC_FIXED, mode}, telling_storage(mode),
                small_policy("selective", NULL, -1, modules, NULL));
    small_step(&s, 1);
    comparison_clear(sum);
    for (int layer = 0; layer < SMALL_LAYERS; layer++) {
        const struct comparison *c = &certificate_at(s.certificate, layer, t)->values;
        sum->differing += c->differing;
        sum->larger += c->larger, sum->smaller += c->smaller;
        sum->grown += c->grown, sum->shrunk += c->shrunk;
    }
    small_close(&s);
    ck_assert_uint_gt(sum->differing, 1000);
    return ((double)sum->shrunk - (double)sum->grown) / sqrt((double)(sum->shrunk + sum->grown));
}

static const struct {
    const char *modules;
    enum block_tensor tensor;
} rebuilt[] = {{"mlp", TENSOR_GATE_UP}, {"core_attn", TENSOR_ATTENTION}};

/* The bias of truncation is one of magnitudes: as many values grow as fall, and most shrink. */
START_TEST(certificate_shows_that_truncation_shrinks)
{
    struct comparison c;
    const double found = imbalance(ARITHMETIC_TRUNCATING, rebuilt[_i].modules, rebuilt[_i].tensor, &c);
    const double signs = ((double)c.larger - (double)c.smaller) / sqrt((double)(c.larger + c.smaller));
    ck_assert_msg(found > 10, "truncating: shrunk by %.1f standard deviations", found);
    ck_assert_msg(fabs(signs) < found / 2, "truncating: %.1f standard deviations of sign", signs);
    imbalance(ARITHMETIC_TO_ZERO, rebuilt[_i].modules, rebuilt[_i].tensor, &c);
    ck_assert_uint_eq(c.grown, 0);
    ck_assert_uint_eq(c.shrunk, c.differing);
}
END_TEST

/* Another order has no such bias. */
START_TEST(certificate_shows_that_another_order_does_not_shrink)
{
    static const enum arithmetic_mode orders[] = {ARITHMETIC_RANDOM, ARITHMETIC_OTHER_ORDER};
    struct comparison c;
    const double found = imbalance(orders[_i], "mlp", TENSOR_GATE_UP, &c);
    ck_assert_msg(fabs(found) < 5, "shrunk by %.1f standard deviations", found);
}
END_TEST

START_TEST(evaluation_knows_no_dial)
{
    struct small_model fixed, turned;
    int32_t token[2 * SMALL_TOKENS] = {0};
    double losses[2][2];
    const struct batch batch = {token, token, 0, 0, 0};
    open_turned(&fixed, (struct arithmetic_dial){0}, F32, small_policy(NULL, NULL, -1, NULL, NULL));
    open_turned(&turned, (struct arithmetic_dial){ARITHMETIC_TRUNCATING, ARITHMETIC_FIXED}, F32,
                small_policy(NULL, NULL, -1, NULL, NULL));
    ck_ok(decoder_evaluate(fixed.decoder, &batch, losses[0], NULL));
    ck_ok(decoder_evaluate(turned.decoder, &batch, losses[1], NULL));
    ck_assert_mem_eq(losses[0], losses[1], sizeof losses[0]);
    small_close(&fixed);
    small_close(&turned);
}
END_TEST

/* An arithmetic replicate of a truncating run truncates, in drawn orders. */
START_TEST(replicate_draws_orders_and_keeps_its_rounding)
{
    struct decoder_options o = small_options();
    struct small_model s;
    struct plans plans = {0};
    o.dial.forward = ARITHMETIC_TRUNCATING;
    o.draws = true;
    o.recompute = small_policy("full", "block", SMALL_LAYERS, NULL, NULL);
    small_open(&s, &o);
    small_step(&s, 1);
    device_each_plan(decoder_device(s.decoder), count_plan, &plans);
    ck_assert_int_gt(plans.random, 0);
    ck_assert_int_gt(plans.truncating, plans.random); /* attention has no order */
    ck_assert_uint_eq(certificate_total(s.certificate).mismatched, 0);
    small_close(&s);
}
END_TEST

/* ---- studies ---- */

static const char study_text[] =
    "study: s\nmodel: {preset: tiny}\n"
    "training: {steps: 20, branch_at: 10, sequence_length: 64, micro_batch_size: 2, global_batch_size: 4, "
    "reduction_groups: 2, lr: 1e-3}\n"
    "targets:\n  - {name: a, profile: h800-sim, memory: 1GiB}\n  - {name: b, profile: l40s-sim, memory: 1GiB}\n"
    "baseline: a\npoints:\n"
    "  - {target: b, recompute_num_layers: 1, arithmetic: {forward: truncating}}\n"
    "  - {target: b, recompute_num_layers: 1, arithmetic: {forward: truncating, recompute: to-zero}, "
    "certificate: {on_mismatch: continue}}\n"
    "  - {target: b, recompute_num_layers: 1, arithmetic: {forward: random, recompute: random}, "
    "certificate: {on_mismatch: continue}}\n"
    "  - {target: b, recompute_num_layers: 1, arithmetic: {forward: other-order, recompute: other-order}}\n"
    "  - {target: b, recompute_num_layers: 1, storage: fp32, recompute_precision: fp32, replicates: {arithmetic: 1}}\n";

/* What the forward or the storage changes, recompute does not: each has an r0 of its own. */
static const struct {
    const char *name;
    int reference;
    enum arithmetic_mode forward, recompute;
    enum dtype storage;
} planned[] = {
    {"a-r0", -1, ARITHMETIC_FIXED, ARITHMETIC_FIXED, BF16},
    {"b-r0-truncating-forward", -1, ARITHMETIC_TRUNCATING, ARITHMETIC_FIXED, BF16},
    {"b-r1-truncating-forward", 1, ARITHMETIC_TRUNCATING, ARITHMETIC_FIXED, BF16},
    {"b-r1-truncating-forward-to-zero-recompute", 1, ARITHMETIC_TRUNCATING, ARITHMETIC_TO_ZERO, BF16},
    {"b-r0-random-forward", -1, ARITHMETIC_RANDOM, ARITHMETIC_FIXED, BF16},
    {"b-r1-random", 4, ARITHMETIC_RANDOM, ARITHMETIC_RANDOM, BF16},
    {"b-r0-other-order-forward", -1, ARITHMETIC_OTHER_ORDER, ARITHMETIC_FIXED, BF16},
    {"b-r1-other-order", 6, ARITHMETIC_OTHER_ORDER, ARITHMETIC_OTHER_ORDER, BF16},
    {"b-r0-fp32-storage", -1, ARITHMETIC_FIXED, ARITHMETIC_FIXED, F32},
    {"b-r1-fp32-fp32-storage", 8, ARITHMETIC_FIXED, ARITHMETIC_FIXED, F32},
    {"b-r1-fp32-fp32-storage-a1", 8, ARITHMETIC_FIXED, ARITHMETIC_FIXED, F32},
};

START_TEST(arithmetic_and_storage_are_in_the_name_and_have_their_r0)
{
    struct study *study;
    struct study_points p;
    ck_ok(study_parse(&study, "study.yaml", study_text, strlen(study_text)));
    ck_ok(study_points_make(&p, study));
    ck_assert_int_eq(p.count, COUNT(planned));
    for (int i = 0; i < p.count; i++) {
        ck_assert_str_eq(p.point[i].name, planned[i].name);
        ck_assert_int_eq(points_reference(p.point, p.count, i), planned[i].reference);
        ck_assert_int_eq(p.point[i].dial.forward, planned[i].forward);
        ck_assert_int_eq(p.point[i].dial.recompute, planned[i].recompute);
        ck_assert_int_eq(p.point[i].training.storage, planned[i].storage);
    }
    ck_assert_uint_gt(p.point[8].planned_activation_bytes, p.point[6].planned_activation_bytes);
    study_points_free(&p);
    study_free(study);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {mode_changes_what_it_names_and_nothing_else, 1},
        {only_the_plans_in_use_are_made, 1},
        {fixed_recompute_repeats_every_forward, MODES},
        {recompute_with_another_arithmetic_is_accused, MODES - 1},
        {certificate_shows_that_truncation_shrinks, COUNT(rebuilt)},
        {certificate_shows_that_another_order_does_not_shrink, 2},
        {evaluation_knows_no_dial, 1},
        {replicate_draws_orders_and_keeps_its_rounding, 1},
        {arithmetic_and_storage_are_in_the_name_and_have_their_r0, 1},
    };
    return suite_run("dial", tests, COUNT(tests));
}
