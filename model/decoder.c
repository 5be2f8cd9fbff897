#include "model/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "model/decoder_internal.h"

/* ---- the arena ---- */

static struct view *view_for(struct decoder *d, const struct memory_span *span)
{
    switch (span->item) {
    case ITEM_TENSOR:
        return span->class == MEMORY_STORED    ? &d->stored[span->layer].t[span->tensor]
               : span->class == MEMORY_REBUILT ? &d->slot[span->layer].t[span->tensor]
                                               : &d->witness.t[span->tensor];
    case ITEM_WEIGHT:
        return &d->weight;
    case ITEM_GRADIENT:
        return &d->group[d->groups_taken++];
    case ITEM_CONTROL:
        return &d->control;
    case ITEM_MASTER:
        return &d->master;
    case ITEM_M:
        return &d->m;
    case ITEM_V:
        return &d->v;
    case ITEM_FINAL_INPUT:
        return &d->final_input;
    case ITEM_FINAL_NORM:
        return &d->final_norm;
    case ITEM_FINAL_RSTD:
        return &d->final_rstd;
    case ITEM_TRANSIENT:
        return &d->transient;
    case ITEM_D_STREAM:
        return &d->block.scratch.d_stream;
    case ITEM_D_BRANCH:
        return &d->block.scratch.d_branch;
    case ITEM_D_WIDE:
        return &d->block.scratch.d_wide;
    case ITEM_D_NARROW:
        return &d->block.scratch.d_narrow;
    case ITEM_LOGITS:
        return &d->logits;
    case ITEM_D_LOGITS:
        return &d->d_logits;
    case ITEM_LOSS:
        return &d->loss;
    case ITEM_ROPE_TABLE:
        return &d->rope_table;
    case ITEM_STALE_WEIGHT:
        return &d->stale;
    }
    return NULL;
}

static status take_span(void *self, const struct memory_span *span)
{
    struct decoder *d = self;
    struct view *view = view_for(d, span);
    if (!view)
        return FAIL(ERR_ARGUMENT, "the memory plan's span '%s' has no place in the decoder", span->name);
    return device_take_view(d->device, span->name, span->type, span->rows, span->cols, view);
}

static struct memory_request memory_wanted(const struct decoder_options *o)
{
    return (struct memory_request){
        .shape = o->shape,
        .micro_batch = o->micro_batch,
        .tokens = o->shape.sequence,
        .storage = o->storage,
        .reduction_groups = o->groups,
        .shards = 1,
        .stale_weights = fault_keeps_weights(&o->fault),
        .wide_rebuild = fault_widens(&o->fault),
        .audits = o->audits,
        .certificate = o->certificate || o->audits,
    };
}

static void fill_rope_table(const struct model_shape *s, const struct view *table)
{
    int half = shape_head_dim(s) / 2;
    for (int64_t position = 0; position < table->rows; position++)
        for (int j = 0; j < half; j++) {
            double angle = (double)position * pow(s->rope_theta, -(double)j / half);
            if (table->type == F64) {
                *(double *)view_at(table, position, j) = cos(angle);
                *(double *)view_at(table, position, half + j) = sin(angle);
            } else {
                *(float *)view_at(table, position, j) = (float)cos(angle);
                *(float *)view_at(table, position, half + j) = (float)sin(angle);
            }
        }
}

/* ---- plans ---- */

static status gemm_plan(struct decoder *d, const struct arithmetic *how, enum plan_op op, int64_t m, int64_t n,
                        int64_t k, const struct plan **out)
{
    const int64_t dims[6] = {m, n, k};
    return device_plan(d->device, how, op, dims, out);
}

/* The three products of y(M,out) = x(M,in) W(out,in)^T. */
static status linear_plans(struct decoder *d, const struct arithmetic *how, int64_t outputs, int64_t inputs,
                           const struct plan **y, const struct plan **dx, const struct plan **dw)
{
    int64_t rows = decoder_rows(d);
    TRY(gemm_plan(d, how, PLAN_GEMM_NT, rows, outputs, inputs, y));
    TRY(gemm_plan(d, how, PLAN_GEMM_NN, rows, inputs, outputs, dx));
    return gemm_plan(d, how, PLAN_GEMM_TN, outputs, inputs, d->span_rows, dw);
}

static status make_plans(struct decoder *d, const struct arithmetic *how, struct block_plans *p)
{
    const struct model_shape *s = &d->options.shape;
    const int64_t attention[6] = {d->options.micro_batch, s->heads, s->kv_heads, s->sequence, s->sequence,
                                  shape_head_dim(s)};
    TRY(linear_plans(d, how, shape_qkv_cols(s), s->hidden, &p->qkv, &p->d_qkv, &p->w_qkv));
    TRY(linear_plans(d, how, s->hidden, s->hidden, &p->projection, &p->d_projection, &p->w_projection));
    TRY(linear_plans(d, how, 2 * (int64_t)s->ffn, s->hidden, &p->gate_up, &p->d_gate_up, &p->w_gate_up));
    TRY(linear_plans(d, how, s->hidden, s->ffn, &p->down, &p->d_down, &p->w_down));
    return device_plan(d->device, how, PLAN_ATTENTION, attention, &p->attention);
}

static struct arithmetic turned(const struct decoder_options *o, enum arithmetic_mode mode)
{
    const struct arithmetic how = arithmetic_turned(&o->arithmetic, mode);
    return o->draws ? arithmetic_turned(&how, ARITHMETIC_RANDOM) : how;
}

/* Equal arithmetics have the same plans, so only those are made that differ. */
static status choose_plans(struct decoder *d)
{
    const struct decoder_options *o = &d->options;
    d->training = turned(o, o->dial.forward);
    const bool repeats = o->dial.recompute == ARITHMETIC_FIXED;
    const struct arithmetic rebuilding = repeats ? d->training : turned(o, o->dial.recompute);
    TRY(make_plans(d, &o->arithmetic, &d->evaluation));
    TRY(make_plans(d, &d->training, &d->forward));
    TRY(make_plans(d, &rebuilding, &d->recompute));
    const struct arithmetic other = fault_arithmetic(&o->fault, &rebuilding, o->shape.sequence);
    return make_plans(d, &other, &d->other);
}

/* ---- a micro-batch's rows and groups ---- */

static status make_rows(struct decoder *d)
{
    const struct decoder_options *o = &d->options;
    int64_t rows = decoder_rows(d), T = o->shape.sequence, B = o->micro_batch;
    if (B % o->sequences_per_group && o->sequences_per_group % B)
        return FAIL(ERR_ARGUMENT, "micro-batches of %lld sequences and groups of %lld: one must divide the other",
                    (long long)B, (long long)o->sequences_per_group);
    d->spans = (int)(B > o->sequences_per_group ? B / o->sequences_per_group : 1);
    d->span_rows = rows / d->spans;
    d->position = malloc((size_t)rows * sizeof *d->position);
    d->fault_position = malloc((size_t)rows * sizeof *d->fault_position);
    d->row_id = malloc((size_t)rows * sizeof *d->row_id);
    d->head_row_id = malloc((size_t)(B * o->shape.heads) * sizeof *d->head_row_id);
    d->span = calloc((size_t)d->spans, sizeof *d->span);
    d->stale_weight = calloc(BLOCK_PARAMETERS, sizeof *d->stale_weight);
    if (!d->position || !d->fault_position || !d->row_id || !d->head_row_id || !d->span || !d->stale_weight)
        return FAIL(ERR_MEMORY, "no memory for the row numbers of %lld rows", (long long)rows);
    for (int64_t r = 0; r < rows; r++) {
        d->position[r] = (int32_t)(r % T);
        d->fault_position[r] = fault_position(&o->fault, r % T, T);
    }
    return OK;
}

/* ---- opening and closing ---- */

/* No notary where nothing is rebuilt. */
static status appoint(struct decoder *d, struct notary **notary, struct certificate *into)
{
    const struct decoder_options *o = &d->options;
    if (!d->plan->longest_chunk)
        return OK;
    TRY(notary_open(notary, into, d->device, &o->shape, d->plan, o->micro_batch, o->shape.sequence, o->storage,
                    o->rank));
    decoder_observe(d, notary_observer(*notary), true);
    return OK;
}

static status open_decoder(struct decoder *d)
{
    const struct decoder_options *o = &d->options;
    struct memory_request request = memory_wanted(o);
    TRY(shape_check(&o->shape));
    TRY(recompute_plan_make(&d->plan, &o->recompute, o->shape.layers));
    TRY(memory_plan_make(&d->memory, &request, d->plan));
    TRY(device_open(&d->device, o->backend, o->threads, d->memory.arena_bytes));
    d->stored = calloc((size_t)o->shape.layers, sizeof *d->stored);
    d->slot = calloc((size_t)d->plan->longest_chunk + 1, sizeof *d->slot);
    d->group = calloc((size_t)o->groups, sizeof *d->group);
    if (!d->stored || !d->slot || !d->group)
        return FAIL(ERR_MEMORY, "no memory for the views of %d layers", o->shape.layers);
    TRY(memory_each(&request, d->plan, take_span, d));
    TRY(make_rows(d));
    TRY(choose_plans(d));
    fill_rope_table(&o->shape, &d->rope_table);
    d->block.shape = &d->options.shape;
    d->block.device = d->device;
    d->block.batch = o->micro_batch;
    d->block.tokens = o->shape.sequence;
    d->block.rope_table = &d->rope_table;
    if (o->certificate)
        TRY(appoint(d, &d->notary, o->certificate));
    if (!o->audits)
        return OK;
    TRY(certificate_new(&d->control_certificate, o->shape.layers, false));
    return appoint(d, &d->control_notary, d->control_certificate);
}

/* In front of all others: they see a tensor as a faulty device would have made it. */
static status damage_seen(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    (void)self;
    if (pass->damage && t != TENSOR_INPUT)
        fault_damage(pass, t, view);
    return OK;
}

status decoder_open(struct decoder **out, const struct decoder_options *options)
{
    *out = NULL;
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return FAIL(ERR_MEMORY, "no memory for a decoder");
    d->options = *options;
    status st = open_decoder(d);
    if (st != OK) {
        decoder_close(d);
        return st;
    }
    d->damage.seen = damage_seen;
    decoder_observe(d, &d->damage, true);
    *out = d;
    return OK;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    notary_close(d->notary);
    notary_close(d->control_notary);
    certificate_free(d->control_certificate);
    device_close(d->device);
    recompute_plan_free(d->plan);
    free(d->stored);
    free(d->slot);
    free(d->group);
    free(d->position);
    free(d->fault_position);
    free(d->row_id);
    free(d->head_row_id);
    free(d->span);
    free(d->stale_weight);
    free(d);
}

const struct memory_plan *decoder_memory(const struct decoder *d) { return &d->memory; }
const struct recompute_plan *decoder_recompute(const struct decoder *d) { return d->plan; }
struct device *decoder_device(struct decoder *d) { return d->device; }

void decoder_observe(struct decoder *d, struct observer *o, bool first)
{
    struct observer **place = &d->block.observers;
    while (!first && *place)
        place = &(*place)->next;
    o->next = *place;
    *place = o;
}

void decoder_forget(struct decoder *d, struct observer *o)
{
    for (struct observer **place = &d->block.observers; *place; place = &(*place)->next)
        if (*place == o) {
            *place = o->next;
            return;
        }
}

struct optimizer_state decoder_state(struct decoder *d)
{
    return (struct optimizer_state){d->weight, d->master, d->m, d->v, d->group[0]};
}

const struct view *decoder_gradients(struct decoder *d, int *groups)
{
    *groups = d->options.groups;
    return d->group;
}

const struct view *decoder_control(const struct decoder *d) { return &d->control; }

const struct view *decoder_stale(struct decoder *d, bool **valid)
{
    if (valid)
        *valid = &d->stale_valid;
    return d->stale.data ? &d->stale : NULL;
}

/* ---- initial values ---- */

/* Box-Muller over the two halves of a Philox block: elements 2i and 2i + 1. */
static void normal_pair(double pair[2], const struct random_site *where, uint64_t i)
{
    uint32_t word[4];
    philox_block(word, where, i);
    double u1 = ((double)word[0] + 1.0) * 0x1p-32, u2 = (double)word[1] * 0x1p-32;
    double radius = sqrt(-2.0 * log(u1)), angle = 2.0 * M_PI * u2;
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

static void store_element(const struct view *v, int64_t i, double value)
{
    if (v->type == F64)
        ((double *)v->data)[i] = value;
    else
        ((float *)v->data)[i] = (float)value;
}

status decoder_initialise(struct decoder *d)
{
    const struct model_shape *s = &d->options.shape;
    memset(d->master.data, 0, view_bytes(&d->master));
    memset(d->m.data, 0, view_bytes(&d->m));
    memset(d->v.data, 0, view_bytes(&d->v));
    for (int index = 0; index < shape_parameter_count(s); index++) {
        struct parameter p = shape_parameter(s, index);
        struct view master = block_parameter(s, &d->master, index);
        const struct random_site where = {d->options.seed, 0, (uint32_t)index, SITE_INITIAL_VALUE};
        double pair[2] = {0, 0};
        for (int64_t i = 0; i < p.rows * p.cols; i++) {
            if (i % 2 == 0 && p.init_std > 0)
                normal_pair(pair, &where, (uint64_t)i / 2);
            store_element(&master, i, p.init_std > 0 ? p.init_std * pair[i % 2] : 1.0);
        }
    }
    return decoder_round_weights(d);
}

status decoder_round_weights(struct decoder *d) { return d->device->ops->convert(d->device, &d->weight, &d->master); }
