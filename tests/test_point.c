/* Points: written and read back exactly, and strict about what is read. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "stages/point.h"
#include "tests/suite.h"
#include "tests/temporary.h"

/* A point in which every field has a value of its own, none of them a default; the model has a preset. */
static struct point full_point(void)
{
    struct point p = {.study = "migration",
                      .name = "l40s-r3-fp32-gemm-order-mode=random-layers=1-2",
                      .index = 0,
                      .baseline = false,
                      .target = {"l40s", "l40s-sim", "gpu", 48ull << 30, 2, 4}};
    ck_ok(shape_preset(&p.model, "tiny"));
    p.model.hidden_dropout = 0.3f;
    p.model.norm_eps = FLT_MIN;
    p.model.tied = true;
    p.model.sequence = 64;
    strcpy(p.data.source, "a path/with \"quotes\" and \xc3\xa4");
    p.data.split[0] = 8;
    p.data.split[2] = 2;
    p.training = (struct point_training){.rule = {.steps = 1000,
                                                  .warmup_steps = 7,
                                                  .lr = 0.1,
                                                  .min_lr = 1e-300,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0x1.fffffffffffffp-1,
                                                  .eps = DBL_MIN,
                                                  .weight_decay = 1.0 / 3,
                                                  .clip = 0},
                                         .branch_at = 500,
                                         .sequence_length = 64,
                                         .micro_batch_size = 2,
                                         .global_batch_size = 16,
                                         .reduction_groups = 4,
                                         .storage = F32};
    p.evaluate.every = 9;
    p.evaluate.batches = 3;
    p.checkpoint_every = 11;
    p.dump_step[0] = 1;
    p.dump_step[1] = 999;
    p.dump_steps = 2;
    p.audit.every = 14;
    p.audit.frozen = 15;
    p.certificate.every = 13;
    p.verdict.margin = 0.02;
    p.verdict.grad_norm_margin = 0.06;
    p.verdict.window[0] = 0.25;
    p.verdict.window[1] = 0.75;
    p.recompute = (struct recompute_policy){RECOMPUTE_FULL, METHOD_BLOCK, 3, 0, F32};
    strcpy(p.replicate, "a2");
    p.seed = 1ull << 53;
    p.arithmetic_seed = 77;
    p.dial.forward = ARITHMETIC_RANDOM;
    strcpy(p.fault_text, "gemm-order:mode=random,layers=1-2");
    ck_ok(fault_parse(&p.fault, p.fault_text));
    p.scratch = true;
    p.planned_bytes = 123456789012;
    p.planned_activation_bytes = 1234567;
    return p;
}

static json_t *json_of(const struct point *p)
{
    json_t *object = point_to_json(p);
    ck_assert_ptr_nonnull(object);
    return object;
}

START_TEST(point_survives_json_exactly)
{
    struct point written = full_point(), read = {0};
    json_t *object = json_of(&written);
    char *text = json_dumps(object, JSON_COMPACT);
    json_t *again = json_loads(text, 0, NULL);
    ck_ok(point_from_json(&read, again, "points.jsonl:1"));
    /* Field by field: what the second JSON says, and the bits of what JSON could round. */
    json_t *second = json_of(&read);
    ck_assert(json_equal(object, second));
    ck_assert_mem_eq(&read.training, &written.training, sizeof read.training);
    ck_assert_mem_eq(&read.model, &written.model, sizeof read.model);
    ck_assert_mem_eq(&read.fault, &written.fault, sizeof read.fault);
    ck_assert_mem_eq(&read.verdict, &written.verdict, sizeof read.verdict);
    ck_assert_mem_eq(&read.target, &written.target, sizeof read.target);
    ck_assert_str_eq(read.data.source, written.data.source);
    ck_assert_uint_eq(read.seed, 1ull << 53);
    ck_assert_int_eq(read.recompute.precision, F32);
    ck_assert_int_eq(read.dump_step[1], 999);
    ck_assert(read.dial.forward == ARITHMETIC_RANDOM && read.dial.recompute == ARITHMETIC_FIXED &&
              !read.certificate.stop && read.scratch);
    json_decref(object);
    json_decref(again);
    json_decref(second);
    free(text);
}
END_TEST

static const struct {
    struct recompute_policy policy;
    bool stop;
} policies[] = {
    {{RECOMPUTE_NONE, METHOD_NONE, 0, 0, BF16}, true},
    {{RECOMPUTE_FULL, METHOD_UNIFORM, 2, 0, BF16}, true},
    {{RECOMPUTE_SELECTIVE, METHOD_NONE, 0, MODULE_MLP | MODULE_CORE_ATTN, BF16}, true},
    {{RECOMPUTE_SELECTIVE, METHOD_NONE, 0, MODULE_LAYERNORM, F32}, false},
};

static struct point plain_point(void)
{
    struct point p = full_point();
    p.dial.forward = ARITHMETIC_FIXED;
    p.recompute.precision = BF16;
    *p.fault_text = *p.replicate = '\0';
    ck_ok(fault_parse(&p.fault, ""));
    return p;
}

START_TEST(every_policy_survives_json)
{
    struct point written = plain_point(), read;
    written.recompute = policies[_i].policy;
    written.certificate.stop = policies[_i].stop;
    json_t *object = json_of(&written);
    ck_ok(point_from_json(&read, object, "x:1"));
    ck_assert_mem_eq(&read.recompute, &written.recompute, sizeof read.recompute);
    ck_assert_int_eq(read.certificate.stop, policies[_i].stop);
    json_decref(object);
}
END_TEST

#define HASH "00112233445566778899aabbccddeeff"

START_TEST(checkpoint_survives_json)
{
    struct point written = plain_point(), read;
    memset(written.model.preset, 0, sizeof written.model.preset);
    strcpy(written.checkpoint.path, "models/a llama");
    strcpy(written.checkpoint.hash, HASH);
    json_t *object = json_of(&written);
    ck_ok(point_from_json(&read, object, "x:1"));
    ck_assert_mem_eq(&read.checkpoint, &written.checkpoint, sizeof read.checkpoint);
    ck_assert_str_eq(read.model.preset, "");
    json_object_set_new(object, "checkpoint_hash", json_null());
    ck_assert_int_eq(point_from_json(&read, object, "x:1"), ERR_INPUT);
    ck_said("x:1: checkpoint_hash '': expected the 32 digits of checkpoint 'models/a llama'");
    json_decref(object);
}
END_TEST

/* ---- what is refused ---- */

/* A field set to some JSON (NULL: taken away), and what the message must say. */
static const struct {
    const char *section, *name, *json, *said;
} damages[] = {
    {NULL, "study", NULL, "\"study\": expected a value, and it is missing"},
    {NULL, "baseline", "1", "\"baseline\": expected true or false"},
    {NULL, "index", "-1", "\"index\": expected a whole number from 0 to"},
    {NULL, "index", "0.5", "\"index\": expected a whole number"},
    {NULL, "name", "\"a/b\"", "\"name\": expected a name of letters"},
    {NULL, "name", "\"\"", "\"name\": expected a text"},
    {NULL, "start", "\"middle\"", "\"start\": expected branch scratch"},
    {NULL, "fault", "\"bit-rot\"", "'bit-rot' is not known"},
    {NULL, "checkpoint_hash", "\"" HASH "\"", "checkpoint_hash '" HASH "': expected"},
    {"model", "preset", "null", "model: expected one of preset and checkpoint"},
    {"model", "checkpoint", "\"models/a\"", "model: expected one of preset and checkpoint"},
    {NULL, "surprise", "1", "unknown field \"surprise\""},
    {NULL, "target", "[]", "\"target.name\""},
    {NULL, "target", NULL, "\"target.name\": expected a value"},
    {NULL, "planned_bytes", "1", "fits: false"},
    {"training", "surprise", "1", "unknown field \"training.surprise\""},
    {"training", "steps", "\"250\"", "\"training.steps\": expected a whole number"},
    {"training", "lr", "0.1", "\"lr\""},
    {"training", "lr", "\"0.1\"", "\"lr\" is '0.1', expected a hex float"},
    {"training", "lr", "\"nan\"", "\"training.lr\": expected a number from 0"},
    {"training", "lr", "\"inf\"", "\"training.lr\": expected a number from 0"},
    {"training", "storage", "\"fp16\"", "\"training.storage\": expected bf16 fp32"},
    {"training", "micro_batch_size", "3", "global_batch_size 16: must be a multiple of micro_batch_size 3"},
    {"model", "hidden_dropout", "\"0x1.3333333333333p-2\"", "a single-precision number"},
    {"model", "heads", "3", "heads 3: must divide hidden 32"},
    {"data", "split", "\"9,1\"", "\"data.split\": expected three shares"},
    {"data", "split", "\"0,0,0\"", "\"data.split\": expected three shares"},
    {"dumps", "steps", "[1, \"2\"]", "\"dumps.steps\": expected a whole number"},
    {"dumps", "steps", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "\"dumps.steps\": expected a list"},
    {"dumps", "steps", "[1001]", "dumps at step 1001"},
    {"verdict", "window", "[\"0x0p+0\"]", "\"verdict.window\": expected a list"},
    {"verdict", "window", "[\"0x1p-1\", \"0x1p-1\"]", "must begin before it ends"},
    {"recompute", "modules", "\"mlp\"", "recompute-modules 'mlp' with recompute-granularity full"},
    {"recompute", "modules", "\"moe\"", "\"recompute.modules\": expected modules"},
    {"recompute", "num_layers", "5", "the model has 4 layers"},
    {"recompute", "num_layers", "0", "recomputes no layer"},
    {"recompute", "method", "null", "needs recompute-method"},
    {"recompute", "granularity", "null", "would recompute nothing"},
};

START_TEST(damaged_point_is_refused_with_file_line_and_field)
{
    struct point p = plain_point(), untouched;
    json_t *object = json_of(&p), *section = object;
    if (damages[_i].section)
        section = json_object_get(object, damages[_i].section);
    if (damages[_i].json)
        json_object_set_new(section, damages[_i].name, json_loads(damages[_i].json, JSON_DECODE_ANY, NULL));
    else
        json_object_del(section, damages[_i].name);
    memset(&untouched, 0x5a, sizeof untouched);
    ck_assert_int_eq(point_from_json(&untouched, object, "runs/S/points.jsonl:3"), ERR_INPUT);
    ck_said_first("runs/S/points.jsonl:3: ");
    ck_said(damages[_i].said);
    ck_assert_int_eq(untouched.study[0], 0x5a);
    json_decref(object);
}
END_TEST

/* ---- points.jsonl ---- */

/* Three points: the trunk, and two that differ by name. */
static void write_points(const char *path, const char *second_name, int second_index, bool second_baseline)
{
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < 3; i++) {
        struct point p = plain_point();
        p.index = i == 1 ? second_index : i;
        p.baseline = i == 0 || (i == 1 && second_baseline);
        if (p.baseline)
            p.recompute = (struct recompute_policy){.precision = BF16};
        snprintf(p.name, sizeof p.name, "%s", i == 0 ? "trunk" : i == 1 ? second_name : "third");
        json_t *object = json_of(&p);
        json_dumpf(object, out, JSON_COMPACT);
        putc('\n', out);
        json_decref(object);
    }
    ck_assert_int_eq(fclose(out), 0);
}

START_TEST(points_are_read_and_found_by_name)
{
    const char *path = temporary_path("points.jsonl");
    struct point *points;
    const struct point *found;
    int count;
    write_points(path, "second", 1, false);
    ck_ok(points_read(&points, &count, path));
    ck_assert_int_eq(count, 3);
    ck_ok(points_find(&found, points, count, "third", path));
    ck_assert_ptr_eq(found, &points[2]);
    ck_assert_int_eq(points_find(&found, points, count, "fourth", path), ERR_USAGE);
    ck_said("has no point 'fourth'; there are trunk, second, third");
    free(points);
}
END_TEST

static const struct {
    const char *name;
    int index;
    bool baseline;
    const char *said;
} disorders[] = {
    {"trunk", 1, false, ":2: 'trunk' is line 1 as well"},
    {"second", 2, false, ":2: \"index\" is 2, expected 1"},
    {"second", 1, true, ":2: the baseline is the first line and no other"},
};

START_TEST(points_out_of_order_are_refused)
{
    const char *path = temporary_path("points.jsonl");
    struct point *points;
    int count;
    write_points(path, disorders[_i].name, disorders[_i].index, disorders[_i].baseline);
    ck_assert_int_eq(points_read(&points, &count, path), ERR_INPUT);
    ck_said(disorders[_i].said);
}
END_TEST

static const struct {
    const char *text, *said;
} foreign[] = {{"", "holds no points"}, {"{}\n", ":1: \"study\""}, {"{", ":1: "}, {"study: demo\n", ":1: "}};

START_TEST(points_of_two_studies_are_refused)
{
    const char *path = temporary_path("points.jsonl");
    char *text;
    size_t size;
    struct point *points;
    int count;
    write_points(path, "second", 1, false);
    ck_ok(file_read(path, 1 << 20, &text, &size));
    char *name = strstr(strchr(text, '\n'), "\"study\":\"") + strlen("\"study\":\"");
    *name ^= 1;
    ck_ok(file_write(path, text, size));
    free(text);
    ck_assert_int_eq(points_read(&points, &count, path), ERR_INPUT);
    ck_said(":2: is of study '");
}
END_TEST

START_TEST(foreign_points_file_is_refused)
{
    const char *path = temporary_path("points.jsonl");
    struct point *points;
    int count;
    ck_ok(file_write(path, foreign[_i].text, strlen(foreign[_i].text)));
    ck_assert_int_eq(points_read(&points, &count, path), ERR_INPUT);
    ck_said(path);
    ck_said(foreign[_i].said);
}
END_TEST

/* ---- references ---- */

START_TEST(reference_stores_everything_and_is_otherwise_alike)
{
    struct point p = plain_point(), other;
    other = p;
    other.recompute = (struct recompute_policy){.precision = BF16};
    ck_assert(point_is_reference(&other, &p));
    ck_assert(!point_is_reference(&p, &other));
    other.scratch = false;
    ck_assert(!point_is_reference(&other, &p));
    other.scratch = true;
    other.training.micro_batch_size = 4;
    ck_assert(!point_is_reference(&other, &p));
    other.training.micro_batch_size = 2;
    strcpy(other.target.name, "h800");
    ck_assert(!point_is_reference(&other, &p));
}
END_TEST

START_TEST(trunk_is_the_reference_of_branches)
{
    struct point points[2] = {plain_point(), plain_point()};
    points[0].recompute = (struct recompute_policy){.precision = BF16};
    points[1].scratch = false;
    ck_assert_int_eq(points_reference(points, 2, 1), -1);
    points[0].baseline = true;
    ck_assert_int_eq(points_reference(points, 2, 1), 0);
    ck_assert_int_eq(points_reference(points, 2, 0), -1);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {point_survives_json_exactly, 1},
        {every_policy_survives_json, COUNT(policies)},
        {checkpoint_survives_json, 1},
        {damaged_point_is_refused_with_file_line_and_field, COUNT(damages)},
        {points_are_read_and_found_by_name, 1},
        {points_out_of_order_are_refused, COUNT(disorders)},
        {points_of_two_studies_are_refused, 1},
        {foreign_points_file_is_refused, COUNT(foreign)},
        {reference_stores_everything_and_is_otherwise_alike, 1},
        {trunk_is_the_reference_of_branches, 1},
    };
    return suite_run("point", tests, COUNT(tests));
}
