#include "stages/point.h"

#include <limits.h>

#include "data/file.h"

/* Names the field, and says what is wrong with it. */
#define WRONG(field, ...) (*culprit = (field), FAIL(ERR_USAGE, __VA_ARGS__))

static status check_batches(const struct point *p, const char **culprit)
{
    const struct point_training *t = &p->training;
    int dp = p->target.dp, cp = p->target.cp;
    int64_t at_once = (int64_t)t->micro_batch_size * dp;
    int group = t->global_batch_size / t->reduction_groups;
    if (t->global_batch_size % at_once)
        return WRONG("training.global_batch_size",
                     "global_batch_size %d: must be a multiple of micro_batch_size %d times dp %d of target %s",
                     t->global_batch_size, t->micro_batch_size, dp, p->target.name);
    if (t->global_batch_size % t->reduction_groups)
        return WRONG("training.reduction_groups", "reduction_groups %d: must divide global_batch_size %d",
                     t->reduction_groups, t->global_batch_size);
    if (t->reduction_groups % dp)
        return WRONG("training.reduction_groups", "reduction_groups %d: must be a multiple of dp %d of target %s",
                     t->reduction_groups, dp, p->target.name);
    if (t->micro_batch_size % group && group % t->micro_batch_size)
        return WRONG("training.micro_batch_size",
                     "micro_batch_size %d: must hold whole reduction groups of %d sequences, or divide one",
                     t->micro_batch_size, group);
    if (cp > 1 && t->sequence_length % (2 * (int64_t)cp))
        return WRONG("training.sequence_length", "sequence_length %d: must be a multiple of 2 x cp %d of target %s",
                     t->sequence_length, cp, p->target.name);
    return OK;
}

static status check_schedule(const struct point *p, const char **culprit)
{
    const struct optimizer_rule *r = &p->training.rule;
    long long steps = r->steps;
    if (p->training.branch_at >= steps)
        return WRONG("training.branch_at", "branch_at %lld: must be less than steps %lld",
                     (long long)p->training.branch_at, steps);
    if (r->warmup_steps > steps)
        return WRONG("training.warmup_steps", "warmup_steps %lld: more than steps %lld", (long long)r->warmup_steps,
                     steps);
    if (r->min_lr > r->lr)
        return WRONG("training.min_lr", "min_lr %g: more than lr %g", r->min_lr, r->lr);
    if (r->beta1 >= 1)
        return WRONG("training.beta1", "beta1 %g: must be less than 1", r->beta1);
    if (r->beta2 >= 1)
        return WRONG("training.beta2", "beta2 %g: must be less than 1", r->beta2);
    if (r->eps <= 0)
        return WRONG("training.eps", "eps %g: must be more than 0", r->eps);
    for (int i = 0; i < p->dump_steps; i++) {
        if (p->dump_step[i] > steps)
            return WRONG("dumps.steps", "dumps at step %lld: the run has %lld steps", (long long)p->dump_step[i],
                         steps);
        for (int j = 0; j < i; j++)
            if (p->dump_step[j] == p->dump_step[i])
                return WRONG("dumps.steps", "dumps at step %lld: it is listed twice", (long long)p->dump_step[i]);
    }
    if (p->certificate.every > steps - (p->scratch ? 0 : p->training.branch_at))
        return WRONG("certificate.every", "certificate every %lld steps: this run would compare nothing; write 1",
                     (long long)p->certificate.every);
    long long before = p->scratch ? 0 : p->training.branch_at, audits = p->audit.every;
    if (audits && steps / audits == before / audits)
        return WRONG("audit.every", "audit every %lld steps: it divides no step from %lld to %lld; write less, or 0",
                     audits, before + 1, steps);
    if (p->verdict.window[0] >= p->verdict.window[1])
        return WRONG("verdict.window", "window [%g, %g]: must begin before it ends", p->verdict.window[0],
                     p->verdict.window[1]);
    return OK;
}

static status check_recompute(const struct point *p, const char **culprit)
{
    struct recompute_plan *plan;
    bool recomputes = p->recompute.granularity != RECOMPUTE_NONE;
    const struct fault *f = &p->fault;
    const enum arithmetic_mode forward = p->dial.forward, mode = p->dial.recompute;
    int layers = p->model.layers;
    *culprit = "points.recompute_num_layers";
    if (f->kind != FAULT_NONE && f->last_layer >= layers && f->last_layer != INT_MAX)
        return WRONG("points.fault", "fault '%s': the model has layers 0 to %d", p->fault_text, layers - 1);
    TRY(recompute_plan_make(&plan, &p->recompute, layers));
    *culprit = "points.fault";
    const struct fault_run run = {plan,
                                  &p->model,
                                  p->training.storage,
                                  mode == ARITHMETIC_FIXED ? forward : mode,
                                  p->training.rule.steps,
                                  p->target.dp * p->target.cp};
    status st = fault_check(f, &run);
    recompute_plan_free(plan);
    TRY(st);
    if (f->kind != FAULT_NONE && p->recompute.precision == F32 && p->training.storage == BF16)
        return WRONG("points.fault",
                     "fault '%s' cannot be told apart from the differences that recompute_precision fp32 "
                     "announces: use bf16",
                     p->fault_text);
    if (!recomputes && mode != ARITHMETIC_FIXED)
        return WRONG("points.arithmetic", "a recompute with %s arithmetic would never act: nothing is recomputed",
                     arithmetic_mode_name(mode));
    bool repeats = mode == ARITHMETIC_FIXED || (mode == forward && mode != ARITHMETIC_RANDOM);
    if (recomputes && !repeats && p->certificate.stop)
        return WRONG("points.arithmetic",
                     "a recompute with %s arithmetic of its own differs from its forward: add certificate: "
                     "{on_mismatch: continue}",
                     arithmetic_mode_name(mode));
    return OK;
}

static status check_start(const struct point *p, const char **culprit)
{
    bool plain = p->recompute.granularity == RECOMPUTE_NONE && p->fault.kind == FAULT_NONE && !*p->replicate &&
                 p->dial.forward == ARITHMETIC_FIXED && p->dial.recompute == ARITHMETIC_FIXED;
    if (p->baseline && !(p->scratch && plain))
        return WRONG("baseline", "the baseline starts from scratch and stores everything, without fault or replicate");
    if (!p->scratch && !p->training.branch_at)
        return WRONG("training.branch_at",
                     "%s branches from the baseline, and branch_at is 0: set it, or write start: scratch", p->name);
    if (p->fits != (p->planned_bytes <= p->target.memory_bytes))
        return WRONG("target.memory", "fits: %s, with %llu bytes planned and %llu there", p->fits ? "true" : "false",
                     (unsigned long long)p->planned_bytes, (unsigned long long)p->target.memory_bytes);
    return OK;
}

/* Sources are passed on as arguments and in lines of text. */
static status check_source(const struct point *p, const char **culprit)
{
    bool plain = *p->data.source && *p->data.source != '-';
    for (const char *c = p->data.source; *c; c++)
        plain = plain && (unsigned char)*c >= ' ' && *c != 0x7f;
    if (!plain)
        return WRONG("data.source",
                     "source: expected 'corpus', or a path without control characters that does not begin "
                     "with '-' (write ./-name)");
    return OK;
}

static status check_model(const struct point *p, const char **culprit)
{
    struct xxh3 hash;
    bool imported = *p->checkpoint.path;
    if (imported == (*p->model.preset != '\0'))
        return WRONG("model", "model: expected one of preset and checkpoint");
    if (imported ? !xxh3_of_hex(&hash, p->checkpoint.hash) : *p->checkpoint.hash)
        return WRONG("checkpoint_hash", "checkpoint_hash '%s': expected the 32 digits of checkpoint '%s'",
                     p->checkpoint.hash, p->checkpoint.path);
    *culprit = "model";
    return shape_check(&p->model);
}

status point_check(const struct point *p, const char **culprit)
{
    struct arithmetic arithmetic;
    TRY(check_model(p, culprit));
    *culprit = "target.profile";
    TRY(arithmetic_find(&arithmetic, p->target.profile));
    TRY(check_source(p, culprit));
    TRY(check_batches(p, culprit));
    TRY(check_schedule(p, culprit));
    TRY(check_recompute(p, culprit));
    return check_start(p, culprit);
}
