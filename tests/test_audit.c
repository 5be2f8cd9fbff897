/* Audits: the control is what a stored run would be, the step does not notice it, and sums are those of two gradients. */
#include <math.h>
#include <stdlib.h>

#include "tests/audit_arrays.h"
#include "tests/small_model.h"
#include "tests/suite.h"

static bool same_bits(const struct view *a, const struct view *b)
{
    return view_bytes(a) == view_bytes(b) && !memcmp(a->data, b->data, view_bytes(a));
}

/* One thread: what is measured here does not depend on it, and machines that test are busy. */
static struct decoder_options audited_options(void)
{
    struct decoder_options o = small_options();
    o.threads = 1;
    o.audits = true;
    o.recompute = small_policy("full", "block", 3, NULL, NULL);
    return o;
}

/* ---- the control ---- */

static const struct {
    const char *granularity, *method;
    int layers;
    const char *modules, *precision, *fault;
    struct arithmetic_dial dial;
    bool draws;
    enum dtype storage; /* F32 where only orders differ, which few elements in BF16 could all hide */
    int rebuilt;        /* tensors that a control of one micro-batch compares; see test_decoder.c */
} rebuilds[] = {
    {"full", "block", 3, NULL, NULL, NULL, {0}, false, BF16, 39},
    {"full", "block", 5, NULL, NULL, "rng-redrawn", {0}, false, BF16, 65},
    {"full", "block", 5, NULL, NULL, "stale-weights", {0}, false, BF16, 65},
    {"full", "block", 3, NULL, NULL, "gemm-order:mode=random", {0}, false, F32, 39},
    {"full", "uniform", 2, NULL, "fp32", NULL, {0}, false, BF16, (14 + 13) * 2 + 13},
    {"full", "uniform", 5, NULL, NULL, NULL, {ARITHMETIC_FIXED, ARITHMETIC_TO_ZERO}, false, BF16, 14 * 4 + 13},
    {"full", "block", 3, NULL, NULL, NULL, {ARITHMETIC_FIXED, ARITHMETIC_RANDOM}, false, F32, 39},
    {"full", "block", 3, NULL, NULL, NULL, {ARITHMETIC_RANDOM, ARITHMETIC_RANDOM}, false, F32, 39},
    {"full", "block", 3, NULL, NULL, NULL, {ARITHMETIC_TRUNCATING, ARITHMETIC_OTHER_ORDER}, true, BF16, 39},
    {"selective", NULL, -1, "core_attn,mlp,layernorm", NULL, "gemm-order", {0}, false, F32, 8 * 5},
};

static struct decoder_options rebuild_options(int i)
{
    struct decoder_options o = audited_options();
    o.recompute = small_policy(rebuilds[i].granularity, rebuilds[i].method, rebuilds[i].layers, rebuilds[i].modules,
                               rebuilds[i].precision);
    o.dial = rebuilds[i].dial;
    o.draws = rebuilds[i].draws;
    o.storage = rebuilds[i].storage;
    ck_ok(fault_parse(&o.fault, rebuilds[i].fault));
    return o;
}

START_TEST(control_has_the_gradient_of_a_stored_run)
{
    struct small_model stored, audited;
    struct decoder_options o = rebuild_options(_i);
    small_open(&audited, &o);
    o.recompute = small_policy(NULL, NULL, -1, NULL, NULL);
    o.dial.recompute = ARITHMETIC_FIXED;
    ck_ok(fault_parse(&o.fault, NULL));
    o.audits = false;
    small_open(&stored, &o);
    bool anything = false;
    for (int64_t step = 1; step <= 3; step++) {
        struct control_proof proof = small_control(&audited, step);
        small_step(&stored, step);
        ck_assert(same_bits(decoder_control(audited.decoder), small_gradient(&stored)));
        ck_assert_mem_eq(audited.loss, stored.loss, sizeof stored.loss);
        ck_assert_uint_eq(proof.compared, (uint64_t)rebuilds[_i].rebuilt * 2);
        ck_assert_uint_eq(proof.mismatched, 0);
        small_step(&audited, step);
        anything |= !same_bits(decoder_control(audited.decoder), small_gradient(&audited));
        /* Both go on from the same weights. */
        small_optimizer_step(&stored, step);
        struct optimizer_state to = decoder_state(audited.decoder), from = decoder_state(stored.decoder);
        memcpy(to.weight.data, from.weight.data, view_bytes(&to.weight));
    }
    /* All rows but the first do something to the rebuild, which the control must leave out. */
    ck_assert_int_eq(anything, _i != 0);
    small_close(&stored);
    small_close(&audited);
}
END_TEST

static void certificate_bytes(const struct small_model *s, void **bytes, size_t *size)
{
    ck_ok(certificate_write(s->certificate, bytes, size));
}

START_TEST(step_does_not_notice_its_control)
{
    struct small_model plain, audited;
    struct decoder_options o = rebuild_options(_i);
    small_open(&audited, &o);
    o.audits = false;
    small_open(&plain, &o);
    for (int64_t step = 1; step <= 3; step++) {
        small_control(&audited, step);
        small_step(&audited, step);
        small_step(&plain, step);
        ck_assert(same_bits(small_gradient(&plain), small_gradient(&audited)));
        ck_assert_mem_eq(plain.loss, audited.loss, sizeof plain.loss);
        small_optimizer_step(&plain, step);
        small_optimizer_step(&audited, step);
    }
    struct optimizer_state a = decoder_state(plain.decoder), b = decoder_state(audited.decoder);
    ck_assert(same_bits(&a.master, &b.master) && same_bits(&a.v, &b.v));
    void *left, *right;
    size_t left_size, right_size;
    certificate_bytes(&plain, &left, &left_size);
    certificate_bytes(&audited, &right, &right_size);
    ck_assert_uint_eq(left_size, right_size);
    ck_assert_mem_eq(left, right, left_size);
    free(left);
    free(right);
    small_close(&plain);
    small_close(&audited);
}
END_TEST

/* Flips a bit of one rebuilt tensor, whoever rebuilds. */
static status flip_seen(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    (void)self;
    if (pass->phase == PHASE_RECOMPUTE && pass->layer == 1 && t == TENSOR_MIDDLE)
        *(uint16_t *)view->data ^= 1;
    return OK;
}

START_TEST(control_that_is_none_is_told)
{
    struct small_model s;
    struct decoder_options o = audited_options();
    struct observer flip = {.seen = flip_seen};
    small_open(&s, &o);
    struct audit *a;
    ck_ok(audit_new(&a, &o.shape, 2));
    a->expected = 2 * 39;
    a->proof = small_control(&s, 1);
    ck_assert(audit_proven(a));
    a->expected++;
    ck_assert(!audit_proven(a));
    a->expected--;
    decoder_observe(s.decoder, &flip, true);
    a->proof = small_control(&s, 2);
    ck_assert_uint_eq(a->proof.compared, 2 * 39);
    ck_assert(a->proof.mismatched >= 2);
    ck_assert(!audit_proven(a));
    decoder_forget(s.decoder, &flip);
    a->proof = small_control(&s, 3);
    ck_assert(audit_proven(a));
    ck_assert_uint_eq(certificate_total(s.certificate).compared, 0);
    audit_free(a);
    small_close(&s);
}
END_TEST

START_TEST(decoder_without_audits_has_no_control)
{
    struct small_model s;
    struct decoder_options o = small_options();
    small_open(&s, &o);
    ck_assert_int_eq(decoder_control_begin(s.decoder, 3), ERR_ARGUMENT);
    ck_said("step 3");
    small_close(&s);
}
END_TEST

/* ---- measuring ---- */

/* Powers of two and small whole numbers: every sum is exact. */
START_TEST(sums_are_those_of_the_two_gradients)
{
    struct audit_arrays a = audit_arrays_new();
    const struct model_shape *s = &a.shape;
    int index = shape_parameter_index(s, PARAMETER_DOWN, 2);
    struct parameter p = shape_parameter(s, index);
    int64_t n = p.rows * p.cols;
    for (int64_t i = 0; i < n; i++) {
        float g0 = i % 2 ? 2 : -1;
        *audit_array_at(&a.control, p.offset + i) = g0;
        /* A quarter short; every eighth element is gone, and every eighth turned. */
        *audit_array_at(&a.state.grad, p.offset + i) = i % 8 == 0 ? 0 : i % 8 == 1 ? -g0 : 0.75f * g0;
        *audit_array_at(&a.state.master, p.offset + i) = g0;
    }
    struct audit *out = audit_arrays_measure(&a, 1);
    const struct audit_sums *sum = &out->parameter[index];
    /* Eight elements: g0 = -1 four times, 2 four times; e = 1, -4, then three of +1/4 and three of -1/2. */
    int64_t eights = n / 8;
    ck_assert_double_eq(sum->g0_g0, 20.0 * eights);
    ck_assert_double_eq(sum->e_e, (1 + 16 + 3.0 / 16 + 3.0 / 4) * eights);
    ck_assert_double_eq(sum->e_g0, (-1 - 8 - 3.0 / 4 - 3) * eights);
    ck_assert_double_eq(sum->w_w, 20.0 * eights);
    ck_assert_double_eq(sum->e_w, sum->e_g0);
    /* Without moments u = -g1 / |g1|: -1, 0 or 1. */
    ck_assert_double_eq(sum->u_u, 7.0 * eights);
    ck_assert_double_eq(sum->e_u, (-4 + 3.0 / 4 + 3.0 / 2) * eights);
    ck_assert_int_eq(sum->elements, n);
    ck_assert_int_eq(sum->missing, eights);
    ck_assert_int_eq(sum->same_sign, 6 * eights);
    struct audit_sums layer = audit_layer(out, s, 2), other = audit_layer(out, s, 1), model = audit_model(out);
    ck_assert_double_eq(layer.e_g0, sum->e_g0);
    ck_assert_double_eq(model.e_g0, sum->e_g0);
    ck_assert_double_eq(other.g0_g0, 0);
    ck_assert_int_eq(model.elements, shape_parameter_elements(s));
    /* Zero in both is the same sign. */
    ck_assert_int_eq(other.same_sign, other.elements);
    struct audit_measures m = audit_measures(&layer), none = audit_measures(&other);
    ck_assert_double_eq_tol(m.error, sqrt(17.9375 / 20), 1e-15);
    ck_assert_double_eq_tol(m.gain, -12.75 / 20, 1e-15);
    ck_assert_double_eq_tol(m.error_cosine, -12.75 / sqrt(17.9375 * 20), 1e-15);
    ck_assert_double_eq_tol(m.cosine, (20 - 12.75) / sqrt(20 * (20 - 25.5 + 17.9375)), 1e-15);
    ck_assert(isnan(none.error) && isnan(none.cosine) && isnan(none.gain) && isnan(none.along_update));
    audit_free(out);
    audit_arrays_free(&a);
}
END_TEST

/* The optimizer itself makes the step whose direction u claims to be. */
START_TEST(update_is_the_one_that_adam_makes)
{
    struct small_model s;
    struct decoder_options o = audited_options();
    const struct optimizer_rule rule = {
        .steps = 10, .lr = 0.25, .min_lr = 0.25, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 0.5};
    small_open(&s, &o);
    for (int64_t step = 1; step <= 2; step++) {
        small_step(&s, step);
        small_optimizer_step(&s, step);
    }
    small_step(&s, 3);
    struct optimizer_state state = decoder_state(s.decoder);
    struct view before = audit_array_new(&o.shape), control = audit_array_new(&o.shape);
    struct audit *audit;
    double norm;
    struct device *d = decoder_device(s.decoder);
    ck_ok(d->ops->sum_squares(d, &norm, &state.grad));
    const struct adamw how = optimizer_adamw(&rule, 3, sqrt(norm));
    ck_ok(audit_new(&audit, &o.shape, 2));
    ck_ok(audit_measure(audit, &o.shape, &state, &state.grad, &how, 1));
    double squares = 0, u_u = audit_model(audit).u_u;
    memcpy(before.data, state.master.data, view_bytes(&before));
    struct view grad = audit_array_new(&o.shape);
    memcpy(grad.data, state.grad.data, view_bytes(&grad));
    struct optimizer_state copy = state;
    struct view m = audit_array_new(&o.shape), v = audit_array_new(&o.shape);
    memcpy(m.data, state.m.data, view_bytes(&m));
    memcpy(v.data, state.v.data, view_bytes(&v));
    ck_ok(optimizer_step(d, &o.shape, &rule, &copy, 3, &norm));
    for (int64_t i = 0; i < before.cols; i++) {
        double moved = (double)*audit_array_at(&state.master, i) - (double)*audit_array_at(&before, i);
        squares += moved * moved;
        /* An error of 1000 times the step, so that rounding g0 to single precision does not matter. */
        *audit_array_at(&control, i) = *audit_array_at(&grad, i) - (float)(1000 * moved);
    }
    ck_assert_double_eq_tol(sqrt(squares) / 0.25 / sqrt(u_u), 1, 1e-5);
    struct optimizer_state old = {state.weight, before, m, v, grad};
    ck_ok(audit_measure(audit, &o.shape, &old, &control, &how, 1));
    const struct audit_sums sums = audit_model(audit);
    ck_assert_double_eq_tol(audit_measures(&sums).along_update, 1, 1e-6);
    struct view *all[] = {&before, &control, &grad, &m, &v};
    for (int i = 0; i < COUNT(all); i++)
        free(all[i]->data);
    audit_free(audit);
    small_close(&s);
}
END_TEST

START_TEST(audit_does_not_depend_on_threads)
{
    struct audit_arrays a = audit_arrays_new();
    audit_arrays_fill(&a, 1, 0.1);
    struct audit *one = audit_arrays_measure(&a, 1), *three = audit_arrays_measure(&a, 3);
    ck_assert_mem_eq(one->parameter, three->parameter, (size_t)one->parameters * sizeof *one->parameter);
    ck_assert_mem_eq(one->sketch, three->sketch, sizeof one->sketch);
    ck_assert_mem_eq(one->layer_sketch, three->layer_sketch,
                     (size_t)one->layers * AUDIT_LAYER_BUCKETS * sizeof *one->layer_sketch);
    audit_free(one);
    audit_free(three);
    audit_arrays_free(&a);
}
END_TEST

/* Lengths and inner products within 4 of the deviations that audit.h promises. */
START_TEST(sketches_keep_lengths_and_angles)
{
    struct audit_arrays a = audit_arrays_new();
    struct audit *audit[2];
    double *e[2], dot = 0, sketched = 0;
    int64_t n = shape_elements(&a.shape);
    for (int k = 0; k < 2; k++) {
        e[k] = calloc((size_t)n, sizeof(double));
        audit_arrays_fill(&a, (uint32_t)k, 0.5);
        for (int64_t i = 0; i < n; i++) {
            *audit_array_at(&a.state.grad, i) += k ? 0.5f * (float)e[0][i] : 0;
            e[k][i] = (double)*audit_array_at(&a.state.grad, i) - (double)*audit_array_at(&a.control, i);
        }
        audit[k] = audit_arrays_measure(&a, 1);
        double square = 0;
        for (int b = 0; b < AUDIT_BUCKETS; b++)
            square += audit[k]->sketch[b] * audit[k]->sketch[b];
        ck_assert_double_eq_tol(square / audit_model(audit[k]).e_e, 1, 4 * sqrt(2.0 / AUDIT_BUCKETS));
        for (int l = 0; l < audit[k]->layers; l++) {
            square = 0;
            for (int b = l * AUDIT_LAYER_BUCKETS; b < (l + 1) * AUDIT_LAYER_BUCKETS; b++)
                square += audit[k]->layer_sketch[b] * audit[k]->layer_sketch[b];
            ck_assert_double_eq_tol(square / audit_layer(audit[k], &a.shape, l).e_e, 1,
                                    4 * sqrt(2.0 / AUDIT_LAYER_BUCKETS));
        }
    }
    for (int64_t i = 0; i < n; i++)
        dot += e[0][i] * e[1][i];
    for (int b = 0; b < AUDIT_BUCKETS; b++)
        sketched += audit[0]->sketch[b] * audit[1]->sketch[b];
    double lengths = sqrt(audit_model(audit[0]).e_e * audit_model(audit[1]).e_e);
    ck_assert_double_eq_tol(sketched / lengths, dot / lengths, 4 * sqrt(2.0 / AUDIT_BUCKETS));
    ck_assert(dot / lengths > 0.4);
    for (int k = 0; k < 2; k++) {
        audit_free(audit[k]);
        free(e[k]);
    }
    audit_arrays_free(&a);
}
END_TEST

/* Shares (3, 1) and (1, 3) of g0 = (4, 4): their difference, (2, -2), is what the choice of the batch does: means of two
 * sequences each of (6, 2) and (2, 6), whose mean has the variance (4 + 4) / 2 * 2 / 2 = 8 by the formula. */
START_TEST(noise_by_hand)
{
    struct audit_arrays a = audit_arrays_new();
    *audit_array_at(&a.control, 0) = *audit_array_at(&a.control, 1) = 4;
    struct audit *out = audit_arrays_measure(&a, 1), *one;
    out->group_square[0] = out->group_square[1] = 10;
    ck_assert_double_eq(audit_noise(out), 2 * 20 - 32);
    ck_ok(audit_new(&one, &a.shape, 1));
    ck_assert(isnan(audit_noise(one)));
    audit_free(one);
    audit_free(out);
    audit_arrays_free(&a);
}
END_TEST

START_TEST(other_types_are_refused)
{
    struct audit_arrays a = audit_arrays_new();
    struct audit *out;
    ck_ok(audit_new(&out, &a.shape, 2));
    a.control.type = BF16;
    ck_assert_int_eq(audit_measure(out, &a.shape, &a.state, &a.control, &audit_plain_adam, 1), ERR_ARGUMENT);
    a.control.type = F32;
    audit_free(out);
    audit_arrays_free(&a);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {control_has_the_gradient_of_a_stored_run, COUNT(rebuilds)},
        {step_does_not_notice_its_control, COUNT(rebuilds)},
        {control_that_is_none_is_told, 1},
        {decoder_without_audits_has_no_control, 1},
        {sums_are_those_of_the_two_gradients, 1},
        {update_is_the_one_that_adam_makes, 1},
        {audit_does_not_depend_on_threads, 1},
        {sketches_keep_lengths_and_angles, 1},
        {noise_by_hand, 1},
        {other_types_are_refused, 1},
    };
    return suite_run("audit", tests, COUNT(tests));
}
