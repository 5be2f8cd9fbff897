/* Memory: every planned byte is written and none beside, plans are taken as planned, and fall with N. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/small_model.h"
#include "tests/suite.h"

/* For each byte of the arena: does it still hold `poison` after steps that use everything? `s` is left open. */
static unsigned char *untouched(struct small_model *s, const struct decoder_options *o, int poison)
{
    small_open(s, o);
    struct device *d = decoder_device(s->decoder);
    for (int i = 0; i < d->span_count; i++)
        if (strcmp(d->spans[i].name, "rope table")) /* filled when the decoder opens */
            memset(d->arena + d->spans[i].offset, poison, d->spans[i].bytes);
    ck_ok(decoder_initialise(s->decoder));
    for (int64_t step = 1; step <= 2; step++) {
        small_step(s, step);
        small_optimizer_step(s, step);
    }
    ck_ok(device_check_guards(d));
    unsigned char *same = malloc(d->arena_used);
    ck_assert_ptr_nonnull(same);
    for (size_t i = 0; i < d->arena_used; i++)
        same[i] = d->arena[i] == poison;
    return same;
}

/* A byte that holds either poison after its own run was not written. */
static void check_all_written(const struct decoder_options *o)
{
    struct small_model first, second;
    unsigned char *a = untouched(&first, o, 0x5A), *b = untouched(&second, o, 0xC3);
    const struct device *d = decoder_device(first.decoder);
    for (int i = 0; i < d->span_count; i++)
        for (size_t j = d->spans[i].offset; j < d->spans[i].offset + d->spans[i].bytes; j++)
            if (a[j] && b[j])
                ck_abort_msg("byte %zu of span '%s' (%zu bytes) was planned and never written", j - d->spans[i].offset,
                             d->spans[i].name, d->spans[i].bytes);
    ck_assert_uint_eq(d->arena_used, decoder_memory(first.decoder)->arena_bytes);
    free(a);
    free(b);
    small_close(&first);
    small_close(&second);
}

static const struct {
    const char *granularity, *method;
    int layers;
    bool untied;
} written[] = {
    {NULL, NULL, -1, false}, {"full", "block", 3, false}, {"full", "uniform", 3, false}, {"full", "block", 5, true}};

START_TEST(every_planned_byte_is_written)
{
    struct decoder_options o = small_options();
    /* A fault makes the witness speak, so that its bytes are used as well. */
    ck_ok(fault_parse(&o.fault, "rng-redrawn"));
    o.shape.tied = !written[_i].untied;
    o.recompute = small_policy(written[_i].granularity, written[_i].method, written[_i].layers, NULL, NULL);
    check_all_written(&o);
}
END_TEST

START_TEST(guards_tell_a_write_beside_a_span)
{
    struct device *d;
    void *span;
    ck_ok(device_open(&d, "reference", 1, 4 * device_span_bytes(100)));
    ck_ok(device_take(d, "a", 100, &span));
    ck_ok(device_check_guards(d));
    ((unsigned char *)span)[100] = 0;
    ck_assert_int_eq(device_check_guards(d), ERR_DEVICE);
    ck_said("'a'");
    device_close(d);
}
END_TEST

START_TEST(arena_refuses_more_than_planned)
{
    struct device *d;
    void *span;
    ck_ok(device_open(&d, "reference", 1, device_span_bytes(512)));
    ck_ok(device_take(d, "fits", 512, &span));
    ck_assert_uint_eq((uintptr_t)span % DEVICE_ALIGNMENT, 0);
    ck_assert_int_eq(device_take(d, "too much", 1, &span), ERR_MEMORY);
    ck_said("'too much'");
    device_close(d);
}
END_TEST

START_TEST(a_device_refuses_more_threads_than_any_machine_has)
{
    struct device *d;
    ck_assert_int_eq(device_open(&d, "reference", DEVICE_THREADS + 1, 0), ERR_USAGE);
    ck_said("OMP_NUM_THREADS");
    ck_assert_ptr_null(d);
    ck_ok(device_open(&d, "reference", DEVICE_THREADS, 0));
    device_close(d);
}
END_TEST

/* ---- resident memory of a real process follows the plan ---- */

static long resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%ld %ld", &pages, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* What a decoder holds besides its arena: digests, row numbers, plans, the workspace, the threads' stacks; with
 * sanitizers also the shadow of that. About half of it is measured. 32 recomputed layers free more than the 6 MiB. */
#ifdef __SANITIZE_ADDRESS__
enum { CONSTANT_BYTES = 16 << 20 };
#else
enum { CONSTANT_BYTES = 6 << 20 };
#endif

START_TEST(resident_memory_follows_the_plan)
{
    struct decoder_options o = small_options();
    o.shape.hidden = 256;
    o.shape.ffn = 704;
    o.shape.sequence = SMALL_TOKENS;
    o.shape.layers = 32;
    o.recompute = small_policy("full", "block", 8 * _i, NULL, NULL);
    struct small_model s;
    long before = resident_bytes();
    small_open(&s, &o);
    small_step(&s, 1);
    long grown = resident_bytes() - before;
    long planned = (long)decoder_memory(s.decoder)->arena_bytes;
    ck_assert_msg(planned <= grown && grown <= planned + CONSTANT_BYTES, "N = %d: planned %ld bytes, resident %ld",
                  8 * _i, planned, grown);
    small_close(&s);
}
END_TEST

START_TEST(stored_activations_fall_by_a_layer_as_planned)
{
    struct decoder_options o = small_options();
    uint64_t last = 0;
    /* Per row: norm1, qkv, attention, middle, norm2 (H + 2 KV and 4 H), gate_up, activated (3 F) in bf16; rstd twice and
     * lse (heads) in f32. */
    uint64_t layer = (uint64_t)o.micro_batch * SMALL_TOKENS * ((4 * 32 + 64 + 3 * 48) * 2 + (2 + 4) * 4);
    for (int n = 0; n <= SMALL_LAYERS; n++) {
        struct small_model s;
        o.recompute = small_policy("full", "block", n, NULL, NULL);
        small_open(&s, &o);
        const struct memory_plan *p = decoder_memory(s.decoder);
        if (n > 0)
            ck_assert_uint_eq(last - p->stored_activations, layer);
        ck_assert_uint_eq(p->rebuilt_activations, n ? layer : 0);
        last = p->stored_activations;
        small_close(&s);
    }
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {every_planned_byte_is_written, COUNT(written)},
        {guards_tell_a_write_beside_a_span, 1},
        {arena_refuses_more_than_planned, 1},
        {a_device_refuses_more_threads_than_any_machine_has, 1},
        {resident_memory_follows_the_plan, 5},
        {stored_activations_fall_by_a_layer_as_planned, 1},
    };
    return suite_run("arena", tests, COUNT(tests));
}
