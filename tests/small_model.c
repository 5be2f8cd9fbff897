#include "tests/small_model.h"

#include "kernels/ops.h"
#include "tests/suite.h"

struct decoder_options small_options(void)
{
    struct decoder_options o = {
        .backend = "cpu",
        .threads = 2,
        .shape = {.preset = "test",
                  .layers = SMALL_LAYERS,
                  .hidden = 32,
                  .ffn = 48,
                  .heads = 4,
                  .kv_heads = 2,
                  .vocab = 64,
                  .sequence = SMALL_TOKENS,
                  .tied = true,
                  .rope_theta = 10000,
                  .norm_eps = 1e-5f,
                  .hidden_dropout = 0.1f,
                  .init_std = 0.3f},
        .storage = BF16,
        .micro_batch = 2,
        .sequences_per_group = 2,
        .global_batch = SMALL_SEQUENCES,
        .groups = 2,
        .seed = 7,
        .draw_seed = 11,
    };
    ck_ok(arithmetic_find(&o.arithmetic, "l40s-sim"));
    ck_ok(fault_parse(&o.fault, NULL));
    return o;
}

struct recompute_policy small_policy(const char *granularity, const char *method, int layers, const char *modules,
                                     const char *precision)
{
    struct recompute_policy p;
    ck_ok(recompute_parse(&p, granularity, method, layers, modules, precision));
    return p;
}

void small_open(struct small_model *s, const struct decoder_options *options)
{
    *s = (struct small_model){.options = *options};
    bool expects = options->recompute.precision == F32 && options->storage == BF16;
    ck_ok(certificate_new(&s->certificate, options->shape.layers, expects));
    s->options.certificate = s->certificate;
    ck_ok(decoder_open(&s->decoder, &s->options));
    ck_ok(decoder_initialise(s->decoder));
}

void small_close(struct small_model *s)
{
    decoder_close(s->decoder);
    certificate_free(s->certificate);
}

static void draw_tokens(const struct small_model *s, int64_t step, int32_t *token)
{
    const struct random_site where = {.seed = 99, .step = (uint32_t)step};
    for (int i = 0; i < SMALL_SEQUENCES * SMALL_TOKENS; i++)
        token[i] = (int32_t)(philox_u64(&where, (uint64_t)i) % (uint64_t)s->options.shape.vocab);
}

/* Of the sequences first to first + count - 1; gradients are summed over groups into the first. */
static void run_sequences(struct small_model *s, int64_t step, int64_t first, int64_t count)
{
    int32_t token[SMALL_SEQUENCES * SMALL_TOKENS], target[SMALL_SEQUENCES * SMALL_TOKENS];
    int64_t B = s->options.micro_batch;
    draw_tokens(s, step, token);
    draw_tokens(s, step + 1000, target);
    for (int64_t n = first; n < first + count; n += B) {
        const struct batch batch = {token + n * SMALL_TOKENS, target + n * SMALL_TOKENS, n, n - first,
                                    (int32_t)(n / B)};
        ck_ok(decoder_train(s->decoder, &batch, s->loss + n));
    }
    int groups;
    const struct view *group = decoder_gradients(s->decoder, &groups);
    struct device *d = decoder_device(s->decoder);
    for (int g = 1; g < groups; g++)
        ck_ok(d->ops->add(d, &group[0], &group[g]));
}

void small_part_of_step(struct small_model *s, int64_t step, int64_t first, int64_t count)
{
    ck_ok(decoder_begin_step(s->decoder, step, true));
    run_sequences(s, step, first, count);
    ck_ok(decoder_end_step(s->decoder));
}

struct control_proof small_control(struct small_model *s, int64_t step)
{
    struct control_proof proof;
    ck_ok(decoder_control_begin(s->decoder, step));
    run_sequences(s, step, 0, SMALL_SEQUENCES);
    decoder_control_end(s->decoder, &proof);
    return proof;
}

void small_step(struct small_model *s, int64_t step) { small_part_of_step(s, step, 0, SMALL_SEQUENCES); }

void small_optimizer_step(struct small_model *s, int64_t step)
{
    const struct optimizer_rule rule = {.steps = 100,
                                        .warmup_steps = 1,
                                        .lr = 1e-2,
                                        .min_lr = 1e-2,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-8,
                                        .weight_decay = 0.1,
                                        .clip = 1};
    struct optimizer_state state = decoder_state(s->decoder);
    double norm;
    ck_ok(optimizer_step(decoder_device(s->decoder), &s->options.shape, &rule, &state, step, &norm));
}

const struct view *small_gradient(struct small_model *s)
{
    int groups;
    return decoder_gradients(s->decoder, &groups);
}

void small_run_fault(struct small_model *s, enum dtype storage, const char *fault, struct recompute_policy policy,
                     int steps)
{
    struct decoder_options o = small_options();
    o.storage = storage;
    o.recompute = policy;
    ck_ok(fault_parse(&o.fault, fault));
    small_open(s, &o);
    for (int64_t step = 1; step <= steps; step++) {
        small_step(s, step);
        small_optimizer_step(s, step);
    }
}

void small_accused(const struct small_model *s, int64_t step, int layer, const char *family)
{
    const struct certificate_event *e = certificate_first(s->certificate);
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(e->step, step);
    ck_assert_int_eq(e->layer, layer);
    ck_assert_str_eq(block_op_family(block_tensor_op(e->tensor)), family);
    ck_assert_str_eq(accused_name(e->accused), "recompute");
}
