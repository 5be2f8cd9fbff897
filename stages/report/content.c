#include "stages/report/content.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stages/report/audit.h"
#include "stages/report/log.h"
#include "stages/report/words.h"
#include "stages/series.h"

#define COLUMNS(titles) (titles), (int)(sizeof(titles) / sizeof *(titles))

/* ---- recommendations ---- */

static void write_recommendations(struct document *d, const struct report *r)
{
    static const char *const titles[] = {"Target", ">Layers to recompute", ">Micro-batch", "Why"};
    char target[WORDS];
    document_heading(d, 2, "Recommended settings");
    document_table(d, COLUMNS(titles));
    for (int i = 0; i < r->recommendations; i++) {
        const struct recommendation *recommendation = &r->recommendation[i];
        document_row(d);
        document_cell(d, "%s", words_target(target, &r->run[recommendation->target_of]));
        if (recommendation->run >= 0) {
            const struct point *p = &r->run[recommendation->run].point;
            document_cell(d, "%d of %d", p->recompute.num_layers, p->model.layers);
            document_cell(d, "%d", p->training.micro_batch_size);
        } else {
            document_cell(d, "none");
            document_cell(d, "-");
        }
        document_cell(d, "%s", recommendation->why);
        document_row_end(d);
    }
    document_table_end(d);
}

/* ---- points ---- */

/* With what sets the run apart from a plain, finished one. */
static void write_name(struct document *d, const struct run *run)
{
    char under[2 * WORDS] = "", progress[WORDS];
    const char *fault = run->point.fault_text[0] ? "planted fault" : "";
    if (run_stopped_early(run))
        snprintf(under, sizeof under, "%s%s%s", fault, *fault ? ", " : "", words_progress(progress, run));
    else
        snprintf(under, sizeof under, "%s", fault);
    document_cell_noted(d, run->name, under);
}

/* What a planted fault did is neither good nor bad news about recompute. */
static bool is_subdued(const struct run *run) { return run->point.fault_text[0] != '\0'; }

static void write_verdict(struct document *d, const struct run *run, const struct contrast *c, enum gap_metric m)
{
    char gap[WORDS];
    if (c->other < 0)
        document_cell(d, "-");
    else
        document_verdict(d, &c->metric[m].pair, is_subdued(run), words_gap_short(gap, &c->metric[m].pair));
}

static void write_digest(struct document *d, const struct report *r, const struct run *run)
{
    bool equal = run->against.other >= 0 && runs_equal_weights(run, &r->run[run->against.other]);
    document_cell(d, "%.8s%s%s", run->result.weights_digest, equal ? " = " : "",
                  equal ? r->run[run->against.other].name : "");
}

static void write_counts(struct document *d, const struct run *run)
{
    char text[WORDS];
    struct certificate_totals totals = certificate_total(run->certificate);
    document_cell(d, "%s", words_count(text, totals.mismatched));
    document_cell(d, "%s", words_count(text, totals.compared));
    document_cell(d, "%s%s", words_count(text, run->expected_count),
                  totals.compared == run->expected_count ? "" : " (INCOMPLETE)");
}

static void write_point(struct document *d, const struct report *r, const struct run *run, int columns)
{
    char text[WORDS];
    document_row(d);
    write_name(d, run);
    document_cell(d, "%s", run->log ? log_policy(run) : words_policy(text, &run->point.recompute));
    if (run->state != RUN_MEASURED) {
        document_cell(d, "%s", run_state_name(run->state));
        for (int i = 3; i < columns; i++)
            document_cell(d, "-");
        document_row_end(d);
        return;
    }
    if (run->log) /* without a certificate and weights */
        for (int i = 0; i < 5; i++)
            document_cell(d, "-");
    else {
        write_counts(d, run);
        document_cell(d, "%s", words_mismatch(text, run));
        write_digest(d, r, run);
    }
    write_verdict(d, run, &run->against, METRIC_LOSS);
    write_verdict(d, run, &run->against_baseline, METRIC_LOSS);
    write_verdict(d, run, &run->against_baseline, METRIC_HELD_OUT);
    document_row_end(d);
}

static void write_points(struct document *d, const struct report *r)
{
    static const char *const titles[] = {
        "Point",          "Recomputed",    ">Mismatched", ">Compared",         ">To compare",
        "First mismatch", "Final weights", "Loss, to r0", "Loss, to baseline", "Held-out, to baseline"};
    document_heading(d, 2, "Points");
    document_paragraph(d,
                       "Baseline: %s. r0 is the same target's run that stores everything. Mismatched, compared and "
                       "to compare count the tensors of the certificate; differences that FP32 recompute announces "
                       "are not among the mismatched. Verdicts are about this pair of runs; gaps in "
                       "nat with half their 90 %% interval. Where a fault was planted they are grey: that a fault did "
                       "little harm is no all-clear.",
                       r->run[r->baseline].name);
    document_table(d, COLUMNS(titles));
    for (int i = 0; i < r->runs; i++)
        write_point(d, r, &r->run[i], (int)(sizeof titles / sizeof *titles));
    document_table_end(d);
}

static void write_legend(struct document *d, const struct report *r)
{
    const struct point *p = &r->run[r->baseline].point;
    document_heading(d, 2, "How to read the verdicts");
    document_list(d);
    document_item(d, "IDENTICAL: every value of both runs is finite and has the same bits, at every compared step.");
    document_item(d,
                  "AGREES: the 90 %% interval of the mean gap lies inside the margin (%g nat for losses, %g in log "
                  "ratio for the gradient norm).",
                  p->verdict.margin, p->verdict.grad_norm_margin);
    document_item(d, "DIFFERS: the interval lies wholly outside the margin, or the candidate alone is not finite.");
    document_item(d,
                  "UNDECIDED: neither, or fewer than %d effective values, or a run that stopped early, or a baseline "
                  "that is not finite. The smallest detectable gap says what "
                  "could have been seen.",
                  VERDICT_EFFECTIVE);
    document_item(d, "EQUIVALENT, DIVERGED, INCONCLUSIVE: the same about the policy, from replicated runs (Welch's t "
                     "on one mean per run). One pair of runs cannot give them.");
    document_item(d,
                  "DRIFTING: the gap grows, steeper than runs of the baseline do among themselves; the note names the "
                  "step at which it would leave the margin.");
    document_item(d,
                  "Verdicts about the policy are corrected for all tests of the study (Holm); a pair's is not, and its "
                  "note says when it would not survive.");
    document_item(d,
                  "Judged are the compared steps from %g %% to %g %%, a window fixed beforehand; intervals come from "
                  "%d batch means, because neighbouring steps are correlated.",
                  100 * p->verdict.window[0], 100 * p->verdict.window[1], SERIES_BATCHES);
    document_list_end(d);
}

/* ---- pairs in full ---- */

/* The reason, and what it would take. */
static void write_note(struct document *d, const struct report *r, const struct judgement *j, const struct price *price)
{
    char text[WORDS];
    words_price(text, price, r->stable);
    document_cell(d, "%s%s%s", j->reason, *text ? "; to decide: " : "", text);
}

static void write_pairs_of(struct document *d, const struct report *r, const struct run *run, const struct contrast *c)
{
    char text[WORDS];
    for (int m = 0; m < GAP_METRICS; m++) {
        const struct judgement *pair = &c->metric[m].pair;
        document_row(d);
        write_name(d, run);
        document_cell(d, "%s", r->run[c->other].name);
        document_cell(d, "%s", metric_title(m));
        document_verdict(d, pair, is_subdued(run), "");
        document_cell(d, "%s", words_gap(text, pair));
        document_cell(d, "%s", words_detectable(text, pair));
        if (isnan(pair->effective))
            document_cell(d, "-");
        else
            document_cell(d, "%.0f", pair->effective);
        write_note(d, r, pair, &c->metric[m].pair_price);
        document_row_end(d);
    }
}

static void write_pairs(struct document *d, const struct report *r, bool baseline, const char *title)
{
    static const char *const titles[] = {"Point",       "Against",           "Metric", "This pair", "Gap [90 %]",
                                         ">Detectable", ">Effective values", "Note"};
    document_heading(d, 2, "%s", title);
    document_table(d, COLUMNS(titles));
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *c = baseline ? &run->against_baseline : &run->against;
        if (c->other >= 0 && (baseline || run_recomputes(run)))
            write_pairs_of(d, r, run, c);
    }
    document_table_end(d);
}

/* ---- policies ---- */

static bool has_replicates(const struct contrast *c, int sides)
{
    const struct judgement *loss = &c->metric[METRIC_LOSS].policy;
    return c->other >= 0 && (loss->baselines >= 2) + (loss->candidates >= 2) == sides;
}

typedef void contrast_writer(struct document *d, const struct report *r, const struct run *run,
                             const struct contrast *c);

/* Calls `write` for every contrast with replicates on this many sides; says how many there were. */
static int each_policy(struct document *d, const struct report *r, int sides, contrast_writer *write)
{
    int count = 0;
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *both[] = {&run->against, &run->against_baseline};
        /* An r0 that is the baseline is compared once. */
        for (int k = run->against.other == run->against_baseline.other; k < 2; k++) {
            bool same = both[k]->other >= 0 && r->run[both[k]->other].family == run->family;
            if (same || !has_replicates(both[k], sides))
                continue;
            count++;
            if (write)
                write(d, r, run, both[k]);
        }
    }
    return count;
}

static void write_policy_rows(struct document *d, const struct report *r, const struct run *run,
                              const struct contrast *c)
{
    char text[WORDS];
    for (int m = 0; m < GAP_METRICS; m++) {
        const struct judgement *policy = &c->metric[m].policy;
        document_row(d);
        write_name(d, run);
        document_cell(d, "%s", r->run[c->other].name);
        document_cell(d, "%s", metric_title(m));
        document_verdict(d, policy, is_subdued(run), "");
        document_cell(d, "%d : %d", policy->candidates, policy->baselines);
        document_cell(d, "%s", c->metric[m].floor ? noise_floor_name(c->metric[m].floor) : "-");
        document_cell(d, "%s", words_gap(text, policy));
        document_cell(d, "%s", words_detectable(text, policy));
        document_cell(d, "%s", words_drift(text, &policy->drift));
        write_note(d, r, policy, &c->metric[m].policy_price);
        document_row_end(d);
    }
}

static void write_policy_item(struct document *d, const struct report *r, const struct run *run,
                              const struct contrast *c)
{
    char text[WORDS];
    const struct judgement *loss = &c->metric[METRIC_LOSS].policy;
    words_price(text, &c->metric[METRIC_LOSS].policy_price, r->stable);
    document_item(d, "%s against %s: %s, %s%s%s.", run->name, r->run[c->other].name, verdict_name(loss->verdict),
                  loss->reason, *text ? "; to decide: " : "", text);
}

static void write_policies(struct document *d, const struct report *r)
{
    static const char *const titles[] = {"Point", "Against",    "Metric",      "The policy", ">Runs",
                                         "Floor", "Gap [90 %]", ">Detectable", "Drift",      "Note"};
    document_heading(d, 2, "The policy, from replicated runs");
    document_paragraph(
        d, "The floor is the spread between runs that a gap is measured with. Arithmetic: the order of "
           "summation alone; it answers whether the policy does more than another order of the same "
           "sums. Seed: other data order and dropout; it answers whether the policy does more than "
           "another training of the same kind. The two are never mixed, seeds come first, and runs "
           "with equal weights count once. Drift: slope of the gap in 1,000 steps, its 90 %% interval from the "
           "slopes of the baseline's runs, and the smallest slope that these could show.");
    if (each_policy(d, r, 2, NULL)) {
        document_table(d, COLUMNS(titles));
        each_policy(d, r, 2, write_policy_rows);
        document_table_end(d);
    }
    document_list(d);
    each_policy(d, r, 1, write_policy_item);
    int alone = each_policy(d, r, 0, NULL);
    if (alone)
        document_item(d,
                      "%d comparison%s without replicates on either side: INCONCLUSIVE. At least 2 runs a side are "
                      "needed to know the run-to-run spread.",
                      alone, alone == 1 ? "" : "s");
    document_list_end(d);
}

/* ---- costs ---- */

static void write_cost(struct document *d, const struct report *r, const struct run *run)
{
    char text[WORDS];
    bool known = run->state == RUN_MEASURED;
    const struct contrast *c = &run->against_baseline;
    write_name(d, run);
    document_cell(d, "%d", run->point.recompute.num_layers);
    document_cell(d, "%d", run->point.training.micro_batch_size);
    document_cell(d, "%s", words_bytes(text, run->point.planned_bytes));
    document_cell(d, "%s", run->point.fits ? "yes" : "no");
    document_cell(d, "%s", words_bytes(text, run->point.planned_activation_bytes));
    document_cell(d, "%s", known ? words_bytes(text, run->result.activation_bytes) : "-");
    if (!r->stable && known) {
        document_cell(d, "%s", words_bytes(text, run->usage.peak_bytes));
        document_cell(d, "%.1f", run->usage.seconds);
        document_cell(d, "%.0f", run->usage.tokens_per_s);
    } else
        for (int i = 0; !r->stable && i < 3; i++)
            document_cell(d, "-");
    document_cell(d, "%s", c->other >= 0 ? words_gap_short(text, &c->metric[METRIC_HELD_OUT].pair) : "-");
}

static void write_cost_table(struct document *d, const struct report *r)
{
    static const char *const all[] = {"Point",
                                      ">Layers",
                                      ">Micro-batch",
                                      ">Whole run, planned",
                                      "Fits",
                                      ">Activations, planned",
                                      ">Activations, taken",
                                      ">Peak memory",
                                      ">Seconds",
                                      ">Tokens/s",
                                      "Held-out gap to baseline"};
    enum { COLUMNS_ALL = sizeof all / sizeof *all, MEASURED_AT = 7, MEASURED = 3 };
    const char *titles[COLUMNS_ALL];
    int columns = 0;
    for (int i = 0; i < COLUMNS_ALL; i++)
        if (!r->stable || i < MEASURED_AT || i >= MEASURED_AT + MEASURED)
            titles[columns++] = all[i];
    document_table(d, titles, columns);
    for (int i = 0; i < r->runs; i++) {
        if (!run_is_plain(r, &r->run[i]))
            continue;
        document_row(d);
        write_cost(d, r, &r->run[i]);
        document_row_end(d);
    }
    document_table_end(d);
}

static void write_costs(struct document *d, const struct report *r)
{
    document_heading(d, 2, "Memory, time and gap over recomputed layers");
    document_chart(d, "chart-memory", "Activation memory", "MiB against layers recomputed.");
    if (!r->stable)
        document_chart(d, "chart-time", "Speed", "Tokens per second on this machine against layers recomputed.");
    document_chart(d, "chart-gap-layers", "Gap",
                   "Held-out loss, point - baseline in nat, 90 % interval, against layers recomputed.");
    if (!r->stable)
        document_paragraph(d, "Peak memory is that of the whole process: beyond the planned arena it holds libraries, "
                              "workspaces of threads and file buffers. Seconds and tokens per second are over all "
                              "steps of the run, evaluations and checkpoints apart.");
    write_cost_table(d, r);
}

/* ---- certificates ---- */

static void write_mismatches(struct document *d, const struct report *r)
{
    char first[WORDS], certificate[WORDS];
    document_heading(d, 2, "Certificates");
    document_paragraph(d,
                       "Every tensor that a policy drops is digested when the forward makes it and again when the "
                       "recompute remakes it. Intermediates that live only inside a fused op (attention scores and "
                       "probabilities) are not covered. How many are to compare is counted from the policy, the steps "
                       "and the micro-batches alone. Elements that differ, over all tensors, shrink as often as they "
                       "grow where only an order of summation changed, and more often where something rounds toward "
                       "zero.");
    document_list(d);
    for (int i = 0; i < r->runs; i++)
        if (r->run[i].state == RUN_MEASURED && run_recomputes(&r->run[i]))
            document_item(d, "%s: %s; first mismatch: %s", r->run[i].name, words_certificate(certificate, &r->run[i]),
                          words_mismatch(first, &r->run[i]));
    document_list_end(d);
}

/* ---- scores ---- */

static double percent(int64_t part, int64_t whole) { return whole ? 100.0 * (double)part / (double)whole : NAN; }

static void write_scores(struct document *d, const struct report *r)
{
    static const char *const titles[] = {"Point", ">Step", ">Next token right", ">Whole lines right"};
    document_heading(d, 2, "Downstream scores");
    document_paragraph(d, "Teacher-forced on the held-out files, after the last evaluation; per file in report.json.");
    document_table(d, COLUMNS(titles));
    for (int i = 0; i < r->runs; i++) {
        struct score total;
        if (!report_scores(&total, &r->run[i]))
            continue;
        document_row(d);
        document_cell(d, "%s", r->run[i].name);
        document_cell(d, "%" PRId64, total.step);
        document_cell(d, "%.3f %% (%" PRId64 " of %" PRId64 ")", percent(total.tokens_right, total.tokens),
                      total.tokens_right, total.tokens);
        document_cell(d, "%.3f %% (%" PRId64 " of %" PRId64 ")", percent(total.lines_right, total.lines),
                      total.lines_right, total.lines);
        document_row_end(d);
    }
    document_table_end(d);
}

/* ---- provenance ---- */

static void write_folded_json(struct document *d, const char *name, const char *what, const json_t *object)
{
    char title[WORDS + 64];
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    snprintf(title, sizeof title, "%s of %s", what, name);
    document_folded(d, title, text ? text : "");
    free(text);
}

/* Points of a target share their plans with its first measured point, but for what they recompute. */
static void write_provenance(struct document *d, const struct report *r)
{
    document_heading(d, 2, r->stable ? "Plans" : "Environments and plans");
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        bool seen = run->state != RUN_MEASURED || run->log;
        for (int j = 0; j < i; j++)
            seen |= r->run[j].state == RUN_MEASURED && !r->run[j].log &&
                    !strcmp(r->run[j].point.target.name, run->point.target.name);
        if (seen)
            continue;
        if (!r->stable)
            write_folded_json(d, run->name, "Environment", run->environment);
        write_folded_json(d, run->name, "Plans", run->plans);
    }
}

static bool has_records(const struct report *r)
{
    for (int i = 0; i < r->runs; i++)
        if (!r->run[i].log)
            return true;
    return false;
}

void content_write(struct document *d, const struct report *r)
{
    document_heading(d, 1, "Rematch: %s", r->study);
    content_findings(d, r);
    bool records = has_records(r);
    if (records)
        write_recommendations(d, r);
    write_points(d, r);
    write_legend(d, r);
    if (d->markup == HTML)
        document_heading(d, 2, "Curves");
    document_chart(d, "chart-loss", "Training loss", "Nat per token, all points. Drag to zoom, double-click to reset.");
    document_chart(d, "chart-gap", "Gap to the baseline",
                   "Loss of a point - loss of the baseline on the same batch, in nat; the band is the margin, the "
                   "shaded steps are judged.");
    log_section(d, r);
    if (records)
        write_pairs(d, r, false, "What recompute did: against the same target's r0");
    write_pairs(d, r, true, "What everything did: against the baseline");
    write_policies(d, r);
    content_details(d, r);
    audit_section(d, r);
    if (!records)
        return;
    write_costs(d, r);
    write_mismatches(d, r);
    write_scores(d, r);
    write_provenance(d, r);
}

void report_markdown(FILE *out, const struct report *r)
{
    struct document d = {.out = out, .markup = MARKDOWN};
    content_write(&d, r);
}
