/* Where a step's time goes: op by op, and the head's share of it. */
#include "tests/bench/step.h"

/* Steps on a counter's table, one a round. */
struct profile {
    const struct bench *bench;
    struct step *step;
    const struct figure *figure, *copy; /* copying memory: the ceiling of what does not multiply */
    struct counter round[ROUNDS_MOST];
};

static status run_profile(void *self)
{
    struct profile *p = self;
    return step_count(p->step, &p->round[p->bench->round]);
}

/* Made when it is first asked for. */
static status profile_find(struct bench *b, const struct step_choice *choice, struct profile **out)
{
    struct step *step;
    TRY(step_find(b, choice, &step));
    struct figure figure = {.run = run_profile, .flops = step->figure->flops};
    snprintf(figure.name, sizeof figure.name, "counted %.80s", step->figure->name);
    const struct figure *made = bench_find(b, figure.name);
    if (made) {
        *out = made->self;
        return OK;
    }
    struct profile *p = *out = figure.self = bench_new(b, sizeof *p);
    p->bench = b;
    p->step = step;
    TRY(peak_copy(b, &p->copy));
    return bench_add(b, &figure, &p->figure);
}

/* One number of every round. */
typedef double profile_value(const struct profile *p, int round, int op);

static struct spread profile_spread(const struct profile *p, profile_value *value, int op)
{
    double values[ROUNDS_MOST] = {0};
    for (int i = 0; i < p->bench->rounds; i++)
        values[i] = value(p, i, op);
    return spread_of(values, p->bench->rounds);
}

static double seconds(const struct profile *p, int round, int op) { return p->round[round].at[op].seconds; }

static double share(const struct profile *p, int round, int op)
{
    return seconds(p, round, op) / p->figure->sample[round].wall_s;
}

static double rate(const struct profile *p, int round, int op)
{
    const struct count *c = &p->round[round].at[op];
    return (c->flops > 0 ? c->flops : c->bytes) / c->seconds;
}

static double share_of_ceiling(const struct profile *p, int round, int op)
{
    double copied = p->copy->bytes / p->copy->sample[round].wall_s;
    return rate(p, round, op) / (p->round[round].at[op].flops > 0 ? p->figure->sample[round].peak : copied);
}

/* Of the step: the ops from `first` to `last`. */
static struct spread share_of_ops(const struct profile *p, int first, int last)
{
    double values[ROUNDS_MOST] = {0};
    for (int i = 0; i < p->bench->rounds; i++)
        for (int op = first; op <= last; op++)
            values[i] += share(p, i, op);
    return spread_of(values, p->bench->rounds);
}

/* ---- the group `profile` ---- */

static status open_group_profile(struct bench *b, void **self)
{
    struct profile **p = *self = bench_new(b, STEP_SHAPES * sizeof *p);
    for (int i = 0; i < STEP_SHAPES; i++)
        TRY(profile_find(b, &step_shapes[i], &p[i]));
    return OK;
}

static void print_op(const struct profile *p, int op, FILE *out)
{
    const struct count *c = &p->round[0].at[op];
    if (!c->calls)
        return;
    fprintf(out, "| %s | %lld | %.2f | %.1f | %s %s | %s |\n", counted_name(op), (long long)c->calls,
            profile_spread(p, seconds, op).median * 1e3, profile_spread(p, share, op).median * 100,
            spread_text(profile_spread(p, rate, op), 1e-9, 1), c->flops > 0 ? "GFLOP/s" : "GB/s",
            spread_text(profile_spread(p, share_of_ceiling, op), 100, 0));
}

static void print_group_profile(const struct bench *b, void *self, FILE *out)
{
    struct profile *const *p = self;
    for (int i = 0; i < STEP_SHAPES; i++) {
        fprintf(out,
                "### H %d, step of %.0f ms\n\n| op | calls | ms | %% of step | rate | %% of ceiling |\n"
                "|---|---|---|---|---|---|\n",
                p[i]->step->choice.hidden, spread_seconds(b, p[i]->figure).median * 1e3);
        for (int op = 0; op < COUNTED; op++)
            print_op(p[i], op, out);
        fprintf(out, "| outside the ops | | | %.1f | | |\n\n", 100 - share_of_ops(p[i], 0, COUNTED - 1).median * 100);
    }
    fputs(
        "Ceilings: the fp32 FMA peak for GEMM and attention, copying memory for the others, which pass it where their "
        "operands are in cache.\n",
        out);
}

const struct group group_profile = {"profile", "Profile", open_group_profile, print_group_profile};

/* ---- the group `head` ---- */

static const struct {
    int shape, vocab;
} heads[] = {{1, 256}, {1, 4096}, {1, 50257}, {2, 50257}};

static status open_group_head(struct bench *b, void **self)
{
    struct profile **p = *self = bench_new(b, COUNT(heads) * sizeof *p);
    for (int i = 0; i < COUNT(heads); i++) {
        struct step_choice choice = step_shapes[heads[i].shape];
        choice.vocab = heads[i].vocab;
        TRY(profile_find(b, &choice, &p[i]));
    }
    return OK;
}

static void print_group_head(const struct bench *b, void *self, FILE *out)
{
    struct profile *const *p = self;
    fputs("| H | vocabulary | step, ms | % of it in the head | % of its FLOPs | target | "
          "|\n|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < COUNT(heads); i++) {
        struct spread share = share_of_ops(p[i], COUNT_HEAD_GEMM, COUNT_CROSS_ENTROPY);
        bool judged = heads[i].vocab == 50257;
        double flops = p[i]->round[0].at[COUNT_HEAD_GEMM].flops / p[i]->step->figure->flops;
        fprintf(out, "| %d | %d | %s | %s | %.1f | %s | %s |\n", p[i]->step->choice.hidden, heads[i].vocab,
                spread_text(spread_seconds(b, p[i]->step->figure), 1e3, 0), spread_text(share, 100, 1), flops * 100,
                judged ? "35" : "", judged ? met(share.median <= 0.35) : "");
    }
    fputs("\nThe head: its three products and the cross-entropy.\n", out);
}

const struct group group_head = {"head", "Head", open_group_head, print_group_head};
