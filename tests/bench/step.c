#include "tests/bench/step.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

#define SHAPE(h, f)                                            \
    {                                                          \
        32, h, f, (h) / 64, 256, 256, 8, .arithmetic = "exact" \
    }

const struct step_choice step_shapes[STEP_SHAPES] = {SHAPE(64, 192), SHAPE(128, 384), SHAPE(256, 704)};

/* "step H128 V256 T256 L32 R16 exact fixed fixed certified": words that tell two choices apart. */
static void name_figure(const struct step_choice *c, char *name, size_t size)
{
    snprintf(name, size, "step H%d V%d T%d L%d R%d %s %s %s%s", c->hidden, c->vocab, c->sequence, c->layers,
             c->recomputed, c->arithmetic, arithmetic_mode_name(c->dial.forward),
             arithmetic_mode_name(c->dial.recompute), c->certificate ? " certified" : "");
    if (c->dropout > 0)
        snprintf(name + strlen(name), size - strlen(name), " dropout %g", (double)c->dropout);
}

static void close_step(void *self)
{
    struct step *s = self;
    decoder_close(s->decoder);
    certificate_free(s->certificate);
}

static status options_of(struct decoder_options *o, const struct bench *b, const struct step *s)
{
    const struct step_choice *c = &s->choice;
    *o = (struct decoder_options){
        .backend = "cpu",
        .threads = b->threads,
        .shape = {.preset = "bench",
                  .layers = c->layers,
                  .hidden = c->hidden,
                  .ffn = c->ffn,
                  .heads = c->heads,
                  .kv_heads = c->heads,
                  .vocab = c->vocab,
                  .sequence = c->sequence,
                  .tied = true,
                  .rope_theta = 10000,
                  .norm_eps = 1e-5f,
                  .hidden_dropout = c->dropout,
                  .init_std = 0.02f},
        .storage = BF16,
        .micro_batch = c->batch,
        .sequences_per_group = c->batch,
        .global_batch = c->batch,
        .groups = 1,
        .dial = c->dial,
        .seed = 1,
        .draw_seed = 2,
        .certificate = s->certificate,
    };
    TRY(recompute_parse(&o->recompute, c->recomputed ? "full" : NULL, c->recomputed ? "block" : NULL,
                        c->recomputed ? c->recomputed : -1, NULL, NULL));
    return arithmetic_find(&o->arithmetic, c->arithmetic);
}

static void draw_tokens(struct bench *b, struct step *s, int64_t tokens)
{
    const struct random_site where = {.seed = 3};
    s->token = bench_new(b, (size_t)tokens * sizeof *s->token);
    s->target = bench_new(b, (size_t)tokens * sizeof *s->target);
    s->loss = bench_new(b, (size_t)s->choice.batch * sizeof *s->loss);
    for (int64_t i = 0; i < tokens; i++) {
        uint64_t word = philox_u64(&where, (uint64_t)i), vocab = (uint64_t)s->choice.vocab;
        s->token[i] = (int32_t)((word >> 32) % vocab);
        s->target[i] = (int32_t)((word & 0xffffffffu) % vocab);
    }
}

static status open_step(struct bench *b, const struct step_choice *choice, struct step *s)
{
    struct decoder_options options;
    int64_t tokens = (int64_t)choice->batch * choice->sequence;
    s->choice = *choice;
    if (choice->certificate)
        TRY(certificate_new(&s->certificate, choice->layers, false));
    TRY(options_of(&options, b, s));
    TRY(decoder_open(&s->decoder, &options));
    TRY(decoder_initialise(s->decoder));
    draw_tokens(b, s, tokens);
    s->shape = options.shape;
    s->tokens = (double)tokens;
    s->parameters = (double)shape_parameter_elements(&options.shape);
    struct counter counter;
    TRY(step_count(s, &counter));
    s->digest_bytes = counter.at[COUNT_DIGEST].bytes;
    struct figure figure = {.run = step_run, .self = s, .flops = counter_flops(&counter)};
    name_figure(choice, figure.name, sizeof figure.name);
    return bench_add(b, &figure, &s->figure);
}

status step_find(struct bench *b, const struct step_choice *choice, struct step **out)
{
    char name[sizeof((struct figure *)0)->name];
    name_figure(choice, name, sizeof name);
    const struct figure *made = bench_find(b, name);
    if (made) {
        *out = made->self;
        return OK;
    }
    struct step *s = bench_new(b, sizeof *s);
    bench_own(b, s, close_step);
    *out = s;
    return open_step(b, choice, s);
}

status step_run(void *self)
{
    static const struct optimizer_rule rule = {.steps = 1 << 20,
                                               .warmup_steps = 1,
                                               .lr = 1e-6,
                                               .min_lr = 1e-6,
                                               .beta1 = 0.9,
                                               .beta2 = 0.95,
                                               .eps = 1e-8,
                                               .weight_decay = 0.1,
                                               .clip = 1};
    struct step *s = self;
    const struct batch batch = {.token = s->token, .target = s->target};
    struct optimizer_state state = decoder_state(s->decoder);
    double norm;
    s->number++;
    TRY(decoder_begin_step(s->decoder, s->number, true));
    TRY(decoder_train(s->decoder, &batch, s->loss));
    TRY(decoder_end_step(s->decoder));
    return optimizer_step(decoder_device(s->decoder), &s->shape, &rule, &state, s->number, &norm);
}

status step_count(struct step *s, struct counter *c)
{
    struct device *d = decoder_device(s->decoder);
    struct optimizer_state state = decoder_state(s->decoder);
    counter_begin(c, d, state.weight.data, state.grad.data); /* tied: the head is the first parameter */
    status st = step_run(s);
    counter_end(c, d);
    return st;
}
