#include <string.h>

#include "kernels/ops.h"
#include "model/decoder_internal.h"

/* ---- passes ---- */

static void layer_weights(const struct decoder *d, const struct view *flat, int layer,
                          struct view weight[BLOCK_PARAMETERS])
{
    const struct model_shape *s = &d->options.shape;
    int first = shape_parameter_index(s, PARAMETER_INPUT_NORM, layer);
    for (int i = 0; i < BLOCK_PARAMETERS; i++)
        weight[i] = block_parameter(s, flat, first + i);
}

static struct pass make_pass(const struct decoder *d, enum pass_phase phase, int layer, int32_t micro_batch)
{
    struct pass p = {
        .phase = phase,
        .layer = layer,
        .reads = layer,
        .plans = phase == PHASE_EVALUATE ? &d->evaluation : &d->forward,
        .key = {.seed = d->options.seed, .step = (uint32_t)d->step},
        .dropout = phase == PHASE_EVALUATE ? 0 : d->options.shape.hidden_dropout,
        .position = d->position,
        .row_id = d->row_id,
        .head_row_id = d->head_row_id,
        .storage = d->options.storage,
        .draw_seed = d->options.draw_seed,
        .micro_batch = (uint32_t)micro_batch,
    };
    layer_weights(d, &d->weight, layer, p.weight);
    return p;
}

/* The pass of a rebuild: the forward's, then what the study changes about it, which a control leaves out. */
static struct pass recompute_pass(struct decoder *d, int layer, int32_t micro_batch)
{
    struct pass p = make_pass(d, PHASE_RECOMPUTE, layer, micro_batch);
    if (d->controls)
        return p;
    p.plans = &d->recompute;
    p.redraw = d->options.dial.recompute == ARITHMETIC_RANDOM;
    if (d->plan->policy.precision == F32)
        p.storage = d->options.storage == F64 ? F64 : F32;
    const struct fault *f = &d->options.fault;
    if (fault_acts(f, layer, d->step, d->options.rank)) {
        struct fault_material material = {
            .other = &d->other, .position = d->fault_position, .chunk_first = d->plan->layer[layer].chunk_first};
        if (d->stale_valid) {
            layer_weights(d, &d->stale, layer, d->stale_weight);
            material.stale_weight = d->stale_weight;
        }
        fault_edit(f, &p, &material);
    }
    return p;
}

/* ---- which memory a layer's tensors have ---- */

static struct view tensor_in(const struct decoder *d, enum block_tensor t, const struct view *memory,
                             enum dtype storage)
{
    struct view v = block_tensor_view(&d->options.shape, t, d->options.micro_batch, d->options.shape.sequence, storage);
    v.data = memory->data;
    return v;
}

/* Tensors without memory of their own, once the others are bound; see memory.h. */
static void bind_lodgers(const struct decoder *d, struct block_tensors *out, enum dtype storage)
{
    out->t[TENSOR_QKV_RAW] = out->t[TENSOR_QKV];
    out->t[TENSOR_PROJECTED] = tensor_in(d, TENSOR_PROJECTED, &d->transient, storage);
    out->t[TENSOR_DOWN] = tensor_in(d, TENSOR_DOWN, &d->transient, storage);
}

static struct view bind_tensor(const struct decoder *d, int layer, enum block_tensor t, enum dtype storage)
{
    const struct recompute_layer *l = &d->plan->layer[layer];
    if (l->rebuilt >> t & 1u)
        return tensor_in(d, t, &d->slot[layer - l->chunk_first].t[t], storage);
    return d->stored[layer].t[t];
}

/* A layer's input inside a chunk was stored by the layer before. */
static enum dtype input_storage(struct decoder *d, const struct pass *pass)
{
    bool behind_another = pass->phase == PHASE_RECOMPUTE && pass->reads > 0;
    return behind_another ? recompute_pass(d, pass->reads - 1, (int32_t)pass->micro_batch).storage : pass->storage;
}

static struct block_tensors bind_layer(struct decoder *d, const struct pass *pass)
{
    struct block_tensors out;
    for (int t = 0; t < BLOCK_TENSORS; t++)
        out.t[t] = bind_tensor(d, pass->layer, (enum block_tensor)t, pass->storage);
    out.t[TENSOR_INPUT] = bind_tensor(d, pass->reads, TENSOR_INPUT, input_storage(d, pass));
    out.t[TENSOR_OUTPUT] = pass->layer + 1 < d->plan->layers
                               ? bind_tensor(d, pass->layer + 1, TENSOR_INPUT, pass->storage)
                               : d->final_input;
    bind_lodgers(d, &out, pass->storage);
    return out;
}

/* The witness has one layer's room; the residual stream alternates between its two ends. */
static struct block_tensors bind_witness(const struct decoder *d, int layer)
{
    const struct recompute_layer *l = &d->plan->layer[layer];
    struct block_tensors out;
    for (int t = 0; t < BLOCK_TENSORS; t++)
        out.t[t] = l->rebuilt >> t & 1u ? d->witness.t[t] : d->stored[layer].t[t];
    bool odd = (layer - l->chunk_first) % 2;
    const struct view *ends[2] = {&d->witness.t[TENSOR_INPUT], &d->witness.t[TENSOR_OUTPUT]};
    if (layer > l->chunk_first)
        out.t[TENSOR_INPUT] = *ends[odd];
    out.t[TENSOR_OUTPUT] = *ends[!odd];
    bind_lodgers(d, &out, d->options.storage);
    return out;
}

/* ---- forward ---- */

static status embed(struct decoder *d, const struct pass *pass, const int32_t *token)
{
    const struct ops *ops = d->device->ops;
    struct view x = bind_tensor(d, 0, TENSOR_INPUT, d->options.storage);
    struct view table = block_parameter(&d->options.shape, &d->weight, 0);
    struct random_site where = pass->key;
    where.layer = (uint32_t)d->options.shape.layers;
    where.site = SITE_EMBEDDING;
    TRY(ops->embedding_forward(d->device, &x, &table, token));
    return ops->dropout_add(d->device, &x, NULL, &x, pass->dropout, &where, pass->row_id);
}

static struct view final_norm_weight(const struct decoder *d)
{
    const struct model_shape *s = &d->options.shape;
    return block_parameter(s, &d->weight, shape_parameter_index(s, PARAMETER_FINAL_NORM, -1));
}

static status forward(struct decoder *d, enum pass_phase phase, const struct batch *batch)
{
    const struct model_shape *s = &d->options.shape;
    for (int l = 0; l < s->layers; l++) {
        struct pass pass = make_pass(d, phase, l, batch->micro_batch);
        struct block_tensors tensors = bind_layer(d, &pass);
        if (l == 0)
            TRY(embed(d, &pass, batch->token));
        TRY(block_forward(&d->block, &pass, (1u << BLOCK_OPS) - 1, &tensors));
    }
    struct view w = final_norm_weight(d);
    return d->device->ops->rmsnorm_forward(d->device, &d->final_norm, &d->final_rstd, &d->final_input, &w, s->norm_eps);
}

/* ---- the head: logits only ever exist for a chunk of tokens ---- */

struct head {
    struct decoder *d;
    const struct batch *batch;
    uint64_t draw; /* of its first product; the others follow */
    int index;     /* of its parameter */
    struct view weight;
    struct arithmetic arithmetic;
    bool training;
    int32_t *predicted;
};

static status head_plan(const struct head *h, enum plan_op op, int64_t m, int64_t n, int64_t k, const struct plan **out)
{
    const int64_t dims[6] = {m, n, k};
    return device_plan(h->d->device, &h->arithmetic, op, dims, out);
}

static status head_chunk(const struct head *h, const struct row_span *span, int64_t first, int64_t count)
{
    struct decoder *d = h->d;
    const struct ops *ops = d->device->ops;
    const struct model_shape *s = &d->options.shape;
    struct view x = view_rows(&d->final_norm, first, count), loss = view_rows(&d->loss, first, count);
    struct view logits = view_rows(&d->logits, 0, count), d_logits = view_rows(&d->d_logits, 0, count);
    const struct plan *plan;
    uint64_t draw = h->draw + 3 * (uint64_t)first;
    TRY(head_plan(h, PLAN_GEMM_NT, count, s->vocab, s->hidden, &plan));
    TRY(ops->gemm(d->device, plan, draw, &logits, &x, &h->weight, false));
    float scale = (float)(1.0 / ((double)d->options.global_batch * s->sequence));
    TRY(ops->cross_entropy(d->device, &loss, h->predicted ? h->predicted + first : NULL, h->training ? &d_logits : NULL,
                           &logits, h->batch->target + first, scale));
    if (!h->training)
        return OK;
    struct view dx = view_rows(&d->block.scratch.d_branch, first, count);
    struct view dw = block_parameter(s, &d->group[span->group], h->index);
    TRY(head_plan(h, PLAN_GEMM_NN, count, s->hidden, s->vocab, &plan));
    TRY(ops->gemm(d->device, plan, draw + 1, &dx, &d_logits, &h->weight, false));
    TRY(head_plan(h, PLAN_GEMM_TN, s->vocab, s->hidden, count, &plan));
    return ops->gemm(d->device, plan, draw + 2, &dw, &d_logits, &x, true);
}

/* Losses of all rows; while training also d_branch = gradient of the final norm's output. */
static status run_head(struct decoder *d, const struct batch *batch, bool training, int32_t *predicted)
{
    const struct model_shape *s = &d->options.shape;
    struct pass pass = make_pass(d, PHASE_FORWARD, s->layers - 1, batch->micro_batch);
    pass.layer = s->layers; /* behind the last block */
    struct head h = {
        .d = d,
        .batch = batch,
        .draw = pass_draw(&pass, 0),
        .index = shape_parameter_index(s, s->tied ? PARAMETER_EMBEDDING : PARAMETER_HEAD, -1),
        .arithmetic = training ? d->training : d->options.arithmetic,
        .training = training,
        .predicted = predicted,
    };
    h.weight = block_parameter(s, &d->weight, h.index);
    for (int i = 0; i < d->spans; i++) {
        const struct row_span *span = &d->span[i];
        for (int64_t done = 0, count; done < span->count; done += count) {
            count = span->count - done < d->memory.head_chunk ? span->count - done : d->memory.head_chunk;
            TRY(head_chunk(&h, span, span->first + done, count));
        }
    }
    return OK;
}

static void sum_losses(const struct decoder *d, double *sequence_loss)
{
    int64_t T = d->options.shape.sequence;
    for (int64_t b = 0; b < d->options.micro_batch; b++) {
        sequence_loss[b] = 0;
        for (int64_t r = b * T; r < (b + 1) * T; r++)
            sequence_loss[b] +=
                d->loss.type == F64 ? ((const double *)d->loss.data)[r] : (double)((const float *)d->loss.data)[r];
    }
}

/* ---- recompute and backward ---- */

/* A control has a certificate of its own. */
static struct notary *notary_at_work(const struct decoder *d) { return d->controls ? d->control_notary : d->notary; }

static status hear_witness(struct decoder *d, int first, int last, int32_t micro_batch)
{
    for (int l = first; l <= last; l++) {
        struct pass pass = make_pass(d, PHASE_WITNESS, l, micro_batch);
        struct pass heard = recompute_pass(d, l, micro_batch);
        struct block_tensors recomputed = bind_layer(d, &heard), witness = bind_witness(d, l);
        notary_recomputed(notary_at_work(d), &recomputed);
        TRY(block_forward(&d->block, &pass, d->plan->layer[l].ops, &witness));
    }
    return OK;
}

static status rebuild_chunk(struct decoder *d, int first, int last, int32_t micro_batch)
{
    for (int l = first; l <= last; l++) {
        struct pass pass = recompute_pass(d, l, micro_batch);
        struct block_tensors tensors = bind_layer(d, &pass);
        TRY(block_forward(&d->block, &pass, d->plan->layer[l].ops, &tensors));
    }
    struct notary *notary = notary_at_work(d);
    if (!notary)
        return OK;
    if (notary_needs_witness(notary))
        TRY(hear_witness(d, first, last, micro_batch));
    notary_judge(notary);
    return OK;
}

/* They may have grown over earlier micro-batches of the step: all of it goes. */
static void drop_gradients(const struct decoder *d, const struct pass *pass)
{
    const struct model_shape *s = &d->options.shape;
    int first = shape_parameter_index(s, PARAMETER_INPUT_NORM, pass->layer);
    for (int i = 0; i < BLOCK_PARAMETERS; i++)
        for (int g = 0; pass->dropped >> i & 1u && g < d->options.groups; g++) {
            struct view gradient = block_parameter(s, &d->group[g], first + i);
            memset(gradient.data, 0, view_bytes(&gradient));
        }
}

static status backward_layer(struct decoder *d, int layer, int32_t micro_batch, const struct gradient_sink *sink)
{
    const struct recompute_layer *l = &d->plan->layer[layer];
    bool rebuilt = recompute_runs(d->plan, layer);
    if (rebuilt && layer == l->chunk_last)
        TRY(rebuild_chunk(d, l->chunk_first, l->chunk_last, micro_batch));
    struct pass forward_made = make_pass(d, PHASE_FORWARD, layer, micro_batch);
    struct pass rebuild_made = rebuilt ? recompute_pass(d, layer, micro_batch) : forward_made;
    struct block_tensors tensors = bind_layer(d, &rebuild_made);
    /* A selective rebuild makes a part of the layer: weights and masks of the rest are the forward's. */
    bool whole = d->plan->policy.granularity == RECOMPUTE_FULL;
    TRY(block_backward(&d->block, whole ? &rebuild_made : &forward_made, &tensors, &d->forward, sink));
    drop_gradients(d, &rebuild_made);
    for (struct observer *o = d->block.observers; o; o = o->next)
        if (o->gradient)
            TRY(o->gradient(o, layer, &d->block.scratch.d_stream));
    return OK;
}

static status backward(struct decoder *d, const struct batch *batch)
{
    const struct ops *ops = d->device->ops;
    const struct model_shape *s = &d->options.shape;
    struct block_scratch *scratch = &d->block.scratch;
    const struct gradient_sink sink = {d->group, d->span, d->spans};
    struct view w = final_norm_weight(d);
    memset(scratch->d_stream.data, 0, view_bytes(&scratch->d_stream));
    for (int i = 0; i < d->spans; i++) {
        int64_t first = d->span[i].first, count = d->span[i].count;
        struct view dw =
            block_parameter(s, &d->group[d->span[i].group], shape_parameter_index(s, PARAMETER_FINAL_NORM, -1));
        struct view dx = view_rows(&scratch->d_stream, first, count), dy = view_rows(&scratch->d_branch, first, count);
        struct view x = view_rows(&d->final_input, first, count), rstd = view_rows(&d->final_rstd, first, count);
        TRY(ops->rmsnorm_backward(d->device, &dx, &dw, &dy, &x, &w, &rstd, true));
    }
    for (int l = s->layers - 1; l >= 0; l--)
        TRY(backward_layer(d, l, batch->micro_batch, &sink));
    struct random_site where = {d->options.seed, (uint32_t)d->step, (uint32_t)s->layers, SITE_EMBEDDING};
    TRY(ops->dropout_backward(d->device, &scratch->d_branch, &scratch->d_stream, s->hidden_dropout, &where, d->row_id));
    for (int i = 0; i < d->spans; i++) {
        struct view dw = block_parameter(s, &d->group[d->span[i].group], 0);
        struct view dy = view_rows(&scratch->d_branch, d->span[i].first, d->span[i].count);
        TRY(ops->embedding_backward(d->device, &dw, &dy, batch->token + d->span[i].first));
    }
    return OK;
}

/* ---- steps ---- */

static void number_rows(struct decoder *d, const struct batch *batch)
{
    int64_t T = d->options.shape.sequence, heads = d->options.shape.heads;
    for (int64_t r = 0; r < decoder_rows(d); r++)
        d->row_id[r] = batch->first_sequence * T + r;
    for (int64_t r = 0; r < d->options.micro_batch * heads; r++)
        d->head_row_id[r] = batch->first_sequence * heads + r;
    int64_t sequences = d->options.micro_batch / d->spans;
    for (int i = 0; i < d->spans; i++) {
        int64_t group = (batch->first_local_sequence + i * sequences) / d->options.sequences_per_group;
        d->span[i] = (struct row_span){i * d->span_rows, d->span_rows, (int)group};
    }
}

status decoder_begin_step(struct decoder *d, int64_t step, bool certified)
{
    d->step = step;
    d->certified = certified;
    for (int g = 0; g < d->options.groups; g++)
        memset(d->group[g].data, 0, view_bytes(&d->group[g]));
    return OK;
}

status decoder_train(struct decoder *d, const struct batch *batch, double *sequence_loss)
{
    number_rows(d, batch);
    if (notary_at_work(d))
        notary_begin(notary_at_work(d), d->step, batch->micro_batch, d->certified);
    TRY(forward(d, PHASE_FORWARD, batch));
    TRY(run_head(d, batch, true, NULL));
    sum_losses(d, sequence_loss);
    return backward(d, batch);
}

status decoder_end_step(struct decoder *d)
{
    if (d->stale.data) {
        memcpy(d->stale.data, d->weight.data, view_bytes(&d->weight));
        d->stale_valid = true;
    }
    return d->notary ? notary_end_step(d->notary) : OK;
}

/* The notary that is not at work sees nothing: it was put to rest, or has not begun. */
static void rest(struct notary *n)
{
    if (n)
        notary_begin(n, 0, 0, false);
}

status decoder_control_begin(struct decoder *d, int64_t step)
{
    if (!d->control.data)
        return FAIL(ERR_ARGUMENT, "a control of step %lld in a decoder that was opened without audits",
                    (long long)step);
    rest(d->notary);
    d->controls = true;
    return decoder_begin_step(d, step, true);
}

void decoder_control_end(struct decoder *d, struct control_proof *proof)
{
    const struct certificate_totals sum = certificate_total(d->control_certificate);
    *proof =
        (struct control_proof){sum.compared - d->control_seen.compared, sum.mismatched - d->control_seen.mismatched};
    d->control_seen = (struct control_proof){sum.compared, sum.mismatched};
    memcpy(d->control.data, d->group[0].data, view_bytes(&d->control));
    rest(d->control_notary);
    d->controls = false;
}

status decoder_evaluate(struct decoder *d, const struct batch *batch, double *sequence_loss, int32_t *predicted)
{
    number_rows(d, batch);
    if (d->notary)
        notary_begin(d->notary, d->step, batch->micro_batch, false);
    TRY(forward(d, PHASE_EVALUATE, batch));
    TRY(run_head(d, batch, false, predicted));
    sum_losses(d, sequence_loss);
    return OK;
}
