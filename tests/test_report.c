/* Reports, what is written: JSON, configurations, HTML and markdown. */
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "stages/report/document.h"
#include "stages/report/report.h"
#include "stages/report/words.h"
#include "tests/suite.h"
#include "tests/synthetic_study.h"
#include "tests/temporary.h"

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
    synthetic_study_judge(&r, &demo);
    ck_ok(report_json(&json, &r));
    has_keys(json, "study points recommendation tests");
    json_t *points = json_object_get(json, "points");
    ck_assert_uint_eq(json_array_size(points), DEMO_RUNS);
    for (int i = 0; i < DEMO_RUNS; i++)
        has_keys(json_array_get(points, (size_t)i),
                 "name target replicate fault module recompute vit_recompute start steps planned_steps certificate "
                 "cause against "
                 "against_baseline scores tokens_per_s activation_bytes planned_activation_bytes peak_bytes "
                 "weights_digest");
    json_t *fault = json_array_get(points, FAULT);
    has_keys(json_object_get(fault, "recompute"), "granularity method num_layers modules precision");
    json_t *certificate = json_object_get(fault, "certificate");
    has_keys(certificate, "proof every compared expected_count mismatched expected_mismatched first");
    has_keys(json_object_get(certificate, "first"), "step micro_batch layer op rank accused");
    ck_assert_int_eq(json_integer_value(json_object_get(certificate, "mismatched")), 2 * BRANCHED * MICRO_BATCHES);
    json_t *against = json_object_get(fault, "against");
    has_keys(against, "point loss held_out grad_norm");
    json_t *loss = json_object_get(against, "loss");
    has_keys(loss, "pair policy margin");
    has_keys(
        json_object_get(loss, "pair"),
        "verdict gap low high detectable effective first_step last_step reason inside outside price onset looks_like "
        "error");
    has_keys(json_object_get(loss, "policy"),
             "verdict gap low high detectable replicates repeats floor runs_needed reason inside outside drift price");
    has_keys(json_object_get(json_object_get(loss, "pair"), "inside"), "p holm");
    has_keys(json_object_get(json_object_get(loss, "pair"), "error"), "batch_means newey_west block_bootstrap block");
    has_keys(json_object_get(against, "presets"),
             "nats-0.02 mean-rel-1 mean-rel-2 xpu-gpu megatron-approx last-step-5 rcp");
    has_keys(json_object_get(json, "tests"), "DIFFERS AGREES EQUIVALENT");
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

START_TEST(nan_loss_differs_and_is_null_in_json)
{
    struct report r;
    json_t *json;
    struct synthetic_run runs[2], run = demo_runs[R0];
    run.nan_step = 60;
    struct synthetic_study study = two_runs(runs, &run);
    synthetic_study_judge(&r, &study);
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
    synthetic_study_judge(&r, &demo);
    char *full = json_text_of(&r);
    r.stable = true;
    char *stable = json_text_of(&r);
    static const char *const measured[] = {"tokens_per_s", "peak_bytes", "\"seconds\"", "environment", "device_hours"};
    for (int i = 0; i < COUNT(measured); i++) {
        ck_contains(full, measured[i]);
        ck_assert_ptr_null(strstr(stable, measured[i]));
    }
    /* Written again from the same inputs: the same bytes. */
    report_free(&r);
    synthetic_study_judge(&r, &demo);
    r.stable = true;
    char *again = json_text_of(&r);
    ck_assert_str_eq(stable, again);
    free(full);
    free(stable);
    free(again);
    report_free(&r);
}
END_TEST

/* ---- configurations ---- */

START_TEST(configuration_names_flags_and_evidence)
{
    struct report r;
    char *text, path[LAYOUT_PATH];
    size_t size;
    const char *folder = temporary_path("configs");
    struct synthetic_run runs[2], run = demo_runs[R2];
    struct synthetic_study study = two_runs(runs, &run);
    synthetic_study_judge(&r, &study);
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

/* Not inlined: gcc 12 then takes pointers into the text for pointers to the variable that held it. */
__attribute__((noinline)) static char *html_of(const struct report *r)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ck_ok(report_html(out, r, temporary_path("library")));
    fclose(out);
    return text;
}

static void write_library(const char *script)
{
    char path[LAYOUT_PATH];
    const char *folder = temporary_path("library");
    ck_ok(file_make_folder(folder));
    ck_ok(file_write(layout_file(path, folder, "dygraph.min.js"), script, strlen(script)));
    ck_ok(file_write(layout_file(path, folder, "dygraph.min.css"), "/* css */", 9));
}

START_TEST(html_is_one_file_without_foreign_markup)
{
    struct report r;
    write_library("/* the library */");
    synthetic_study_judge(&r, &demo);
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
    synthetic_study_judge(&r, &demo);
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

/* The report in markdown on these runs. */
static char *markdown_of_runs(const struct synthetic_run *runs, int count)
{
    struct report r;
    struct synthetic_study study = {"few", LAST, FIRST - 1, runs, count};
    synthetic_study_judge(&r, &study);
    char *text = synthetic_markdown(&r);
    report_free(&r);
    return text;
}

START_TEST(markdown_states_the_findings)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    char *text = synthetic_markdown(&r);
    /* 13 tensors x (2 + 4) layers x 150 steps x 2 micro-batches */
    ck_contains(text, "bit-exact in 2 of 2 points without a planted fault (l40s-r2, l40s-r4): all "
                      "23,400 compared tensors");
    ck_contains(text, "l40s-r2-rng-redrawn carries the planted fault rng-redrawn and was caught");
    ck_contains(text, "Cards were simulated");
    ck_contains(text, "Not measured: l40s-r1.");
    ck_contains(text, "|l40s-r2-rng-redrawn (planted fault)|");
    ck_assert_ptr_null(strstr(text, "Expected"));
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(findings_name_what_proves_nothing)
{
    struct synthetic_run runs[4] = {demo_runs[BASELINE], demo_runs[R2], demo_runs[R4], demo_runs[FAULT]};
    runs[1].every = 150, runs[1].stops_at = 140;
    runs[2].fp32 = true, runs[2].mismatch_step = FIRST;
    runs[3].mismatch_step = 0;
    char *text = markdown_of_runs(runs, 4);
    ck_assert_ptr_null(strstr(text, "Recompute was bit-exact"));
    ck_contains(text, "Whether recompute was bit-exact in l40s-r2 is not known: not certified");
    ck_contains(text, "Recompute in l40s-r4 runs in FP32, so it differs by design: 1,200 of 15,600 tensors differ as "
                      "announced");
    ck_contains(text, "rng-redrawn, which left no mismatch in 7,800 compared tensors");
    free(text);
}
END_TEST

START_TEST(findings_name_runs_that_failed)
{
    struct synthetic_run runs[2] = {demo_runs[BASELINE], demo_runs[R2]};
    runs[0].nan_step = runs[1].nan_step = 60;
    runs[1].stops_at = 150;
    char *text = markdown_of_runs(runs, 2);
    ck_contains(text, "The baseline itself diverged at step 60 (loss is not finite)");
    ck_contains(text, "l40s-r2 stopped at step 150 of 200");
    ck_contains(text, "|l40s-r2 (stopped at step 150 of 200)|");
    free(text);
}
END_TEST

START_TEST(findings_tell_a_log_from_a_training)
{
    struct synthetic_run runs[2] = {demo_runs[BASELINE], demo_runs[R0]};
    runs[1].factor = 2;
    char *text = markdown_of_runs(runs, 2);
    ck_contains(text, "The loss of l40s-r0 against h800-r0 looks like: a factor of 2");
    ck_contains(text, "That need not be a difference of training");
    free(text);
}
END_TEST

START_TEST(findings_count_the_tests)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    char *text = synthetic_markdown(&r), sentence[128];
    const struct multiplicity *m = &r.multiplicity[TESTS_AGREES];
    ck_assert_int_gt(m->claims, 0);
    snprintf(sentence, sizeof sentence, "This pair, AGREES: %d claims at 5 %% each in %d tests", m->claims, m->tests);
    ck_contains(text, sentence);
    ck_contains(text, "to decide: 1 more run, ");
    ck_contains(text, "device hours");
    free(text);
    r.stable = true;
    text = synthetic_markdown(&r);
    ck_contains(text, "to decide: 1 more run.");
    ck_assert_ptr_null(strstr(text, "device hours"));
    free(text);
    report_free(&r);
}
END_TEST

START_TEST(gates_are_named_with_their_weakness)
{
    char *text = markdown_of_runs(demo_runs, DEMO_RUNS);
    ck_contains(text, "## Other people's gates");
    for (int i = 0; i < PRESETS; i++)
        ck_contains(text, preset_rule(i)->name);
    ck_contains(text, "Weakness: one step, and its noise.");
    free(text);
}
END_TEST

START_TEST(findings_say_when_there_are_none)
{
    char *text = markdown_of_runs(demo_runs, 1);
    ck_contains(text, "Only the baseline was measured");
    free(text);
    text = markdown_of_runs(demo_runs, 3);
    ck_contains(text, "Only the baseline and its replicates were measured");
    free(text);
}
END_TEST

/* What a run was made on is in its record; the profile's name is a name. */
START_TEST(simulation_is_told_by_the_backend)
{
    static const struct {
        const char *backend, *profile;
        bool simulated;
    } rows[] = {{"cpu", "exact", true},     {"reference", "exact", true}, {NULL, "h800-sim", true},
                {NULL, "exact", true},      {"cuda", "exact", false},     {"cpu", "h800-sim", true},
                {"cuda", "h800-sim", false}};
    for (int i = 0; i < COUNT(rows); i++) {
        struct report r;
        struct synthetic_run run = demo_runs[BASELINE];
        run.backend = rows[i].backend;
        run.profile = rows[i].profile;
        struct synthetic_study study = {"one", LAST, FIRST - 1, &run, 1};
        synthetic_study_judge(&r, &study);
        ck_assert_int_eq(run_is_simulated(&r.run[0]), rows[i].simulated);
        char *text = synthetic_markdown(&r);
        ck_assert_int_eq(strstr(text, "Cards were simulated") != NULL, rows[i].simulated);
        free(text);
        report_free(&r);
    }
}
END_TEST

/* usage.json says 12.5 s and 1 token a second: that was the last session. */
START_TEST(speed_is_over_all_sessions)
{
    struct report r;
    synthetic_study_judge(&r, &demo);
    ck_assert_double_eq(r.run[R2].usage.seconds, BRANCHED * 256.0 / SYNTHETIC_SPEED);
    ck_assert_double_eq(r.run[R2].usage.tokens_per_s, SYNTHETIC_SPEED);
    ck_assert_uint_eq(r.run[R2].usage.peak_bytes, 1 << 30);
    report_free(&r);
}
END_TEST

START_TEST(gaps_are_drawn_for_equal_batches_only)
{
    struct report r;
    struct synthetic_run runs[2], seed = {.name = "h800-r0-s1", .target = "h800", .replicate = "s1", .seed = 8};
    struct synthetic_study study = two_runs(runs, &seed);
    write_library("/* the library */");
    synthetic_study_judge(&r, &study);
    char *html = html_of(&r);
    ck_contains(html, "\"paired\":[true,false]");
    free(html);
    report_free(&r);
}
END_TEST

START_TEST(planted_faults_have_no_coloured_verdicts)
{
    struct report r;
    write_library("/* the library */");
    struct synthetic_run runs[3] = {demo_runs[BASELINE], demo_runs[R0], demo_runs[FAULT]};
    struct synthetic_study study = {"three", LAST, FIRST - 1, runs, 3};
    runs[2].gap = demo_runs[R0].gap;
    synthetic_study_judge(&r, &study);
    ck_assert_int_eq(r.run[2].against_baseline.metric[METRIC_LOSS].pair.verdict, VERDICT_AGREES);
    char *html = html_of(&r);
    char *row = strstr(html, "<td>l40s-r2-rng-redrawn<br><small>planted fault</small></td>");
    ck_assert_ptr_nonnull(row);
    char *end = strstr(row, "</tr>");
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    ck_contains(row, "<span class=\"verdict subdued\"");
    ck_assert_ptr_null(strstr(row, "class=\"verdict AGREES\""));
    free(html);
    report_free(&r);
}
END_TEST

START_TEST(gap_that_rounds_to_zero_has_no_sign)
{
    char text[WORDS];
    struct judgement j = {.verdict = VERDICT_AGREES, .gap = -1e-7, .low = -2e-5, .high = 0.001};
    ck_assert_str_eq(words_gap(text, &j), "0.00000 [-0.00002, +0.00100]");
    j.gap = 1e-7;
    ck_assert_str_eq(words_gap_short(text, &j), "0.00000 \u00b1 0.00051");
}
END_TEST

START_TEST(names_that_do_not_fit_are_counted)
{
    char name[64], all[4096] = "";
    for (int count = 1; count <= 80; count++) {
        struct names names = {0};
        size_t used = 0;
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "point-with-a-long-name-%02d", i);
            names_add(&names, name);
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", name);
        }
        const char *text = names_text(&names);
        int shown = 1;
        for (const char *c = text; *c; c++)
            shown += *c == ',';
        if (names.more) {
            snprintf(name, sizeof name, " and %d more", count - shown);
            ck_contains(text, name);
        } else
            ck_assert_str_eq(text, all);
    }
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
        {json_has_the_whole_schema, 1},
        {nan_loss_differs_and_is_null_in_json, 1},
        {stable_json_leaves_out_what_is_measured, 1},
        {configuration_names_flags_and_evidence, 1},
        {markup_is_escaped, 1},
        {html_is_one_file_without_foreign_markup, 1},
        {missing_or_hostile_library_is_refused, 1},
        {markdown_states_the_findings, 1},
        {findings_name_what_proves_nothing, 1},
        {findings_name_runs_that_failed, 1},
        {findings_tell_a_log_from_a_training, 1},
        {findings_count_the_tests, 1},
        {gates_are_named_with_their_weakness, 1},
        {findings_say_when_there_are_none, 1},
        {simulation_is_told_by_the_backend, 1},
        {speed_is_over_all_sessions, 1},
        {gaps_are_drawn_for_equal_batches_only, 1},
        {planted_faults_have_no_coloured_verdicts, 1},
        {gap_that_rounds_to_zero_has_no_sign, 1},
        {names_that_do_not_fit_are_counted, 1},
        {words_group_and_scale, 1},
    };
    return suite_run("report", tests, COUNT(tests));
}
