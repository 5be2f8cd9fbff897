/* details.c - what stands beside the verdicts, and decides nothing. */
#include <inttypes.h>
#include <math.h>

#include "stages/report/content.h"
#include "stages/report/words.h"

#define COLUMNS(titles) (titles), (int)(sizeof(titles) / sizeof *(titles))

typedef void contrast_writer(struct document *d, const struct report *r, const struct run *run,
                             const struct contrast *c);

/* Once where r0 is the baseline. */
static void each_contrast(struct document *d, const struct report *r, contrast_writer *write)
{
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        if (run->against.other >= 0 && run->against.other != run->against_baseline.other)
            write(d, r, run, &run->against);
        if (run->against_baseline.other >= 0)
            write(d, r, run, &run->against_baseline);
    }
}

static void write_number(struct document *d, const char *format, double value)
{
    char text[WORDS];
    if (isnan(value))
        snprintf(text, sizeof text, "-");
    else
        snprintf(text, sizeof text, format, value);
    document_cell(d, "%s", text);
}

/* ---- since when, and how certain ---- */

static void write_detail_rows(struct document *d, const struct report *r, const struct run *run,
                              const struct contrast *c)
{
    static const enum gap_metric metrics[] = {METRIC_LOSS, METRIC_GRAD_NORM};
    char text[WORDS];
    for (int k = 0; k < 2; k++) {
        enum gap_metric m = metrics[k];
        const struct judgement *pair = &c->metric[m].pair;
        const struct onset *onset = &c->metric[m].onset;
        if (!onset->first_bits)
            continue;
        document_row(d);
        document_cell(d, "%s", run->name);
        document_cell(d, "%s", r->run[c->other].name);
        document_cell(d, "%s", metric_title(m));
        document_cell(d, "%" PRId64, onset->first_bits);
        document_cell(d, "%s", words_onset(text, onset));
        write_number(d, "%+.5f", onset->found ? onset->before : NAN);
        write_number(d, "%+.5f", onset->found ? onset->after : NAN);
        write_number(d, "%.5f", pair->error);
        write_number(d, "%.5f", c->metric[m].newey_west);
        write_number(d, "%.5f", c->metric[m].bootstrap);
        write_number(d, "%.2g", pair->inside.p);
        write_number(d, "%.2g", pair->inside.adjusted);
        write_number(d, "%.2g", pair->outside.p);
        write_number(d, "%.2g", pair->outside.adjusted);
        document_row_end(d);
    }
}

static void write_onsets(struct document *d, const struct report *r)
{
    static const char *const titles[] = {
        "Point",  "Against",     "Metric",     ">First other bits", "Mean changes", ">Gap before",   ">Gap after",
        ">Error", ">Newey-West", ">Bootstrap", ">p, no smaller",    ">Holm",        ">p, no larger", ">Holm"};
    document_heading(d, 2, "Since when, and how certain");
    document_paragraph(
        d,
        "First other bits: the first step whose values are not bit-equal. Mean changes: where the mean gap changes by "
        "a step, with its 90 %% interval, where a self-normalised CUSUM test finds a change (at 5 %% at most); a gap "
        "that grows "
        "evenly is put into the middle. Errors of the mean gap: the one that decides, from batch means, and two that "
        "do not: Newey-West with its usual bandwidth, far too narrow for correlated steps, and a circular block "
        "bootstrap. p: of the gap being no smaller than the margin (AGREES when at most 0.05), and no larger "
        "(DIFFERS); Holm: the same among all tests of the study.");
    document_table(d, COLUMNS(titles));
    each_contrast(d, r, write_detail_rows);
    document_table_end(d);
}

/* ---- other people's gates ---- */

static void write_gate_row(struct document *d, const struct report *r, const struct run *run, const struct contrast *c)
{
    if (c != &run->against_baseline)
        return;
    document_row(d);
    document_cell(d, "%s", run->name);
    document_cell(d, "%s", r->run[c->other].name);
    for (int i = 0; i < PRESETS; i++)
        document_cell_noted(d, preset_outcome_name(c->preset[i].outcome), c->preset[i].text);
    document_row_end(d);
}

static void write_gates(struct document *d, const struct report *r)
{
    const char *titles[2 + PRESETS] = {"Point", "Against"};
    document_heading(d, 2, "Other people's gates");
    document_paragraph(d, "Computed as their rules say, shown beside the verdicts, and deciding nothing here.");
    for (int i = 0; i < PRESETS; i++)
        titles[2 + i] = preset_rule(i)->name;
    document_table(d, COLUMNS(titles));
    each_contrast(d, r, write_gate_row);
    document_table_end(d);
    document_list(d);
    for (int i = 0; i < PRESETS; i++) {
        const struct preset_rule *rule = preset_rule(i);
        document_item(d, "%s: %s. Source: %s. Weakness: %s.", rule->name, rule->rule, rule->source, rule->weakness);
    }
    document_list_end(d);
}

void content_details(struct document *d, const struct report *r)
{
    write_onsets(d, r);
    write_gates(d, r);
}
