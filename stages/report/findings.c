/* findings.c - the sentences at the top of a report, each computed from the records. */
#include <inttypes.h>
#include <string.h>

#include "stages/report/audit.h"
#include "stages/report/content.h"
#include "stages/report/log.h"
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

static bool is_exact(const struct report *r, const struct run *run)
{
    return recomputes_as_planned(r, run) && run_proof(run) == PROOF_EXACT;
}

/* Replicates too: what goes wrong in one of them went wrong. */
static bool is_inexact(const struct report *r, const struct run *run)
{
    (void)r;
    return run->state == RUN_MEASURED && run_recomputes(run) && !run->point.fault_text[0] &&
           run_proof(run) != PROOF_EXACT;
}

static bool is_sampled(const struct report *r, const struct run *run)
{
    return is_exact(r, run) && run->point.certificate.every > 1;
}

/* A run that ended early has other weights than one that did not, whatever recompute did. */
static bool is_exact_and_finished(const struct report *r, const struct run *run)
{
    return is_exact(r, run) && run->against.other >= 0 && !run_stopped_early(run) &&
           !run_stopped_early(&r->run[run->against.other]);
}

static bool is_exact_with_r0_weights(const struct report *r, const struct run *run)
{
    return is_exact_and_finished(r, run) && runs_equal_weights(run, &r->run[run->against.other]);
}

/* Exact bits in every tensor seen, and yet other weights: the cause lies where the certificate does not look. */
static bool is_exact_with_other_weights(const struct report *r, const struct run *run)
{
    return is_exact_and_finished(r, run) && !runs_equal_weights(run, &r->run[run->against.other]);
}

/* Something to compare with the baseline: measured, and no replicate of it. */
static bool is_compared(const struct report *r, const struct run *run)
{
    return run->state == RUN_MEASURED && run->family != r->run[r->baseline].family;
}

static bool is_measured(const struct report *r, const struct run *run)
{
    (void)r;
    return run->state == RUN_MEASURED;
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

static const char *name_runs(struct names *names, const struct report *r, run_test *test)
{
    *names = (struct names){0};
    for (int i = 0; i < r->runs; i++)
        if (test(r, &r->run[i]))
            names_add(names, r->run[i].name);
    return names_text(names);
}

/* ---- sentences ---- */

static void find_sampled(struct document *d, const struct report *r)
{
    struct names names = {0};
    char text[2 * WORDS];
    for (int i = 0; i < r->runs; i++)
        if (is_sampled(r, &r->run[i])) {
            snprintf(text, sizeof text, "%s (only steps divisible by %" PRId64 ")", r->run[i].name,
                     r->run[i].point.certificate.every);
            names_add(&names, text);
        }
    if (names.used)
        document_item(d, "Certificates are sampled, not every step was compared: %s.", names_text(&names));
}

static void find_exact(struct document *d, const struct report *r)
{
    struct names names;
    char count[COUNT];
    int exact = count_runs(r, is_exact), all = count_runs(r, recomputes_as_planned);
    uint64_t compared = 0;
    for (int i = 0; i < r->runs; i++)
        compared += is_exact(r, &r->run[i]) ? certificate_total(r->run[i].certificate).compared : 0;
    if (exact)
        document_item(d,
                      "Recompute was bit-exact in %d of %d points without a planted fault (%s): all %s compared "
                      "tensors had the bits of the first forward.",
                      exact, all, name_runs(&names, r, is_exact), words_count(count, compared));
    find_sampled(d, r);
    if (count_runs(r, is_exact_with_r0_weights))
        document_item(d,
                      "Their training was not changed by it: final weights bit-identical to those of the same "
                      "target without recompute (%s).",
                      name_runs(&names, r, is_exact_with_r0_weights));
    if (count_runs(r, is_exact_with_other_weights))
        document_item(d,
                      "The final weights differ from those of the same target without recompute although every "
                      "compared tensor was exact (%s): the cause lies outside what the certificate covers.",
                      name_runs(&names, r, is_exact_with_other_weights));
}

static void find_inexact(struct document *d, const struct run *run)
{
    char certificate[WORDS], first[WORDS];
    words_certificate(certificate, run);
    switch (run_proof(run)) {
    case PROOF_MISMATCH:
        document_item(d, "Recompute was not bit-exact in %s: %s; first mismatch: %s.", run->name, certificate,
                      words_mismatch(first, run));
        break;
    case PROOF_ANNOUNCED:
        document_item(d,
                      "Recompute in %s runs in FP32, so it differs by design: %s. How large the differences are is not "
                      "judged: a fault under FP32 recompute would not be seen, and nothing here certifies the point.",
                      run->name, certificate);
        break;
    default:
        document_item(d, "Whether recompute was bit-exact in %s is not known: %s.", run->name, certificate);
    }
}

static void find_fault(struct document *d, const struct run *run)
{
    char certificate[WORDS], first[WORDS];
    struct certificate_totals totals = certificate_total(run->certificate);
    if (totals.mismatched)
        document_item(d, "%s carries the planted fault %s and was caught: %s; first mismatch: %s.", run->name,
                      run->point.fault_text, words_certificate(certificate, run), words_mismatch(first, run));
    else
        document_item(d, "%s carries the planted fault %s, which left no mismatch in %s compared tensor%s.", run->name,
                      run->point.fault_text, words_count(certificate, totals.compared),
                      totals.compared == 1 ? "" : "s");
}

static void find_exceptions(struct document *d, const struct report *r)
{
    for (int i = 0; i < r->runs; i++)
        if (is_inexact(r, &r->run[i]))
            find_inexact(d, &r->run[i]);
    for (int i = 0; i < r->runs; i++)
        if (has_fault(r, &r->run[i]))
            find_fault(d, &r->run[i]);
}

/* Runs that did not train as planned, whatever was compared in them. */
static void find_failures(struct document *d, const struct report *r)
{
    char text[WORDS];
    if (run_divergence(&r->run[r->baseline]))
        document_item(d,
                      "The baseline itself diverged at %s, %s: nothing can be judged against it, and no recommendation "
                      "is made from it.",
                      words_divergence(text, &r->run[r->baseline]), r->run[r->baseline].name);
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        if (i != r->baseline && run_divergence(run))
            document_item(d, "%s diverged at %s.", run->name, words_divergence(text, run));
        if (run_stopped_early(run))
            document_item(d, "%s %s: what it would have become is not judged.", run->name, words_progress(text, run));
    }
}

/* "", ", stored in fp32", ", its forward truncating": what beside the target is not the baseline's. */
static const char *own_arithmetic(char text[WORDS], const struct report *r, const struct point *p)
{
    bool other_storage = p->training.storage != r->run[r->baseline].point.training.storage;
    snprintf(text, WORDS, "%s%s%s",
             other_storage ? p->training.storage == F32 ? ", stored in fp32" : ", stored in bf16" : "",
             p->dial.forward ? ", its forward " : "", p->dial.forward ? arithmetic_mode_name(p->dial.forward) : "");
    return text;
}

/* What the move to another target changed, before any recompute. */
static void find_targets(struct document *d, const struct report *r)
{
    char target[WORDS], own[WORDS], gap[WORDS], held_out[WORDS];
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *c = &run->against_baseline;
        if (run->state != RUN_MEASURED || run->log || c->other < 0 || r->run[c->other].log || run_recomputes(run) ||
            run->point.replicate[0] || run->point.fault_text[0])
            continue;
        const struct judgement *loss = &c->metric[METRIC_LOSS].pair, *other = &c->metric[METRIC_HELD_OUT].pair;
        document_item(d,
                      "The move to %s without recompute%s (%s against %s, this pair): loss %s over steps %" PRId64
                      " to %" PRId64 " (gap in nat: %s); held-out loss %s (gap: %s).",
                      words_target(target, run), own_arithmetic(own, r, &run->point), run->name, r->run[c->other].name,
                      verdict_name(loss->verdict), loss->first, loss->last, words_gap(gap, loss),
                      verdict_name(other->verdict), words_gap(held_out, other));
    }
}

/* A difference that a log explains must not pass for one of training. */
static void find_likenesses(struct document *d, const struct report *r)
{
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *both[] = {&run->against, &run->against_baseline};
        for (int k = run->against.other == run->against_baseline.other; k < 2; k++)
            for (int m = 0; both[k]->other >= 0 && m < GAP_METRICS; m++)
                if (both[k]->metric[m].likeness.kind)
                    document_item(d, "The %s of %s against %s %s. That need not be a difference of training.",
                                  metric_title(m), run->name, r->run[both[k]->other].name,
                                  both[k]->metric[m].likeness.text);
    }
}

/* Policies whose gap grows, and until when it stays inside. */
static void find_drifts(struct document *d, const struct report *r)
{
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        const struct contrast *both[] = {&run->against, &run->against_baseline};
        for (int k = run->against.other == run->against_baseline.other; k < 2; k++)
            for (int m = 0; both[k]->other >= 0 && m < GAP_METRICS; m++)
                if (both[k]->metric[m].policy.verdict == VERDICT_DRIFTING)
                    document_item(d, "The policy of %s is DRIFTING from %s in %s: %s.", run->name,
                                  r->run[both[k]->other].name, metric_title(m), both[k]->metric[m].policy.reason);
    }
}

/* ---- scope ---- */

/* What the number of tests leaves of the claims. */
static void explain_tests(struct document *d, const struct report *r)
{
    for (int f = 0; f < TEST_FAMILIES; f++) {
        const struct multiplicity *m = &r->multiplicity[f];
        if (!m->claims)
            continue;
        bool policy = f == TESTS_DIVERGED || f == TESTS_EQUIVALENT;
        document_item(
            d,
            "%s, %s: %d claim%s at 5 %% each in %d test%s; %d survive%s Holm's correction, by which the first "
            "must reach p = %.2g%s.",
            policy ? "The policy" : "This pair", test_family_name(f), m->claims, m->claims == 1 ? "" : "s", m->tests,
            m->tests == 1 ? "" : "s", m->survive, m->survive == 1 ? "s" : "", VERDICT_LEVEL / m->tests,
            policy ? "; only those are said" : "; the others say so in their notes");
    }
}

static void explain_scope(struct document *d, const struct report *r)
{
    struct names names;
    bool simulated = false, branched = false;
    const struct point *baseline = &r->run[r->baseline].point;
    for (int i = 0; i < r->runs; i++) {
        simulated |= run_is_simulated(&r->run[i]);
        branched |= !r->run[i].point.scratch && !r->run[i].point.baseline;
    }
    if (simulated)
        document_item(d, "Cards were simulated: arithmetic on the CPU stands in for that of a card. Nothing here was "
                         "measured on the card itself.");
    if (branched && baseline->training.branch_at)
        document_item(d,
                      "Points branch from %s at step %" PRId64 ": their comparisons answer whether training is "
                      "harmed from there on, not from the start.",
                      r->run[r->baseline].name, baseline->training.branch_at);
    explain_tests(d, r);
    if (count_runs(r, is_absent))
        document_item(d, "Not measured: %s.", name_runs(&names, r, is_absent));
}

void content_findings(struct document *d, const struct report *r)
{
    document_heading(d, 2, "Findings");
    document_list(d);
    if (!count_runs(r, is_compared))
        document_item(d, "Only the baseline%s measured: there is nothing to compare with it yet.",
                      count_runs(r, is_measured) == 1 ? " was" : " and its replicates were");
    find_failures(d, r);
    find_exact(d, r);
    find_exceptions(d, r);
    audit_findings(d, r);
    find_targets(d, r);
    log_findings(d, r);
    find_likenesses(d, r);
    find_drifts(d, r);
    document_list_end(d);
    document_heading(d, 3, "Scope");
    document_list(d);
    explain_scope(d, r);
    document_list_end(d);
}
