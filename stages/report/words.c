#include "stages/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

const char *metric_name(enum gap_metric m)
{
    static const char *const names[GAP_METRICS] = {"loss", "held_out", "grad_norm"};
    return names[m];
}

const char *metric_title(enum gap_metric m)
{
    static const char *const titles[GAP_METRICS] = {"loss", "held-out loss", "gradient norm"};
    return titles[m];
}

const char *words_count(char text[COUNT], uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *words_bytes(char text[WORDS], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(text, WORDS, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* What rounds to zero has no sign. */
static const char *signed_gap(char text[COUNT], double value)
{
    snprintf(text, COUNT, "%+.5f", value);
    if (strspn(text, "+-0.") == strlen(text))
        memmove(text, text + 1, strlen(text));
    return text;
}

const char *words_gap(char text[WORDS], const struct judgement *j)
{
    char gap[COUNT], low[COUNT], high[COUNT];
    if (isnan(j->gap))
        snprintf(text, WORDS, "-");
    else if (j->verdict == VERDICT_IDENTICAL)
        snprintf(text, WORDS, *j->reason ? "0, equal as printed" : "0, equal bits");
    else if (isnan(j->low))
        snprintf(text, WORDS, "%s", signed_gap(gap, j->gap));
    else
        snprintf(text, WORDS, "%s [%s, %s]", signed_gap(gap, j->gap), signed_gap(low, j->low),
                 signed_gap(high, j->high));
    return text;
}

const char *words_gap_short(char text[WORDS], const struct judgement *j)
{
    char gap[COUNT];
    if (isnan(j->low) || j->verdict == VERDICT_IDENTICAL)
        return words_gap(text, j);
    snprintf(text, WORDS, "%s \u00b1 %.5f", signed_gap(gap, j->gap), (j->high - j->low) / 2);
    return text;
}

const char *words_detectable(char text[WORDS], const struct judgement *j)
{
    if (isnan(j->detectable))
        snprintf(text, WORDS, "-");
    else if (j->detectable == 0)
        snprintf(text, WORDS, "any");
    else
        snprintf(text, WORDS, "%.5f", j->detectable);
    return text;
}

const char *words_drift(char text[WORDS], const struct drift *drift)
{
    if (isnan(drift->low))
        snprintf(text, WORDS, "-");
    else
        snprintf(text, WORDS, "%+.2g [%+.2g, %+.2g], detectable %.2g", 1000 * drift->slope, 1000 * drift->low,
                 1000 * drift->high, 1000 * drift->detectable);
    return text;
}

const char *words_onset(char text[WORDS], const struct onset *o)
{
    if (!o->first_bits)
        snprintf(text, WORDS, "-");
    else if (o->found)
        snprintf(text, WORDS, "step %" PRId64 " [%" PRId64 ", %" PRId64 "]", o->step, o->low, o->high);
    else if (o->tested)
        snprintf(text, WORDS, "no step of the mean");
    else
        snprintf(text, WORDS, "not known: too few effective values");
    return text;
}

const char *words_price(char text[WORDS], const struct price *p, bool stable)
{
    text[0] = '\0';
    if (p->steps)
        snprintf(text, WORDS, "%" PRId64 " more step%s of both runs", p->steps, p->steps == 1 ? "" : "s");
    if (p->runs)
        snprintf(text, WORDS, "%d more run%s", p->runs, p->runs == 1 ? "" : "s");
    size_t used = strlen(text);
    if (used && !stable && isfinite(p->hours))
        snprintf(text + used, WORDS - used, ", %.2g device hours", p->hours);
    return text;
}

const char *words_target(char text[WORDS], const struct run *run)
{
    snprintf(text, WORDS, "%s%s", run->point.target.name, run_is_simulated(run) ? " (simulated)" : "");
    return text;
}

const char *words_policy(char text[WORDS], const struct recompute_policy *p)
{
    char modules[64];
    const char *precision = p->precision == F32 ? " in FP32" : "";
    recompute_modules_name(p->modules, modules);
    if (p->granularity == RECOMPUTE_NONE)
        snprintf(text, WORDS, "nothing");
    else if (p->granularity == RECOMPUTE_SELECTIVE)
        snprintf(text, WORDS, "%s%s", modules, precision);
    else if (p->method == METHOD_UNIFORM)
        snprintf(text, WORDS, "all layers in chunks of %d%s", p->num_layers, precision);
    else
        snprintf(text, WORDS, "%d layer%s%s", p->num_layers, p->num_layers == 1 ? "" : "s", precision);
    return text;
}

const char *words_mismatch(char text[WORDS], const struct run *run)
{
    const struct certificate_event *first = certificate_first(run->certificate);
    if (!first) {
        snprintf(text, WORDS, "none");
        return text;
    }
    enum block_op op = block_tensor_op(first->tensor);
    char rank[24] = "";
    if (run->point.target.dp * run->point.target.cp > 1)
        snprintf(rank, sizeof rank, "rank %d, ", first->rank);
    snprintf(text, WORDS, "step %" PRId64 ", %slayer %d, %s", first->step, rank, first->layer,
             op == OP_STORED_INPUT ? "stored input" : block_op_name(op));
    /* A stored input names the accused already. */
    size_t used = strlen(text);
    if (first->accused == ACCUSED_FORWARD || first->accused == ACCUSED_RECOMPUTE)
        snprintf(text + used, WORDS - used, "; accused: the %s",
                 first->accused == ACCUSED_FORWARD ? "first forward" : "recompute");
    struct certificate_totals totals = certificate_total(run->certificate);
    char differing[COUNT], shrunk[COUNT];
    used = strlen(text);
    if (totals.differing)
        snprintf(text + used, WORDS - used, "; of %s differing elements %s shrank",
                 words_count(differing, totals.differing), words_count(shrunk, totals.shrunk));
    return text;
}

const char *words_certificate(char text[WORDS], const struct run *run)
{
    struct certificate_totals totals = certificate_total(run->certificate);
    char bad[COUNT], all[COUNT], due[COUNT];
    long long every = (long long)run->point.certificate.every;
    words_count(all, totals.compared);
    words_count(bad, totals.mismatched);
    switch (run_proof(run)) {
    case PROOF_NOT_NEEDED:
        snprintf(text, WORDS, "nothing to compare");
        return text;
    case PROOF_NONE:
        snprintf(text, WORDS, "not certified: no step was compared (certificate.every is %lld)", every);
        return text;
    case PROOF_ANNOUNCED:
        snprintf(text, WORDS, "%s of %s tensors differ as announced by FP32", words_count(bad, totals.expected), all);
        break;
    default:
        if (totals.compared != run->expected_count)
            snprintf(text, WORDS, "INCOMPLETE: %s of %s tensors compared, %s mismatched", all,
                     words_count(due, run->expected_count), bad);
        else
            snprintf(text, WORDS, "%s of %s tensors mismatched", bad, all);
    }
    size_t used = strlen(text);
    if (every > 1)
        snprintf(text + used, WORDS - used, ", sampled: only steps divisible by %lld", every);
    return text;
}

const char *words_progress(char text[WORDS], const struct run *run)
{
    snprintf(text, WORDS, "%s step %" PRId64 " of %" PRId64, run_stopped_early(run) ? "stopped at" : "reached",
             run->result.steps_done, run->point.training.rule.steps);
    return text;
}

const char *words_divergence(char text[WORDS], const struct run *run)
{
    const struct metric *m = run_divergence(run);
    if (m)
        snprintf(text, WORDS, "step %" PRId64 " (%s is not finite)", m->step,
                 isfinite(m->loss) ? "gradient norm" : "loss");
    else
        snprintf(text, WORDS, "no step");
    return text;
}

/* ---- lists of names ---- */

void names_add(struct names *n, const char *name)
{
    enum { MORE = 32 }; /* room for " and 2147483647 more" */
    size_t needed = strlen(name) + 2;
    if (n->more || n->used + needed + MORE > sizeof n->text)
        n->more++;
    else
        n->used += (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, "%s%s", n->used ? ", " : "", name);
}

const char *names_text(struct names *n)
{
    if (n->more)
        snprintf(n->text + n->used, sizeof n->text - n->used, " and %d more", n->more);
    return n->text;
}
