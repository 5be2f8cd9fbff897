/* findings.c - the sentences at the top of a report, each computed from the records. */
#include <inttypes.h>
#include <string.h>

#include "stages/report/content.h"
#include "stages/report/words.h"

/* ---- groups of runs ---- */

typedef bool run_test(const struct report *r, const struct run *run);

static bool has_fault(const struct report *r, const struct run *run)
{
    (void)r;
    return run->state == RUN_MEASURED && run->point.fault_text[0];
}

static bool recomputes_as_planned(const struct report *r, const struct run *run)
{
    (void)r;
    return run->state == RUN_MEASURED && run_recomputes(run) && !run->point.fault_text[0] && !run->point.replicate[0];
}

/* Every recomputed tensor had the bits of the first forward. */
static bool is_exact(const struct report *r, const struct run *run)
{
    return recomputes_as_planned(r, run) && run_is_certified(run) && certificate_total(run->certificate).expected == 0;
}

static bool is_inexact(const struct report *r, const struct run *run)
{
    return recomputes_as_planned(r, run) && !is_exact(r, run);
}

static bool is_exact_with_r0_weights(const struct report *r, const struct run *run)
{
    return is_exact(r, run) && run->against.other >= 0 && runs_equal_weights(run, &r->run[run->against.other]);
}

/* Exact bits in every tensor seen, and yet other weights: the cause lies where the certificate does not look. */
static bool is_exact_with_other_weights(const struct report *r, const struct run *run)
{
    return is_exact(r, run) && run->against.other >= 0 && !runs_equal_weights(run, &r->run[run->against.other]);
}

static bool is_absent(const struct report *r, const struct run *run)
{
    (void)r;
    return run->state != RUN_MEASURED;
}

static int count_runs(const struct report *r, run_test *test)
{
    int count = 0;
    for (int i = 0; i < r->runs; i++)
        count += test(r, &r->run[i]);
    return count;
}

/* "a, b, c", cut off where the buffer ends. */
static const char *name_runs(char text[1024], const struct report *r, run_test *test)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < r->runs; i++)
        if (test(r, &r->run[i]) && used < 1024)
            used += (size_t)snprintf(text + used, 1024 - used, "%s%s", used ? ", " : "", r->run[i].name);
    return text;
}

/* ---- sentences ---- */

static void find_exact(struct document *d, const struct report *r)
{
    char names[1024], count[COUNT];
    int exact = count_runs(r, is_exact), all = count_runs(r, recomputes_as_planned);
    uint64_t compared = 0;
    for (int i = 0; i < r->runs; i++)
        compared += is_exact(r, &r->run[i]) ? certificate_total(r->run[i].certificate).compared : 0;
    if (exact)
        document_item(d,
                      "Recompute was bit-exact in %d of %d points without a planted fault (%s): all %s recomputed "
                      "tensors had the bits of the first forward.",
                      exact, all, name_runs(names, r, is_exact), words_count(count, compared));
    if (count_runs(r, is_exact_with_r0_weights))
        document_item(d,
                      "Their training was not changed by it: final weights bit-identical to those of the same "
                      "target without recompute (%s).",
                      name_runs(names, r, is_exact_with_r0_weights));
    if (count_runs(r, is_exact_with_other_weights))
        document_item(d,
                      "The final weights differ from those of the same target without recompute although every "
                      "compared tensor was exact (%s): the cause lies outside what the certificate covers.",
                      name_runs(names, r, is_exact_with_other_weights));
}

static void find_inexact(struct document *d, const struct report *r)
{
    char certificate[WORDS], first[WORDS];
    for (int i = 0; i < r->runs; i++)
        if (is_inexact(r, &r->run[i]))
            document_item(d, "Recompute was not bit-exact in %s: %s; first mismatch: %s.", r->run[i].name,
                          words_certificate(certificate, &r->run[i]), words_mismatch(first, &r->run[i]));
    for (int i = 0; i < r->runs; i++)
        if (has_fault(r, &r->run[i]))
            document_item(d, "%s carries the planted fault %s and was %s: %s; first mismatch: %s.", r->run[i].name,
                          r->run[i].point.fault_text,
                          certificate_total(r->run[i].certificate).mismatched ? "caught" : "NOT caught",
                          words_certificate(certificate, &r->run[i]), words_mismatch(first, &r->run[i]));
}

/* What the move to another target changed, before any recompute. */
static void find_targets(struct document *d, const struct report *r)
{
    char target[WORDS], gap[WORDS], held_out[WORDS];
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *c = &run->against_baseline;
        if (run->state != RUN_MEASURED || c->other < 0 || run_recomputes(run) || run->point.replicate[0] ||
            run->point.fault_text[0])
            continue;
        const struct judgement *loss = &c->metric[METRIC_LOSS].pair, *other = &c->metric[METRIC_HELD_OUT].pair;
        document_item(d,
                      "The move to %s without recompute (%s against %s, this pair): loss %s over steps %" PRId64
                      " to %" PRId64 " (gap in nat: %s); held-out loss %s (gap: %s).",
                      words_target(target, &run->point.target), run->name, r->run[c->other].name,
                      verdict_name(loss->verdict), loss->first, loss->last, words_gap(gap, loss),
                      verdict_name(other->verdict), words_gap(held_out, other));
    }
}

/* ---- scope ---- */

static int statistical_verdicts(const struct report *r)
{
    int count = 0;
    for (int i = 0; i < r->runs; i++)
        for (int m = 0; m < GAP_METRICS; m++) {
            const struct contrast *both[] = {&r->run[i].against, &r->run[i].against_baseline};
            for (int b = 0; b < 2; b++)
                count += both[b]->other >= 0 && (both[b]->metric[m].pair.verdict == VERDICT_AGREES ||
                                                 both[b]->metric[m].pair.verdict == VERDICT_DIFFERS ||
                                                 both[b]->metric[m].policy.verdict == VERDICT_EQUIVALENT ||
                                                 both[b]->metric[m].policy.verdict == VERDICT_DIVERGED);
        }
    return count;
}

static void explain_scope(struct document *d, const struct report *r)
{
    char names[1024];
    bool simulated = false, branched = false;
    const struct point *baseline = &r->run[r->baseline].point;
    for (int i = 0; i < r->runs; i++) {
        simulated |= target_is_simulated(&r->run[i].point.target);
        branched |= !r->run[i].point.scratch && !r->run[i].point.baseline;
    }
    if (simulated)
        document_item(d, "Cards were simulated: profiles ending in -sim are arithmetic on the CPU that stands in for a "
                         "card. Nothing here was measured on the card itself.");
    if (branched && baseline->training.branch_at)
        document_item(d,
                      "Points branch from %s at step %" PRId64 ": their comparisons answer whether training is "
                      "harmed from there on, not from the start.",
                      r->run[r->baseline].name, baseline->training.branch_at);
    int verdicts = statistical_verdicts(r);
    if (verdicts)
        document_item(d,
                      "%d verdict%s rest%s on statistics, each at 5 %% and uncorrected: about %.1f would be wrong "
                      "by chance if every null hypothesis held.",
                      verdicts, verdicts == 1 ? "" : "s", verdicts == 1 ? "s" : "", 0.05 * verdicts);
    if (count_runs(r, is_absent))
        document_item(d, "Not measured: %s.", name_runs(names, r, is_absent));
}

void content_findings(struct document *d, const struct report *r)
{
    document_heading(d, 2, "Findings");
    document_list(d);
    find_exact(d, r);
    find_inexact(d, r);
    find_targets(d, r);
    document_list_end(d);
    document_heading(d, 3, "Scope");
    document_list(d);
    explain_scope(d, r);
    document_list_end(d);
}
