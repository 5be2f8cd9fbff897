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

const char *words_gap(char text[WORDS], const struct judgement *j)
{
    if (isnan(j->gap))
        snprintf(text, WORDS, "-");
    else if (j->verdict == VERDICT_IDENTICAL)
        snprintf(text, WORDS, "0, equal bits");
    else if (isnan(j->low))
        snprintf(text, WORDS, "%+.5f", j->gap);
    else
        snprintf(text, WORDS, "%+.5f [%+.5f, %+.5f]", j->gap, j->low, j->high);
    return text;
}

const char *words_gap_short(char text[WORDS], const struct judgement *j)
{
    if (isnan(j->low) || j->verdict == VERDICT_IDENTICAL)
        return words_gap(text, j);
    snprintf(text, WORDS, "%+.5f \u00b1 %.5f", j->gap, (j->high - j->low) / 2);
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

const char *words_target(char text[WORDS], const struct point_target *t)
{
    snprintf(text, WORDS, "%s%s", t->name, target_is_simulated(t) ? " (simulated)" : "");
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
    const struct certificate_event *first = report_first_mismatch(run);
    if (!first) {
        snprintf(text, WORDS, "none");
        return text;
    }
    enum block_op op = block_tensor_op(first->tensor);
    snprintf(text, WORDS, "step %" PRId64 ", layer %d, %s", first->step, first->layer,
             op == OP_STORED_INPUT ? "stored input" : block_op_name(op));
    /* A stored input names the accused already. */
    size_t used = strlen(text);
    if (first->accused == ACCUSED_FORWARD || first->accused == ACCUSED_RECOMPUTE)
        snprintf(text + used, WORDS - used, "; accused: the %s",
                 first->accused == ACCUSED_FORWARD ? "first forward" : "recompute");
    return text;
}

const char *words_certificate(char text[WORDS], const struct run *run)
{
    struct certificate_totals totals = certificate_total(run->certificate);
    char bad[COUNT], all[COUNT], due[COUNT];
    if (totals.compared == 0 && run->expected_count == 0)
        snprintf(text, WORDS, "nothing to compare");
    else if (totals.compared != run->expected_count)
        snprintf(text, WORDS, "INCOMPLETE: %s of %s tensors compared, %s mismatched", words_count(all, totals.compared),
                 words_count(due, run->expected_count), words_count(bad, totals.mismatched));
    else
        snprintf(text, WORDS, "%s of %s tensors mismatched", words_count(bad, totals.mismatched),
                 words_count(all, totals.compared));
    size_t used = strlen(text);
    if (totals.expected)
        snprintf(text + used, WORDS - used, ", %s announced by FP32", words_count(bad, totals.expected));
    return text;
}
