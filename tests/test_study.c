/* Study files: what they become, and that nothing wrong passes. */
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "kernels/digest.h"
#include "stages/study.h"
#include "tests/suite.h"

#define DEMO "pipelines/studies/demo.yaml"

/* Parses and plans; the points are the caller's where OK. */
static status plan_text(struct study_points *points, const char *text, size_t size)
{
    struct study *study;
    *points = (struct study_points){0};
    TRY(study_parse(&study, "some/study.yaml", text, size));
    status st = study_points_make(points, study);
    study_free(study);
    return st;
}

static struct study_points plan_good(const char *text)
{
    struct study_points points;
    status st = plan_text(&points, text, strlen(text));
    ck_ok(st);
    return points;
}

static struct study_points plan_file(const char *path)
{
    char *text;
    size_t size;
    struct study_points points;
    ck_ok(file_read(path, STUDY_LIMIT, &text, &size));
    ck_ok(plan_text(&points, text, size));
    free(text);
    return points;
}

static void check_names(const struct study_points *points, const char *const *names, int count)
{
    for (int i = 0; i < points->count && i < count; i++) {
        ck_assert_str_eq(points->point[i].name, names[i]);
        ck_assert_int_eq(points->point[i].index, i);
        ck_assert_int_eq(points->point[i].baseline, i == 0);
    }
    ck_assert_int_eq(points->count, count);
}

#define CHECK_NAMES(points, ...) \
    check_names(points, (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

/* ---- the studies that come with Rematch ---- */

START_TEST(demo_plans_its_eight_points)
{
    struct study_points p = plan_file(DEMO);
    CHECK_NAMES(&p, "h800-r0", "h800-r0-a1", "h800-r0-a2", "l40s-r0", "l40s-r16", "l40s-r24", "l40s-r32",
                "l40s-r24-rng-redrawn");
    const struct point *trunk = &p.point[0], *replicate = &p.point[2], *r16 = &p.point[4], *faulty = &p.point[7];
    ck_assert(trunk->scratch && !replicate->scratch && !faulty->scratch);
    ck_assert_int_eq(trunk->training.rule.steps, 250);
    ck_assert_int_eq(trunk->training.branch_at, 150);
    ck_assert_int_eq(trunk->training.sequence_length * trunk->training.global_batch_size, 1024);
    ck_assert(trunk->model.hidden_dropout == 0.1f);
    ck_assert_int_eq(trunk->model.layers, 32);
    ck_assert_str_eq(trunk->target.profile, "h800-sim");
    ck_assert_uint_eq(trunk->target.memory_bytes, 80ull << 30);
    ck_assert_int_eq(replicate->dial.forward, ARITHMETIC_FIXED);
    ck_assert_str_eq(replicate->replicate, "a2");
    ck_assert(replicate->arithmetic_seed != 1234 && replicate->arithmetic_seed != p.point[1].arithmetic_seed);
    ck_assert_uint_eq(replicate->seed, 1234);
    ck_assert_int_eq(r16->recompute.method, METHOD_BLOCK);
    ck_assert_int_eq(r16->recompute.num_layers, 16);
    ck_assert(r16->certificate.stop && !faulty->certificate.stop);
    ck_assert_int_eq(faulty->fault.kind, FAULT_RNG_REDRAWN);
    study_points_free(&p);
}
END_TEST

START_TEST(demo_memory_falls_with_recomputed_layers_and_fits)
{
    struct study_points p = plan_file(DEMO);
    for (int i = 4; i <= 6; i++)
        ck_assert_uint_lt(p.point[i].planned_activation_bytes, p.point[i - 1].planned_activation_bytes);
    for (int i = 0; i < p.count; i++)
        ck_assert(p.point[i].fits && !p.automatic[i]);
    study_points_free(&p);
}
END_TEST

/* Every point is compared with the r0 of its own target and start. */
START_TEST(migration_has_a_reference_for_every_recompute)
{
    struct study_points p = plan_file("pipelines/studies/migration.yaml");
    for (int i = 0; i < p.count; i++) {
        if (p.point[i].recompute.granularity == RECOMPUTE_NONE)
            continue;
        int reference = points_reference(p.point, p.count, i);
        ck_assert_int_ge(reference, 0);
        ck_assert_str_eq(p.point[reference].target.name, p.point[i].target.name);
        ck_assert_int_lt(reference, i);
    }
    ck_assert_str_eq(p.point[p.count - 1].name, "l40s-r24-scratch");
    study_points_free(&p);
}
END_TEST

/* ---- names and order ---- */

#define HEAD                                                                          \
    "study: s\nmodel: {preset: tiny}\n"                                               \
    "training: {steps: 20, branch_at: 10, sequence_length: 64, micro_batch_size: 2, " \
    "global_batch_size: 4, reduction_groups: 2, lr: 1e-3}\n"                          \
    "targets:\n  - {name: a, profile: h800-sim, memory: 1GiB}\n"                      \
    "  - {name: b, profile: l40s-sim, memory: 1GiB}\n"
#define STUDY(points) HEAD "baseline: a\npoints:\n" points

START_TEST(every_setting_that_is_not_the_default_is_in_the_name)
{
    struct study_points p =
        plan_good(STUDY("  - {target: a, recompute_num_layers: [0, 2]}\n"
                        "  - {target: b, recompute_num_layers: 0}\n"
                        "  - {target: b, recompute_method: uniform, recompute_num_layers: 3}\n"
                        "  - {target: b, recompute_granularity: selective, recompute_modules: [mlp, core_attn]}\n"
                        "  - {target: b, recompute_num_layers: 4, recompute_precision: fp32}\n"
                        "  - {target: b, recompute_num_layers: 4, micro_batch_size: 4}\n"
                        "  - {target: b, recompute_num_layers: 4, start: scratch}\n"
                        "  - {target: b, recompute_num_layers: 1, arithmetic: {recompute: random}, "
                        "certificate: {on_mismatch: continue}}\n"
                        "  - {target: b, recompute_num_layers: 2, fault: 'gemm-order:mode=random,layers=0-1'}\n"
                        "  - {target: b, recompute_num_layers: 2, replicates: {seed: 1}}\n"));
    CHECK_NAMES(&p, "a-r0", "a-r2", "b-r0", "b-u3", "b-core_attn+mlp", "b-r4-fp32", "b-r0-m4", "b-r4-m4",
                "b-r0-scratch", "b-r4-scratch", "b-r1-random-recompute", "b-r2-gemm-order-mode=random-layers=0-1",
                "b-r2", "b-r2-s1");
    static const bool automatic[] = {0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0};
    for (int i = 0; i < p.count; i++)
        ck_assert_int_eq(p.automatic[i], automatic[i]);
    ck_assert_uint_eq(p.point[13].seed, 1235);
    ck_assert_uint_eq(p.point[13].arithmetic_seed, 1234);
    study_points_free(&p);
}
END_TEST

/* The r0 comes once, before its first use, and stays where it is when the study lists it later. */
START_TEST(missing_reference_is_added_before_its_point)
{
    struct study_points p = plan_good(STUDY("  - {target: b, recompute_num_layers: [2, 3]}\n"));
    CHECK_NAMES(&p, "a-r0", "b-r0", "b-r2", "b-r3");
    ck_assert(p.automatic[1] && !p.automatic[2]);
    study_points_free(&p);
    p = plan_good(STUDY("  - {target: b, recompute_num_layers: [2, 3]}\n  - {target: b, recompute_num_layers: 0}\n"));
    CHECK_NAMES(&p, "a-r0", "b-r0", "b-r2", "b-r3");
    ck_assert(!p.automatic[1]);
    study_points_free(&p);
}
END_TEST

START_TEST(entries_added_at_the_end_leave_earlier_points_alone)
{
    struct study_points before = plan_good(STUDY("  - {target: b, recompute_num_layers: 2}\n")),
                        after = plan_good(STUDY("  - {target: b, recompute_num_layers: 2}\n"
                                                "  - {target: a, recompute_num_layers: 3}\n"));
    ck_assert_int_eq(after.count, before.count + 1);
    for (int i = 0; i < before.count; i++) {
        json_t *a = point_to_json(&before.point[i]), *b = point_to_json(&after.point[i]);
        ck_assert(json_equal(a, b));
        json_decref(a);
        json_decref(b);
    }
    study_points_free(&before);
    study_points_free(&after);
}
END_TEST

START_TEST(defaults_are_what_the_table_says)
{
    struct study_points p = plan_good(STUDY("  - {target: b, recompute_num_layers: 0}\n"));
    const struct point *t = &p.point[0];
    ck_assert_uint_eq(t->seed, 1234);
    ck_assert_str_eq(t->data.source, "corpus");
    ck_assert(t->data.split[0] == 969 && t->data.split[1] == 30 && t->data.split[2] == 1);
    ck_assert(t->training.rule.beta2 == 0.95 && t->training.rule.clip == 1 && t->training.rule.min_lr == 0);
    ck_assert_int_eq(t->training.storage, BF16);
    ck_assert(t->certificate.every == 1 && t->certificate.stop);
    ck_assert(t->verdict.margin == 0.01 && t->verdict.window[0] == 0.5 && t->verdict.window[1] == 1);
    ck_assert(t->evaluate.every == 50 && t->evaluate.batches == 8 && t->checkpoint_every == 50);
    ck_assert_int_eq(t->dump_steps, 0);
    ck_assert_str_eq(t->target.partition, "local");
    ck_assert_int_eq(t->model.sequence, 64);
    study_points_free(&p);
}
END_TEST

START_TEST(preset_is_changed_by_the_keys_beside_it)
{
    struct study_points p = plan_good("study: s\nmodel: {layers: 6, preset: tiny, tied: true, hidden_dropout: 0}\n"
                                      "training: {steps: 2, sequence_length: 16, micro_batch_size: 1, "
                                      "global_batch_size: 1, lr: 1}\n"
                                      "targets: [{name: a, profile: exact, memory: 1GiB}]\nbaseline: a\npoints: []\n");
    const struct model_shape *m = &p.point[0].model;
    ck_assert_int_eq(p.count, 1);
    ck_assert_str_eq(m->preset, "tiny");
    ck_assert(m->layers == 6 && m->tied && m->hidden_dropout == 0 && m->hidden == 32 && m->sequence == 16);
    study_points_free(&p);
}
END_TEST

/* 60 MiB hold r32 and not r8, which stays in the plan as such; an r0 that does not fit either is not added. */
START_TEST(point_that_does_not_fit_stays_and_says_so)
{
    struct study_points p = plan_good("study: s\nmodel: {preset: demo}\n"
                                      "training: {steps: 2, branch_at: 1, sequence_length: 256, micro_batch_size: 4, "
                                      "global_batch_size: 4, lr: 1}\n"
                                      "targets:\n  - {name: a, profile: exact, memory: 1GiB}\n"
                                      "  - {name: b, profile: exact, memory: 60MiB}\nbaseline: a\n"
                                      "points: [{target: b, recompute_num_layers: [8, 32]}]\n");
    CHECK_NAMES(&p, "a-r0", "b-r8", "b-r32");
    ck_assert(!p.point[1].fits && p.point[2].fits);
    ck_assert_uint_gt(p.point[1].planned_bytes, 60 << 20);
    ck_assert_uint_le(p.point[2].planned_bytes, 60 << 20);
    study_points_free(&p);
}
END_TEST

/* Each rank keeps the whole optimizer, the gradients of its own groups, and its part of each sequence. */
START_TEST(ranks_share_gradients_and_context)
{
    struct study_points p = plan_good("study: s\nmodel: {preset: demo}\n"
                                      "training: {steps: 2, branch_at: 1, sequence_length: 256, micro_batch_size: 1, "
                                      "global_batch_size: 4, reduction_groups: 4, lr: 1}\n"
                                      "targets:\n  - {name: a, profile: exact, memory: 1GiB}\n"
                                      "  - {name: b, profile: exact, memory: 1GiB, dp: 4, cp: 2}\nbaseline: a\n"
                                      "points: [{target: b, recompute_num_layers: 0}]\n");
    ck_assert_int_eq(p.point[1].target.dp, 4);
    ck_assert_uint_eq(p.point[0].planned_activation_bytes, 2 * p.point[1].planned_activation_bytes);
    uint64_t group = sizeof(float) * (uint64_t)shape_elements(&p.point[0].model);
    uint64_t saved = p.point[0].planned_bytes - p.point[1].planned_bytes;
    ck_assert_uint_gt(saved, 3 * group + p.point[1].planned_activation_bytes);
    ck_assert_uint_lt(saved, 5 * group);
    study_points_free(&p);
}
END_TEST

/* ---- strictness ---- */

/* A study with one thing wrong; the line it is in, and what must be said. */
static const struct {
    const char *text;
    int line;
    const char *said;
} wrongs[] = {
    {"", 1, "is empty"},
    {"# nothing\n", 1, "is empty"},
    {"- study\n", 1, "expected keys and values"},
    {"study: [\n", 2, "is not YAML"},
    {"study: s\n\tseed: 1\n", 2, "is not YAML"},
    {"study: \"\\xff\n", 2, "is not YAML"},
    {"study: &x s\n", 1, "anchors and aliases"},
    {"study: s\nbaseline: *x\n", 2, "anchors and aliases"},
    {"study: !!str s\n", 1, "tags"},
    {"%YAML 1.1\n---\nstudy: s\n", 1, "directives"},
    {STUDY("  - {target: a, recompute_num_layers: 1}\n---\nstudy: t\n"), 11, "a second document"},
    {STUDY("  - {target: a, recompute_num_layers: 1}\n") "studdy: t\n", 10,
     "unknown key 'studdy'; there are study, seed"},
    {STUDY("  - {target: a, recompute_num_layers: 1}\n") "study: t\n", 10,
     "key 'study' is there twice, first in line 1"},
    {"study: s\n", 1, "model is missing"},
    {"study: s\nmodel: {preset: tiny}\n", 1, "training is missing"},
    {"study: 12\n", 1, "study '12': expected a text; put it in quotes"},
    {"study: ~\n", 1, "expected a text"},
    {"study: ''\n", 1, "expected a text that is not empty"},
    {"study: a/b\n", 1, "becomes part of file names"},
    {"study: a--b\n", 1, "becomes part of file names"},
    {"study: \"a\\0b\"\n", 1, "expected a single value"},
    {"study: [s]\n", 1, "study: expected a single value, not a list"},
    {"study: s\nseed: 2e2\n", 2, "seed '2e2': expected a whole number"},
    {"study: s\nseed: 12abc\n", 2, "seed '12abc': expected a whole number"},
    {"study: s\nseed: 1.0\n", 2, "seed '1.0': expected a whole number"},
    {"study: s\nseed: -1\n", 2, "seed '-1': expected a whole number from 0"},
    {"study: s\nseed: 99999999999999999999\n", 2, "expected a whole number"},
    {"study: s\nseed: '12'\n", 2, "seed '12': expected a value without quotes"},
    {"study: s\nseed:\n", 2, "seed '': expected a whole number"},
    {"study: s\nmodel: tiny\n", 2, "model 'tiny': expected {key: value, ...}"},
    {"study: s\nmodel: {preset: [tiny]}\ntraining: {}\ntargets: []\nbaseline: a\npoints: []\n", 2, "preset: expected"},
    {"study: s\nmodel: {preset: huge}\ntraining: {}\ntargets: []\nbaseline: a\npoints: []\n", 2, "preset 'huge'"},
    {"study: s\nmodel: {hidden: 8}\ntraining: {}\ntargets: []\nbaseline: a\npoints: []\n", 2,
     "give a preset, or the checkpoint to start from"},
    {"study: s\nmodel:\n  preset: tiny\n  heads: 3\ntraining: {steps: 2, sequence_length: 4, micro_batch_size: 1, "
     "global_batch_size: 1, lr: 1}\ntargets: [{name: a, profile: exact, memory: 1GiB}]\nbaseline: a\npoints: []\n",
     3, "heads 3: must divide hidden 32"},
    {"study: s\nmodel: {preset: tiny}\ntraining:\n  steps: 10\n  lr: fast\ntargets: []\nbaseline: a\npoints: []\n", 4,
     "training.sequence_length is missing"},
    {"study: s\nmodel: {preset: tiny}\ntraining: {steps: 0}\ntargets: []\nbaseline: a\npoints: []\n", 3,
     "steps '0': expected a whole number from 1"},
    {HEAD "baseline: a\npoints: {}\n", 8, "points: expected a list of {key: value, ...}, not a mapping"},
    {"study: s\nmodel: {preset: tiny}\ntraining: {steps: 2, sequence_length: 4, micro_batch_size: 1, "
     "global_batch_size: 1, lr: 1}\ntargets:\n  - {name: a, profile: exact, memory: 1GiB}\n"
     "  - name: b\n    memory: 1GiB\n    profile: h900\nbaseline: a\npoints: []\n",
     8, "profile 'h900'"},
    {HEAD "baseline: c\npoints: []\n", 7, "'c' is not among the targets; there are a, b"},
    {HEAD "baseline: a\npoints: []\ndumps: {steps: [1, x]}\n", 9, "steps 'x': expected a whole number"},
    {HEAD "baseline: a\npoints: []\ndumps: {steps: [21]}\n", 9, "dumps at step 21: the run has 20 steps"},
    {HEAD "baseline: a\npoints: []\ndumps: {steps: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}\n", 9,
     "steps: a list of 17, expected at most 16"},
    {HEAD "baseline: a\npoints: []\nverdict: {window: [0.5]}\n", 9, "window: a list of 1, expected 2"},
    {HEAD "baseline: a\npoints: []\nverdict: {window: 0.5}\n", 9, "window '0.5': expected a list of numbers"},
    {HEAD "baseline: a\npoints: []\nverdict:\n  window: [0.7, 0.6]\n", 10, "must begin before it ends"},
    {HEAD "baseline: a\npoints: []\nverdict: {margin: .nan}\n", 9, "margin '.nan': expected a number"},
    {HEAD "baseline: a\npoints: []\naudit: {every: 21}\n", 9, "it divides no step from 1 to 20; write less, or 0"},
    {HEAD "baseline: a\npoints: []\ncertificate: {on_mismatch: 1}\n", 9, "expected one of: continue stop"},
    {HEAD "baseline: a\npoints: []\ncertificate: {every: 0}\n", 9, "every '0': expected a whole number from 1"},
    {HEAD "baseline: a\npoints: []\ndata: {split: 969,30,1}\n", 9,
     "unknown key '30' in data; there are source, split; quote values that contain commas"},
    {HEAD "baseline: a\npoints: []\ndata: {split: '969,30'}\n", 9, "split '969,30': expected three shares"},
    {HEAD "baseline: a\npoints: []\nreplicates: {arithmetic: 100}\n", 9, "arithmetic '100': expected"},
    {STUDY("  - a\n"), 9, "expected {key: value, ...}"},
    {STUDY("  - {recompute_num_layers: 1}\n"), 9, "points.target is missing"},
    {STUDY("  - {target: c, recompute_num_layers: 1}\n"), 9, "'c' is not among the targets"},
    {STUDY("  - {target: b}\n"), 9, "says nothing about recompute"},
    {STUDY("  - {target: b, recompute_num_layers: []}\n"), 9, "an empty list plans nothing"},
    {STUDY("  - {target: b, recompute_num_layers: 5}\n"), 9, "the model has 4 layers"},
    {STUDY("  - {target: b, recompute_num_layers: [1, 1]}\n"), 9, "point 'b-r1' is there twice, first in line 9"},
    {STUDY("  - {target: b, recompute_num_layers: all}\n"), 9, "recompute_num_layers 'all': expected a whole number"},
    {STUDY("  - {target: b, recompute_method: uniform, recompute_num_layers: 0}\n"), 9, "at least 1 layer"},
    {STUDY("  - {target: b, recompute_granularity: full}\n"), 9, "needs recompute-method"},
    {STUDY("  - {target: b, recompute_granularity: selective, recompute_num_layers: 1}\n"), 9,
     "recompute-num-layers 1 with recompute-granularity selective"},
    {STUDY("  - {target: b, recompute_granularity: selective, recompute_modules: moe}\n"), 9, "this model lacks"},
    {STUDY("  - {target: b, recompute_granularity: selective, recompute_modules: mlp, core_attn}\n"), 9,
     "; quote values that contain commas"},
    {STUDY("  - {target: b, recompute_num_layers: 1, vit_recompute_num_layers: 16}\n"), 9, "this model has no ViT"},
    {STUDY("  - {target: b, recompute_num_layers: 1, fault: bit-rot}\n"), 9, "'bit-rot' is not known"},
    {STUDY("  - {target: b, recompute_num_layers: 0, fault: rng-redrawn}\n"), 9, "would never act"},
    {STUDY("  - {target: b, recompute_num_layers: 1, fault: 'rng-redrawn:layers=9'}\n"), 9, "layers 0 to 3"},
    {STUDY("  - {target: b, recompute_num_layers: 1, fault: 'rng-redrawn:layers=2-3'}\n"), 9, "no layer from 2 to 3"},
    {STUDY("  - {target: b, recompute_num_layers: 1, fault: 'rng-redrawn:from=99'}\n"), 9, "begins at step 99"},
    {STUDY("  - {target: b, recompute_num_layers: 1, fault: 'rng-redrawn:rank=1'}\n"), 9, "there are 1"},
    {STUDY("  - {target: b, recompute_granularity: selective, recompute_modules: core_attn, fault: rng-redrawn}\n"), 9,
     "would never act"},
    {STUDY("  - {target: b, recompute_num_layers: 1, recompute_precision: fp32, fault: rng-redrawn}\n"), 9,
     "cannot be told apart"},
    {STUDY("  - {target: b, recompute_num_layers: 1, start: middle}\n"), 9, "expected one of: branch scratch"},
    {STUDY("  - {target: b, recompute_num_layers: 1, arithmetic: {recompute: to-zero}}\n"), 9, "on_mismatch: continue"},
    {STUDY("  - {target: b, recompute_num_layers: 1, arithmetic: {forward: truncated}}\n"), 9,
     "expected one of: fixed random truncating to-zero other-order"},
    {STUDY("  - {target: b, recompute_num_layers: 1, storage: fp16}\n"), 9, "expected one of: bf16 fp32"},
    {STUDY("  - {target: b, recompute_num_layers: 1, arithmetic: {backward: random}}\n"), 9,
     "unknown key 'backward' in arithmetic; there are forward, recompute"},
    {STUDY("  - {target: b, recompute_num_layers: 1, micro_batch_size: 3}\n"), 9, "must be a multiple"},
};

START_TEST(wrong_study_is_refused_with_file_and_line)
{
    char expected[64];
    struct study_points points;
    snprintf(expected, sizeof expected, "some/study.yaml:%d: ", wrongs[_i].line);
    ck_assert_int_eq(plan_text(&points, wrongs[_i].text, strlen(wrongs[_i].text)), ERR_USAGE);
    ck_said_first(expected);
    ck_said(wrongs[_i].said);
    ck_assert_ptr_null(points.point);
}
END_TEST

/* Rules between fields: training settings, and what must be said about them (all in line 3). */
static const struct {
    const char *training, *said;
} rules[] = {
    {"steps: 10, branch_at: 10, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1",
     "branch_at 10: must be less"},
    {"steps: 10, warmup_steps: 11, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1",
     "warmup_steps 11: more than"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1, min_lr: 2",
     "min_lr 2: more than lr 1"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1, beta1: 1",
     "beta1 1: must be less than 1"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1, eps: 0",
     "eps 0: must be more than 0"},
    {"steps: 10, micro_batch_size: 4, global_batch_size: 6, lr: 1", "multiple of micro_batch_size 4 times dp 2"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 6, reduction_groups: 4, lr: 1", "must divide global"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 6, reduction_groups: 3, lr: 1", "multiple of dp 2"},
    {"steps: 10, micro_batch_size: 2, global_batch_size: 12, reduction_groups: 4, lr: 1", "must hold whole reduction"},
    {"steps: 10, micro_batch_size: 1, global_batch_size: 2, reduction_groups: 2, lr: 1", "multiple of 2 x cp 4"},
};

START_TEST(contradicting_settings_are_refused)
{
    char text[1024];
    struct study_points points;
    snprintf(text, sizeof text,
             "study: s\nmodel: {preset: tiny}\ntraining: {sequence_length: %d, %s}\n"
             "targets: [{name: a, profile: exact, memory: 1GiB, dp: 2, cp: 4}]\nbaseline: a\npoints: []\n",
             _i == COUNT(rules) - 1 ? 60 : 64, rules[_i].training);
    ck_assert_int_eq(plan_text(&points, text, strlen(text)), ERR_USAGE);
    ck_said_first("some/study.yaml:3: ");
    ck_said(rules[_i].said);
}
END_TEST

START_TEST(branch_without_a_branch_step_is_refused)
{
    struct study_points points;
    static const char text[] = "study: s\nmodel: {preset: tiny}\n"
                               "training: {steps: 2, sequence_length: 8, micro_batch_size: 1, global_batch_size: 1, "
                               "lr: 1}\ntargets: [{name: a, profile: exact, memory: 1GiB}]\nbaseline: a\n"
                               "points:\n  - {target: a, recompute_num_layers: 1}\n";
    ck_assert_int_eq(plan_text(&points, text, strlen(text)), ERR_USAGE);
    ck_said("some/study.yaml:7: a-r1 branches from the baseline");
}
END_TEST

/* ---- mutations ---- */

static uint64_t next_random(uint64_t *state) { return digest_mix((*state)++); }

/* One of: a byte changed, removed, doubled; a line removed, doubled; the end cut off. */
static size_t mutate(char *text, size_t size, uint64_t *state)
{
    static const char spice[] = "{}[]:,&*!|>'\"%@`#-0123456789eE.~\t\n\\\xc3\xff abc";
    size_t at = next_random(state) % size, line = at, end = at;
    char copy[8192];
    while (line > 0 && text[line - 1] != '\n')
        line--;
    while (end < size && text[end] != '\n')
        end++;
    end += end < size;
    switch (next_random(state) % 6) {
    case 0:
        text[at] = spice[next_random(state) % (sizeof spice - 1)];
        return size;
    case 1:
        memmove(text + at, text + at + 1, size - at - 1);
        return size - 1;
    case 2:
        memmove(text + at + 1, text + at, size - at);
        return size + 1;
    case 3:
        memmove(text + line, text + end, size - end);
        return size - (end - line);
    case 4:
        memcpy(copy, text + line, end - line);
        memmove(text + end + (end - line), text + end, size - end);
        memcpy(text + end, copy, end - line);
        return size + (end - line);
    default:
        return at;
    }
}

/* 500 damaged demos: each is refused with the file's name, or is a study in its own right. */
START_TEST(mutated_study_never_crashes_and_names_the_file)
{
    char *original, text[32768];
    size_t original_size;
    int refused = 0;
    uint64_t state = 20;
    ck_ok(file_read(DEMO, 8192, &original, &original_size));
    for (int i = 0; i < 500; i++) {
        struct study_points points;
        size_t size = original_size;
        memcpy(text, original, size);
        for (uint64_t n = 1 + next_random(&state) % 3; n && size; n--)
            size = mutate(text, size, &state);
        status st = plan_text(&points, text, size);
        if (st == OK) {
            ck_assert_int_ge(points.count, 1);
        } else {
            refused++;
            ck_assert_msg(st == ERR_USAGE, "mutation %d: %d %s", i, st, status_text());
            ck_said("some/study.yaml");
        }
        study_points_free(&points);
    }
    ck_assert_int_gt(refused, 500 / 2);
    free(original);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {demo_plans_its_eight_points, 1},
        {demo_memory_falls_with_recomputed_layers_and_fits, 1},
        {migration_has_a_reference_for_every_recompute, 1},
        {every_setting_that_is_not_the_default_is_in_the_name, 1},
        {missing_reference_is_added_before_its_point, 1},
        {entries_added_at_the_end_leave_earlier_points_alone, 1},
        {defaults_are_what_the_table_says, 1},
        {preset_is_changed_by_the_keys_beside_it, 1},
        {point_that_does_not_fit_stays_and_says_so, 1},
        {ranks_share_gradients_and_context, 1},
        {wrong_study_is_refused_with_file_and_line, COUNT(wrongs)},
        {contradicting_settings_are_refused, COUNT(rules)},
        {branch_without_a_branch_step_is_refused, 1},
        {mutated_study_never_crashes_and_names_the_file, 1},
    };
    return suite_run("study", tests, COUNT(tests));
}
