#include "stages/report/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/record.h"

/* ---- the file ---- */

status log_is_record(bool *out, const char *path)
{
    static const char *const suffixes[] = {RECORD_SUFFIX, ".rematch.tar"};
    size_t length = strlen(path);
    for (int i = 0; i < 2; i++)
        if (length > strlen(suffixes[i]) && !strcmp(path + length - strlen(suffixes[i]), suffixes[i])) {
            *out = true;
            return OK;
        }
    *out = false;
    return file_exists(path) ? logs_is_archive(out, path) : OK;
}

/* The file of "FILE#RUN", malloc'ed: the shortest beginning that is one. *run is behind the '#', NULL: none. */
static char *split_run(const char *path, const char **run)
{
    *run = NULL;
    if (file_exists(path))
        return strdup(path);
    for (const char *hash = path; (hash = strchr(hash, '#')); hash++) {
        char *file = strndup(path, (size_t)(hash - path));
        if (!file || file_exists(file)) {
            *run = hash + 1;
            return file;
        }
        free(file);
    }
    return strdup(path);
}

/* ---- a run from its series ---- */

static double in_nats(const struct log_series *s, double value) { return s->unit == LOG_BITS ? value * M_LN2 : value; }

static status no_loss(const struct run_log *log)
{
    char names[512] = "";
    size_t used = 0;
    for (int i = 0; i < log->run->series_count && used < sizeof names; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? "', '" : "", log->run->series[i].name);
    return FAIL(ERR_INPUT, "'%s': none of what it holds is known as the loss: '%s'; call the column of the loss 'loss'",
                log->logs.path, names);
}

/* At every step of the loss; a few of them would leave nothing to pair. */
static bool covers(const struct log_series *s, const struct log_series *loss)
{
    bool all = s && s->count >= loss->count;
    for (int64_t i = 0, k = 0; all && i < loss->count; i++) {
        while (k < s->count && s->point[k].step < loss->point[i].step)
            k++;
        all = k < s->count && s->point[k].step == loss->point[i].step;
    }
    return all;
}

static double value_at(const struct log_series *s, int64_t step, int64_t *from)
{
    while (s && *from < s->count && s->point[*from].step < step)
        ++*from;
    return s && *from < s->count && s->point[*from].step == step ? s->point[*from].value : NAN;
}

static status fill_metrics(struct run *run)
{
    const struct run_log *log = run->log;
    int64_t norm = 0, rate = 0;
    run->metric = calloc((size_t)log->loss->count, sizeof *run->metric);
    if (!run->metric)
        return FAIL(ERR_MEMORY, "'%s': no memory for %" PRId64 " steps", run->path, log->loss->count);
    run->metrics = log->loss->count;
    for (int64_t i = 0; i < run->metrics; i++) {
        int64_t step = log->loss->point[i].step;
        run->metric[i] = (struct metric){.step = step,
                                         .loss = in_nats(log->loss, log->loss->point[i].value),
                                         .grad_norm = value_at(log->grad_norm, step, &norm),
                                         .learning_rate = value_at(log->learning_rate, step, &rate)};
    }
    return OK;
}

/* The mean of a held-out set stands where a record has the loss of each sequence. */
static status fill_evaluations(struct run *run)
{
    const struct log_series *s = run->log->held_out;
    struct evaluations *e = &run->evaluations;
    if (!s)
        return OK;
    e->at = calloc((size_t)s->count, sizeof *e->at);
    for (; e->at && e->count < s->count; e->count++) {
        double *loss = malloc(sizeof *loss);
        if (!loss)
            break;
        *loss = in_nats(s, s->point[e->count].value);
        e->at[e->count] = (struct evaluation){s->point[e->count].step, 1, loss};
    }
    return e->count == s->count ? OK : FAIL(ERR_MEMORY, "'%s': no memory for its evaluations", run->path);
}

/* What a point would say, as far as verdicts need it: the study file's defaults. The schedule is not known to be shorter
 * than the log, so the run counts as finished. */
static void fill_point(struct run *run, const char *path)
{
    struct point *p = &run->point;
    const char *slash = strrchr(path, '/');
    *p = (struct point){.scratch = true, .fits = true, .verdict = {0.01, 0.05, {0.5, 1}}};
    snprintf(p->study, sizeof p->study, "logs");
    snprintf(p->name, sizeof p->name, "%.120s", slash ? slash + 1 : path);
    if (!json_is_utf8(p->name))
        for (char *c = p->name; *c; c++)
            *c = (unsigned char)*c < 128 ? *c : '?';
    run->result.first_step = run->metric[0].step;
    run->result.steps_done = p->training.rule.steps = run->metric[run->metrics - 1].step;
    run->usage.tokens_per_s = run->usage.seconds = NAN;
}

static status choose_series(struct run_log *log)
{
    log->loss = log_run_series(log->run, LOG_LOSS);
    if (!log->loss || !log->loss->count)
        return no_loss(log);
    log->held_out = log_run_series(log->run, LOG_HELD_OUT);
    log->learning_rate = log_run_series(log->run, LOG_LEARNING_RATE);
    log->grad_norm = log_run_series(log->run, LOG_GRAD_NORM);
    if (!covers(log->grad_norm, log->loss))
        log->grad_norm = NULL;
    return OK;
}

status log_load(struct run *run, const char *path)
{
    status st = OK;
    const char *name;
    char *file = split_run(path, &name);
    run->path = strdup(path);
    run->log = calloc(1, sizeof *run->log);
    if (!file || !run->path || !run->log)
        TRY_DONE(FAIL(ERR_MEMORY, "'%s': no memory to read it", path));
    TRY_DONE(logs_read(&run->log->logs, file));
    TRY_DONE(logs_choose(&run->log->run, &run->log->logs, name));
    TRY_DONE(choose_series(run->log));
    TRY_DONE(fill_metrics(run));
    TRY_DONE(fill_evaluations(run));
    TRY_DONE(certificate_new(&run->certificate, 0, false));
    fill_point(run, path);
    run->state = RUN_MEASURED;
done:
    free(file);
    return st;
}

void log_free(struct run_log *log)
{
    if (log)
        logs_free(&log->logs);
    free(log);
}

/* ---- equal as printed ---- */

static const struct log_series *series_of(const struct run *run, enum gap_metric metric)
{
    if (!run->log)
        return NULL;
    return metric == METRIC_LOSS ? run->log->loss : run->log->grad_norm;
}

/* The printed point behind a value; a record's is exact. */
static struct log_point printed(const struct log_series *s, int64_t step, double value, int64_t *from)
{
    struct log_point exact = {.step = step, .value = value};
    if (!s)
        return exact;
    value_at(s, step, from);
    struct log_point p = s->point[*from];
    p.half_unit = in_nats(s, p.half_unit);
    p.value = value;
    return p;
}

int log_equal_digits(const struct run *baseline, const struct run *candidate, enum gap_metric metric,
                     const struct paired_series *series, double *candidate_values)
{
    const double slack = 1 + 1e-9; /* of half units, which are rounded themselves */
    const struct log_series *a = series_of(baseline, metric), *b = series_of(candidate, metric);
    int digits = 17;
    int64_t in_a = 0, in_b = 0;
    if ((!a && !b) || !series->count)
        return 0;
    for (int64_t i = 0; i < series->count; i++) {
        struct log_point p = printed(a, series->step[i], series->baseline[i], &in_a);
        struct log_point q = printed(b, series->step[i], series->candidate[i], &in_b);
        /* Whoever printed more digits is rounded to the other's last place. */
        double half_unit = fmax(p.half_unit, q.half_unit);
        if (!isfinite(p.value) || !isfinite(q.value) || !(fabs(p.value - q.value) <= half_unit * slack))
            return 0;
        struct log_point seen = {.value = p.value, .half_unit = half_unit};
        digits = log_digits(&seen) < digits ? log_digits(&seen) : digits;
    }
    memcpy(candidate_values, series->baseline, (size_t)series->count * sizeof *candidate_values);
    return digits;
}

double log_resolution(const struct run *run, enum gap_metric metric)
{
    const struct log_series *s = series_of(run, metric);
    double unit = 0;
    for (int64_t i = 0; s && i < s->count; i++)
        unit = fmax(unit, 2 * in_nats(s, s->point[i].half_unit));
    return unit;
}

struct log_contrast log_contrast_of(const struct run *baseline, const struct run *candidate)
{
    struct log_contrast c = {0};
    for (int64_t i = 0, k = 0; i < baseline->metrics && k < candidate->metrics;) {
        const struct metric *a = &baseline->metric[i], *b = &candidate->metric[k];
        i += a->step <= b->step;
        k += b->step <= a->step;
        if (a->step != b->step)
            continue;
        c.common++;
        if (a->loss != b->loss && !(isnan(a->loss) && isnan(b->loss)) && !c.differing++) {
            c.first = a->step;
            c.first_baseline = a->loss;
            c.first_candidate = b->loss;
        }
        if (!isfinite(a->loss) || !isfinite(b->loss))
            continue;
        double relative = fabs(b->loss - a->loss) / fabs(a->loss);
        c.mean += (relative - c.mean) / (double)++c.finite;
        if (relative > c.largest) {
            c.largest = relative;
            c.largest_at = a->step;
        }
    }
    return c;
}

void log_word_identity(struct judgement *pair, int digits)
{
    if (pair->verdict == VERDICT_IDENTICAL && digits)
        snprintf(pair->reason, sizeof pair->reason, "at the printed precision of %d digit%s", digits,
                 digits == 1 ? "" : "s");
}

void log_doubt_rounding(struct judgement *pair, double resolution, double margin)
{
    bool close = pair->verdict == VERDICT_DIFFERS
                     ? fabs(pair->gap) <= margin + resolution
                     : pair->verdict == VERDICT_AGREES || pair->verdict == VERDICT_IDENTICAL;
    if (resolution <= margin || !close)
        return;
    verdict_none(pair, VERDICT_UNDECIDED,
                 "a loss is printed in steps of %g, and the margin is %g: what the rounding hides is not known; print "
                 "more digits",
                 resolution, margin);
}

void log_word_held_out(struct judgement *pair, double baseline, double candidate)
{
    verdict_none(pair, VERDICT_UNDECIDED, "one mean of a whole set a side, %.7g against %.7g: its spread is not known",
                 candidate, baseline);
    pair->gap = candidate - baseline;
}
