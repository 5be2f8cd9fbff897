#include "tests/small_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "data/record.h"
#include "data/safetensors.h"
#include "model/certificate.h"
#include "stages/point.h"
#include "tests/suite.h"
#include "tests/temporary.h"

enum { TENSORS_MOST = 512 };

const struct recipe plain = {.hidden = 32, .rows = ROWS, .seed = 7};

static struct point point_of(const struct recipe *r)
{
    struct point p = {
        .study = "test", .name = "here-r0", .index = 0, .baseline = true, .scratch = true, .seed = r->seed};
    strcpy(p.target.name, "here");
    strcpy(p.target.profile, "h800-sim");
    strcpy(p.target.partition, "local");
    p.target.memory_bytes = 1u << 30;
    p.target.dp = p.target.cp = 1;
    ck_ok(shape_preset(&p.model, "tiny"));
    p.model.layers = LAYERS;
    p.model.hidden = r->hidden;
    strcpy(p.data.source, "corpus");
    p.data.split[0] = 8, p.data.split[1] = p.data.split[2] = 1;
    p.training.rule = (struct optimizer_rule){.steps = STEPS, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    p.training.sequence_length = 64;
    p.training.micro_batch_size = p.training.global_batch_size = p.training.reduction_groups = 1;
    p.training.storage = BF16;
    p.evaluate.every = STEPS;
    p.evaluate.batches = SEQUENCES;
    p.checkpoint_every = STEPS;
    p.certificate.every = 1;
    p.verdict.margin = 0.01;
    p.verdict.window[1] = 1;
    p.recompute.precision = p.vit_recompute.precision = BF16;
    p.fits = true;
    return p;
}

struct tensors {
    struct named_tensor at[TENSORS_MOST];
    int count;
    float *memory[TENSORS_MOST];
};

static void add_tensor(struct tensors *t, const struct recipe *r, const char *name, const char *flipped)
{
    ck_assert_int_lt(t->count, TENSORS_MOST);
    float *values = malloc((size_t)r->rows * COLS * sizeof *values);
    for (int i = 0; i < r->rows * COLS; i++)
        values[i] = 1.0f + (float)i;
    if (flipped && !strcmp(flipped, name))
        values[5] = nextafterf(values[5], INFINITY);
    struct named_tensor *tensor = &t->at[t->count];
    *tensor = (struct named_tensor){.view = view_of(values, F32, r->rows, COLS)};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    t->memory[t->count++] = values;
}

static void add_activations(struct tensors *t, const struct recipe *r, const char *pass)
{
    char name[160];
    for (int layer = 0; layer < LAYERS; layer++)
        for (enum block_tensor b = 0; b < BLOCK_TENSORS; b++) {
            snprintf(name, sizeof name, "%s.layers.%d.%s", pass, layer, block_tensor_name(b));
            add_tensor(t, r, name, r->flipped[0] && !strcmp(r->flipped[0], name) ? name : r->flipped[1]);
        }
}

static void add_parameters(struct tensors *t, const struct recipe *r, const char *prefix, const char *flipped)
{
    struct point p = point_of(r);
    char name[160], hf[96];
    int64_t row, rows;
    for (int index = 0; index < shape_parameter_count(&p.model); index++)
        for (int i = 0; i < shape_hf_count(&p.model, index); i++) {
            shape_hf_tensor(&p.model, index, i, hf, &row, &rows);
            snprintf(name, sizeof name, "%s%s", prefix, hf);
            add_tensor(t, r, name, flipped && !strcmp(flipped, name) ? name : r->flipped[1]);
        }
}

static void add_tensors_member(struct record_writer *w, const char *member, struct tensors *t)
{
    const char *path = temporary_path("member.safetensors");
    ck_ok(safetensors_write(path, t->at, t->count, NULL));
    ck_ok(record_add_file(w, member, path, false));
    while (t->count)
        free(t->memory[--t->count]);
}

static void add_dump(struct record_writer *w, const struct recipe *r)
{
    struct tensors t = {.count = 0};
    char name[160], member[96];
    add_activations(&t, r, "forward");
    if (r->rebuilt)
        add_activations(&t, r, "recompute");
    add_parameters(&t, r, "gradient.", r->flipped[0]);
    for (int layer = 0; layer < LAYERS; layer++) {
        snprintf(name, sizeof name, "gradient.layers.%d.input", layer);
        add_tensor(&t, r, name, r->flipped[0]);
    }
    if (r->stranger)
        add_tensor(&t, r, r->stranger, NULL);
    snprintf(member, sizeof member, "dump-%d.safetensors", DUMPED);
    add_tensors_member(w, member, &t);
}

static void add_final(struct record_writer *w, const struct recipe *r)
{
    static const char *const prefixes[] = {"", "master.", "m.", "v."};
    struct tensors t = {.count = 0};
    for (int i = 0; i < 4; i++)
        add_parameters(&t, r, prefixes[i], r->flipped_final);
    add_tensors_member(w, "final.safetensors", &t);
}

static void add_series(struct record_writer *w, const struct recipe *r)
{
    char path[256];
    struct jsonl *j;
    snprintf(path, sizeof path, "%s", temporary_path("series.jsonl"));
    ck_ok(jsonl_open(&j, path, 0));
    for (int64_t step = 1; step <= STEPS; step++) {
        struct metric m = {.step = step, .loss = 1.0 / (double)step, .grad_norm = 0.5, .tokens = 64};
        if (step == r->loss_step)
            m.loss = r->loss;
        ck_ok(metric_append(j, &m));
    }
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    ck_ok(record_add_file(w, "metrics.jsonl", path, false));

    double loss[SEQUENCES] = {2, 2.25 + r->held_out, 2.5, 2.75};
    struct evaluation e = {.step = STEPS, .sequences = SEQUENCES, .loss = loss};
    ck_ok(jsonl_open(&j, path, 0));
    ck_ok(evaluation_append(j, &e));
    ck_ok(jsonl_sync(j));
    jsonl_close(j);
    ck_ok(record_add_file(w, "evaluations.jsonl", path, false));
}

static void add_certificate(struct record_writer *w, const struct recipe *r)
{
    struct certificate *c;
    void *bytes;
    size_t size;
    ck_ok(certificate_new(&c, LAYERS, false));
    if (r->rebuilt) {
        struct certificate_cell *cell = certificate_at(c, 1, TENSOR_MIDDLE);
        cell->compared = 10;
        cell->mismatched = 1;
        c->event[0] = (struct certificate_event){.step = 2, .layer = 1, .tensor = TENSOR_MIDDLE};
        c->event[0].accused = ACCUSED_RECOMPUTE;
        c->event_count = 1;
        c->event_total = 1;
    }
    ck_ok(certificate_write(c, &bytes, &size));
    ck_ok(record_add(w, "certificate.bin", bytes, size, false));
    free(bytes);
    certificate_free(c);
}

const char *record_of(const char *name, const struct recipe *r)
{
    const char *path = temporary_path(name);
    struct record_writer *w;
    struct point p = point_of(r);
    json_t *config = point_to_json(&p);
    char *text = json_dumps(config, JSON_SORT_KEYS);
    ck_ok(record_create(&w, path));
    ck_ok(record_add(w, "config.json", text, strlen(text), false));
    add_series(w, r);
    add_certificate(w, r);
    add_dump(w, r);
    add_final(w, r);
    ck_ok(record_seal(w));
    free(text);
    json_decref(config);
    return path;
}
