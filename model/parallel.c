#include "model/parallel.h"

#include <math.h>

static const uint8_t one_causal_chunk = CHUNK_CAUSAL;

static struct attention_shape whole_sequence(const struct block *b, const struct pass *pass)
{
    const struct model_shape *s = b->shape;
    return (struct attention_shape){
        .batch = b->batch,
        .q_tokens = b->tokens,
        .k_tokens = b->tokens,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = shape_head_dim(s),
        .q_chunks = 1,
        .k_chunks = 1,
        .chunk_kind = &one_causal_chunk,
        .scale = 1.0f / sqrtf((float)shape_head_dim(s)),
        .q_position = pass->position,
        .k_position = pass->position,
    };
}

struct heads {
    struct view q, k, v;
};

static struct heads split_heads(const struct model_shape *s, const struct view *qkv)
{
    int kv = shape_kv_cols(s);
    return (struct heads){view_cols(qkv, 0, s->hidden), view_cols(qkv, s->hidden, kv),
                          view_cols(qkv, s->hidden + kv, kv)};
}

status attend(struct block *b, const struct pass *pass, const struct view *attention, const struct view *lse,
              const struct view *qkv)
{
    struct attention_shape shape = whole_sequence(b, pass);
    struct heads in = split_heads(b->shape, qkv);
    return b->device->ops->attention_forward(b->device, pass->plans->attention, &shape, attention, lse, &in.q, &in.k,
                                             &in.v);
}

status attend_backward(struct block *b, const struct pass *pass, const struct plan *plan, const struct view *d_qkv,
                       const struct view *d_attention, const struct view *attention, const struct view *lse,
                       const struct view *qkv)
{
    struct attention_shape shape = whole_sequence(b, pass);
    struct heads in = split_heads(b->shape, qkv), d = split_heads(b->shape, d_qkv);
    return b->device->ops->attention_backward(b->device, plan, &shape, &d.q, &d.k, &d.v, d_attention, &in.q, &in.k,
                                              &in.v, attention, lse, false);
}
