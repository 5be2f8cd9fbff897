/* audit_content.c - what a report says about audits: a sentence for each set, its tests, and the error layer by layer. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stages/report/audit.h"
#include "stages/report/words.h"

#define COLUMNS(titles) (titles), (int)(sizeof(titles) / sizeof *(titles))

typedef void set_writer(struct document *d, const struct run *run, const struct audit_set *set);

/* Every set that has audits. */
static void each_set(struct document *d, const struct report *r, set_writer *write)
{
    for (int i = 0; i < r->runs; i++)
        for (int k = 0; r->run[i].audits && k < AUDIT_KINDS; k++) {
            const struct audit_set *set = &r->run[i].audits->set[k];
            if (set->count + set->unproven)
                write(d, &r->run[i], set);
        }
}

/* ---- words ---- */

/* "-0.25 %", "-0.25 % [-0.31, -0.19]" */
static const char *percent(char text[WORDS], double x)
{
    if (isnan(x))
        snprintf(text, WORDS, "-");
    else
        snprintf(text, WORDS, "%.3g %%", 100 * x);
    return text;
}

static const char *percent_interval(char text[WORDS], const struct bias_test *t)
{
    size_t used = strlen(percent(text, t->estimate));
    if (!isnan(t->low))
        snprintf(text + used, WORDS - used, " [%.3g, %.3g]", 100 * t->low, 100 * t->high);
    return text;
}

static const char *number(char text[WORDS], double x)
{
    if (isnan(x))
        snprintf(text, WORDS, "-");
    else
        snprintf(text, WORDS, "%.2g", x);
    return text;
}

/* "16 audits at the weights of step 150", "25 audits of steps 160 to 400" */
static const char *words_set(char text[WORDS], const struct audit_set *set)
{
    if (set->kind == AUDIT_FROZEN)
        snprintf(text, WORDS, "%d audit%s at the weights of step %" PRId64, set->count, set->count == 1 ? "" : "s",
                 set->first - 1);
    else
        snprintf(text, WORDS, "%d audit%s of steps %" PRId64 " to %" PRId64, set->count, set->count == 1 ? "" : "s",
                 set->first, set->last);
    return text;
}

/* "noise", or "gradient" where the batch has a single reduction group. */
static const char *scale_word(const struct audit_set *set)
{
    return set->sized_by_noise ? "gradient noise" : "gradient";
}

/* ---- findings ---- */

enum { SENTENCE = 4 * WORDS };

static void find_gain(char text[SENTENCE], const struct audit_set *set)
{
    char gain[WORDS], p[WORDS], q[WORDS];
    snprintf(text, SENTENCE,
             "follows the gradient: gain %s (p %s), cosine of error and gradient over layers %.3g (p %s)",
             percent_interval(gain, &set->gain), number(p, set->gain.adjusted), set->cosine.estimate,
             number(q, set->cosine.adjusted));
}

/* 48,211 as 48,000: no more of it is known. */
static uint64_t two_digits(double x)
{
    double unit = fmax(1, pow(10, floor(log10(x)) - 1));
    return (uint64_t)fmin(round(x / unit) * unit, 0x1p63);
}

static void find_constant(char text[SENTENCE], const struct audit_set *set)
{
    char size[WORDS], p[WORDS], steps[COUNT];
    int used = snprintf(text, SENTENCE, "has a constant part of %s of the %s (p %s)",
                        percent_interval(size, &set->constant), scale_word(set), number(p, set->constant.adjusted));
    if (!isnan(set->steps_to_noise))
        snprintf(text + used, (size_t)(SENTENCE - used), ", which weighs as much as the noise after about %s steps",
                 words_count(steps, two_digits(set->steps_to_noise)));
}

static void find_direction(struct document *d, const struct run *run, const struct audit_set *set)
{
    char which[WORDS], error[WORDS], gain[SENTENCE] = "", constant[SENTENCE] = "";
    bool both = set->conclusion == CONCLUSION_BOTH;
    if (set->conclusion != CONCLUSION_BIAS)
        find_gain(gain, set);
    if (set->conclusion != CONCLUSION_GAIN)
        find_constant(constant, set);
    document_item(
        d, "What recompute adds to the gradient in %s is no mere noise (%s; %s): it is %s of the gradient, and %s%s%s.",
        run->name, audit_conclusion_name(set->conclusion), words_set(which, set), percent(error, set->mean.error), gain,
        both ? ", and " : "", constant);
}

static void find_noise(struct document *d, const struct run *run, const struct audit_set *set)
{
    char which[WORDS], error[WORDS], gain[WORDS], constant[WORDS], more[2 * WORDS] = "";
    if (!isnan(set->constant.detectable))
        snprintf(more, sizeof more, ", or a constant part of %s of the %s", percent(constant, set->constant.detectable),
                 scale_word(set));
    document_item(
        d,
        "What recompute adds to the gradient in %s is noise, as far as %s can tell: %s of the gradient, without "
        "a direction. A gain of %s%s would have been seen.",
        run->name, words_set(which, set), percent(error, set->mean.error), percent(gain, set->gain.detectable), more);
}

static void find_set(struct document *d, const struct run *run, const struct audit_set *set)
{
    char which[WORDS], error[WORDS];
    if (set->unproven)
        document_item(d, "%d audit%s of %s count%s for nothing: the control did not repeat the forward's bits.",
                      set->unproven, set->unproven == 1 ? "" : "s", run->name, set->unproven == 1 ? "s" : "");
    if (!set->count)
        return;
    switch (set->conclusion) {
    case CONCLUSION_EXACT:
        document_item(d, "The gradient of %s equals the one without recompute in all its elements: %s.", run->name,
                      words_set(which, set));
        break;
    case CONCLUSION_NOISE:
        find_noise(d, run, set);
        break;
    case CONCLUSION_UNDECIDED:
        document_item(
            d,
            "Whether what recompute adds to the gradient in %s is more than noise is not decided by %s (error "
            "%s of the gradient): at least %d, with finite gradients, are needed.",
            run->name, words_set(which, set), percent(error, set->mean.error), BIAS_LEAST);
        break;
    default:
        find_direction(d, run, set);
    }
}

void audit_findings(struct document *d, const struct report *r) { each_set(d, r, find_set); }

/* ---- tables ---- */

static void write_test(struct document *d, const struct bias_test *t)
{
    char text[WORDS];
    document_cell(d, "%s", percent_interval(text, t));
    document_cell(d, "%s", number(text, t->adjusted));
}

static void write_tests(struct document *d, const struct run *run, const struct audit_set *set)
{
    char text[WORDS];
    document_row(d);
    document_cell_noted(d, run->name, run->point.fault_text[0] ? "planted fault" : "");
    document_cell(d, "%s", words_set(text, set));
    document_cell(d, "%s", set->count ? audit_conclusion_name(set->conclusion) : "not valid");
    document_cell(d, "%s", percent(text, set->count ? set->mean.error : NAN));
    document_cell(d, "%s", percent(text, set->count ? set->noise : NAN));
    const struct bias_test none = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    write_test(d, set->count ? &set->gain : &none);
    document_cell(d, "%s", number(text, set->count ? set->gain.needed : NAN));
    document_cell(d, "%s", number(text, set->count ? set->cosine.estimate : NAN));
    document_cell(d, "%s", number(text, set->count ? set->cosine.adjusted : NAN));
    write_test(d, set->count ? &set->constant : &none);
    document_cell(d, "%s", percent(text, set->count ? set->constant.detectable : NAN));
    document_cell(d, "%s", number(text, set->count ? set->constant.needed : NAN));
    document_row_end(d);
}

static void write_layer(struct document *d, const struct run *run, const struct audit_set *set, int l)
{
    char text[WORDS];
    const struct audit_layer_set *layer = &set->layer[l];
    document_row(d);
    document_cell(d, "%s, %s", run->name, audit_kind_name(set->kind));
    if (l < set->layers)
        document_cell(d, "%d", l);
    else
        document_cell(d, "outside");
    document_cell(d, "%s", percent(text, layer->mean.error));
    document_cell(d, "%.6f", layer->mean.cosine);
    write_test(d, &layer->gain);
    document_cell(d, "%s", number(text, layer->mean.error_cosine));
    write_test(d, &layer->constant);
    document_row_end(d);
}

/* Of the layers with an error at most LAYERS_SHOWN, the first and the last among them; then the next one, which has none;
 * then what lies outside. All of them are in report.json. */
static void write_layers(struct document *d, const struct run *run, const struct audit_set *set)
{
    enum { LAYERS_SHOWN = 6 };
    int last = set->layers - 1;
    if (!set->count || set->conclusion == CONCLUSION_EXACT)
        return;
    while (last > 0 && set->layer[last].mean.error == 0)
        last--;
    int shown = last + 1 < LAYERS_SHOWN ? last + 1 : LAYERS_SHOWN;
    for (int i = 0; i < shown; i++)
        write_layer(d, run, set, shown > 1 ? i * last / (shown - 1) : 0);
    if (last + 1 < set->layers)
        write_layer(d, run, set, last + 1);
    write_layer(d, run, set, set->layers);
}

void audit_section(struct document *d, const struct report *r)
{
    static const char *const tests[] = {"Point",           "Audits", "Conclusion",     ">Error",        ">Noise",
                                        "Gain [90 %]",     ">p",     ">Audits needed", ">Cosine",       ">p",
                                        "Constant [90 %]", ">p",     ">Detectable",    ">Audits needed"};
    static const char *const layers[] = {
        "Point, audits", ">Layer",          ">Error", ">Cosine of the two", "Gain [90 %]", ">p",
        ">Cosine",       "Constant [90 %]", ">p"};
    bool any = false;
    for (int i = 0; i < r->runs; i++)
        any |= r->run[i].audits != NULL;
    if (!any)
        return;
    document_heading(d, 2, "Audits: what recompute does to the gradient");
    document_paragraph(
        d, "An audit compares the gradient of a step (g1) with that of its control (g0): the same weights, "
           "batches and forward, and rebuilds that repeat the forward's bits, which a certificate proves "
           "each time. e = g1 - g0. Error: |e| / |g0|. Gain: <e, g0> / |g0|^2. Cosine: of e and g0, mean "
           "over layers. Noise: what the choice of the batch does to the gradient, relative to |g0|, from "
           "the reduction groups. Constant: the part of e that returns in every audit, at frozen weights "
           "only, relative to the noise (with one reduction group, to |g0|). A bias adds up with the steps, "
           "noise with their square root.");
    document_paragraph(
        d, "p-values are from sign flips, corrected among the tests of a set (Holm), those of the layers "
           "among themselves. Detectable, and audits needed for the size that was found: 5 %%, power 80 %%.");
    document_table(d, COLUMNS(tests));
    each_set(d, r, write_tests);
    document_table_end(d);
    document_paragraph(d,
                       "Layers whose gradient recompute changes, and the next one; of many, some. Outside: embedding, "
                       "last norm, head. The constant part is relative to the layer's gradient. All layers are in "
                       "report.json.");
    document_table(d, COLUMNS(layers));
    each_set(d, r, write_layers);
    document_table_end(d);
}
