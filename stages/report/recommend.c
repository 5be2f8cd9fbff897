/* recommend.c - per target the smallest number of recomputed layers that fits and does no harm; its configuration. */
#include <stdlib.h>
#include <string.h>

#include "stages/report/words.h"

/* ---- evidence ---- */

static bool is_bad(enum verdict v) { return v == VERDICT_DIFFERS || v == VERDICT_DRIFTING || v == VERDICT_DIVERGED; }

/* The first metric for which `c` is bad; GAP_METRICS when there is none. */
static enum gap_metric bad_metric(const struct contrast *c)
{
    enum gap_metric m = 0;
    while (c->other >= 0 && m < GAP_METRICS && !is_bad(c->metric[m].pair.verdict) &&
           !is_bad(c->metric[m].policy.verdict))
        m++;
    return c->other >= 0 ? m : GAP_METRICS;
}

/* Recompute is judged against the same target's r0 where there is one: what the card itself changes is no reason
 * against a number of layers. */
static const struct contrast *deciding_contrast(const struct run *run)
{
    return run->against.other >= 0 ? &run->against : &run->against_baseline;
}

static bool is_certified(const struct run *run)
{
    enum proof proof = run_proof(run);
    return proof == PROOF_EXACT || proof == PROOF_NOT_NEEDED;
}

/* The run that diverged of this one and the one it is judged against; NULL: neither. */
static const struct run *diverged(const struct report *r, const struct run *run)
{
    const struct contrast *c = deciding_contrast(run);
    if (c->other >= 0 && run_divergence(&r->run[c->other]))
        return &r->run[c->other];
    return run_divergence(run) ? run : NULL;
}

static bool is_harmless(const struct report *r, const struct run *run)
{
    return is_certified(run) && !diverged(r, run) && !run_stopped_early(run) &&
           bad_metric(deciding_contrast(run)) == GAP_METRICS;
}

/* What is known against a run. */
static void explain_harm(FILE *out, const struct report *r, const struct run *run)
{
    char text[WORDS];
    const struct contrast *c = deciding_contrast(run);
    enum gap_metric m = bad_metric(c);
    if (!is_certified(run))
        fprintf(out, "%s: %s", run->name, words_certificate(text, run));
    else if (run_stopped_early(run))
        fprintf(out, "%s: %s", run->name, words_progress(text, run));
    else if (diverged(r, run) == run)
        fprintf(out, "%s: diverged at %s", run->name, words_divergence(text, run));
    else if (diverged(r, run))
        fprintf(out, "%s: %s, which it is judged against, itself diverged at %s", run->name, r->run[c->other].name,
                words_divergence(text, &r->run[c->other]));
    else {
        enum verdict policy = c->metric[m].policy.verdict, pair = c->metric[m].pair.verdict;
        const char *likeness = c->metric[m].likeness.text;
        fprintf(out, "%s: %s %s from %s%s%s", run->name, metric_title(m), verdict_name(is_bad(policy) ? policy : pair),
                r->run[c->other].name, *likeness ? ", but " : "", likeness);
    }
}

static void explain_choice(FILE *out, const struct report *r, const struct run *run)
{
    char policy[WORDS], certificate[WORDS], planned[WORDS], memory[WORDS], gap[WORDS], target[WORDS];
    const struct contrast *c = deciding_contrast(run);
    fprintf(out, "%s recomputed: planned %s of %s on %s", words_policy(policy, &run->point.recompute),
            words_bytes(planned, run->point.planned_bytes), words_bytes(memory, run->point.target.memory_bytes),
            words_target(target, run));
    if (run_recomputes(run))
        fprintf(out, "; certificate: %s", words_certificate(certificate, run));
    if (c->other >= 0 && runs_equal_weights(run, &r->run[c->other]))
        fprintf(out, "; weights bit-identical to those of %s", r->run[c->other].name);
    else if (c->other >= 0) {
        const struct judgement *j = &c->metric[METRIC_HELD_OUT].pair;
        fprintf(out, "; held-out loss against %s, this pair: %s %s", r->run[c->other].name, verdict_name(j->verdict),
                words_gap(gap, j));
    }
}

/* ---- choice ---- */

static bool same_target(const struct run *a, const struct run *b)
{
    return !strcmp(a->point.target.name, b->point.target.name);
}

static bool is_candidate(const struct report *r, const struct run *run, const struct run *of)
{
    return run->state == RUN_MEASURED && run_is_plain(r, run) && run->point.fits && same_target(run, of);
}

/* More layers than the chosen ones cost time and no safety: which of them would do as well, by their certificates.
 * `with_r0`: those that were compared with the same target's r0, and must have its weights; or those that had none. */
static void list_safe(FILE *out, const struct report *r, const struct run *chosen, bool with_r0)
{
    const struct run *last = NULL;
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        if (!is_candidate(r, run, chosen) || !run_recomputes(run) || run == chosen || !is_harmless(r, run) ||
            run->point.training.micro_batch_size != chosen->point.training.micro_batch_size ||
            (run->against.other >= 0) != with_r0 || (with_r0 && !runs_equal_weights(run, &r->run[run->against.other])))
            continue;
        fprintf(out, "%s%d", last ? ", " : "; also safe by certificate: ", run->point.recompute.num_layers);
        last = run;
    }
    if (last && with_r0)
        fprintf(out, " (bit-identical to %s)", r->run[last->against.other].name);
    else if (last)
        fputs(" (without a run that stores everything, to compare weights with)", out);
}

/* The measured plain run of the target with the fewest recomputed layers beyond `least`; NULL: none. */
static const struct run *next_candidate(const struct report *r, const struct run *of, int least)
{
    const struct run *best = NULL;
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        if (is_candidate(r, run, of) && run->point.recompute.num_layers > least &&
            (!best || run->point.recompute.num_layers < best->point.recompute.num_layers))
            best = run;
    }
    return best;
}

static status recommend_for(struct recommendation *out, const struct report *r, int of)
{
    char target[WORDS];
    size_t size = 0;
    *out = (struct recommendation){.target_of = of, .run = -1};
    FILE *why = open_memstream(&out->why, &size);
    if (!why)
        return FAIL(ERR_MEMORY, "no memory for a recommendation");
    int least = -1;
    const struct run *run;
    while ((run = next_candidate(r, &r->run[of], least)) && !is_harmless(r, run)) {
        fputs(least < 0 ? "not " : "; not ", why);
        explain_harm(why, r, run);
        least = run->point.recompute.num_layers;
    }
    if (run) {
        out->run = (int)(run - r->run);
        fputs(least < 0 ? "" : "; so ", why);
        explain_choice(why, r, run);
        list_safe(why, r, run, true);
        list_safe(why, r, run, false);
    } else if (least < 0)
        fprintf(why, "no measured point of %s fits its memory", words_target(target, &r->run[of]));
    return fclose(why) == 0 ? OK : FAIL(ERR_MEMORY, "no memory for a recommendation");
}

status report_recommend(struct report *r)
{
    r->recommendation = calloc((size_t)r->runs, sizeof *r->recommendation);
    if (!r->recommendation)
        return FAIL(ERR_MEMORY, "no memory for %d recommendations", r->runs);
    for (int i = 0; i < r->runs; i++) {
        bool seen = r->run[i].log != NULL;
        for (int j = 0; j < i; j++)
            seen |= same_target(&r->run[i], &r->run[j]);
        if (!seen)
            TRY(recommend_for(&r->recommendation[r->recommendations++], r, i));
    }
    return OK;
}

/* ---- configs/<target>.yaml ---- */

static void print_config(FILE *out, const struct report *r, const struct recommendation *recommendation)
{
    const struct run *run = &r->run[recommendation->run];
    const struct point *p = &run->point;
    char target[WORDS];
    fprintf(out, "# %s: recommended by the report of study %s\n# %s\n", words_target(target, run), r->study,
            recommendation->why);
    /* Megatron-LM's block with 0 layers stores everything. */
    fprintf(out,
            "# Megatron-LM: --recompute-granularity full --recompute-method block --recompute-num-layers %d "
            "--micro-batch-size %d\n",
            p->recompute.num_layers, p->training.micro_batch_size);
    fprintf(out, "target: %s\nprofile: %s\nrecompute_granularity: full\nrecompute_method: block\n", p->target.name,
            p->target.profile);
    fprintf(out, "recompute_num_layers: %d\nmicro_batch_size: %d\nglobal_batch_size: %d\nsequence_length: %d\n",
            p->recompute.num_layers, p->training.micro_batch_size, p->training.global_batch_size,
            p->training.sequence_length);
    fprintf(out, "evidence: %s\n", run->name);
}

static status write_config(const struct report *r, const struct recommendation *recommendation, const char *folder)
{
    const char *target = r->run[recommendation->run].point.target.name;
    char path[LAYOUT_PATH], *text = NULL;
    size_t size = 0;
    /* The name comes from a record, which may come from anywhere. */
    if (!target[0] || target[0] == '.' || strchr(target, '/'))
        return FAIL(ERR_INPUT, "target '%s' cannot name a file: rename it in the study and plan again", target);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return FAIL(ERR_MEMORY, "no memory for a configuration");
    print_config(out, r, recommendation);
    fclose(out);
    snprintf(path, sizeof path, "%s/%s.yaml", folder, target);
    status st = file_write(path, text, size);
    free(text);
    return st;
}

status report_configs(const struct report *r, const char *folder)
{
    TRY(file_make_folder(folder));
    for (int i = 0; i < r->recommendations; i++)
        if (r->recommendation[i].run >= 0)
            TRY(write_config(r, &r->recommendation[i], folder));
    return OK;
}

/* ---- --fail-on ---- */

status report_known_verdict(const char *word)
{
    for (int v = 0; v < VERDICTS; v++)
        if (!strcmp(word, verdict_name((enum verdict)v)))
            return OK;
    if (!strcmp(word, "MISMATCH"))
        return OK;
    return FAIL(ERR_USAGE,
                "--fail-on '%s': expected MISMATCH, IDENTICAL, AGREES, UNDECIDED, DIFFERS, EQUIVALENT, "
                "INCONCLUSIVE, DRIFTING or DIVERGED",
                word);
}

static bool contrast_says(const struct contrast *c, const char *word)
{
    for (int m = 0; c->other >= 0 && m < GAP_METRICS; m++)
        if (!strcmp(word, verdict_name(c->metric[m].pair.verdict)) ||
            !strcmp(word, verdict_name(c->metric[m].policy.verdict)))
            return true;
    return false;
}

static bool run_says(const struct run *run, const char *word)
{
    if (run->state != RUN_MEASURED)
        return false;
    if (!strcmp(word, "MISMATCH"))
        return certificate_total(run->certificate).mismatched > 0;
    return contrast_says(&run->against, word) || contrast_says(&run->against_baseline, word);
}

status report_fail_on(const struct report *r, const char *word)
{
    struct names names = {0};
    for (int i = 0; i < r->runs; i++)
        if (run_says(&r->run[i], word))
            names_add(&names, r->run[i].name);
    return names.used ? FAIL(ERR_RESULT, "%s: %s", word, names_text(&names)) : OK;
}
