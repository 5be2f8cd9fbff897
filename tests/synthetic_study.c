#include "tests/synthetic_study.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "model/certificate.h"
#include "stages/layout.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static double noise_at(uint64_t seed, int64_t step)
{
    return (double)(digest_mix(seed ^ (uint64_t)step) >> 11) * 0x1p-52 - 1;
}

/* ---- points ---- */

void synthetic_point(struct point *out, const struct synthetic_study *study, int index)
{
    const struct synthetic_run *run = &study->run[index];
    struct point *p = out;
    *p = (struct point){.index = index, .baseline = run->baseline, .seed = run->seed ? run->seed : 7};
    snprintf(p->study, sizeof p->study, "%s", study->name);
    snprintf(p->name, sizeof p->name, "%s", run->name);
    snprintf(p->target.name, sizeof p->target.name, "%s", run->target);
    const char *profile = run->target[0] == 'h' ? "h800-sim" : "l40s-sim";
    snprintf(p->target.profile, sizeof p->target.profile, "%s", run->profile ? run->profile : profile);
    strcpy(p->target.partition, "local");
    p->target.memory_bytes = (uint64_t)48 << 30;
    p->target.dp = p->target.cp = 1;
    ck_ok(shape_preset(&p->model, "tiny"));
    p->model.layers = run->model_layers ? run->model_layers : SYNTHETIC_LAYERS;
    if (run->checkpoint) {
        memset(p->model.preset, 0, sizeof p->model.preset);
        strcpy(p->checkpoint.path, "models/llama");
        strcpy(p->checkpoint.hash, run->checkpoint);
    }
    p->model.ffn = run->hidden ? 2 * p->model.ffn : p->model.ffn;
    strcpy(p->data.source, "corpus");
    p->data.split[0] = 969, p->data.split[1] = 30, p->data.split[2] = 1;
    p->training.rule = (struct optimizer_rule){
        .steps = study->steps, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1};
    p->training.branch_at = study->branch_at;
    p->training.sequence_length = 64;
    p->training.micro_batch_size = run->micro_batch ? run->micro_batch : 2;
    p->training.global_batch_size = 4;
    p->training.reduction_groups = 2;
    p->training.storage = BF16;
    p->evaluate.every = study->steps;
    p->evaluate.batches = SYNTHETIC_SEQUENCES / 4;
    p->checkpoint_every = 50;
    p->certificate.every = run->every ? run->every : 1;
    p->verdict.margin = 0.01;
    p->verdict.grad_norm_margin = 0.05;
    p->verdict.window[0] = 0.5, p->verdict.window[1] = 1;
    const char *method = run->method == METHOD_UNIFORM ? "uniform" : "block";
    char modules[64];
    recompute_modules_name(run->modules, modules);
    const char *precision = run->fp32 ? "fp32" : NULL;
    if (run->modules)
        ck_ok(recompute_parse(&p->recompute, "selective", NULL, -1, modules, precision));
    else
        ck_ok(recompute_parse(&p->recompute, "full", method, run->layers, NULL, precision));
    p->vit_recompute.precision = BF16;
    snprintf(p->replicate, sizeof p->replicate, "%s", run->replicate ? run->replicate : "");
    if (run->draws)
        p->dial = (struct arithmetic_dial){ARITHMETIC_RANDOM, ARITHMETIC_RANDOM};
    snprintf(p->fault_text, sizeof p->fault_text, "%s", run->fault ? run->fault : "");
    ck_ok(fault_parse(&p->fault, p->fault_text));
    p->scratch = run->scratch || run->baseline;
    p->planned_activation_bytes = (uint64_t)(SYNTHETIC_LAYERS + 1 - run->layers) << 20;
    p->planned_bytes = run->too_large ? (uint64_t)50 << 30 : ((uint64_t)30 << 30) + p->planned_activation_bytes;
    p->fits = p->planned_bytes <= p->target.memory_bytes;
}

/* ---- members ---- */

static void add_json(struct record_writer *w, const char *member, json_t *json, bool measured)
{
    char *text = json_dumps(json, JSON_SORT_KEYS);
    ck_assert_ptr_nonnull(text);
    ck_ok(record_add(w, member, text, strlen(text), measured));
    free(text);
    json_decref(json);
}

static void add_metrics(struct record_writer *w, const struct synthetic_run *run, const char *file, int64_t first,
                        int64_t last)
{
    struct jsonl *j;
    ck_ok(jsonl_open(&j, file, 0));
    /* Names that begin alike and are as long share their noise: r0, r2 and r4 of a target have the same bits. */
    for (int64_t step = first; step <= last; step++) {
        double own = run->noise * noise_at(digest_mix((uint64_t)run->name[0] + strlen(run->name)), step);
        struct metric m = {.step = step, .learning_rate = 1e-3, .tokens = 256};
        m.loss = 2 + 3 * exp(-(double)step / 60) + 0.05 * noise_at(1, step) + own;
        m.loss += (step < run->gap_step ? 0 : run->gap) + run->drift * (double)(step - FIRST);
        m.loss *= run->factor != 0 ? run->factor : 1;
        m.grad_norm = 0.8 * exp(0.2 * noise_at(2, step) + own);
        if (step == run->nan_step || (run->nan_on && step > run->nan_step))
            m.loss = NAN;
        ck_ok(metric_append(j, &m));
    }
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    ck_ok(record_add_file(w, "metrics.jsonl", file, false));
}

static void add_evaluations(struct record_writer *w, const struct synthetic_run *run, const char *file, int64_t step)
{
    struct jsonl *j;
    double loss[SYNTHETIC_SEQUENCES];
    for (int i = 0; i < SYNTHETIC_SEQUENCES; i++)
        loss[i] = 2.5 + 0.3 * noise_at(3, i) + run->gap + run->noise * noise_at(strlen(run->name), i);
    struct evaluation e = {.step = step, .sequences = SYNTHETIC_SEQUENCES, .loss = loss};
    struct score score = {.step = step, .file = "a<b>&.c", .tokens = 1000, .lines = 100, .lines_right = 20};
    score.tokens_right = 600 - (int64_t)(run->gap * 1000);
    ck_ok(jsonl_open(&j, file, 0));
    ck_ok(evaluation_append(j, &e));
    ck_ok(score_append(j, &score));
    strcpy(score.file, "b.c");
    ck_ok(score_append(j, &score));
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    ck_ok(record_add_file(w, "evaluations.jsonl", file, false));
}

/* 256 tokens a step. */
static void add_timing(struct record_writer *w, const char *file, int64_t first, int64_t last)
{
    struct jsonl *j;
    ck_ok(jsonl_open(&j, file, 0));
    for (int64_t step = first; step <= last; step++)
        ck_ok(jsonl_append(j, json_pack("{s:I, s:f, s:f}", "step", (json_int_t)step, "seconds", 256.0 / SYNTHETIC_SPEED,
                                        "tokens_per_s", (double)SYNTHETIC_SPEED)));
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    ck_ok(record_add_file(w, "timing.jsonl", file, true));
}

/* What a correct notary would have counted. */
static void add_certificate(struct record_writer *w, const struct synthetic_run *run, const struct point *p,
                            int64_t first, int64_t last)
{
    struct recompute_plan *plan;
    struct certificate *c;
    void *bytes;
    size_t size;
    int64_t steps = last / p->certificate.every - (first - 1) / p->certificate.every;
    uint64_t micro_batches = (uint64_t)(steps - (run->lost_step != 0)) * 2;
    ck_ok(recompute_plan_make(&plan, &p->recompute, p->model.layers));
    ck_ok(certificate_new(&c, p->model.layers, run->fp32));
    for (int l = 0; l < plan->layers; l++)
        for (enum block_tensor t = 0; t < BLOCK_TENSORS; t++)
            if (t == TENSOR_INPUT ? plan->layer[l].verifies_input : recompute_is_rebuilt(plan, l, t))
                certificate_at(c, l, t)->compared = micro_batches;
    for (int l = plan->layers - 1; run->mismatch_step && l >= 0; l--) {
        if (!recompute_runs(plan, l))
            continue;
        uint64_t differ = (uint64_t)(last - run->mismatch_step + 1) * 2;
        struct certificate_cell *cell = certificate_at(c, l, TENSOR_MIDDLE);
        *(run->fp32 ? &cell->expected : &cell->mismatched) = differ;
        if (run->fp32)
            continue; /* what is announced is no event */
        c->event[c->event_count++] = (struct certificate_event){.step = run->mismatch_step,
                                                                .layer = l,
                                                                .tensor = TENSOR_MIDDLE,
                                                                .accused = ACCUSED_RECOMPUTE,
                                                                .tiles = 2,
                                                                .tiles_differing = 2};
        c->event_total++;
    }
    ck_ok(certificate_write(c, &bytes, &size));
    ck_ok(record_add(w, "certificate.bin", bytes, size, false));
    free(bytes);
    certificate_free(c);
    recompute_plan_free(plan);
}

static uint64_t name_hash(const char *name)
{
    uint64_t hash = 0;
    for (; *name; name++)
        hash = digest_mix(hash ^ (unsigned char)*name);
    return hash;
}

static void write_record(const struct synthetic_study *study, int index, const char *folder)
{
    const struct synthetic_run *run = &study->run[index];
    struct record_writer *w;
    struct point p;
    char path[LAYOUT_PATH], file[LAYOUT_PATH];
    synthetic_point(&p, study, index);
    int64_t first = p.scratch ? 1 : study->branch_at + 1, last = run->stops_at ? run->stops_at : study->steps;
    char weights[40];
    snprintf(weights, sizeof weights, "%032" PRIx64, name_hash(run->name));
    ck_ok(record_create(&w, layout_record(path, folder, run->name)));
    layout_file(file, folder, "series.jsonl");
    add_json(w, "config.json", point_to_json(&p), false);
    json_t *environment = json_pack("{s:s, s:i}", "host", "<script>alert(1)</script>", "threads", 2);
    if (run->backend)
        json_object_set_new(environment, "backend", json_string(run->backend));
    add_json(w, "environment.json", environment, true);
    add_json(w, "plans.json", json_pack("[s, s]", "gemm_nt 64x64x64 ascending", "attention 64"), false);
    add_json(w, "result.json",
             json_pack("{s:I, s:I, s:s, s:s, s:I, s:I, s:I}", "steps_done", (json_int_t)last, "first_step",
                       (json_int_t)first, "weights_digest", run->weights ? run->weights : weights, "shard",
                       run->shard ? run->shard : "5eed", "planned_activation_bytes",
                       (json_int_t)p.planned_activation_bytes, "activation_bytes",
                       (json_int_t)p.planned_activation_bytes, "expected_compared", (json_int_t)0),
             false);
    add_json(w, "usage.json",
             json_pack("{s:i, s:i, s:f, s:f}", "peak_bytes", 1 << 30, "resident_bytes", 1 << 29, "seconds", 12.5,
                       "tokens_per_s", 1.0),
             true);
    add_metrics(w, run, file, first, last);
    add_evaluations(w, run, file, last);
    add_timing(w, file, first, last);
    add_certificate(w, run, &p, first, last);
    ck_ok(record_seal(w));
    remove(file);
}

void synthetic_points_write(const struct synthetic_study *study, const char *folder)
{
    char path[LAYOUT_PATH];
    struct jsonl *points;
    ck_ok(jsonl_open(&points, layout_file(path, folder, LAYOUT_POINTS), 0));
    for (int i = 0; i < study->runs; i++) {
        struct point p;
        synthetic_point(&p, study, i);
        ck_ok(jsonl_append(points, point_to_json(&p)));
    }
    ck_ok(jsonl_sync(points));
    jsonl_close(points);
}

const char *synthetic_study_write(const struct synthetic_study *study)
{
    const char *folder = temporary_path("study");
    char path[LAYOUT_PATH];
    ck_ok(file_remove_folder(folder));
    ck_ok(file_make_folder(layout_file(path, folder, "records")));
    synthetic_points_write(study, folder);
    for (int i = 0; i < study->runs; i++)
        if (!study->run[i].absent && !study->run[i].too_large)
            write_record(study, i, folder);
    return folder;
}

void synthetic_study_judge(struct report *r, const struct synthetic_study *study)
{
    ck_ok(report_load_study(r, synthetic_study_write(study)));
    ck_ok(report_judge(r));
}

/* ---- studies ---- */

#define WEIGHTS_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WEIGHTS_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define WEIGHTS_C "cccccccccccccccccccccccccccccccc"

const struct synthetic_run demo_runs[DEMO_RUNS] = {
    [BASELINE] = {.name = "h800-r0", .target = "h800", .baseline = true, .weights = WEIGHTS_A},
    [A1] = {.name = "h800-r0-a1", .target = "h800", .replicate = "a1", .gap = 0.0003, .noise = 0.001},
    [A2] = {.name = "h800-r0-a2", .target = "h800", .replicate = "a2", .gap = -0.0004, .noise = 0.001},
    [R0] = {.name = "l40s-r0", .target = "l40s", .gap = 0.001, .noise = 0.002, .weights = WEIGHTS_B},
    [R2] = {.name = "l40s-r2", .target = "l40s", .layers = 2, .gap = 0.001, .noise = 0.002, .weights = WEIGHTS_B},
    [R4] = {.name = "l40s-r4", .target = "l40s", .layers = 4, .gap = 0.001, .noise = 0.002, .weights = WEIGHTS_B},
    [FAULT] = {.name = "l40s-r2-rng-redrawn",
               .target = "l40s",
               .layers = 2,
               .fault = "rng-redrawn",
               .gap = 0.05,
               .noise = 0.002,
               .mismatch_step = FIRST,
               .weights = WEIGHTS_C},
    [BIG] = {.name = "l40s-r1", .target = "l40s", .layers = 1, .too_large = true},
};

const struct synthetic_study demo = {"demo", LAST, FIRST - 1, demo_runs, DEMO_RUNS};

struct synthetic_study two_runs(struct synthetic_run runs[2], const struct synthetic_run *second)
{
    runs[0] = demo_runs[BASELINE];
    runs[1] = *second;
    return (struct synthetic_study){"two", LAST, FIRST - 1, runs, 2};
}

char *synthetic_markdown(const struct report *r)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    report_markdown(out, r);
    fclose(out);
    return text;
}
