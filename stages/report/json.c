#include "stages/report/audit.h"
#include "stages/report/log.h"
#include "stages/report/words.h"

#include <math.h>
#include <string.h>

/* Every helper returns a new reference; NULL when memory ran out, which the packing functions pass on. */

static json_t *word_or_null(const char *word) { return word[0] ? json_string(word) : json_null(); }

static json_t *policy_json(const struct recompute_policy *p)
{
    static const enum recompute_module modules[] = {MODULE_CORE_ATTN, MODULE_MLP, MODULE_LAYERNORM};
    json_t *list = json_array();
    for (int i = 0; i < 3; i++)
        if (p->modules & modules[i]) {
            char name[64];
            recompute_modules_name(modules[i], name);
            json_array_append_new(list, json_string(name));
        }
    const char *granularity = p->granularity == RECOMPUTE_NONE ? "" : recompute_granularity_name(p->granularity);
    return json_pack("{s:o, s:o, s:i, s:o, s:s}", "granularity", word_or_null(granularity), "method",
                     word_or_null(recompute_method_name(p->method)), "num_layers", p->num_layers, "modules", list,
                     "precision", p->precision == F32 ? "fp32" : "bf16");
}

static json_t *first_json(const struct run *run)
{
    const struct certificate_event *first = certificate_first(run->certificate);
    if (!first)
        return json_null();
    enum block_op op = block_tensor_op(first->tensor);
    return json_pack("{s:I, s:i, s:i, s:s, s:s, s:s, s:i, s:s}", "step", (json_int_t)first->step, "micro_batch",
                     first->micro_batch, "layer", first->layer, "op",
                     op == OP_STORED_INPUT ? "stored_input" : block_op_name(op), "family", block_op_family(op),
                     "tensor", block_tensor_name(first->tensor), "rank", first->rank, "accused",
                     accused_name(first->accused));
}

static json_t *certificate_json(const struct run *run)
{
    struct certificate_totals totals = certificate_total(run->certificate);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "proof", proof_name(run_proof(run)), "every",
                     (json_int_t)run->point.certificate.every, "compared", (json_int_t)totals.compared,
                     "expected_count", (json_int_t)run->expected_count, "mismatched", (json_int_t)totals.mismatched,
                     "expected_mismatched", (json_int_t)totals.expected, "differing", (json_int_t)totals.differing,
                     "grown", (json_int_t)totals.grown, "shrunk", (json_int_t)totals.shrunk, "first", first_json(run));
}

static json_t *evidence_json(const struct evidence *e)
{
    return json_pack("{s:o, s:o}", "p", json_number(e->p), "holm", json_number(e->adjusted));
}

static json_t *price_json(const struct report *r, const struct price *p)
{
    if (!p->steps && !p->runs)
        return json_null();
    json_t *object = json_pack("{s:I, s:i}", "steps", (json_int_t)p->steps, "runs", p->runs);
    if (object && !r->stable)
        json_object_set_new(object, "device_hours", json_number(p->hours));
    return object;
}

static json_t *onset_json(const struct onset *o)
{
    if (!o->first_bits)
        return json_null();
    return json_pack(
        "{s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "first_bits", (json_int_t)o->first_bits, "tested", o->tested,
        "statistic", json_number(o->statistic), "step", o->found ? json_integer(o->step) : json_null(), "low",
        o->found ? json_integer(o->low) : json_null(), "high", o->found ? json_integer(o->high) : json_null(), "before",
        o->found ? json_number(o->before) : json_null(), "after", o->found ? json_number(o->after) : json_null());
}

static json_t *likeness_json(const struct likeness *l)
{
    if (!l->kind)
        return json_null();
    return json_pack("{s:s, s:f, s:b, s:s}", "kind", l->kind == LIKENESS_FACTOR ? "factor" : "offset", "value",
                     l->value, "exact", l->exact, "text", l->text);
}

static json_t *pair_json(const struct report *r, const struct contrast *c, enum gap_metric m)
{
    const struct judgement *j = &c->metric[m].pair;
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "verdict", verdict_name(j->verdict), "gap",
        json_number(j->gap), "low", json_number(j->low), "high", json_number(j->high), "detectable",
        json_number(j->detectable), "effective", json_number(j->effective), "inside", evidence_json(&j->inside),
        "first_step", (json_int_t)j->first, "last_step", (json_int_t)j->last, "outside", evidence_json(&j->outside),
        "price", price_json(r, &c->metric[m].pair_price), "reason", word_or_null(j->reason));
    if (!object)
        return NULL;
    json_object_set_new(object, "onset", onset_json(&c->metric[m].onset));
    json_object_set_new(object, "looks_like", likeness_json(&c->metric[m].likeness));
    json_object_set_new(object, "error",
                        json_pack("{s:o, s:o, s:o, s:o}", "batch_means", json_number(j->error), "newey_west",
                                  json_number(c->metric[m].newey_west), "block_bootstrap",
                                  json_number(c->metric[m].bootstrap), "block", json_number(c->metric[m].block)));
    return object;
}

static json_t *drift_json(const struct drift *d)
{
    if (isnan(d->low))
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "slope", d->slope, "low", d->low, "high", d->high, "detectable",
                     d->detectable, "grows", evidence_json(&d->grows), "horizon",
                     d->horizon ? json_integer(d->horizon) : json_null());
}

static json_t *policy_verdict_json(const struct report *r, const struct contrast *c, enum gap_metric m)
{
    const struct judgement *j = &c->metric[m].policy;
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:{s:i, s:i}, s:i, s:o, s:o, s:o}", "verdict", verdict_name(j->verdict), "gap",
        json_number(j->gap), "low", json_number(j->low), "high", json_number(j->high), "detectable",
        json_number(j->detectable), "replicates", "baseline", j->baselines, "candidate", j->candidates, "repeats",
        c->metric[m].repeats, "floor", word_or_null(noise_floor_name(c->metric[m].floor)), "runs_needed",
        j->runs_needed ? json_integer(j->runs_needed) : json_null(), "reason", word_or_null(j->reason));
    if (!object)
        return NULL;
    json_object_set_new(object, "inside", evidence_json(&j->inside));
    json_object_set_new(object, "outside", evidence_json(&j->outside));
    json_object_set_new(object, "drift", drift_json(&j->drift));
    json_object_set_new(object, "price", price_json(r, &c->metric[m].policy_price));
    return object;
}

static json_t *presets_json(const struct contrast *c)
{
    json_t *object = json_object();
    for (int i = 0; i < PRESETS; i++)
        json_object_set_new(object, preset_rule(i)->name,
                            json_pack("{s:s, s:o}", "outcome", preset_outcome_name(c->preset[i].outcome), "text",
                                      word_or_null(c->preset[i].text)));
    return object;
}

static json_t *contrast_json(const struct report *r, const struct contrast *c)
{
    if (c->other < 0)
        return json_null();
    json_t *object = json_pack("{s:s, s:o}", "point", r->run[c->other].name, "presets", presets_json(c));
    for (int m = 0; m < GAP_METRICS; m++)
        json_object_set_new(object, metric_name(m),
                            json_pack("{s:o, s:o, s:f}", "pair", pair_json(r, c, m), "policy",
                                      policy_verdict_json(r, c, m), "margin", c->metric[m].margin));
    return object;
}

static json_t *score_json(const struct score *s)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)s->tokens, "tokens_right",
                     (json_int_t)s->tokens_right, "lines", (json_int_t)s->lines, "lines_right",
                     (json_int_t)s->lines_right);
}

/* Of the last evaluation: the sum over files, and each file. */
static json_t *scores_json(const struct run *run)
{
    struct score total;
    if (!report_scores(&total, run))
        return json_null();
    json_t *files = json_object();
    for (int i = 0; i < run->evaluations.scores; i++)
        if (run->evaluations.score[i].step == total.step)
            json_object_set_new(files, run->evaluations.score[i].file, score_json(&run->evaluations.score[i]));
    return json_pack("{s:I, s:o, s:o}", "step", (json_int_t)total.step, "total", score_json(&total), "files", files);
}

static void set_measured(json_t *object, const struct run *run)
{
    bool known = run->state == RUN_MEASURED && !run->log;
    json_object_set_new(object, "tokens_per_s", known ? json_number(run->usage.tokens_per_s) : json_null());
    json_object_set_new(object, "seconds", known ? json_number(run->usage.seconds) : json_null());
    json_object_set_new(object, "peak_bytes", known ? json_integer((json_int_t)run->usage.peak_bytes) : json_null());
    json_object_set_new(object, "environment", known ? json_incref(run->environment) : json_null());
}

/* A log tells nothing of these, whatever stands in the point that carries it. */
static void set_untold(json_t *object)
{
    static const char *const keys[] = {
        "target",        "module",        "recompute", "start", "arithmetic", "storage", "planned_activation_bytes",
        "planned_steps", "planned_bytes", "fits"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(object, keys[i], json_null());
}

static json_t *run_json(const struct report *r, const struct run *run)
{
    const struct point *p = &run->point;
    bool known = run->state == RUN_MEASURED && !run->log; /* from a record */
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:s, s:o, s:o, s:s, s:o}", "name", run->name, "status",
                  run_state_name(run->state), "target", p->target.name, "simulated", run_is_simulated(run), "replicate",
                  word_or_null(p->replicate), "fault", word_or_null(p->fault_text), "module", "decoder", "recompute",
                  policy_json(&p->recompute), "vit_recompute",
                  p->vit_recompute.granularity == RECOMPUTE_NONE ? json_null() : policy_json(&p->vit_recompute),
                  "start", p->scratch || p->baseline ? "scratch" : "branch", "steps",
                  run->metrics ? json_integer(run->metric[run->metrics - 1].step) : json_null());
    if (!object)
        return NULL;
    json_object_set_new(object, "arithmetic",
                        json_pack("{s:s, s:s}", "forward", arithmetic_mode_name(p->dial.forward), "recompute",
                                  arithmetic_mode_name(p->dial.recompute)));
    json_object_set_new(object, "storage", json_string(p->training.storage == F32 ? "fp32" : "bf16"));
    json_object_set_new(object, "planned_steps", json_integer(p->training.rule.steps));
    json_object_set_new(object, "log", run->log ? log_json(run) : json_null());
    json_object_set_new(object, "certificate", known ? certificate_json(run) : json_null());
    json_object_set_new(object, "audits", audit_json(run));
    json_object_set_new(object, "cause", json_null());
    json_object_set_new(object, "against", contrast_json(r, &run->against));
    json_object_set_new(object, "against_baseline", contrast_json(r, &run->against_baseline));
    json_object_set_new(object, "scores", known ? scores_json(run) : json_null());
    json_object_set_new(object, "activation_bytes",
                        known ? json_integer((json_int_t)run->result.activation_bytes) : json_null());
    json_object_set_new(
        object, "planned_activation_bytes",
        json_integer((json_int_t)(known ? run->result.planned_activation_bytes : p->planned_activation_bytes)));
    json_object_set_new(object, "planned_bytes", json_integer((json_int_t)p->planned_bytes));
    json_object_set_new(object, "fits", json_boolean(p->fits));
    json_object_set_new(object, "weights_digest", known ? json_string(run->result.weights_digest) : json_null());
    if (run->log)
        set_untold(object);
    if (!r->stable)
        set_measured(object, run);
    return object;
}

static json_t *recommendation_json(const struct report *r, const struct recommendation *recommendation)
{
    const struct run *run = &r->run[recommendation->run >= 0 ? recommendation->run : recommendation->target_of];
    const struct point *p = &run->point;
    bool found = recommendation->run >= 0;
    return json_pack("{s:s, s:b, s:o, s:o, s:s}", "target", p->target.name, "simulated", run_is_simulated(run),
                     "recompute_num_layers", found ? json_integer(p->recompute.num_layers) : json_null(),
                     "micro_batch_size", found ? json_integer(p->training.micro_batch_size) : json_null(), "why",
                     recommendation->why);
}

/* How many tests of a kind were made, and what is left of their claims. */
static json_t *tests_json(const struct report *r)
{
    json_t *object = json_object();
    for (int f = 0; f < TEST_FAMILIES; f++)
        json_object_set_new(object, test_family_name(f),
                            json_pack("{s:i, s:i, s:i}", "tests", r->multiplicity[f].tests, "claims",
                                      r->multiplicity[f].claims, "survive", r->multiplicity[f].survive));
    return object;
}

status report_json(json_t **out, const struct report *r)
{
    json_t *points = json_array(), *recommendations = json_array();
    bool failed = false;
    for (int i = 0; i < r->runs; i++)
        failed |= json_array_append_new(points, run_json(r, &r->run[i])) != 0;
    for (int i = 0; i < r->recommendations; i++)
        failed |= json_array_append_new(recommendations, recommendation_json(r, &r->recommendation[i])) != 0;
    *out = json_pack("{s:s, s:o, s:o, s:o}", "study", r->study, "points", points, "recommendation", recommendations,
                     "tests", tests_json(r));
    if (*out && !failed)
        return OK;
    json_decref(*out);
    *out = NULL;
    return FAIL(ERR_MEMORY, "no memory for report.json");
}
