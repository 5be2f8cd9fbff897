#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "stages/report/document.h"
#include "stages/report/report.h"
#include "stages/report/words.h"
#include "tests/suite.h"
#include "tests/synthetic_study.h"
#include "tests/temporary.h"

#define WEIGHTS_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WEIGHTS_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define WEIGHTS_C "cccccccccccccccccccccccccccccccc"

enum { FOLDER = 512, FIRST = 51, LAST = 200, BRANCHED = LAST - FIRST + 1, MICRO_BATCHES = 2 };

/* The demo in small: three baseline runs, four points on another target, one planted fault, one that does not fit. */
enum { BASELINE, A1, A2, R0, R2, R4, FAULT, BIG, DEMO_RUNS };
static const struct synthetic_run demo_runs[DEMO_RUNS] = {
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

static const struct synthetic_study demo = {"demo", LAST, FIRST - 1, demo_runs, DEMO_RUNS};

/* Writes the study into a new folder and loads it; the folder's path is borrowed until the next call. */
static const char *write_study(const struct synthetic_study *study)
{
    static char folder[FOLDER];
    static int count;
    char name[32];
    snprintf(name, sizeof name, "study%d", count++);
    snprintf(folder, sizeof folder, "%s", temporary_path(name));
    ck_ok(file_remove_folder(folder));
    ck_ok(file_make_folder(folder));
    synthetic_study_write(study, folder);
    return folder;
}

static void open_study(struct report *r, const struct synthetic_study *study)
{
    ck_ok(report_load_study(r, write_study(study)));
    ck_ok(report_judge(r));
}

/* A study of a baseline and runs that the caller changes; l40s has no r0 unless one is given. */
static struct synthetic_study two_runs(struct synthetic_run runs[2], const struct synthetic_run *second)
{
    runs[0] = demo_runs[BASELINE];
    runs[1] = *second;
    return (struct synthetic_study){"two", LAST, FIRST - 1, runs, 2};
}

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
    open_study(&r, &demo);
    /* 13 tensors a layer: 12 rebuilt ones and the stored input. */
    ck_assert_uint_eq(r.run[R4].expected_count, 13 * 4 * BRANCHED * MICRO_BATCHES);
    ck_assert_uint_eq(certificate_total(r.run[R4].certificate).compared, r.run[R4].expected_count);
    ck_assert(run_is_certified(&r.run[R4]));
    ck_assert(!run_is_certified(&r.run[FAULT]));
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
    open_study(&r, &study);
    ck_assert(!run_is_certified(&r.run[1]));
    ck_contains(words_certificate(text, &r.run[1]), "INCOMPLETE");
    ck_assert_int_eq(r.recommendations, 2);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "INCOMPLETE");
    report_free(&r);
}
END_TEST

/* Events were filed from the last layer down, as a backward meets them. */
START_TEST(first_mismatch_is_the_lowest_layer_of_the_first_step)
{
    struct report r;
    open_study(&r, &demo);
    const struct certificate_event *first = report_first_mismatch(&r.run[FAULT]);
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(first->step, FIRST);
    ck_assert_int_eq(first->layer, 0);
    ck_assert_int_eq(first->accused, ACCUSED_RECOMPUTE);
    ck_assert_str_eq(block_op_family(block_tensor_op(first->tensor)), "dropout");
    ck_assert_ptr_null(report_first_mismatch(&r.run[R4]));
    report_free(&r);
}
END_TEST

/* ---- contrasts ---- */

START_TEST(points_are_compared_with_r0_and_baseline)
{
    struct report r;
    open_study(&r, &demo);
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

START_TEST(policies_count_runs_of_a_family)
{
    struct report r;
    open_study(&r, &demo);
    const struct judgement *policy = &r.run[R0].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->verdict, VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(policy->baselines, 3);
    ck_assert_int_eq(policy->candidates, 1);
    ck_assert_int_gt(policy->runs_needed, 0);
    report_free(&r);
}
END_TEST

START_TEST(policies_with_replicates_decide)
{
    struct report r;
    struct synthetic_run runs[5] = {demo_runs[BASELINE], demo_runs[A1], demo_runs[A2], demo_runs[R0], demo_runs[R0]};
    runs[4].name = "l40s-r0-a1";
    runs[4].replicate = "a1";
    runs[4].gap = 0.0014;
    struct synthetic_study study = {"five", LAST, FIRST - 1, runs, 5};
    open_study(&r, &study);
    ck_assert_int_eq(r.run[4].family, 3);
    const struct judgement *policy = &r.run[3].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->candidates, 2);
    ck_assert_int_eq(policy->verdict, VERDICT_EQUIVALENT);
    ck_assert_double_eq_tol(policy->gap, 0.0012, 0.0003);
    report_free(&r);
    runs[3].gap = runs[4].gap = 0.05;
    open_study(&r, &study);
    ck_assert_int_eq(r.run[3].against_baseline.metric[METRIC_LOSS].policy.verdict, VERDICT_DIVERGED);
    report_free(&r);
}
END_TEST

START_TEST(seed_replicate_is_not_paired)
{
    struct report r;
    struct synthetic_run runs[2], seed = {.name = "h800-r0-s1", .target = "h800", .replicate = "s1", .seed = 8};
    struct synthetic_study study = two_runs(runs, &seed);
    open_study(&r, &study);
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
    ck_ok(report_load_study(&r, write_study(&study)));
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
}
END_TEST

START_TEST(changed_plan_is_refused)
{
    struct report r;
    struct synthetic_run runs[2], run = demo_runs[R2];
    struct synthetic_study study = two_runs(runs, &run);
    char folder[FOLDER];
    snprintf(folder, sizeof folder, "%s", write_study(&study));
    char path[LAYOUT_PATH];
    struct jsonl *points;
    runs[1].layers = 3;
    ck_ok(jsonl_open(&points, layout_file(path, folder, LAYOUT_POINTS), 0));
    for (int i = 0; i < 2; i++) {
        struct point p;
        synthetic_point(&p, &study, i);
        ck_ok(jsonl_append(points, point_to_json(&p)));
    }
    ck_ok(jsonl_sync(points));
    jsonl_close(points);
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
    ck_assert_int_eq(report_load_study(&r, write_study(&study)), ERR_INPUT);
    ck_said("rematch-baseline");
}
END_TEST

START_TEST(nan_loss_differs_and_is_null_in_json)
{
    struct report r;
    json_t *json;
    struct synthetic_run runs[2], run = demo_runs[R0];
    run.nan_step = 60;
    struct synthetic_study study = two_runs(runs, &run);
    open_study(&r, &study);
    ck_assert_int_eq(r.run[1].against_baseline.metric[METRIC_LOSS].pair.verdict, VERDICT_DIFFERS);
    ck_ok(report_json(&json, &r));
    json_t *pair = json_object_get(
        json_object_get(json_object_get(json_array_get(json_object_get(json, "points"), 1), "against_baseline"),
                        "loss"),
        "pair");
    ck_assert(json_is_null(json_object_get(pair, "gap")));
    ck_contains(json_string_value(json_object_get(pair, "reason")), "step 60");
    json_decref(json);
    report_free(&r);
}
END_TEST

/* ---- records given as files ---- */

START_TEST(files_with_one_name_are_replicates)
{
    struct report r;
    const char *folder = write_study(&demo);
    char path[5][LAYOUT_PATH];
    layout_record(path[0], folder, "h800-r0");
    layout_record(path[1], folder, "h800-r0-a1");
    layout_record(path[2], folder, "l40s-r0");
    layout_record(path[3], folder, "l40s-r2");
    layout_record(path[4], folder, "l40s-r4");
    struct report_file baseline[] = {{path[0], NULL}, {path[1], NULL}};
    struct report_file candidate[] = {{path[2], "mine"}, {path[3], "mine"}, {path[4], NULL}};
    ck_ok(report_load_files(&r, baseline, 2, candidate, 3));
    ck_ok(report_judge(&r));
    ck_assert_int_eq(r.run[1].family, 0);
    ck_assert_int_eq(r.run[3].family, 2);
    ck_assert_int_eq(r.run[4].family, 4);
    ck_assert_str_eq(r.run[2].name, "mine");
    ck_assert_str_eq(r.run[3].name, "mine #2");
    ck_assert_str_eq(r.run[4].name, "l40s-r4");
    const struct judgement *policy = &r.run[2].against_baseline.metric[METRIC_LOSS].policy;
    ck_assert_int_eq(policy->baselines, 2);
    ck_assert_int_eq(policy->candidates, 2);
    report_free(&r);
}
END_TEST

/* ---- report.json ---- */

static void has_keys(const json_t *object, const char *keys)
{
    char list[512], *rest = NULL;
    snprintf(list, sizeof list, "%s", keys);
    for (char *key = strtok_r(list, " ", &rest); key; key = strtok_r(NULL, " ", &rest))
        ck_assert_msg(json_object_get(object, key) != NULL, "no key '%s'", key);
}

START_TEST(json_has_the_whole_schema)
{
    struct report r;
    json_t *json;
    open_study(&r, &demo);
    ck_ok(report_json(&json, &r));
    has_keys(json, "study points recommendation");
    json_t *points = json_object_get(json, "points");
    ck_assert_uint_eq(json_array_size(points), DEMO_RUNS);
    for (int i = 0; i < DEMO_RUNS; i++)
        has_keys(json_array_get(points, (size_t)i),
                 "name target replicate fault module recompute vit_recompute start steps certificate cause against "
                 "against_baseline scores tokens_per_s activation_bytes planned_activation_bytes peak_bytes "
                 "weights_digest");
    json_t *fault = json_array_get(points, FAULT);
    has_keys(json_object_get(fault, "recompute"), "granularity method num_layers modules precision");
    json_t *certificate = json_object_get(fault, "certificate");
    has_keys(certificate, "compared expected_count mismatched expected_mismatched first");
    has_keys(json_object_get(certificate, "first"), "step layer op rank accused");
    ck_assert_int_eq(json_integer_value(json_object_get(certificate, "mismatched")), 2 * BRANCHED * MICRO_BATCHES);
    json_t *against = json_object_get(fault, "against");
    has_keys(against, "point loss held_out grad_norm");
    json_t *loss = json_object_get(against, "loss");
    has_keys(loss, "pair policy margin");
    has_keys(json_object_get(loss, "pair"), "verdict gap low high detectable");
    has_keys(json_object_get(loss, "policy"), "verdict gap low high detectable replicates");
    ck_assert_str_eq(json_string_value(json_object_get(fault, "fault")), "rng-redrawn");
    ck_assert(json_is_null(json_object_get(fault, "cause")));
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(points, A1), "replicate")), "a1");
    ck_assert(json_is_null(json_object_get(json_array_get(points, BIG), "certificate")));
    has_keys(json_array_get(json_object_get(json, "recommendation"), 0),
             "target recompute_num_layers micro_batch_size why");
    json_decref(json);
    report_free(&r);
}
END_TEST

static char *json_text_of(const struct report *r)
{
    json_t *json;
    ck_ok(report_json(&json, r));
    char *text = json_dumps(json, JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(json);
    return text;
}

START_TEST(stable_json_leaves_out_what_is_measured)
{
    struct report r;
    open_study(&r, &demo);
    char *full = json_text_of(&r);
    r.stable = true;
    char *stable = json_text_of(&r);
    static const char *const measured[] = {"tokens_per_s", "peak_bytes", "\"seconds\"", "environment"};
    for (int i = 0; i < COUNT(measured); i++) {
        ck_contains(full, measured[i]);
        ck_assert_ptr_null(strstr(stable, measured[i]));
    }
    /* Written again from the same inputs: the same bytes. */
    report_free(&r);
    open_study(&r, &demo);
    r.stable = true;
    char *again = json_text_of(&r);
    ck_assert_str_eq(stable, again);
    free(full);
    free(stable);
    free(again);
    report_free(&r);
}
END_TEST

/* ---- recommendations ---- */

START_TEST(recommendation_is_the_fewest_harmless_layers)
{
    struct report r;
    struct synthetic_run runs[4] = {demo_runs[BASELINE], demo_runs[R0], demo_runs[R2], demo_runs[R4]};
    struct synthetic_study study = {"four", LAST, FIRST - 1, runs, 4};
    open_study(&r, &study);
    ck_assert_int_eq(r.recommendations, 2);
    ck_assert_int_eq(r.recommendation[1].run, 1);
    report_free(&r);

    runs[1].too_large = true; /* r0 does not fit: r2 is the fewest */
    open_study(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, 2);
    ck_contains(r.recommendation[1].why, "0 of 7,800 tensors mismatched");
    ck_contains(r.recommendation[1].why, "simulated");
    report_free(&r);

    runs[2].mismatch_step = FIRST; /* and r2 is refuted */
    open_study(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, 3);
    ck_contains(r.recommendation[1].why, "not l40s-r2");
    report_free(&r);

    runs[3].gap = 0.05; /* and r4 differs */
    open_study(&r, &study);
    ck_assert_int_eq(r.recommendation[1].run, -1);
    ck_contains(r.recommendation[1].why, "loss DIFFERS from h800-r0");
    report_free(&r);
}
END_TEST

START_TEST(configuration_names_flags_and_evidence)
{
    struct report r;
    char *text, path[LAYOUT_PATH], folder[FOLDER];
    size_t size;
    struct synthetic_run runs[2], run = demo_runs[R2];
    struct synthetic_study study = two_runs(runs, &run);
    open_study(&r, &study);
    snprintf(folder, sizeof folder, "%s", temporary_path("configs"));
    ck_ok(report_configs(&r, folder));
    ck_ok(file_read(layout_file(path, folder, "l40s.yaml"), 1 << 16, &text, &size));
    ck_contains(text, "--recompute-granularity full --recompute-method block --recompute-num-layers 2 ");
    ck_contains(text, "\nrecompute_num_layers: 2\n");
    ck_contains(text, "\nevidence: l40s-r2\n");
    ck_contains(text, "# l40s (simulated)");
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(fail_on_finds_verdicts_and_mismatches)
{
    struct report r;
    open_study(&r, &demo);
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

/* ---- texts ---- */

START_TEST(markup_is_escaped)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    html_escape(out, "<a href=\"x\">&'</a>");
    fclose(out);
    ck_assert_str_eq(text, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
    free(text);

    out = open_memstream(&text, &size);
    struct document d = {.out = out, .markup = MARKDOWN};
    document_paragraph(&d, "%s", "a|b *c* `d` <e>\nf");
    fclose(out);
    ck_assert_str_eq(text, "a\\|b \\*c\\* \\`d\\` &lt;e> f\n\n");
    free(text);
}
END_TEST

static char *html_of(const struct report *r)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    status st = report_html(out, r, temporary_path("library"));
    fclose(out);
    ck_ok(st);
    return text;
}

static void write_library(const char *script)
{
    char path[LAYOUT_PATH], folder[FOLDER];
    snprintf(folder, sizeof folder, "%s", temporary_path("library"));
    ck_ok(file_make_folder(folder));
    ck_ok(file_write(layout_file(path, folder, "dygraph.min.js"), script, strlen(script)));
    ck_ok(file_write(layout_file(path, folder, "dygraph.min.css"), "/* css */", 9));
}

START_TEST(html_is_one_file_without_foreign_markup)
{
    struct report r;
    write_library("/* the library */");
    open_study(&r, &demo);
    snprintf(r.run[R0].name, sizeof r.run[R0].name, "</script><b>\xe2\x80\xa8");
    char *html = html_of(&r);
    ck_contains(html, "/* the library */");
    ck_assert_ptr_null(strstr(html, "{{"));
    ck_assert_ptr_null(strstr(html, "http://"));
    ck_assert_ptr_null(strstr(html, "https://"));
    ck_assert_ptr_null(strstr(html, "<b>"));
    ck_assert_ptr_null(strstr(html, "alert(1)</script>")); /* a host's name in environment.json */
    ck_contains(html, "&lt;/script&gt;&lt;b&gt;");
    ck_contains(html, "\\u003c/script>\\u003cb>\\u2028");
    int scripts = 0;
    for (const char *at = html; (at = strstr(at, "</script>")); at++)
        scripts++;
    ck_assert_int_eq(scripts, 3);
    free(html);
    report_free(&r);
}
END_TEST

START_TEST(missing_or_hostile_library_is_refused)
{
    struct report r;
    char *text = NULL;
    size_t size;
    open_study(&r, &demo);
    FILE *out = open_memstream(&text, &size);
    ck_assert_int_eq(report_html(out, &r, temporary_path("nowhere")), ERR_IO);
    ck_said("apt-get install libjs-dygraphs");
    write_library("\"</script><script>\"");
    ck_assert_int_eq(report_html(out, &r, temporary_path("library")), ERR_INPUT);
    fclose(out);
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(markdown_states_the_findings)
{
    struct report r;
    char *text = NULL;
    size_t size;
    open_study(&r, &demo);
    FILE *out = open_memstream(&text, &size);
    report_markdown(out, &r);
    fclose(out);
    /* 13 tensors x (2 + 4) layers x 150 steps x 2 micro-batches */
    ck_contains(text, "bit-exact in 2 of 2 points without a planted fault (l40s-r2, l40s-r4): all "
                      "23,400 recomputed tensors");
    ck_contains(text, "l40s-r2-rng-redrawn carries the planted fault rng-redrawn and was caught");
    ck_contains(text, "Cards were simulated");
    ck_contains(text, "Not measured: l40s-r1.");
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(words_group_and_scale)
{
    char text[WORDS];
    ck_assert_str_eq(words_count(text, 0), "0");
    ck_assert_str_eq(words_count(text, 999), "999");
    ck_assert_str_eq(words_count(text, 2995200), "2,995,200");
    ck_assert_str_eq(words_count(text, UINT64_MAX), "18,446,744,073,709,551,615");
    ck_assert_str_eq(words_bytes(text, 1023), "1023 B");
    ck_assert_str_eq(words_bytes(text, (uint64_t)48 << 30), "48.00 GiB");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {expected_count_equals_plan_for_every_policy, 1},
        {certificate_of_block_is_complete_and_clean, 1},
        {certificate_that_lacks_a_step_is_not_recommended, 1},
        {first_mismatch_is_the_lowest_layer_of_the_first_step, 1},
        {points_are_compared_with_r0_and_baseline, 1},
        {policies_count_runs_of_a_family, 1},
        {policies_with_replicates_decide, 1},
        {seed_replicate_is_not_paired, 1},
        {incomparable_runs_are_refused, 1},
        {changed_plan_is_refused, 1},
        {missing_baseline_is_an_error, 1},
        {nan_loss_differs_and_is_null_in_json, 1},
        {files_with_one_name_are_replicates, 1},
        {json_has_the_whole_schema, 1},
        {stable_json_leaves_out_what_is_measured, 1},
        {recommendation_is_the_fewest_harmless_layers, 1},
        {configuration_names_flags_and_evidence, 1},
        {fail_on_finds_verdicts_and_mismatches, 1},
        {markup_is_escaped, 1},
        {html_is_one_file_without_foreign_markup, 1},
        {missing_or_hostile_library_is_refused, 1},
        {markdown_states_the_findings, 1},
        {words_group_and_scale, 1},
    };
    return suite_run("report", tests, COUNT(tests));
}
