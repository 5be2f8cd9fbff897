/* What a set of audits is called: exact, noise, gain or bias, for errors that were made up and for those of real rebuilds. */
#include <math.h>
#include <stdlib.h>

#include "stages/audit_set.h"
#include "tests/audit_arrays.h"
#include "tests/small_model.h"
#include "tests/suite.h"

/* One thread: what is measured here does not depend on it, and machines that test are busy. */
static struct decoder_options audited_options(void)
{
    struct decoder_options o = small_options();
    o.threads = 1;
    o.audits = true;
    o.recompute = small_policy("full", "block", 3, NULL, NULL);
    return o;
}

enum { AUDITS = 20, TRAINED = 20 };

/* A set of a small model at frozen weights or along its training, behind TRAINED steps without audits. */
static void audit_model_run(struct audit_set *set, const struct decoder_options *o, enum audit_kind kind)
{
    struct small_model s;
    struct audits all = {calloc(AUDITS, sizeof(struct audit *)), AUDITS};
    small_open(&s, o);
    for (int64_t step = 1; step <= TRAINED; step++) {
        small_step(&s, step);
        small_optimizer_step(&s, step);
    }
    for (int i = 0; i < AUDITS; i++) {
        int64_t step = TRAINED + 1 + i;
        ck_ok(audit_new(&all.at[i], &o->shape, 2));
        struct audit *a = all.at[i];
        a->proof = small_control(&s, step);
        a->expected = (int64_t)a->proof.compared;
        a->frozen = kind == AUDIT_FROZEN;
        a->step = step;
        small_step(&s, step);
        struct optimizer_state state = decoder_state(s.decoder);
        ck_ok(audit_measure(a, &o->shape, &state, decoder_control(s.decoder), &audit_plain_adam, 1));
        if (kind == AUDIT_STEPS)
            small_optimizer_step(&s, step);
    }
    ck_ok(audit_set_judge(set, &all, kind, &o->shape));
    ck_assert_int_eq(set->count, AUDITS);
    audits_free(&all);
    small_close(&s);
}

START_TEST(exact_recompute_is_exact)
{
    struct decoder_options o = audited_options();
    struct audit_set set;
    audit_model_run(&set, &o, (enum audit_kind)_i);
    ck_assert_int_eq(set.conclusion, CONCLUSION_EXACT);
    ck_assert_double_eq(set.mean.error, 0);
    ck_assert_double_eq(set.mean.same_sign, 1);
    ck_assert_double_eq(set.mean.missing, 0);
    audit_set_free(&set);
}
END_TEST

/* Which rebuilds must be found to follow the gradient, and which are noise, by how they are made. */
static const struct {
    enum arithmetic_mode mode;
    enum dtype storage;
    const char *fault;
    bool found;
} modes[] = {
    {ARITHMETIC_RANDOM, BF16, NULL, false},        {ARITHMETIC_RANDOM, F32, NULL, false},
    {ARITHMETIC_TRUNCATING, F32, NULL, true},      {ARITHMETIC_TO_ZERO, BF16, NULL, true},
    {ARITHMETIC_FIXED, BF16, "rng-redrawn", true},
};

START_TEST(bias_of_a_rebuild_is_found_and_noise_is_not)
{
    struct decoder_options o = audited_options();
    struct audit_set set;
    int row = _i / AUDIT_KINDS;
    o.dial.recompute = modes[row].mode;
    o.storage = modes[row].storage;
    ck_ok(fault_parse(&o.fault, modes[row].fault));
    audit_model_run(&set, &o, (enum audit_kind)(_i % AUDIT_KINDS));
    bool follows = set.conclusion == CONCLUSION_GAIN || set.conclusion == CONCLUSION_BOTH;
    ck_assert_msg(modes[row].found ? follows : set.conclusion == CONCLUSION_NOISE,
                  "%s, %s: %s; cosine %.3g (p %.3g), gain %.3g (p %.3g), constant %.3g (p %.3g)",
                  arithmetic_mode_name(modes[row].mode), audit_kind_name(set.kind),
                  audit_conclusion_name(set.conclusion), set.cosine.estimate, set.cosine.p, set.gain.estimate,
                  set.gain.p, set.constant.estimate, set.constant.p);
    if (modes[row].found) {
        /* Cutting toward zero and a lost mask both shorten the gradient; a fraction of these audits would have done. */
        ck_assert(set.cosine.estimate < 0 && set.cosine.high < 0);
        ck_assert_msg(set.cosine.needed <= AUDITS, "%g audits needed", set.cosine.needed);
    }
    /* Layers at and above the boundary are exact, the others are not, and the deepest is the worst. */
    ck_assert(set.layer[0].mean.error > set.layer[2].mean.error);
    ck_assert_double_eq(set.layer[3].mean.error, 0);
    ck_assert_double_eq(set.layer[4].mean.error, 0);
    ck_assert(isnan(set.layer[3].gain.p) && isnan(set.layer[3].constant.p));
    /* Nobody measured the groups here, so the noise is not known, and sizes are relative to the gradient. */
    ck_assert(isnan(set.noise) && !set.sized_by_noise);
    ck_assert_int_eq(isnan(set.constant.p), set.kind == AUDIT_STEPS);
    audit_set_free(&set);
}
END_TEST

/* Errors made up through the real sums and sketches: g0 is another draw in every audit, e is what a row says. */
static void make_set(struct audit_set *set, int count, double noise, double constant, double gain)
{
    struct audit_arrays a = audit_arrays_new();
    struct audits all = {calloc((size_t)count, sizeof(struct audit *)), count};
    for (int i = 0; i < count; i++) {
        audit_arrays_fill(&a, (uint32_t)(10 + i), noise);
        for (int k = 0; k < shape_parameter_count(&a.shape); k++) {
            struct parameter p = shape_parameter(&a.shape, k);
            for (int64_t j = p.offset; j < p.offset + p.rows * p.cols; j++)
                *audit_array_at(&a.state.grad, j) +=
                    (float)(constant * audit_normal(1, (uint64_t)j) + gain * *audit_array_at(&a.control, j));
        }
        all.at[i] = audit_arrays_measure(&a, 1);
        all.at[i]->step = i + 1;
        all.at[i]->frozen = true;
        /* Two groups that say that half of the squared length is noise. */
        double half = audit_model(all.at[i]).g0_g0 * 3 / 8;
        all.at[i]->group_square[0] = all.at[i]->group_square[1] = half;
    }
    ck_ok(audit_set_judge(set, &all, AUDIT_FROZEN, &a.shape));
    audits_free(&all);
    audit_arrays_free(&a);
}

START_TEST(made_errors_are_called_what_they_are)
{
    struct audit_set set;
    make_set(&set, 16, 0.1, 0, 0);
    ck_assert_int_eq(set.conclusion, CONCLUSION_NOISE);
    ck_assert_double_eq_tol(set.noise, sqrt(0.5), 1e-12);
    ck_assert(set.constant.detectable < 0.06 && set.gain.detectable < 0.002);
    audit_set_free(&set);

    make_set(&set, 16, 0.1, 0.05, 0);
    ck_assert_int_eq(set.conclusion, CONCLUSION_BIAS);
    /* 0.05 of each element, in units of sqrt(1/2) of the gradient. */
    ck_assert(set.constant.low < 0.05 / sqrt(0.5) && set.constant.high > 0.05 / sqrt(0.5));
    ck_assert_double_eq_tol(set.constant.estimate, 0.05 / sqrt(0.5), 0.02);
    ck_assert_double_eq_tol(set.steps_to_noise, 1 / (set.constant.estimate * set.constant.estimate), 1e-9);
    for (int l = 0; l < set.layers; l++)
        ck_assert_msg(set.layer[l].constant.adjusted <= 0.05, "layer %d: p %g", l, set.layer[l].constant.adjusted);
    audit_set_free(&set);

    make_set(&set, 16, 0.1, 0, -0.01);
    ck_assert_int_eq(set.conclusion, CONCLUSION_GAIN);
    ck_assert_double_eq_tol(set.gain.estimate, -0.01, 0.001);
    ck_assert(set.gain.low < -0.01 + 1e-3 && set.gain.high > -0.01 - 1e-3);
    ck_assert(set.constant.adjusted > 0.05);
    audit_set_free(&set);

    make_set(&set, 16, 0.1, 0.05, -0.01);
    ck_assert_int_eq(set.conclusion, CONCLUSION_BOTH);
    audit_set_free(&set);

    make_set(&set, 4, 0.1, 0, -0.01);
    ck_assert_int_eq(set.conclusion, CONCLUSION_UNDECIDED);
    audit_set_free(&set);
}
END_TEST

/* Audits whose control is none, and audits of the other kind, do not count. */
START_TEST(unproven_audits_do_not_count)
{
    struct audit_arrays a = audit_arrays_new();
    struct audits all = {calloc(3, sizeof(struct audit *)), 3};
    struct audit_set set;
    for (int i = 0; i < 3; i++) {
        audit_arrays_fill(&a, (uint32_t)i, 0.1);
        all.at[i] = audit_arrays_measure(&a, 1);
        all.at[i]->step = i + 1;
        all.at[i]->frozen = i < 2;
    }
    all.at[1]->proof.mismatched = 1;
    ck_ok(audit_set_judge(&set, &all, AUDIT_FROZEN, &a.shape));
    ck_assert_int_eq(set.count, 1);
    ck_assert_int_eq(set.unproven, 1);
    ck_assert_int_eq(set.first, 1);
    ck_assert_int_eq(set.last, 1);
    audit_set_free(&set);
    all.at[2]->proof.compared = 1;
    ck_ok(audit_set_judge(&set, &all, AUDIT_STEPS, &a.shape));
    ck_assert_int_eq(set.count, 0);
    ck_assert_int_eq(set.unproven, 1);
    audit_set_free(&set);
    audits_free(&all);
    audit_arrays_free(&a);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {exact_recompute_is_exact, AUDIT_KINDS},
        {bias_of_a_rebuild_is_found_and_noise_is_not, COUNT(modes) * AUDIT_KINDS},
        {made_errors_are_called_what_they_are, 1},
        {unproven_audits_do_not_count, 1},
    };
    return suite_run("audit_set", tests, COUNT(tests));
}
