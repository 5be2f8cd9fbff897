/* Reports, what is judged: certificates, comparisons of runs, recommendations. */
#include <math.h>

#include "stages/report/report.h"
#include "stages/report/words.h"
#include "tests/suite.h"
#include "tests/synthetic_study.h"

/* ---- certificates ---- */

/* The report's count from the policy's words against the plan's own. */
START_TEST(expected_count_equals_plan_for_every_policy)
{
    struct metric metric[10] = {{0}};
    for (int i = 0; i < 10; i++)
        metric[i].step = 11 + i;
    for (int kind = 0; kind < 3; kind++)
        for (int n = 0; n < 8; n++) {
            struct synthetic_run run = {.name = "x", .target = "l40s"};
            struct synthetic_study study = {"x", LAST, FIRST - 1, &run, 1};
            run.layers = kind == 0 ? n % (SYNTHETIC_LAYERS + 1) : 1 + n % SYNTHETIC_LAYERS;
            run.method = kind == 1 ? METHOD_UNIFORM : METHOD_BLOCK;
            run.modules = kind == 2 ? (unsigned)n : 0;
            struct point p;
            struct recompute_plan *plan;
            synthetic_point(&p, &study, 0);
            ck_ok(recompute_plan_make(&plan, &p.recompute, p.model.layers));
            uint64_t tensors = (uint64_t)recompute_compared_tensors(plan);
            ck_assert_uint_eq(report_expected_count(&p, metric, 10), tensors * 10 * MICRO_BATCHES);
            p.certificate.every = 3; /* steps 12, 15, 18 */
            ck_assert_uint_eq(report_expected_count(&p, metric, 10), tensors * 3 * MICRO_BATCHES);
            recompute_plan_free(plan);
        }
}
END_TEST

START_TEST(certificate_of_block_is_complete_and_clean)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    /* 13 tensors a layer: 12 rebuilt ones and the stored input. */
    ck_assert_uint_eq(r.run[R4].expected_count, 13 * 4 * BRANCHED * MICRO_BATCHES);
    ck_assert_uint_eq(certificate_total(r.run[R4].certificate).compared, r.run[R4].expected_count);
    static const enum proof proofs[] = {[BASELINE] = PROOF_NOT_NEEDED,
                                        [R0] = PROOF_NOT_NEEDED,
                                        [R2] = PROOF_EXACT,
                                        [R4] = PROOF_EXACT,
                                        [FAULT] = PROOF_MISMATCH};
    for (int i = 0; i < COUNT(proofs); i++)
        ck_assert_int_eq(run_proof(&r.run[i]), proofs[i]);
    ck_assert(runs_equal_weights(&r.run[R4], &r.run[R0]));
    report_free(&r);
}
END_TEST

/* A certificate that lacks a step is no proof, although nothing in it differs. */
START_TEST(certificate_that_lacks_a_step_is_not_recommended)
{
    struct report r;
    struct synthetic_run runs[2], lost = demo_runs[R2];
    lost.lost_step = 60;
    struct synthetic_study study = two_runs(runs, &lost);
    char text[WORDS];
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(run_proof(&r.run[1]), PROOF_INCOMPLETE);
    ck_contains(words_certificate(text, &r.run[1]), "INCOMPLETE");
    ck_assert_int_eq(r.recommendations, 2);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "INCOMPLETE");
    report_free(&r);
}
END_TEST

/* Stopped before its first sample, a certificate holds no tensor: nothing differs in it, and it proves nothing. */
START_TEST(certificate_without_a_step_is_no_proof)
{
    struct report r;
    struct synthetic_run runs[2], unsampled = demo_runs[R2];
    unsampled.every = 150;
    unsampled.stops_at = 140;
    struct synthetic_study study = two_runs(runs, &unsampled);
    char text[WORDS];
    synthetic_study_judge(&r, &study);
    ck_assert_uint_eq(r.run[1].expected_count, 0);
    ck_assert_int_eq(run_proof(&r.run[1]), PROOF_NONE);
    ck_contains(words_certificate(text, &r.run[1]), "not certified: no step was compared (certificate.every is 150)");
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "not certified");
    report_free(&r);
}
END_TEST

START_TEST(sampled_certificate_says_so)
{
    struct report r;
    struct synthetic_run runs[2], sampled = demo_runs[R2];
    sampled.every = 10;
    struct synthetic_study study = two_runs(runs, &sampled);
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(run_proof(&r.run[1]), PROOF_EXACT);
    ck_assert_int_eq(r.recommendation[1].run, 1);
    ck_contains(r.recommendation[1].why, "0 of 780 tensors mismatched, sampled: only steps divisible by 10");
    report_free(&r);
}
END_TEST

START_TEST(fp32_recompute_is_announced_and_no_proof)
{
    struct report r;
    struct synthetic_run runs[2], fp32 = demo_runs[R2];
    fp32.fp32 = true;
    fp32.mismatch_step = FIRST;
    struct synthetic_study study = two_runs(runs, &fp32);
    char text[WORDS];
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(run_proof(&r.run[1]), PROOF_ANNOUNCED);
    ck_assert_str_eq(words_certificate(text, &r.run[1]), "600 of 7,800 tensors differ as announced by FP32");
    ck_assert_int_eq(r.recommendation[1].run, -1);
    report_free(&r);
}
END_TEST

/* Events were filed from the last layer down, as a backward meets them. */
START_TEST(first_mismatch_is_the_lowest_layer_of_the_first_step)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    const struct certificate_event *first = certificate_first(r.run[FAULT].certificate);
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(first->step, FIRST);
    ck_assert_int_eq(first->layer, 0);
    ck_assert_int_eq(first->accused, ACCUSED_RECOMPUTE);
    ck_assert_str_eq(block_op_family(block_tensor_op(first->tensor)), "dropout");
    ck_assert_ptr_null(certificate_first(r.run[R4].certificate));
    report_free(&r);
}
END_TEST

/* ---- contrasts ---- */

START_TEST(points_are_compared_with_r0_and_baseline)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    static const int against[DEMO_RUNS] = {-1, BASELINE, BASELINE, -1, R0, R0, R0, -1};
    static const int against_baseline[DEMO_RUNS] = {-1, 0, 0, 0, 0, 0, 0, -1};
    for (int i = 0; i < DEMO_RUNS; i++) {
        ck_assert_int_eq(r.run[i].against.other, against[i]);
        ck_assert_int_eq(r.run[i].against_baseline.other, against_baseline[i]);
    }
    const struct judgement *pair = &r.run[R4].against.metric[METRIC_LOSS].pair;
    ck_assert_int_eq(pair->verdict, VERDICT_IDENTICAL);
    ck_assert_int_eq(pair->first, FIRST + BRANCHED / 2);
    ck_assert_int_eq(pair->last, LAST);
    ck_assert_int_eq(r.run[R4].against.metric[METRIC_HELD_OUT].pair.verdict, VERDICT_IDENTICAL);
    ck_assert_int_eq(r.run[R4].against_baseline.metric[METRIC_LOSS].pair.verdict, VERDICT_AGREES);
    ck_assert_int_eq(r.run[FAULT].against.metric[METRIC_LOSS].pair.verdict, VERDICT_DIFFERS);
    ck_assert_int_eq(r.run[FAULT].against_baseline.metric[METRIC_HELD_OUT].pair.verdict, VERDICT_DIFFERS);
    ck_assert_double_eq_tol(r.run[FAULT].against_baseline.metric[METRIC_HELD_OUT].pair.gap, 0.05, 0.002);
    ck_assert_int_eq(r.run[BIG].state, RUN_TOO_LARGE);
    report_free(&r);
}
END_TEST

/* ---- runs that did not train as planned ---- */

START_TEST(run_that_stopped_early_is_undecided)
{
    struct report r;
    struct synthetic_run runs[3] = {demo_runs[BASELINE], demo_runs[R0], demo_runs[R2]};
    struct synthetic_study study = {"three", LAST, FIRST - 1, runs, 3};
    runs[2].stops_at = 150;
    synthetic_study_judge(&r, &study);
    ck_assert(run_stopped_early(&r.run[2]));
    ck_assert(!run_stopped_early(&r.run[1]));
    for (int m = 0; m < GAP_METRICS; m++) {
        ck_assert_int_eq(r.run[2].against.metric[m].pair.verdict, VERDICT_UNDECIDED);
        ck_assert_int_eq(r.run[2].against_baseline.metric[m].pair.verdict, VERDICT_UNDECIDED);
        ck_assert_str_eq(r.run[2].against.metric[m].pair.reason, "l40s-r2 stopped at step 150 of 200");
    }
    report_free(&r);

    runs[2].gap = 0.05; /* a difference that is there already stays one */
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.run[2].against.metric[METRIC_LOSS].pair.verdict, VERDICT_DIFFERS);
    report_free(&r);

    runs[1].too_large = true; /* what stopped is not recommended */
    runs[2].gap = 0;
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "not l40s-r2: stopped at step 150 of 200");
    report_free(&r);
}
END_TEST

START_TEST(baseline_that_diverged_recommends_nothing)
{
    struct report r;
    struct synthetic_run runs[3] = {demo_runs[BASELINE], demo_runs[R0], demo_runs[R2]};
    struct synthetic_study study = {"three", LAST, FIRST - 1, runs, 3};
    for (int i = 0; i < 3; i++)
        runs[i].nan_step = 60, runs[i].nan_on = true;
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(run_divergence(&r.run[0])->step, 60);
    ck_assert_int_eq(r.run[2].against.metric[METRIC_LOSS].pair.verdict, VERDICT_UNDECIDED);
    for (int i = 0; i < r.recommendations; i++) {
        ck_assert_int_eq(r.recommendation[i].run, -1);
        ck_contains(r.recommendation[i].why, "diverged at step 60 (loss is not finite)");
    }
    report_free(&r);
}
END_TEST

START_TEST(seed_replicate_is_not_paired)
{
    struct report r;
    struct synthetic_run runs[2], seed = {.name = "h800-r0-s1", .target = "h800", .replicate = "s1", .seed = 8};
    struct synthetic_study study = two_runs(runs, &seed);
    synthetic_study_judge(&r, &study);
    const struct judgement *pair = &r.run[1].against_baseline.metric[METRIC_LOSS].pair;
    ck_assert_int_eq(pair->verdict, VERDICT_UNDECIDED);
    ck_contains(pair->reason, "another seed");
    ck_assert_int_eq(r.run[1].family, 0);
    report_free(&r);
}
END_TEST

static void must_be_refused(const struct synthetic_run *second, const char *field)
{
    struct report r;
    struct synthetic_run runs[2];
    struct synthetic_study study = two_runs(runs, second);
    ck_ok(report_load_study(&r, synthetic_study_write(&study)));
    ck_assert_int_eq(report_judge(&r), ERR_INPUT);
    ck_said(field);
    report_free(&r);
}

START_TEST(incomparable_runs_are_refused)
{
    struct synthetic_run run = demo_runs[R0];
    run.seed = 8;
    must_be_refused(&run, "another seed");
    run = demo_runs[R0];
    run.model_layers = SYNTHETIC_LAYERS + 1;
    must_be_refused(&run, "another model");
    run = demo_runs[R0];
    run.shard = "07he2";
    must_be_refused(&run, "another token shard");
    run = demo_runs[R0];
    run.checkpoint = "00112233445566778899aabbccddeeff";
    must_be_refused(&run, "another checkpoint to start from");
}
END_TEST

START_TEST(changed_plan_is_refused)
{
    struct report r;
    struct synthetic_run runs[2], run = demo_runs[R2];
    struct synthetic_study study = two_runs(runs, &run);
    const char *folder = synthetic_study_write(&study);
    runs[1].layers = 3;
    synthetic_points_write(&study, folder);
    ck_assert_int_eq(report_load_study(&r, folder), ERR_INPUT);
    ck_said("another configuration");
}
END_TEST

START_TEST(missing_baseline_is_an_error)
{
    struct report r;
    struct synthetic_run runs[2];
    struct synthetic_study study = two_runs(runs, &demo_runs[R0]);
    runs[0].absent = true;
    ck_assert_int_eq(report_load_study(&r, synthetic_study_write(&study)), ERR_INPUT);
    ck_said("rematch-baseline");
}
END_TEST

/* ---- what stands beside the verdicts ---- */

/* A loss that is logged twice as high is no difference of training, and everything that says DIFFERS or harm says so. */
START_TEST(doubled_loss_looks_like_one)
{
    struct report r;
    struct synthetic_run runs[2], run = demo_runs[R0];
    run.factor = 2;
    struct synthetic_study study = two_runs(runs, &run);
    synthetic_study_judge(&r, &study);
    const struct contrast *c = &r.run[1].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].likeness.kind, LIKENESS_FACTOR);
    ck_assert_double_eq(c->metric[METRIC_LOSS].likeness.value, 2);
    ck_contains(c->metric[METRIC_LOSS].pair.reason, "looks like: a factor of 2");
    ck_assert_int_eq(c->metric[METRIC_GRAD_NORM].likeness.kind, LIKENESS_NONE);
    ck_assert_int_eq(c->metric[METRIC_LOSS].pair_price.steps, 0);
    report_free(&r);
}
END_TEST

START_TEST(onset_is_where_the_gap_begins)
{
    struct report r;
    struct synthetic_run runs[2], run = demo_runs[R0];
    run.gap = 0.05;
    run.gap_step = 120;
    struct synthetic_study study = two_runs(runs, &run);
    synthetic_study_judge(&r, &study);
    const struct onset *onset = &r.run[1].against_baseline.metric[METRIC_LOSS].onset;
    ck_assert(onset->found);
    ck_assert_int_eq(onset->first_bits, FIRST);
    ck_assert_int_eq(onset->step, 120);
    ck_assert_int_le(onset->low, 120);
    ck_assert_int_ge(onset->high, 120);
    ck_assert_double_eq_tol(onset->after - onset->before, 0.05, 0.001);
    report_free(&r);
}
END_TEST

/* The price is in steps and runs beyond those that there are; device hours at the speed so far: 256 tokens a step. */
START_TEST(undecided_has_a_price)
{
    struct report r;
    struct synthetic_run runs[2], run = demo_runs[R0];
    run.noise = 0.3;
    struct synthetic_study study = two_runs(runs, &run);
    synthetic_study_judge(&r, &study);
    const struct contrast *c = &r.run[1].against_baseline;
    const struct judgement *pair = &c->metric[METRIC_LOSS].pair;
    ck_assert_int_eq(pair->verdict, VERDICT_UNDECIDED);
    const struct price *price = &c->metric[METRIC_LOSS].pair_price;
    ck_assert_int_eq(price->steps, (int64_t)ceil(BRANCHED * ((double)pair->steps_needed / (BRANCHED / 2) - 1)));
    ck_assert_double_eq_tol(price->hours, 2 * price->steps * 256.0 / SYNTHETIC_SPEED / 3600, 1e-4);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy_price.runs, 0); /* no spread is known */
    report_free(&r);

    synthetic_study_judge(&r, &demo); /* 3 baseline runs, 1 of r0: 2 a side are enough */
    c = &r.run[R0].against_baseline;
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy.runs_needed, 2);
    ck_assert_int_eq(c->metric[METRIC_LOSS].policy_price.runs, 1);
    ck_assert_double_eq_tol(c->metric[METRIC_LOSS].policy_price.hours, BRANCHED * 256.0 / SYNTHETIC_SPEED / 3600,
                            1e-12);
    report_free(&r);
}
END_TEST

START_TEST(gates_stand_beside_the_verdict)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    const struct contrast *c = &r.run[FAULT].against_baseline;
    ck_assert_int_eq(c->preset[PRESET_NATS].outcome, PRESET_FAILS);
    ck_assert_int_eq(c->preset[PRESET_MEAN_REL_2].outcome, PRESET_FAILS); /* 0.05 of 2.1 to 3.3 */
    ck_assert_int_eq(c->preset[PRESET_LAST_STEP_5].outcome, PRESET_PASSES);
    ck_assert_int_eq(c->preset[PRESET_RCP].outcome, PRESET_FAILS); /* 1 run against 3 */
    report_free(&r);
}
END_TEST

/* ---- recommendations ---- */

START_TEST(recommendation_is_the_fewest_harmless_layers)
{
    struct report r;
    struct synthetic_run runs[4] = {demo_runs[BASELINE], demo_runs[R0], demo_runs[R2], demo_runs[R4]};
    struct synthetic_study study = {"four", LAST, FIRST - 1, runs, 4};
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.recommendations, 2);
    ck_assert_int_eq(r.recommendation[1].run, 1);
    ck_contains(r.recommendation[1].why, "; also safe by certificate: 2, 4 (bit-identical to l40s-r0)");
    report_free(&r);

    runs[3].weights = NULL; /* r4 has other weights than r0, which its certificate does not explain */
    synthetic_study_judge(&r, &study);
    ck_contains(r.recommendation[1].why, "; also safe by certificate: 2 (bit-identical to l40s-r0)");
    report_free(&r);
    runs[3].weights = demo_runs[R4].weights;

    runs[1].too_large = true; /* r0 does not fit: r2 is the fewest */
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, 2);
    ck_contains(r.recommendation[1].why, "0 of 7,800 tensors mismatched");
    ck_contains(r.recommendation[1].why, "simulated");
    ck_contains(r.recommendation[1].why, "; also safe by certificate: 4 (without a run that stores everything");
    report_free(&r);

    runs[2].mismatch_step = FIRST; /* and r2 is refuted */
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, 3);
    ck_contains(r.recommendation[1].why, "not l40s-r2");
    report_free(&r);

    runs[3].gap = 0.05; /* and r4 differs */
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "loss DIFFERS from h800-r0");
    report_free(&r);
}
END_TEST

START_TEST(fail_on_finds_verdicts_and_mismatches)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    ck_assert_int_eq(report_fail_on(&r, "MISMATCH"), ERR_RESULT);
    ck_said("l40s-r2-rng-redrawn");
    ck_assert_int_eq(report_fail_on(&r, "DIFFERS"), ERR_RESULT);
    ck_ok(report_fail_on(&r, "DIVERGED"));
    ck_ok(report_known_verdict("DIVERGED"));
    ck_ok(report_known_verdict("MISMATCH"));
    ck_assert_int_eq(report_known_verdict("diverged"), ERR_USAGE);
    report_free(&r);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {expected_count_equals_plan_for_every_policy, 1},
        {certificate_of_block_is_complete_and_clean, 1},
        {certificate_that_lacks_a_step_is_not_recommended, 1},
        {certificate_without_a_step_is_no_proof, 1},
        {sampled_certificate_says_so, 1},
        {fp32_recompute_is_announced_and_no_proof, 1},
        {first_mismatch_is_the_lowest_layer_of_the_first_step, 1},
        {points_are_compared_with_r0_and_baseline, 1},
        {run_that_stopped_early_is_undecided, 1},
        {baseline_that_diverged_recommends_nothing, 1},
        {seed_replicate_is_not_paired, 1},
        {incomparable_runs_are_refused, 1},
        {changed_plan_is_refused, 1},
        {missing_baseline_is_an_error, 1},
        {doubled_loss_looks_like_one, 1},
        {onset_is_where_the_gap_begins, 1},
        {undecided_has_a_price, 1},
        {gates_stand_beside_the_verdict, 1},
        {recommendation_is_the_fewest_harmless_layers, 1},
        {fail_on_finds_verdicts_and_mismatches, 1},
    };
    return suite_run("judge", tests, COUNT(tests));
}
