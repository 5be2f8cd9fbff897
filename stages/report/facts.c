/* facts.c - what single runs are, and what their records prove by themselves. */
#include "stages/report/log.h"

#include <math.h>
#include <string.h>

/* ---- what a run is ---- */

bool run_recomputes(const struct run *run) { return run->point.recompute.granularity != RECOMPUTE_NONE; }

/* Neither replicate nor planted fault nor another arithmetic than the profile's. */
static bool is_control(const struct point *p)
{
    return !p->replicate[0] && !p->fault_text[0] && p->dial.forward == ARITHMETIC_FIXED &&
           p->dial.recompute == ARITHMETIC_FIXED;
}

bool run_is_plain(const struct report *r, const struct run *run)
{
    const struct point *p = &run->point;
    bool default_start = !p->scratch || p->baseline || !p->training.branch_at;
    const struct run *baseline = &r->run[r->baseline];
    bool usual_storage = baseline->log || p->training.storage == baseline->point.training.storage;
    return !run->log && is_control(p) && default_start && usual_storage && p->recompute.precision == BF16 &&
           (p->recompute.granularity == RECOMPUTE_NONE || p->recompute.method == METHOD_BLOCK);
}

bool runs_equal_weights(const struct run *a, const struct run *b)
{
    return a->state == RUN_MEASURED && b->state == RUN_MEASURED && !a->log && !b->log &&
           !strcmp(a->result.weights_digest, b->result.weights_digest);
}

bool runs_repeat(const struct run *a, const struct run *b)
{
    bool equal = a->log && b->log && a->metrics == b->metrics;
    for (int64_t i = 0; equal && i < a->metrics; i++)
        equal = a->metric[i].step == b->metric[i].step && a->metric[i].loss == b->metric[i].loss;
    return equal || runs_equal_weights(a, b);
}

bool run_has_grad_norm(const struct run *run) { return !run->log || run->log->grad_norm; }

const struct metric *run_divergence(const struct run *run)
{
    for (int64_t i = 0; i < run->metrics; i++)
        if (!isfinite(run->metric[i].loss) || (run_has_grad_norm(run) && !isfinite(run->metric[i].grad_norm)))
            return &run->metric[i];
    return NULL;
}

bool run_stopped_early(const struct run *run)
{
    return run->state == RUN_MEASURED && run->result.steps_done < run->point.training.rule.steps;
}

bool run_is_simulated(const struct run *run)
{
    if (run->log)
        return false;
    if (run->state == RUN_MEASURED) {
        const char *backend = json_string_value(json_object_get(run->environment, "backend"));
        return !backend || strcmp(backend, "cuda") != 0;
    }
    const char *profile = run->point.target.profile;
    size_t length = strlen(profile);
    return length > 4 && !strcmp(profile + length - 4, "-sim");
}

/* ---- the certificate ---- */

/* Tensors of one micro-batch, from the words of the policy. A whole layer rebuilds 12 tensors up to the input of its
 * last GEMM, and its stored input is verified; inside a chunk the last GEMM's output and the layer's output are rebuilt
 * too, and only the chunk's first input is stored. */
static uint64_t expected_in_micro_batch(const struct recompute_policy *p, uint64_t layers)
{
    enum { INNER = 12, ENDING = 2, STORED = 1, CORE_ATTN = 2, MLP = 2, LAYERNORM = 4 };
    uint64_t chunk = (uint64_t)p->num_layers;
    switch (p->granularity) {
    case RECOMPUTE_NONE:
        return 0;
    case RECOMPUTE_SELECTIVE:
        return layers * ((p->modules & MODULE_CORE_ATTN ? CORE_ATTN : 0) + (p->modules & MODULE_MLP ? MLP : 0) +
                         (p->modules & MODULE_LAYERNORM ? LAYERNORM : 0));
    case RECOMPUTE_FULL:
        break;
    }
    if (p->method == METHOD_BLOCK)
        return chunk * (INNER + STORED);
    uint64_t chunks = (layers + chunk - 1) / chunk;
    return layers * INNER + (layers - chunks) * ENDING + chunks * STORED;
}

uint64_t report_expected_count(const struct point *p, const struct metric *metric, int64_t metrics)
{
    uint64_t steps = 0;
    for (int64_t i = 0; i < metrics; i++)
        steps += p->certificate.every > 0 && metric[i].step % p->certificate.every == 0;
    uint64_t micro_batches = (uint64_t)(p->training.global_batch_size / p->training.micro_batch_size);
    uint64_t parts = (uint64_t)(p->target.cp > 1 ? p->target.cp : 1); /* each context-parallel rank compares its own */
    return expected_in_micro_batch(&p->recompute, (uint64_t)p->model.layers) * steps * micro_batches * parts;
}

const char *proof_name(enum proof p)
{
    static const char *const names[PROOFS] = {"not needed", "bit-exact", "mismatch", "incomplete", "none", "announced"};
    return names[p];
}

enum proof run_proof(const struct run *run)
{
    struct certificate_totals totals = certificate_total(run->certificate);
    if (!run_recomputes(run) && totals.compared == 0)
        return PROOF_NOT_NEEDED;
    if (totals.mismatched)
        return PROOF_MISMATCH;
    if (totals.compared != run->expected_count)
        return PROOF_INCOMPLETE;
    if (totals.compared == 0)
        return PROOF_NONE;
    bool announced = run->certificate->expects_mismatch || totals.expected;
    return announced ? PROOF_ANNOUNCED : PROOF_EXACT;
}

/* ---- scores and held-out losses ---- */

bool report_scores(struct score *total, const struct run *run)
{
    const struct evaluations *e = &run->evaluations;
    *total = (struct score){.step = -1};
    for (int i = 0; i < e->scores; i++)
        total->step = e->score[i].step > total->step ? e->score[i].step : total->step;
    for (int i = 0; i < e->scores; i++)
        if (e->score[i].step == total->step) {
            total->tokens += e->score[i].tokens;
            total->tokens_right += e->score[i].tokens_right;
            total->lines += e->score[i].lines;
            total->lines_right += e->score[i].lines_right;
        }
    return e->scores > 0;
}

const struct evaluation *run_evaluation(const struct run *run, int64_t step)
{
    for (int i = run->evaluations.count - 1; i >= 0; i--)
        if (run->evaluations.at[i].step == step)
            return &run->evaluations.at[i];
    return NULL;
}
