/* The memory plan against counts made another way. */
#include "kernels/device.h"
#include "model/memory.h"
#include "tests/suite.h"

static struct memory_request request_of(const char *preset, int64_t batch, int64_t tokens)
{
    struct memory_request q = {
        .micro_batch = batch, .tokens = tokens, .storage = BF16, .reduction_groups = 1, .shards = 1};
    ck_ok(shape_preset(&q.shape, preset));
    return q;
}

static struct memory_plan plan_of(const struct memory_request *q, const char *granularity, const char *method, int n,
                                  const char *precision)
{
    struct recompute_policy policy;
    struct recompute_plan *recompute;
    struct memory_plan plan;
    ck_ok(recompute_parse(&policy, granularity, method, n, NULL, precision));
    ck_ok(recompute_plan_make(&recompute, &policy, q->shape.layers));
    ck_ok(memory_plan_make(&plan, q, recompute));
    recompute_plan_free(recompute);
    return plan;
}

/* tiny with B = 2, T = 64, so M = 128: H 32, qkv 64, 2F 128, F 64, 4 heads; bf16 but for rstd and lse. */
enum {
    M = 128,
    ROW = M * 32 * 2,                                                   /* an (M,H) tensor */
    LAYER = 5 * ROW + M * (64 + 128 + 64) * 2 + 2 * M * 4 + 8 * 64 * 4, /* + qkv, 2F, F; rstd twice; lse */
    INNER = LAYER - ROW                                                 /* the same without the input */
};

START_TEST(tiny_takes_the_bytes_that_a_count_by_hand_gives)
{
    struct memory_request q = request_of("tiny", 2, 64);
    struct memory_plan p = plan_of(&q, NULL, NULL, -1, NULL);
    int64_t n = shape_elements(&q.shape);
    ck_assert_uint_eq(p.weights, 2 * n);
    ck_assert_uint_eq(p.gradients, 4 * n);
    ck_assert_uint_eq(p.optimizer, 12 * n);
    ck_assert_uint_eq(p.stored_activations, 4 * LAYER + ROW);
    ck_assert_uint_eq(p.rebuilt_activations, 0);
    ck_assert_uint_eq(p.witness, 0);
    /* transient, d_stream, d_branch, final norm; d_wide (M,128); d_narrow (M,64); final rstd, losses; logits and
     * d_logits of all 128 rows; rope table (64, 8). */
    ck_assert_uint_eq(p.scratch,
                      4 * ROW + M * 128 * 2 + M * 64 * 2 + 2 * M * 4 + M * 256 * 4 + M * 256 * 2 + 64 * 8 * 4);
    ck_assert_uint_eq(p.total, p.weights + p.gradients + p.optimizer + p.stored_activations + p.scratch);
    ck_assert_int_eq(p.head_chunk, M);
}
END_TEST

START_TEST(block_replaces_stored_layers_by_one_slot)
{
    struct memory_request q = request_of("tiny", 2, 64);
    int n = _i + 1;
    struct memory_plan p = plan_of(&q, "full", "block", n, NULL);
    ck_assert_uint_eq(p.stored_activations, n * ROW + (4 - n) * LAYER + ROW);
    ck_assert_uint_eq(p.rebuilt_activations, INNER);
    ck_assert_uint_eq(p.activation_bytes, p.stored_activations + p.rebuilt_activations);
}
END_TEST

/* Chunks of 3 in 4 layers: two stored inputs and the final one, three slots, of which two have an input. */
START_TEST(uniform_keeps_chunk_inputs_and_rebuilds_the_longest_chunk)
{
    struct memory_request q = request_of("tiny", 2, 64);
    q.certificate = true;
    struct memory_plan p = plan_of(&q, "full", "uniform", 3, NULL);
    ck_assert_uint_eq(p.stored_activations, 2 * ROW + ROW);
    ck_assert_uint_eq(p.rebuilt_activations, 3 * INNER + 2 * ROW);
    ck_assert_uint_eq(p.witness, INNER + 2 * ROW);
}
END_TEST

START_TEST(witness_is_one_layer_where_something_is_rebuilt)
{
    struct memory_request q = request_of("tiny", 2, 64);
    ck_assert_uint_eq(plan_of(&q, "full", "block", 2, NULL).witness, 0);
    q.certificate = true;
    ck_assert_uint_eq(plan_of(&q, "full", "block", 2, NULL).witness, INNER);
    ck_assert_uint_eq(plan_of(&q, "full", "block", 0, NULL).witness, 0);
    ck_assert_uint_eq(plan_of(&q, "selective", NULL, -1, NULL).witness, ROW + 8 * 64 * 4);
}
END_TEST

/* Slots and the transient buffer double, rstd and lse stay as they are; stored tensors and the witness are bf16. */
START_TEST(fp32_rebuild_widens_slots_only)
{
    struct memory_request q = request_of("tiny", 2, 64);
    q.certificate = true;
    struct memory_plan narrow = plan_of(&q, "full", "block", 2, "bf16"), wide = plan_of(&q, "full", "block", 2, "fp32");
    uint64_t statistics = 2 * M * 4 + 8 * 64 * 4;
    ck_assert_uint_eq(wide.rebuilt_activations, 2 * narrow.rebuilt_activations - statistics);
    ck_assert_uint_eq(wide.stored_activations, narrow.stored_activations);
    ck_assert_uint_eq(wide.witness, narrow.witness);
    ck_assert_uint_eq(wide.scratch, narrow.scratch + ROW);
    q.storage = F32;
    narrow = plan_of(&q, "full", "block", 2, "bf16");
    wide = plan_of(&q, "full", "block", 2, "fp32");
    ck_assert_uint_eq(wide.total, narrow.total);
}
END_TEST

START_TEST(selective_rebuilds_inside_every_layer)
{
    struct memory_request q = request_of("tiny", 2, 64);
    struct memory_plan p = plan_of(&q, "selective", NULL, -1, NULL);
    uint64_t attention = ROW + 8 * 64 * 4;
    ck_assert_uint_eq(p.stored_activations, 4 * (LAYER - attention) + ROW);
    ck_assert_uint_eq(p.rebuilt_activations, attention);
}
END_TEST

START_TEST(request_adds_what_it_asks_for)
{
    struct memory_request q = request_of("tiny", 2, 64);
    int64_t n = shape_elements(&q.shape);
    struct memory_plan plain = plan_of(&q, NULL, NULL, -1, NULL);
    q.reduction_groups = 2;
    q.stale_weights = true;
    q.shards = 3;
    q.head_chunk = 64;
    struct memory_plan more = plan_of(&q, NULL, NULL, -1, NULL);
    ck_assert_uint_eq(more.gradients, 2 * plain.gradients);
    ck_assert_uint_eq(more.optimizer, 3 * 4 * ((n + 2) / 3));
    ck_assert_int_eq(more.head_chunk, 64);
    ck_assert_uint_eq(more.scratch, plain.scratch + 2 * n - 64 * 256 * 6);
    /* The control of an audit is one gradient more, and no activation. */
    q.audits = true;
    struct memory_plan audited = plan_of(&q, NULL, NULL, -1, NULL);
    ck_assert_uint_eq(audited.gradients, more.gradients + plain.gradients);
    ck_assert_uint_eq(audited.total, more.total + plain.gradients);
}
END_TEST

START_TEST(activations_fall_by_the_same_step_with_every_layer)
{
    struct memory_request q = request_of("code-3b", 1, 8192);
    q.certificate = true;
    uint64_t last = plan_of(&q, "full", "block", 1, NULL).total, step = 0;
    for (int n = 2; n <= 32; n++) {
        uint64_t now = plan_of(&q, "full", "block", n, NULL).total;
        ck_assert_uint_lt(now, last);
        ck_assert(n == 2 || last - now == step);
        step = last - now;
        last = now;
    }
}
END_TEST

/* 2.8 G parameters. A stored layer, in bytes a token and column: 10 for five (M,H) tensors, 6 for q, k and v, 16.2 for
 * three of width F = 2.7 H. Statistics and the final input add 0.3 %. The textbook's 34 has GELU and dropout masks. */
START_TEST(migrated_model_takes_what_the_textbook_says)
{
    static const double GiB = 0x1p30;
    struct memory_request q = request_of("code-3b", 1, 8192);
    q.shards = 8;
    struct memory_plan p = plan_of(&q, NULL, NULL, -1, NULL);
    double parameters = (double)shape_parameter_elements(&q.shape);
    double activations = 32.2 * 8192 * 2560 * 32;
    ck_assert_double_eq_tol((double)(p.weights + p.gradients), 6 * parameters, 0.001 * 6 * parameters);
    ck_assert_double_eq_tol((double)p.optimizer, 12 * parameters / 8, 0.001 * parameters);
    ck_assert_double_eq_tol((double)p.stored_activations, activations, 0.005 * activations);
    ck_assert_double_lt((double)p.total / GiB, 48);
    ck_assert_double_lt((double)p.scratch / GiB, 1);
}
END_TEST

START_TEST(head_chunk_keeps_logits_below_64_MiB)
{
    struct model_shape s;
    ck_ok(shape_preset(&s, "code-3b"));
    ck_assert_int_eq(memory_head_chunk(&s, 16384), 320); /* 333 rows of 50,368 f32 would fit */
    s.vocab = 256;
    ck_assert_int_eq(memory_head_chunk(&s, 1 << 20), 65536);
    ck_assert_int_eq(memory_head_chunk(&s, 100), 100);
    s.vocab = 1 << 22;
    ck_assert_int_eq(memory_head_chunk(&s, 16384), 64);
}
END_TEST

/* ---- the list ---- */

struct tally {
    int spans, tensors;
    uint64_t bytes;
};

static status count_span(void *self, const struct memory_span *span)
{
    struct tally *tally = self;
    ck_assert_int_eq(span->item == ITEM_TENSOR, span->tensor >= 0);
    ck_assert_int_eq(span->item == ITEM_TENSOR, span->layer >= 0);
    ck_assert_ptr_nonnull(span->name);
    tally->spans++;
    tally->tensors += span->item == ITEM_TENSOR;
    tally->bytes += device_span_bytes((size_t)(span->rows * span->cols) * dtype_bytes(span->type));
    return OK;
}

static status stop_at_once(void *self, const struct memory_span *span)
{
    ++*(int *)self;
    return FAIL(ERR_MEMORY, "'%s' does not fit", span->name);
}

static void with_plan(void (*test)(const struct memory_request *q, const struct recompute_plan *plan))
{
    struct memory_request q = request_of("tiny", 2, 64);
    struct recompute_policy policy;
    struct recompute_plan *plan;
    q.certificate = true;
    ck_ok(recompute_parse(&policy, "full", "uniform", 2, NULL, NULL));
    ck_ok(recompute_plan_make(&plan, &policy, 4));
    test(&q, plan);
    recompute_plan_free(plan);
}

static void check_list(const struct memory_request *q, const struct recompute_plan *plan)
{
    struct tally tally = {0};
    struct memory_plan p;
    ck_ok(memory_each(q, plan, count_span, &tally));
    ck_ok(memory_plan_make(&p, q, plan));
    ck_assert_uint_eq(tally.bytes, p.arena_bytes);
    /* Two stored inputs; two slots of ten tensors with their own room, one with an input; a witness of ten and two. */
    ck_assert_int_eq(tally.tensors, 2 + 10 + 11 + 12);
    /* weights, gradients, three of the optimizer, final input, eleven of scratch. */
    ck_assert_int_eq(tally.spans, tally.tensors + 1 + 1 + 3 + 1 + 11);
}

static void check_stop(const struct memory_request *q, const struct recompute_plan *plan)
{
    int visits = 0;
    ck_assert_int_eq(memory_each(q, plan, stop_at_once, &visits), ERR_MEMORY);
    ck_assert_int_eq(visits, 1);
    ck_assert_str_eq(status_text(), "'weights' does not fit");
}

START_TEST(list_of_spans_adds_up_to_the_arena) { with_plan(check_list); }
END_TEST

START_TEST(list_stops_at_the_first_error) { with_plan(check_stop); }
END_TEST

static void check_refusals(const struct memory_request *q, const struct recompute_plan *plan)
{
    struct memory_plan p;
    struct memory_request wrong = *q;
    wrong.micro_batch = 0;
    ck_assert_int_eq(memory_plan_make(&p, &wrong, plan), ERR_USAGE);
    ck_said("micro_batch_size 0");
    wrong = *q;
    wrong.tokens = 65;
    ck_assert_int_eq(memory_plan_make(&p, &wrong, plan), ERR_USAGE);
    wrong = *q;
    wrong.shards = 0;
    ck_assert_int_eq(memory_plan_make(&p, &wrong, plan), ERR_USAGE);
    wrong = *q;
    wrong.reduction_groups = 0;
    ck_assert_int_eq(memory_plan_make(&p, &wrong, plan), ERR_USAGE);
    wrong = *q;
    wrong.shape.layers = 5;
    ck_assert_int_eq(memory_plan_make(&p, &wrong, plan), ERR_ARGUMENT);
}

START_TEST(request_that_makes_no_sense_is_refused) { with_plan(check_refusals); }
END_TEST

/* The largest model and batch that the other checks let through: no sum may wrap round. */
START_TEST(request_beyond_64_bits_is_refused)
{
    struct memory_request q = request_of("code-3b", 1 << 16, 1 << 22);
    struct recompute_plan *plan;
    struct memory_plan p;
    q.shape.layers = 1 << 12;
    q.shape.hidden = 1 << 16;
    q.shape.sequence = 1 << 22;
    q.shape.heads = q.shape.kv_heads = 1 << 10;
    q.shape.ffn = 1 << 18;
    ck_ok(shape_check(&q.shape));
    ck_ok(recompute_plan_make(&plan, &(struct recompute_policy){0}, q.shape.layers));
    ck_assert_int_eq(memory_plan_make(&p, &q, plan), ERR_USAGE);
    ck_said("2^63 bytes");
    recompute_plan_free(plan);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {tiny_takes_the_bytes_that_a_count_by_hand_gives, 1},
        {block_replaces_stored_layers_by_one_slot, 4},
        {uniform_keeps_chunk_inputs_and_rebuilds_the_longest_chunk, 1},
        {witness_is_one_layer_where_something_is_rebuilt, 1},
        {fp32_rebuild_widens_slots_only, 1},
        {selective_rebuilds_inside_every_layer, 1},
        {request_adds_what_it_asks_for, 1},
        {activations_fall_by_the_same_step_with_every_layer, 1},
        {migrated_model_takes_what_the_textbook_says, 1},
        {head_chunk_keeps_logits_below_64_MiB, 1},
        {list_of_spans_adds_up_to_the_arena, 1},
        {list_stops_at_the_first_error, 1},
        {request_that_makes_no_sense_is_refused, 1},
        {request_beyond_64_bits_is_refused, 1},
    };
    return suite_run("memory", tests, COUNT(tests));
}
