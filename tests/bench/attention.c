/* Causal attention, forward and backward, on the slices of a fused qkv as the model has it. */
#include <math.h>

#include "kernels/ops.h"
#include "tests/bench/bench.h"
#include "tests/bench/count.h"

static const struct {
    int batch, tokens, heads, head_dim;
} shapes[] = {
    {8, 256, 8, 16}, {8, 256, 2, 64}, {8, 256, 2, 128}, {1, 4096, 8, 16}, {1, 4096, 2, 64}, {1, 4096, 2, 128},
};

struct attention {
    struct device *device;
    const struct plan *plan;
    struct attention_shape shape;
    struct view qkv, d_qkv, out, d_out, lse;
    const struct figure *forward, *backward;
};

struct heads {
    struct view q, k, v;
};

static struct heads split(const struct view *qkv)
{
    int64_t cols = qkv->cols / 3;
    return (struct heads){view_cols(qkv, 0, cols), view_cols(qkv, cols, cols), view_cols(qkv, 2 * cols, cols)};
}

static status run_forward(void *self)
{
    struct attention *a = self;
    struct heads in = split(&a->qkv);
    return a->device->ops->attention_forward(a->device, a->plan, &a->shape, &a->out, &a->lse, &in.q, &in.k, &in.v);
}

static status run_backward(void *self)
{
    struct attention *a = self;
    struct heads in = split(&a->qkv), d = split(&a->d_qkv);
    return a->device->ops->attention_backward(a->device, a->plan, &a->shape, &d.q, &d.k, &d.v, &a->d_out, &in.q, &in.k,
                                              &in.v, &a->out, &a->lse, false);
}

static status take(struct attention *a)
{
    int64_t rows = a->shape.batch * a->shape.q_tokens, cols = (int64_t)a->shape.heads * a->shape.head_dim;
    TRY(device_take_view(a->device, "qkv", BF16, rows, 3 * cols, &a->qkv));
    TRY(device_take_view(a->device, "d_qkv", BF16, rows, 3 * cols, &a->d_qkv));
    TRY(device_take_view(a->device, "out", BF16, rows, cols, &a->out));
    TRY(device_take_view(a->device, "d_out", BF16, rows, cols, &a->d_out));
    TRY(device_take_view(a->device, "lse", F32, a->shape.batch * a->shape.heads, a->shape.q_tokens, &a->lse));
    bench_fill(&a->qkv, 1);
    bench_fill(&a->d_out, 2);
    return OK;
}

static status add_attention(struct bench *b, struct attention *a, const struct arithmetic *how)
{
    const struct attention_shape *s = &a->shape;
    const int64_t dims[6] = {s->batch, s->heads, s->kv_heads, s->q_tokens, s->k_tokens, s->head_dim};
    TRY(take(a));
    TRY(device_plan(a->device, how, PLAN_ATTENTION, dims, &a->plan));
    struct figure forward = {.run = run_forward, .self = a, .flops = count_attention_flops(s, false)};
    struct figure backward = {.run = run_backward, .self = a, .flops = count_attention_flops(s, true)};
    snprintf(forward.name, sizeof forward.name, "attention forward T%d D%d", (int)s->q_tokens, s->head_dim);
    snprintf(backward.name, sizeof backward.name, "attention backward T%d D%d", (int)s->q_tokens, s->head_dim);
    TRY(bench_add(b, &forward, &a->forward));
    return bench_add(b, &backward, &a->backward);
}

static void close_device(void *device) { device_close(device); }

static status open_attention(struct bench *b, void **self)
{
    static const uint8_t causal = CHUNK_CAUSAL;
    struct attention *all = *self = bench_new(b, COUNT(shapes) * sizeof *all);
    struct device *device;
    struct arithmetic how;
    TRY(arithmetic_find(&how, "exact"));
    TRY(device_open(&device, "cpu", b->threads, (size_t)1 << 28));
    bench_own(b, device, close_device);
    for (int i = 0; i < COUNT(shapes); i++) {
        int tokens = shapes[i].tokens;
        int32_t *position = bench_new(b, (size_t)tokens * sizeof *position);
        for (int t = 0; t < tokens; t++)
            position[t] = t;
        all[i].device = device;
        all[i].shape = (struct attention_shape){
            .batch = shapes[i].batch,
            .q_tokens = tokens,
            .k_tokens = tokens,
            .heads = shapes[i].heads,
            .kv_heads = shapes[i].heads,
            .head_dim = shapes[i].head_dim,
            .q_chunks = 1,
            .k_chunks = 1,
            .chunk_kind = &causal,
            .scale = 1.0f / sqrtf((float)shapes[i].head_dim),
            .q_position = position,
            .k_position = position,
        };
        TRY(add_attention(b, &all[i], &how));
    }
    return OK;
}

static void print_row(const struct bench *b, const char *name, const struct attention *a, const struct figure *f,
                      double target, FILE *out)
{
    struct spread share = spread_share_of_peak(b, f);
    fprintf(out, "| %s | %d | %d | %s | %s | %s | %.0f | %s |\n", name, (int)a->shape.q_tokens, a->shape.head_dim,
            spread_text(spread_seconds(b, f), 1e3, 2), spread_text(share, 100, 1),
            spread_text(spread_share_of_cpu_peak(b, f), 100, 1), target * 100, met(share.median >= target));
}

static void print_attention(const struct bench *b, void *self, FILE *out)
{
    const struct attention *a = self;
    fputs("| | T | columns of a head | ms | % of peak | by CPU time | target | |\n|---|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < COUNT(shapes); i++)
        print_row(b, "forward", &a[i], a[i].forward, shapes[i].tokens < 4096 ? 0.60 : 0.75, out);
    for (int i = 0; i < COUNT(shapes); i++)
        print_row(b, "backward", &a[i], a[i].backward, shapes[i].tokens < 4096 ? 0.55 : 0.70, out);
    fputs("\nCausal, blocks of 128 keys (`exact`, `h800-sim`); flop of the visible pairs only: two products forward, "
          "five "
          "backward.\n",
          out);
}

const struct group group_attention = {"attention", "Attention", open_attention, print_attention};
