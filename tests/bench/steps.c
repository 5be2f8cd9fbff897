/* The groups of whole steps: what a step takes, and what recompute, certificate, head and arithmetic add to it. */
#include "tests/bench/peer.h"
#include "tests/bench/step.h"

static status open_shapes(struct bench *b, int recomputed, bool certificate, struct step **out)
{
    for (int i = 0; i < STEP_SHAPES; i++) {
        struct step_choice choice = step_shapes[i];
        choice.recomputed = recomputed;
        choice.certificate = certificate;
        TRY(step_find(b, &choice, &out[i]));
    }
    return OK;
}

/* ---- step ---- */

static status open_group_step(struct bench *b, void **self)
{
    struct step **s = *self = bench_new(b, STEP_SHAPES * sizeof *s);
    return open_shapes(b, 0, false, s);
}

static void print_step(const struct bench *b, const struct step *s, FILE *out)
{
    const struct figure *f = s->figure;
    struct spread share = spread_share_of_peak(b, f);
    bool judged = s->choice.hidden >= 128;
    fprintf(out, "| %d (%d) | %.1f M | %.1f | %s | %s | %s | %s | %s | %s | %s |\n", s->choice.hidden, s->choice.ffn,
            s->parameters * 1e-6, f->flops * 1e-9, spread_text(spread_seconds(b, f), 1e3, 0),
            spread_text(spread_cpu_seconds(b, f), 1e3, 0), spread_text(spread_rate(b, f, s->tokens), 1, 0),
            spread_text(share, 100, 1), spread_text(spread_share_of_cpu_peak(b, f), 100, 1), judged ? "70" : "",
            judged ? met(share.median >= 0.70) : "");
}

static void print_group_step(const struct bench *b, void *self, FILE *out)
{
    struct step *const *s = self;
    fputs("| H (FFN) | parameters | GFLOP | wall, ms | CPU, ms | tokens/s | % of peak | by CPU time | target | |\n"
          "|---|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < STEP_SHAPES; i++)
        print_step(b, s[i], out);
    fputs("\n32 layers, 8 x 256 tokens, vocabulary 256, heads of 64 columns, BF16, nothing recomputed, arithmetic "
          "`exact`. "
          "FLOPs are those of GEMM and of attention, causal, counted op by op.\n",
          out);
}

const struct group group_step = {"step", "Whole step", open_group_step, print_group_step};

/* ---- recompute ---- */

enum { RECOMPUTES = STEP_SHAPES + 2 };

struct recompute_pair {
    struct step *stored, *recomputed;
};

static status open_group_recompute(struct bench *b, void **self)
{
    static const struct {
        int shape, recomputed;
    } rows[RECOMPUTES] = {{0, 32}, {1, 16}, {1, 24}, {1, 32}, {2, 32}};
    struct recompute_pair *pair = *self = bench_new(b, RECOMPUTES * sizeof *pair);
    for (int i = 0; i < RECOMPUTES; i++) {
        struct step_choice choice = step_shapes[rows[i].shape];
        TRY(step_find(b, &choice, &pair[i].stored));
        choice.recomputed = rows[i].recomputed;
        TRY(step_find(b, &choice, &pair[i].recomputed));
    }
    return OK;
}

static void print_group_recompute(const struct bench *b, void *self, FILE *out)
{
    const struct recompute_pair *pair = self;
    fputs("| H | layers recomputed | step / step without | by CPU time | FLOPs / FLOPs without | target | |\n"
          "|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < RECOMPUTES; i++) {
        const struct step *r = pair[i].recomputed, *s = pair[i].stored;
        struct spread ratio = spread_ratio(b, r->figure, s->figure);
        double flops = r->figure->flops / s->figure->flops;
        fprintf(out, "| %d | %d of %d | %s | %s | %.3f | %.3f | %s |\n", r->choice.hidden, r->choice.recomputed,
                r->choice.layers, spread_text(ratio, 1, 3),
                spread_text(spread_cpu_ratio(b, r->figure, s->figure), 1, 3), flops, flops + 0.02,
                met(ratio.median <= flops + 0.02));
    }
    fputs("\nWithout certificate.\n", out);
}

const struct group group_recompute = {"recompute", "Recompute", open_group_recompute, print_group_recompute};

/* ---- certificate ---- */

struct certificate_pairs {
    struct step *without[STEP_SHAPES], *with[STEP_SHAPES];
};

static status open_group_certificate(struct bench *b, void **self)
{
    struct certificate_pairs *p = *self = bench_new(b, sizeof *p);
    TRY(open_shapes(b, 32, false, p->without));
    return open_shapes(b, 32, true, p->with);
}

static void print_group_certificate(const struct bench *b, void *self, FILE *out)
{
    const struct certificate_pairs *p = self;
    const double rate = 30e9 * b->threads;
    fputs("| H | digested, MB | step with / step without | by CPU time | target: 1 + bytes / 30 GB/s a core | |\n"
          "|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < STEP_SHAPES; i++) {
        const struct figure *with = p->with[i]->figure, *without = p->without[i]->figure;
        struct spread ratio = spread_ratio(b, with, without);
        double target = 1 + p->with[i]->digest_bytes / rate / spread_seconds(b, without).median;
        fprintf(out, "| %d | %.0f | %s | %s | %.3f | %s |\n", p->with[i]->choice.hidden,
                p->with[i]->digest_bytes * 1e-6, spread_text(ratio, 1, 3),
                spread_text(spread_cpu_ratio(b, with, without), 1, 3), target, met(ratio.median <= target));
    }
    fputs("\n32 of 32 layers recomputed; bytes are those of both digests, forward and recompute.\n", out);
}

const struct group group_certificate = {"certificate", "Certificate", open_group_certificate, print_group_certificate};

/* ---- arithmetic ---- */

/* What is compared with the first row, at H 128. */
static const struct {
    const char *label, *profile;
    enum arithmetic_mode mode;
    float dropout;
} variants[] = {
    {"exact", "exact", ARITHMETIC_FIXED, 0},
    {"h800-sim", "h800-sim", ARITHMETIC_FIXED, 0},
    {"l40s-sim", "l40s-sim", ARITHMETIC_FIXED, 0},
    {"exact, random", "exact", ARITHMETIC_RANDOM, 0},
    {"exact, other-order", "exact", ARITHMETIC_OTHER_ORDER, 0},
    {"exact, to-zero", "exact", ARITHMETIC_TO_ZERO, 0},
    {"exact, truncating", "exact", ARITHMETIC_TRUNCATING, 0},
    {"exact, dropout 0.1", "exact", ARITHMETIC_FIXED, 0.1f},
};

static status open_group_arithmetic(struct bench *b, void **self)
{
    struct step **s = *self = bench_new(b, COUNT(variants) * sizeof *s);
    for (int i = 0; i < COUNT(variants); i++) {
        struct step_choice choice = step_shapes[1];
        choice.arithmetic = variants[i].profile;
        choice.dial.forward = variants[i].mode;
        choice.dropout = variants[i].dropout;
        TRY(step_find(b, &choice, &s[i]));
    }
    return OK;
}

static void print_group_arithmetic(const struct bench *b, void *self, FILE *out)
{
    struct step *const *s = self;
    fputs("| arithmetic | step, ms | / exact | by CPU time |\n|---|---|---|---|\n", out);
    for (int i = 0; i < COUNT(variants); i++)
        fprintf(out, "| %s | %s | %s | %s |\n", variants[i].label, spread_text(spread_seconds(b, s[i]->figure), 1e3, 0),
                spread_text(spread_ratio(b, s[i]->figure, s[0]->figure), 1, 3),
                spread_text(spread_cpu_ratio(b, s[i]->figure, s[0]->figure), 1, 3));
    fputs("\nH 128, nothing recomputed; the mode acts on forward and backward.\n", out);
}

const struct group group_arithmetic = {"arithmetic", "Arithmetic", open_group_arithmetic, print_group_arithmetic};

/* ---- torch: the same steps by PyTorch ---- */

struct versus {
    struct step *ours;
    const struct figure *theirs; /* NULL without the peer */
    const char *they;
};

static const int versus_recomputed[] = {0, 32};

static status open_group_torch(struct bench *b, void **self)
{
    struct versus *v = *self = bench_new(b, COUNT(versus_recomputed) * STEP_SHAPES * sizeof *v);
    struct peer *peer;
    TRY(peer_open(b, &peer, b->torch));
    for (int r = 0; r < COUNT(versus_recomputed); r++)
        for (int i = 0; i < STEP_SHAPES; i++, v++) {
            struct step_choice c = step_shapes[i];
            char name[96], words[96];
            c.recomputed = versus_recomputed[r];
            TRY(step_find(b, &c, &v->ours));
            snprintf(name, sizeof name, "PyTorch H%d R%d", c.hidden, c.recomputed);
            snprintf(words, sizeof words, "%d %d %d %d %d %d %d %d", c.layers, c.hidden, c.ffn, c.heads, c.vocab,
                     c.sequence, c.batch, c.recomputed);
            TRY(peer_add(b, peer, name, words, v->ours->figure->flops, &v->theirs, &v->they));
        }
    return OK;
}

static void print_versus(const struct bench *b, const struct versus *v, FILE *out)
{
    const struct step_choice *c = &v->ours->choice;
    struct spread ratio = spread_ratio(b, v->theirs, v->ours->figure);
    bool judged = c->hidden == 128 && !c->recomputed;
    fprintf(out, "| %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", c->hidden, c->recomputed,
            spread_text(spread_rate(b, v->ours->figure, v->ours->tokens), 1, 0),
            spread_text(spread_rate(b, v->theirs, v->ours->tokens), 1, 0), v->they, spread_text(ratio, 1, 2),
            spread_text(spread_cpu_ratio(b, v->theirs, v->ours->figure), 1, 2), judged ? "3" : "",
            judged ? met(ratio.median >= 3) : "");
}

static void print_group_torch(const struct bench *b, void *self, FILE *out)
{
    const struct versus *v = self;
    bool any = false;
    fputs("| H | layers recomputed | ours, tokens/s | PyTorch, tokens/s | its best setting | ratio | by CPU time | "
          "target | |\n"
          "|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < COUNT(versus_recomputed) * STEP_SHAPES; i++)
        if (v[i].theirs) {
            print_versus(b, &v[i], out);
            any = true;
        }
    fputs(any ? "\nThe same shapes, tokens and threads; the fastest of the settings that peer_torch.py tries.\n"
              : "\nNot measured: no PyTorch on this machine.\n",
          out);
}

const struct group group_torch = {"torch", "Against PyTorch", open_group_torch, print_group_torch};

/* ---- gpt2: the shape of GPT-2 124M ---- */

/* llm.c on its CPU path, recorded elsewhere (AVX-512, 2 threads, same shape), tokens/s. */
static const double recorded_low = 37, recorded_high = 41;

static status open_group_gpt2(struct bench *b, void **self)
{
    static const struct step_choice gpt2 = {.layers = 12,
                                            .hidden = 768,
                                            .ffn = 2048,
                                            .heads = 12,
                                            .vocab = 50257,
                                            .sequence = 64,
                                            .batch = 4,
                                            .arithmetic = "exact"};
    struct step *s;
    TRY(step_find(b, &gpt2, &s));
    *self = s;
    return OK;
}

static void print_group_gpt2(const struct bench *b, void *self, FILE *out)
{
    const struct step *s = self;
    struct spread tokens = spread_rate(b, s->figure, s->tokens);
    fprintf(
        out,
        "| | parameters | tokens/s | %% of peak | ratio | target | |\n|---|---|---|---|---|---|---|\n"
        "| ours | %.0f M | %s | %s | %.1f-%.1f | 6 | %s |\n| llm.c, recorded elsewhere | 124 M | %.0f-%.0f | | | | |\n",
        s->parameters * 1e-6, spread_text(tokens, 1, 1), spread_text(spread_share_of_peak(b, s->figure), 100, 1),
        tokens.median / recorded_high, tokens.median / recorded_low, met(tokens.median / recorded_high >= 6),
        recorded_low, recorded_high);
    fputs(
        "\n12 layers of 768, 12 heads, vocabulary 50257, 4 x 64 tokens. Ours is a Llama block with as many parameters "
        "(SwiGLU of 2048). llm.c's figures come from another machine (fp32 FMA peak 316-342 GFLOP/s with two threads) "
        "and are no measurement of this run.\n",
        out);
}

const struct group group_gpt2 = {"gpt2", "GPT-2 124M", open_group_gpt2, print_group_gpt2};
