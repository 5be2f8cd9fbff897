#include "stages/report/audit.h"
#include "stages/report/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *run_state_name(enum run_state s)
{
    static const char *const names[] = {"measured", "missing", "does not fit"};
    return names[s];
}

/* ---- one record ---- */

static status read_json(json_t **out, struct record *record, const char *member)
{
    const void *bytes;
    size_t size;
    TRY(record_read(record, member, &bytes, &size));
    json_error_t error;
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return FAIL(ERR_INPUT, "'%s': %s:%d: %s; the record is damaged: run the point again", record_path(record),
                    member, error.line, error.text);
    return OK;
}

static status read_result(struct run_result *out, struct record *record)
{
    status st = OK;
    json_t *object = NULL;
    json_error_t error;
    const char *weights, *shard;
    json_int_t planned, taken, compared, done, first;
    TRY(read_json(&object, record, "result.json"));
    if (json_unpack_ex(object, &error, JSON_STRICT, "{s:I, s:I, s:s, s:I, s:I, s:I, s:s}", "steps_done", &done,
                       "first_step", &first, "weights_digest", &weights, "planned_activation_bytes", &planned,
                       "activation_bytes", &taken, "expected_compared", &compared, "shard", &shard) != 0)
        st = FAIL(ERR_INPUT, "'%s': result.json: %s; the record is from another version: run the point again",
                  record_path(record), error.text);
    else {
        *out = (struct run_result){.steps_done = done,
                                   .first_step = first,
                                   .planned_activation_bytes = (uint64_t)planned,
                                   .activation_bytes = (uint64_t)taken,
                                   .expected_compared = (uint64_t)compared};
        snprintf(out->weights_digest, sizeof out->weights_digest, "%s", weights);
        snprintf(out->shard, sizeof out->shard, "%s", shard);
    }
    json_decref(object);
    return st;
}

static status read_usage(struct run_usage *out, struct record *record)
{
    status st = OK;
    json_t *object = NULL;
    json_error_t error;
    json_int_t peak, resident;
    double seconds, tokens_per_s; /* of the last session alone: see read_timing */
    TRY(read_json(&object, record, "usage.json"));
    if (json_unpack_ex(object, &error, JSON_STRICT, "{s:I, s:I, s:F, s:F}", "peak_bytes", &peak, "resident_bytes",
                       &resident, "seconds", &seconds, "tokens_per_s", &tokens_per_s) != 0)
        st = FAIL(ERR_INPUT, "'%s': usage.json: %s; the record is from another version: run the point again",
                  record_path(record), error.text);
    else {
        out->peak_bytes = (uint64_t)peak;
        out->resident_bytes = (uint64_t)resident;
    }
    json_decref(object);
    return st;
}

static status read_config(struct point *out, struct record *record)
{
    json_t *object = NULL;
    TRY(read_json(&object, record, "config.json"));
    status st = point_from_json(out, object, record_path(record));
    json_decref(object);
    return st;
}

static status read_series(struct run *run, struct record *record)
{
    const void *bytes;
    size_t size;
    char name[LAYOUT_PATH + 32];
    TRY(record_read(record, "metrics.jsonl", &bytes, &size));
    snprintf(name, sizeof name, "%s: metrics.jsonl", record_path(record));
    TRY(metrics_read(&run->metric, &run->metrics, name, bytes, size));
    TRY(record_read(record, "evaluations.jsonl", &bytes, &size));
    snprintf(name, sizeof name, "%s: evaluations.jsonl", record_path(record));
    TRY(evaluations_read(&run->evaluations, name, bytes, size));
    TRY(record_read(record, "certificate.bin", &bytes, &size));
    snprintf(name, sizeof name, "%s: certificate.bin", record_path(record));
    TRY(certificate_read(&run->certificate, name, bytes, size));
    if (run->certificate->layers != run->point.model.layers)
        return FAIL(ERR_INPUT, "'%s': certificate.bin is of %d layers, the model has %d; run the point again",
                    record_path(record), run->certificate->layers, run->point.model.layers);
    return OK;
}

/* Time of the steps that metrics.jsonl counts the tokens of. */
struct timing {
    const struct run *run;
    double seconds;
    int64_t tokens;
};

static status add_timing(void *self, json_t *object, const char *where)
{
    struct timing *timing = self;
    const struct run *run = timing->run;
    json_int_t step;
    double seconds, tokens_per_s;
    json_error_t error;
    if (json_unpack_ex(object, &error, JSON_STRICT, "{s:I, s:F, s:F}", "step", &step, "seconds", &seconds,
                       "tokens_per_s", &tokens_per_s) != 0)
        return FAIL(ERR_INPUT, "%s: %s; the record is from another version: run the point again", where, error.text);
    int64_t at = run->metrics ? step - run->metric[0].step : -1;
    if (at < 0 || at >= run->metrics)
        return FAIL(ERR_INPUT, "%s: metrics.jsonl has no step %" JSON_INTEGER_FORMAT "; run the point again", where,
                    step);
    timing->seconds += seconds;
    timing->tokens += run->metric[at].tokens;
    return OK;
}

/* Over all sessions of the run: a session knows only its own. */
static status read_timing(struct run *run, struct record *record)
{
    const void *bytes;
    size_t size;
    char name[LAYOUT_PATH + 32];
    struct timing timing = {.run = run};
    TRY(record_read(record, "timing.jsonl", &bytes, &size));
    snprintf(name, sizeof name, "%s: timing.jsonl", record_path(record));
    TRY(jsonl_each(name, bytes, size, add_timing, &timing));
    run->usage.seconds = timing.seconds;
    run->usage.tokens_per_s = timing.seconds > 0 ? (double)timing.tokens / timing.seconds : NAN;
    return OK;
}

/* Fills the run from its record; its point from config.json. */
static status load_record(struct run *run, const char *path)
{
    status st = OK;
    struct record *record = NULL;
    TRY(record_open(&record, path));
    run->path = strdup(path);
    if (!run->path)
        TRY_DONE(FAIL(ERR_MEMORY, "no memory for a path"));
    TRY_DONE(read_config(&run->point, record));
    TRY_DONE(read_series(run, record));
    TRY_DONE(read_result(&run->result, record));
    TRY_DONE(read_usage(&run->usage, record));
    TRY_DONE(read_timing(run, record));
    TRY_DONE(audit_load(run, record));
    TRY_DONE(read_json(&run->environment, record, "environment.json"));
    TRY_DONE(read_json(&run->plans, record, "plans.json"));
    run->expected_count = report_expected_count(&run->point, run->metric, run->metrics);
    run->state = RUN_MEASURED;
done:
    record_close(record);
    return st;
}

/* ---- a study ---- */

static bool points_equal(const struct point *a, const struct point *b)
{
    json_t *left = point_to_json(a), *right = point_to_json(b);
    bool equal = json_equal(left, right);
    json_decref(left);
    json_decref(right);
    return equal;
}

static bool policies_equal(const struct recompute_policy *a, const struct recompute_policy *b)
{
    return a->granularity == b->granularity && a->method == b->method && a->num_layers == b->num_layers &&
           a->modules == b->modules && a->precision == b->precision;
}

/* True for the same run but for its replicate: everything that makes a name, compared field by field. */
static bool replicates_of_each_other(const struct point *a, const struct point *b)
{
    /* The trunk covers the branch's steps too, so the baseline's branched replicates are replicates of the trunk. */
    bool same_start = a->scratch == b->scratch || a->baseline || b->baseline;
    bool same_arithmetic = a->dial.forward == b->dial.forward && a->dial.recompute == b->dial.recompute;
    bool same_target = !strcmp(a->target.name, b->target.name) && !strcmp(a->target.profile, b->target.profile);
    return policies_equal(&a->recompute, &b->recompute) && policies_equal(&a->vit_recompute, &b->vit_recompute) &&
           same_start && same_arithmetic && same_target && !strcmp(a->fault_text, b->fault_text) &&
           a->training.micro_batch_size == b->training.micro_batch_size && a->training.storage == b->training.storage;
}

/* The point that run `index` replicates, or the first of the replicates whose point is not there. */
static int find_family(const struct report *r, int index)
{
    const struct point *replicate = &r->run[index].point;
    for (int i = 0; i < r->runs; i++)
        if (!r->run[i].point.replicate[0] && replicates_of_each_other(&r->run[i].point, replicate))
            return i;
    int first = 0;
    while (!replicates_of_each_other(&r->run[first].point, replicate))
        first++;
    return first;
}

static void assign_families(struct report *r)
{
    for (int i = 0; i < r->runs; i++)
        r->run[i].family = r->run[i].point.replicate[0] ? find_family(r, i) : i;
}

static status new_runs(struct report *r, int count)
{
    r->run = calloc((size_t)count, sizeof *r->run);
    if (!r->run)
        return FAIL(ERR_MEMORY, "no memory for %d runs", count);
    r->runs = count;
    for (int i = 0; i < count; i++)
        r->run[i].against.other = r->run[i].against_baseline.other = -1;
    return OK;
}

static status load_point(struct run *run, const struct point *point, const char *folder)
{
    char path[LAYOUT_PATH];
    run->point = *point;
    run->state = point->fits ? RUN_MISSING : RUN_TOO_LARGE;
    snprintf(run->name, sizeof run->name, "%s", point->name);
    if (!file_exists(layout_record(path, folder, point->name)))
        return OK;
    TRY(load_record(run, path));
    if (!points_equal(point, &run->point))
        return FAIL(ERR_INPUT,
                    "'%s' was made from another configuration than points.jsonl line %d: remove the record and run the "
                    "point again, or plan the changed study into another folder",
                    path, point->index + 1);
    return OK;
}

status report_load_study(struct report *r, const char *folder)
{
    status st = OK;
    struct point *points = NULL;
    int count = 0;
    char path[LAYOUT_PATH];
    *r = (struct report){.baseline = -1};
    TRY_DONE(points_read(&points, &count, layout_file(path, folder, LAYOUT_POINTS)));
    TRY_DONE(new_runs(r, count));
    for (int i = 0; i < count; i++) {
        TRY_DONE(load_point(&r->run[i], &points[i], folder));
        if (points[i].baseline)
            r->baseline = i;
    }
    if (r->baseline < 0)
        TRY_DONE(FAIL(ERR_INPUT, "'%s' names no baseline: plan the study again", path));
    if (r->run[r->baseline].state != RUN_MEASURED)
        TRY_DONE(FAIL(ERR_INPUT, "'%s' has no record of the baseline: run rematch-baseline --run %s --point %s first",
                      folder, folder, r->run[r->baseline].name));
    snprintf(r->study, sizeof r->study, "%s", points[0].study);
    assign_families(r);
done:
    free(points);
    if (st != OK)
        report_free(r);
    return st;
}

/* ---- records and logs given as files ---- */

/* Families by role and given name; a name that is taken gets a number. */
static void name_file(struct report *r, int index, const char *given)
{
    struct run *run = &r->run[index];
    const char *name = given ? given : run->point.name;
    int taken = 0;
    snprintf(run->name, sizeof run->name, "%s", name);
    for (int i = 0; i < index; i++) {
        size_t length = strlen(name);
        const char *other = r->run[i].name;
        taken += !strncmp(other, name, length) && (!other[length] || !strncmp(other + length, " #", 2));
    }
    if (taken)
        snprintf(run->name, sizeof run->name, "%s #%d", name, taken + 1);
}

static status load_file(struct run *run, const char *path)
{
    bool is_record;
    TRY(log_is_record(&is_record, path));
    return is_record ? load_record(run, path) : log_load(run, path);
}

status report_load_files(struct report *r, const struct report_file *baseline, int baselines,
                         const struct report_file *candidate, int candidates)
{
    status st = OK;
    *r = (struct report){.baseline = 0};
    TRY_DONE(new_runs(r, baselines + candidates));
    for (int i = 0; i < r->runs; i++) {
        const struct report_file *file = i < baselines ? &baseline[i] : &candidate[i - baselines];
        TRY_DONE(load_file(&r->run[i], file->path));
        name_file(r, i, file->name);
        r->run[i].family = i < baselines ? 0 : i;
        for (int j = baselines; j < i && file->name; j++)
            if (candidate[j - baselines].name && !strcmp(candidate[j - baselines].name, file->name))
                r->run[i].family = r->run[j].family;
    }
    snprintf(r->study, sizeof r->study, "%s", r->run[0].point.study);
done:
    if (st != OK)
        report_free(r);
    return st;
}

void report_free(struct report *r)
{
    for (int i = 0; i < r->runs; i++) {
        struct run *run = &r->run[i];
        free(run->path);
        free(run->metric);
        evaluations_free(&run->evaluations);
        certificate_free(run->certificate);
        json_decref(run->environment);
        json_decref(run->plans);
        log_free(run->log);
        audit_unload(run->audits);
    }
    for (int i = 0; i < r->recommendations; i++)
        free(r->recommendation[i].why);
    free(r->run);
    free(r->recommendation);
    *r = (struct report){.baseline = -1};
}
