#include "model/block.h"

#include "model/parallel.h"

status observers_seen(struct observer *first, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    for (struct observer *o = first; o; o = o->next)
        TRY(o->seen(o, pass, t, view));
    return OK;
}

struct view block_parameter(const struct model_shape *s, const struct view *flat, int index)
{
    struct parameter p = shape_parameter(s, index);
    return view_of(view_at(flat, 0, p.offset), flat->type, p.rows, p.cols);
}

static const struct view *weight_of(const struct pass *pass, enum parameter_kind kind)
{
    return &pass->weight[kind - PARAMETER_INPUT_NORM];
}

static struct random_site at_site(const struct pass *pass, uint32_t site)
{
    struct random_site where = pass->key;
    where.layer = (uint32_t)pass->layer;
    where.site = site;
    return where;
}

/* Queries and keys, side by side in qkv, are what rotates. */
static struct view rotated(const struct model_shape *s, const struct view *qkv)
{
    return view_cols(qkv, 0, s->hidden + shape_kv_cols(s));
}

/* ---- forward: one function per kind of op ---- */

static status linear(struct block *b, const struct pass *pass, enum block_op op, const struct plan *plan,
                     const struct view *y, const struct view *x, enum parameter_kind kind)
{
    return b->device->ops->gemm(b->device, plan, pass_draw(pass, op), y, x, weight_of(pass, kind), false);
}

static status norm(struct block *b, const struct pass *pass, const struct view *y, const struct view *rstd,
                   const struct view *x, enum parameter_kind kind)
{
    return b->device->ops->rmsnorm_forward(b->device, y, rstd, x, weight_of(pass, kind), b->shape->norm_eps);
}

static status dropout_add(struct block *b, const struct pass *pass, const struct view *y, const struct view *residual,
                          const struct view *x, uint32_t site)
{
    struct random_site where = at_site(pass, site);
    return b->device->ops->dropout_add(b->device, y, residual, x, pass->dropout, &where, pass->row_id);
}

static status run_op(struct block *b, const struct pass *pass, enum block_op op, struct view *t)
{
    const struct block_plans *plans = pass->plans;
    switch (op) {
    case OP_INPUT_NORM:
        return norm(b, pass, &t[TENSOR_NORM1], &t[TENSOR_RSTD1], &t[TENSOR_INPUT], PARAMETER_INPUT_NORM);
    case OP_QKV:
        return linear(b, pass, op, plans->qkv, &t[TENSOR_QKV_RAW], &t[TENSOR_NORM1], PARAMETER_QKV);
    case OP_ROPE: {
        struct view turning = rotated(b->shape, &t[TENSOR_QKV]);
        return b->device->ops->rope(b->device, &turning, shape_head_dim(b->shape), b->rope_table, pass->position, +1);
    }
    case OP_ATTENTION:
        return attend(b, pass, &t[TENSOR_ATTENTION], &t[TENSOR_LSE], &t[TENSOR_QKV]);
    case OP_PROJECTION:
        return linear(b, pass, op, plans->projection, &t[TENSOR_PROJECTED], &t[TENSOR_ATTENTION], PARAMETER_PROJECTION);
    case OP_ATTENTION_DROPOUT:
        return dropout_add(b, pass, &t[TENSOR_MIDDLE], &t[TENSOR_INPUT], &t[TENSOR_PROJECTED], SITE_ATTENTION);
    case OP_POST_NORM:
        return norm(b, pass, &t[TENSOR_NORM2], &t[TENSOR_RSTD2], &t[TENSOR_MIDDLE], PARAMETER_POST_NORM);
    case OP_GATE_UP:
        return linear(b, pass, op, plans->gate_up, &t[TENSOR_GATE_UP], &t[TENSOR_NORM2], PARAMETER_GATE_UP);
    case OP_SWIGLU:
        return b->device->ops->swiglu_forward(b->device, &t[TENSOR_ACTIVATED], &t[TENSOR_GATE_UP]);
    case OP_DOWN:
        return linear(b, pass, op, plans->down, &t[TENSOR_DOWN], &t[TENSOR_ACTIVATED], PARAMETER_DOWN);
    case OP_MLP_DROPOUT:
        return dropout_add(b, pass, &t[TENSOR_OUTPUT], &t[TENSOR_MIDDLE], &t[TENSOR_DOWN], SITE_MLP);
    case BLOCK_OPS:
        break;
    }
    return FAIL(ERR_ARGUMENT, "block op %d is not one", (int)op);
}

status block_forward(struct block *b, const struct pass *pass, unsigned ops, struct block_tensors *tensors)
{
    struct view *t = tensors->t;
    TRY(observers_seen(b->observers, pass, TENSOR_INPUT, &t[TENSOR_INPUT]));
    for (int op = 0; op < BLOCK_OPS; op++) {
        if (!(ops >> op & 1u))
            continue;
        TRY(run_op(b, pass, (enum block_op)op, t));
        for (int made = TENSOR_NORM1; made < BLOCK_TENSORS; made++)
            if (block_tensor_op((enum block_tensor)made) == (enum block_op)op)
                TRY(observers_seen(b->observers, pass, (enum block_tensor)made, &t[made]));
    }
    return OK;
}

/* ---- backward ---- */

/* Calls of the backward are numbered behind the forward's for ORDER_RANDOM. */
enum { BACKWARD_CALLS = BLOCK_OPS };

status block_weight_gradient(struct block *b, const struct gradient_sink *sink, int index, const struct plan *plan,
                             uint64_t draw, const struct view *dy, const struct view *x)
{
    for (int i = 0; i < sink->spans; i++) {
        const struct row_span *span = &sink->span[i];
        struct view dw = block_parameter(b->shape, &sink->group[span->group], index);
        struct view dy_rows = view_rows(dy, span->first, span->count), x_rows = view_rows(x, span->first, span->count);
        TRY(b->device->ops->gemm(b->device, plan, draw + (uint64_t)i, &dw, &dy_rows, &x_rows, true));
    }
    return OK;
}

struct backward {
    struct block *b;
    const struct pass *pass;
    const struct gradient_sink *sink;
};

static int parameter_index(const struct backward *w, enum parameter_kind kind)
{
    return shape_parameter_index(w->b->shape, kind, w->pass->layer);
}

/* y = x W^T backwards: dW += dy^T x, dx = dy W. */
static status linear_backward(const struct backward *w, enum block_op op, enum parameter_kind kind,
                              const struct plan *weight_plan, const struct plan *input_plan, const struct view *dx,
                              const struct view *dy, const struct view *x)
{
    struct device *d = w->b->device;
    TRY(block_weight_gradient(w->b, w->sink, parameter_index(w, kind), weight_plan,
                              pass_draw(w->pass, BACKWARD_CALLS + 2 * (int)op), dy, x));
    return d->ops->gemm(d, input_plan, pass_draw(w->pass, BACKWARD_CALLS + 2 * (int)op + 1), dx, dy,
                        weight_of(w->pass, kind), false);
}

/* d_stream += the norm's input gradient; span by span, because dw belongs to groups. */
static status norm_backward(const struct backward *w, enum parameter_kind kind, const struct view *dy,
                            const struct view *x, const struct view *rstd)
{
    struct block *b = w->b;
    for (int i = 0; i < w->sink->spans; i++) {
        const struct row_span *span = &w->sink->span[i];
        struct view dw = block_parameter(b->shape, &w->sink->group[span->group], parameter_index(w, kind));
        struct view dx = view_rows(&b->scratch.d_stream, span->first, span->count);
        struct view dy_rows = view_rows(dy, span->first, span->count), x_rows = view_rows(x, span->first, span->count);
        struct view rstd_rows = view_rows(rstd, span->first, span->count);
        TRY(b->device->ops->rmsnorm_backward(b->device, &dx, &dw, &dy_rows, &x_rows, weight_of(w->pass, kind),
                                             &rstd_rows, true));
    }
    return OK;
}

static status mlp_backward(const struct backward *w, const struct view *t, const struct block_plans *plans)
{
    struct block *b = w->b;
    const struct ops *ops = b->device->ops;
    struct view d_branch = b->scratch.d_branch;
    struct view d_activated = view_of(b->scratch.d_narrow.data, d_branch.type, d_branch.rows, b->shape->ffn);
    struct view d_gate_up = view_of(b->scratch.d_wide.data, d_branch.type, d_branch.rows, 2 * b->shape->ffn);
    struct random_site where = at_site(w->pass, SITE_MLP);
    TRY(ops->dropout_backward(b->device, &d_branch, &b->scratch.d_stream, w->pass->dropout, &where, w->pass->row_id));
    TRY(linear_backward(w, OP_DOWN, PARAMETER_DOWN, plans->w_down, plans->d_down, &d_activated, &d_branch,
                        &t[TENSOR_ACTIVATED]));
    TRY(ops->swiglu_backward(b->device, &d_gate_up, &d_activated, &t[TENSOR_GATE_UP]));
    TRY(linear_backward(w, OP_GATE_UP, PARAMETER_GATE_UP, plans->w_gate_up, plans->d_gate_up, &d_branch, &d_gate_up,
                        &t[TENSOR_NORM2]));
    return norm_backward(w, PARAMETER_POST_NORM, &d_branch, &t[TENSOR_MIDDLE], &t[TENSOR_RSTD2]);
}

static status attention_backward(const struct backward *w, const struct view *t, const struct block_plans *plans)
{
    struct block *b = w->b;
    const struct ops *ops = b->device->ops;
    struct view d_branch = b->scratch.d_branch;
    struct view d_attention = view_of(b->scratch.d_narrow.data, d_branch.type, d_branch.rows, b->shape->hidden);
    struct view d_qkv = view_of(b->scratch.d_wide.data, d_branch.type, d_branch.rows, shape_qkv_cols(b->shape));
    struct view turning = rotated(b->shape, &d_qkv);
    struct random_site where = at_site(w->pass, SITE_ATTENTION);
    TRY(ops->dropout_backward(b->device, &d_branch, &b->scratch.d_stream, w->pass->dropout, &where, w->pass->row_id));
    TRY(linear_backward(w, OP_PROJECTION, PARAMETER_PROJECTION, plans->w_projection, plans->d_projection, &d_attention,
                        &d_branch, &t[TENSOR_ATTENTION]));
    TRY(attend_backward(b, w->pass, plans->attention, &d_qkv, &d_attention, &t[TENSOR_ATTENTION], &t[TENSOR_LSE],
                        &t[TENSOR_QKV]));
    TRY(ops->rope(b->device, &turning, shape_head_dim(b->shape), b->rope_table, w->pass->position, -1));
    TRY(linear_backward(w, OP_QKV, PARAMETER_QKV, plans->w_qkv, plans->d_qkv, &d_branch, &d_qkv, &t[TENSOR_NORM1]));
    return norm_backward(w, PARAMETER_INPUT_NORM, &d_branch, &t[TENSOR_INPUT], &t[TENSOR_RSTD1]);
}

status block_backward(struct block *b, const struct pass *pass, const struct block_tensors *tensors,
                      const struct block_plans *plans, const struct gradient_sink *sink)
{
    const struct backward w = {b, pass, sink};
    TRY(mlp_backward(&w, tensors->t, plans));
    return attention_backward(&w, tensors->t, plans);
}
