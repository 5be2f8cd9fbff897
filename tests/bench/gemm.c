/* The three products of y = x W^T with 2048 tokens, BF16 in. */
#include <stdlib.h>

#include "kernels/ops.h"
#include "tests/bench/peer.h"

enum { TOKENS = 2048 };

/* W's columns and rows in blocks of H 128, 256 and 1024. */
static const struct {
    int inputs, outputs;
} shapes[] = {{128, 128}, {128, 384}, {128, 768},  {384, 128},  {256, 256},
              {256, 768}, {704, 256}, {512, 1024}, {1024, 1024}};

/* The first is judged by the targets. */
static const char *const profiles[] = {"exact", "h800-sim", "l40s-sim"};

/* dims of a plan from M tokens, `inputs` and `outputs`. */
static const struct kind {
    const char *name, *letters;
    enum plan_op op;
    double target;
} kinds[] = {
    {"forward", "nt", PLAN_GEMM_NT, 0.88},
    {"input gradient", "nn", PLAN_GEMM_NN, 0.88},
    {"weight gradient", "tn", PLAN_GEMM_TN, 0.85},
};

struct product {
    struct device *device;
    const struct plan *plan;
    struct view a, b, c;
    bool accumulate;
    uint64_t draw;
    const struct figure *figure;
};

struct products {
    struct device *device;
    struct product at[COUNT(shapes)][COUNT(kinds)][COUNT(profiles)];
    struct peer *peer;
    const struct figure *theirs[COUNT(shapes)][COUNT(kinds)]; /* NULL without the peer */
    const char *they;
};

static status run_product(void *self)
{
    struct product *p = self;
    return p->device->ops->gemm(p->device, p->plan, p->draw++, &p->c, &p->a, &p->b, p->accumulate);
}

/* Gradients of weights are added up in f32, as in a step. */
static void shape_operands(struct product *p, enum plan_op op, int inputs, int outputs)
{
    struct view x = view_of(NULL, BF16, TOKENS, inputs), y = view_of(NULL, BF16, TOKENS, outputs);
    struct view w = view_of(NULL, BF16, outputs, inputs);
    p->a = op == PLAN_GEMM_NT ? x : y;
    p->b = op == PLAN_GEMM_TN ? x : w;
    p->c = op == PLAN_GEMM_NT ? y : op == PLAN_GEMM_NN ? x : w;
    p->accumulate = op == PLAN_GEMM_TN;
    if (p->accumulate)
        p->c.type = F32;
}

static status take_operands(struct product *p)
{
    TRY(device_take_view(p->device, "a", p->a.type, p->a.rows, p->a.cols, &p->a));
    TRY(device_take_view(p->device, "b", p->b.type, p->b.rows, p->b.cols, &p->b));
    TRY(device_take_view(p->device, "c", p->c.type, p->c.rows, p->c.cols, &p->c));
    bench_fill(&p->a, 1);
    bench_fill(&p->b, 2);
    bench_fill(&p->c, 3);
    return OK;
}

static status add_product(struct bench *b, struct product *p, const struct kind *kind, int inputs, int outputs,
                          const char *profile)
{
    struct arithmetic how;
    bool weight = kind->op == PLAN_GEMM_TN;
    const int64_t dims[6] = {p->c.rows, p->c.cols, weight ? TOKENS : p->a.cols};
    TRY(arithmetic_find(&how, profile));
    TRY(device_plan(p->device, &how, kind->op, dims, &p->plan));
    struct figure figure = {
        .run = run_product, .self = p, .flops = 2.0 * (double)dims[0] * (double)dims[1] * (double)dims[2]};
    snprintf(figure.name, sizeof figure.name, "gemm %s %d to %d %s", kind->name, inputs, outputs, profile);
    return bench_add(b, &figure, &p->figure);
}

static status add_peer(struct bench *b, struct products *all, int shape, int kind)
{
    const struct plan *plan = all->at[shape][kind][0].plan;
    char name[96], words[96];
    snprintf(name, sizeof name, "oneDNN %s %d to %d", kinds[kind].name, shapes[shape].inputs, shapes[shape].outputs);
    snprintf(words, sizeof words, "%s %lld %lld %lld", kinds[kind].letters, (long long)plan->dims[0],
             (long long)plan->dims[1], (long long)plan->dims[2]);
    return peer_add(b, all->peer, name, words, all->at[shape][kind][0].figure->flops, &all->theirs[shape][kind],
                    &all->they);
}

static void close_device(void *device) { device_close(device); }

static status open_gemm(struct bench *b, void **self)
{
    struct products *all = *self = bench_new(b, sizeof *all);
    TRY(device_open(&all->device, "cpu", b->threads, (size_t)1 << 30));
    bench_own(b, all->device, close_device);
    TRY(peer_open(b, &all->peer, b->onednn));
    for (int s = 0; s < COUNT(shapes); s++)
        for (int k = 0; k < COUNT(kinds); k++) {
            int inputs = shapes[s].inputs, outputs = shapes[s].outputs;
            struct product first = {.device = all->device};
            shape_operands(&first, kinds[k].op, inputs, outputs);
            TRY(take_operands(&first));
            for (int f = 0; f < COUNT(profiles); f++) {
                struct product *p = &all->at[s][k][f];
                *p = first;
                TRY(add_product(b, p, &kinds[k], inputs, outputs, profiles[f]));
            }
            TRY(add_peer(b, all, s, k));
        }
    return OK;
}

static void print_gemm(const struct bench *b, void *self, FILE *out)
{
    const struct products *all = self;
    fputs("| product | inputs | outputs | exact, % of peak | by CPU time | h800-sim | l40s-sim | oneDNN | target | "
          "exact |\n"
          "|---|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (int k = 0; k < COUNT(kinds); k++)
        for (int s = 0; s < COUNT(shapes); s++) {
            const struct figure *exact = all->at[s][k][0].figure, *theirs = all->theirs[s][k];
            struct spread share = spread_share_of_peak(b, exact);
            fprintf(out, "| %s | %d | %d | %s | %s |", kinds[k].name, shapes[s].inputs, shapes[s].outputs,
                    spread_text(share, 100, 1), spread_text(spread_share_of_cpu_peak(b, exact), 100, 1));
            for (int f = 1; f < COUNT(profiles); f++)
                fprintf(out, " %s |", spread_text(spread_share_of_peak(b, all->at[s][k][f].figure), 100, 1));
            fprintf(out, " %s | %.0f | %s |\n", theirs ? spread_text(spread_share_of_peak(b, theirs), 100, 1) : "",
                    kinds[k].target * 100, met(share.median >= kinds[k].target));
        }
    fputs("\n2048 tokens; BF16 in; forward and input gradient BF16 out, weight gradient added to f32.", out);
    if (all->peer)
        fprintf(out, " The peer: %s, f32 in and out.", all->they);
    fputc('\n', out);
}

const struct group group_gemm = {"gemm", "GEMM", open_gemm, print_gemm};
