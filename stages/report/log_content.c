/* log_content.c - what a report says about runs from logs: a sentence for each comparison, and where it comes from. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stages/report/log.h"
#include "stages/report/words.h"

/* ---- words ---- */

const char *log_policy(const struct run *run)
{
    static _Thread_local char text[WORDS];
    const char *granularity = log_run_setting(run->log->run, "recompute_granularity");
    const char *method = log_run_setting(run->log->run, "recompute_method");
    const char *layers = log_run_setting(run->log->run, "recompute_num_layers");
    if (!granularity)
        return "not told";
    if (!strcmp(granularity, "None"))
        return "nothing";
    snprintf(text, sizeof text, "%s%s%s%s%s", granularity, method ? ", " : "", method ? method : "", layers ? ", " : "",
             layers ? layers : "");
    return text;
}

/* Digits of the last loss, which are as many as any has. */
static int loss_digits(const struct run *run)
{
    const struct log_series *s = run->log->loss;
    int digits = 0;
    for (int64_t i = s->count - 1; i >= 0 && !digits; i--)
        digits = log_digits(&s->point[i]);
    return digits;
}

static int64_t span(const struct run *run)
{
    const struct log_series *s = run->log->loss;
    return s->mean && s->interval ? s->interval : 1;
}

/* ---- findings ---- */

static const char *words_contrast(char text[WORDS], const struct run *baseline, const struct run *candidate)
{
    struct log_contrast c = log_contrast_of(baseline, candidate);
    if (!c.differing) {
        snprintf(text, WORDS, "no difference at %" PRId64 " common steps", c.common);
        return text;
    }
    size_t used = (size_t)snprintf(text, WORDS, "first difference at step %" PRId64 " (%.9g against %.9g)", c.first,
                                   c.first_candidate, c.first_baseline);
    if (c.largest > 0)
        snprintf(text + used, WORDS - used, ", largest %.3g %% at step %" PRId64 ", on average %.3g %%",
                 100 * c.largest, c.largest_at, 100 * c.mean);
    return text;
}

void log_findings(struct document *d, const struct report *r)
{
    char gap[WORDS], held_out[WORDS], contrast[WORDS];
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *c = &run->against_baseline;
        if (run->state != RUN_MEASURED || c->other < 0 || (!run->log && !r->run[c->other].log))
            continue;
        const struct judgement *loss = &c->metric[METRIC_LOSS].pair, *other = &c->metric[METRIC_HELD_OUT].pair;
        document_item(
            d,
            "%s against %s (logs, this pair): loss %s%s%s%s over steps %" PRId64 " to %" PRId64
            " (gap in nat: %s)%s%s; %s.",
            run->name, r->run[c->other].name, verdict_name(loss->verdict), *loss->reason ? " (" : "", loss->reason,
            *loss->reason ? ")" : "", loss->first, loss->last, words_gap(gap, loss),
            isnan(other->gap) ? "" : "; held-out loss, gap: ", isnan(other->gap) ? "" : words_gap(held_out, other),
            words_contrast(contrast, &r->run[c->other], run));
    }
}

/* ---- the section ---- */

static void write_log(struct document *d, const struct run *run)
{
    const struct run_log *log = run->log;
    const struct log_series *loss = log->loss;
    document_row(d);
    document_cell(d, "%s", run->name);
    document_cell(d, "%s", log->logs.format);
    document_cell(d, "%s", loss->name);
    document_cell(d, "%" PRId64 ", steps %" PRId64 " to %" PRId64, loss->count, loss->point[0].step,
                  loss->point[loss->count - 1].step);
    document_cell(d, "%d", loss_digits(run));
    document_cell(d, "%" PRId64, span(run));
    document_cell(d, "%s", log->grad_norm ? log->grad_norm->name : "-");
    document_cell(d, "%s", log->held_out ? log->held_out->name : "-");
    document_row_end(d);
}

struct noted {
    struct document *d;
    const struct run *a, *b;
};

static status write_difference(void *self, const char *key, const char *group, const char *a, const char *b)
{
    const struct noted *n = self;
    document_item(n->d, "%s and %s differ%s%s%s in %s: %s against %s.", n->a->name, n->b->name,
                  *group ? ", as --allow " : "", group, *group ? " admits," : "", key, a, b);
    return OK;
}

static void write_notes(struct document *d, const struct run *run)
{
    const struct log_run *log = run->log->run;
    for (int i = 0; i < log->notes; i++)
        document_item(d, "%s: %s.", run->name, log->note[i]);
    if (log->planned_steps > run->result.steps_done)
        document_item(d,
                      "%s: its schedule has %" PRId64 " steps, and the log ends with step %" PRId64
                      ": what comes behind is not judged.",
                      run->name, log->planned_steps, run->result.steps_done);
    if (log_run_series(log, LOG_GRAD_NORM) && !run->log->grad_norm)
        document_item(d, "%s: gradient norms are not printed at every step of the loss, and are left out.", run->name);
}

void log_section(struct document *d, const struct report *r)
{
    static const char *const titles[] = {"Run",     "Program",        "Loss",          ">Values",
                                         ">Digits", ">Steps a value", "Gradient norm", "Held-out loss"};
    bool any = false;
    for (int i = 0; i < r->runs; i++)
        any |= r->run[i].log != NULL;
    if (!any)
        return;
    document_heading(d, 2, "Logs");
    document_paragraph(d, "These runs are known from what their trainers printed: rounded numbers, and no certificate. "
                          "Settings that a log does not tell could not be compared.");
    document_table(d, titles, sizeof titles / sizeof *titles);
    for (int i = 0; i < r->runs; i++)
        if (r->run[i].log)
            write_log(d, &r->run[i]);
    document_table_end(d);
    document_list(d);
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        struct noted noted = {d, run, run->against_baseline.other >= 0 ? &r->run[run->against_baseline.other] : NULL};
        if (run->log)
            write_notes(d, run);
        if (noted.b && (run->log || noted.b->log))
            log_differences(run, noted.b, write_difference, &noted);
    }
    document_list_end(d);
}

/* ---- report.json ---- */

json_t *log_json(const struct run *run)
{
    const struct run_log *log = run->log;
    json_t *notes = json_array();
    for (int i = 0; i < log->run->notes; i++)
        json_array_append_new(notes, json_string(log->run->note[i]));
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:s?, s:s?, s:o, s:o}", "format", log->logs.format, "run",
                     log->run->name, "loss", log->loss->name, "digits", loss_digits(run), "steps_per_value",
                     (json_int_t)span(run), "unit", log->loss->unit == LOG_BITS ? "bits" : "nats", "grad_norm",
                     log->grad_norm ? log->grad_norm->name : NULL, "held_out",
                     log->held_out ? log->held_out->name : NULL, "notes", notes, "planned_steps",
                     log->run->planned_steps ? json_integer(log->run->planned_steps) : json_null());
}
