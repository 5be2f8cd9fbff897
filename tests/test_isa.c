/* The CPU table gives the same bits on every instruction set and with any number of threads, for every op, also where
 * operands hold zeros of both signs, denormals, infinities and NaNs. NaNs count as equal to each other: their sign and
 * payload are the machine's (vec.h); where an op only moves or rounds values they are compared too (test_ops.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/element.h"
#include "tests/op_cases.h"

static const char *const sets[] = {"avx512", "avx2", "scalar"};

/* Every set, and several numbers of threads; the first that the machine has is what the others are held against. The last
 * is the reference table, which has those bits too where a call says so. */
static const struct {
    const char *set;
    int threads;
} ways[] = {{"avx512", 1}, {"avx512", 3}, {"avx2", 2}, {"avx2", 3}, {"scalar", 1}, {"scalar", 2}, {"reference", 1}};

enum { WAYS = COUNT(ways), OUTPUTS = 4, ROUNDS = 12 };

static struct device *devices[WAYS]; /* NULL where the machine lacks the set */

static void open_devices(void)
{
    for (int w = 0; w < WAYS - 1; w++)
        devices[w] = case_cpu(ways[w].set, ways[w].threads);
    ck_ok(device_open(&devices[WAYS - 1], "reference", 1, 0));
}

static void close_devices(void)
{
    for (int w = 0; w < WAYS; w++)
        device_close(devices[w]), devices[w] = NULL;
}

/* Numbers in [-2, 2), one in four of them replaced by a special one, or none where `ordinary`. */
static struct view operand(enum dtype type, int64_t rows, int64_t cols, bool ordinary)
{
    static const uint32_t specials[] = {0x00000000, 0x80000000, 0x00010000, 0x80010000, 0x007f0000, 0x00800000,
                                        0x7f7f0000, 0xff7f0000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc10000,
                                        0x3f800000, 0x42c80000, 0xc2c80000, 0x00000001, 0x2f800000};
    const struct view v = case_uniform(type, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double x = 2 * element_load(&v, r, c);
            if (!ordinary && case_below(4) == 0)
                x = (double)f32_of_bits(specials[case_below(COUNT(specials))]);
            element_store(&v, r, c, x);
        }
    return v;
}

/* A random storage type. */
static enum dtype any(void) { return case_below(2) ? BF16 : F32; }

/* One op with its operands; `out` is a fresh copy of `start`. */
struct call {
    const char *name;
    status (*run)(struct device *d, const struct call *c, const struct view *out);
    struct view in[6], start[OUTPUTS];
    int outputs;
    struct attention_shape shape;
    struct arithmetic how;
    enum plan_op op;
    int64_t dims[6];
    const int32_t *index;
    const int64_t *row_id;
    bool accumulate, as_reference;
};

static bool is_nan(const struct view *v, int64_t r, int64_t c) { return isnan(element_load(v, r, c)); }

/* Checks nothing through Check where bits agree: it writes every passed assertion to a file. */
static void compare(const struct call *call, int way, int output, const struct view *got, const struct view *first)
{
    for (int64_t r = 0; r < got->rows; r++)
        for (int64_t c = 0; c < got->cols; c++) {
            const bool same = !memcmp(view_at(got, r, c), view_at(first, r, c), dtype_bytes(got->type));
            if (same || (is_nan(got, r, c) && is_nan(first, r, c)))
                continue;
            ck_abort_msg("%s: output %d (%d,%d) is %a on %s with %d threads, %a on the first", call->name, output,
                         (int)r, (int)c, element_load(got, r, c), ways[way].set, ways[way].threads,
                         element_load(first, r, c));
        }
}

static void same_on_all(const struct call *call)
{
    struct view first[OUTPUTS], out[OUTPUTS];
    bool any_yet = false;
    for (int w = 0; w < WAYS; w++) {
        if (!devices[w] || (w == WAYS - 1 && !call->as_reference))
            continue;
        struct view *to = any_yet ? out : first;
        for (int i = 0; i < call->outputs; i++)
            to[i] = case_copy(&call->start[i], call->start[i].type);
        const status st = call->run(devices[w], call, to);
        ck_assert_msg(st == OK, "%s: %s", call->name, status_text());
        for (int i = 0; i < call->outputs; i++) {
            ck_assert(case_guards_intact(&to[i]));
            if (any_yet)
                compare(call, w, i, &out[i], &first[i]);
        }
        any_yet = true;
    }
}

static status run_gemm(struct device *d, const struct call *c, const struct view *out)
{
    const struct plan *plan;
    TRY(device_plan(d, &c->how, c->op, c->dims, &plan));
    return d->ops->gemm(d, plan, 7, &out[0], &c->in[0], &c->in[1], c->accumulate);
}

START_TEST(gemm_with_special_numbers_has_the_same_bits_everywhere)
{
    static const char *const profiles[] = {"exact", "h800-sim", "l40s-sim", "random"};
    open_devices();
    for (int round = 0; round < 3 * ROUNDS; round++) {
        struct call c = {.name = "gemm", .run = run_gemm, .outputs = 1, .op = (enum plan_op)(round % 3)};
        const int64_t m = 1 + case_below(40), n = 1 + case_below(70), k = 1 + case_below(150);
        memcpy(c.dims, (int64_t[]){m, n, k}, 3 * sizeof k);
        ck_ok(arithmetic_find(&c.how, profiles[round % 4]));
        c.how.rounding = (enum plan_rounding)(round / 3 % 3);
        c.as_reference = c.how.rounding == ROUND_TRUNCATE;
        c.accumulate = round % 2;
        c.in[0] = c.op == PLAN_GEMM_TN ? operand(any(), k, m, false) : operand(any(), m, k, false);
        c.in[1] = c.op == PLAN_GEMM_NT ? operand(any(), n, k, round % 5) : operand(any(), k, n, round % 5);
        c.start[0] = operand(c.accumulate ? F32 : any(), m, n, false);
        same_on_all(&c);
    }
}
END_TEST

static status run_attention(struct device *d, const struct call *c, const struct view *out)
{
    const struct plan *plan;
    TRY(device_plan(d, &c->how, PLAN_ATTENTION, c->dims, &plan));
    return d->ops->attention_forward(d, plan, &c->shape, &out[0], &out[1], &c->in[0], &c->in[1], &c->in[2]);
}

static status run_attention_backward(struct device *d, const struct call *c, const struct view *out)
{
    const struct plan *plan;
    TRY(device_plan(d, &c->how, PLAN_ATTENTION, c->dims, &plan));
    return d->ops->attention_backward(d, plan, &c->shape, &out[0], &out[1], &out[2], &c->in[3], &c->in[0], &c->in[1],
                                      &c->in[2], &c->in[4], &c->in[5], c->accumulate);
}

static status run_merge(struct device *d, const struct call *c, const struct view *out)
{
    return d->ops->attention_merge(d, &c->shape, &out[0], &out[1], &c->in[0], &c->in[1]);
}

/* Random shapes with all kinds of chunk pairs; in ordinary rounds also later queries than keys, so that some see none. */
static struct call attention_call(int round)
{
    static uint8_t kinds[4];
    static const int dims[] = {2, 16, 24, 64};
    const enum plan_rounding rounding = (enum plan_rounding)(round / 3 % 3);
    struct call c = {.how = {.name = "test", .attention_block = 1 + case_below(90), .rounding = rounding}};
    const int kv_heads = 1 + (int)case_below(2), head_dim = dims[round % 4];
    const int64_t queries = 2 * (1 + case_below(50)), keys = 2 * (1 + case_below(90));
    for (int i = 0; i < 4; i++)
        kinds[i] = (uint8_t)case_below(3);
    c.shape =
        (struct attention_shape){2, queries, keys, 2 * kv_heads, kv_heads, head_dim, 2, 2, kinds, 0.3f, NULL, NULL};
    c.shape.q_position = case_positions(queries, (int32_t)case_below(10), 1);
    c.shape.k_position = case_positions(keys, (int32_t)case_below(10), 1);
    memcpy(c.dims, (int64_t[]){2, 2 * kv_heads, kv_heads, queries, keys, head_dim}, sizeof c.dims);
    return c;
}

START_TEST(attention_has_the_same_bits_everywhere)
{
    open_devices();
    for (int round = 0; round < ROUNDS; round++) {
        struct call c = attention_call(round);
        const bool ordinary = round % 3 != 0;
        const int64_t wide = c.dims[1] * c.dims[5], narrow = c.dims[2] * c.dims[5];
        c.name = "attention_forward";
        c.run = run_attention;
        c.outputs = 2;
        c.in[0] = operand(any(), 2 * c.dims[3], wide, ordinary);
        c.in[1] = operand(any(), 2 * c.dims[4], narrow, ordinary);
        c.in[2] = operand(any(), 2 * c.dims[4], narrow, ordinary);
        c.start[0] = operand(any(), 2 * c.dims[3], wide, true);
        c.start[1] = operand(F32, 2 * c.dims[1], c.dims[3], true);
        same_on_all(&c);

        c.name = "attention_backward";
        c.run = run_attention_backward;
        c.outputs = 3;
        c.accumulate = round % 2;
        c.in[3] = operand(any(), 2 * c.dims[3], wide, ordinary);
        c.in[4] = operand(any(), 2 * c.dims[3], wide, true);
        c.in[5] = operand(F32, 2 * c.dims[1], c.dims[3], ordinary);
        const enum dtype gradient = c.accumulate ? F32 : any();
        c.start[0] = operand(gradient, 2 * c.dims[3], wide, true);
        c.start[1] = operand(gradient, 2 * c.dims[4], narrow, true);
        c.start[2] = operand(gradient, 2 * c.dims[4], narrow, true);
        same_on_all(&c);

        c.name = "attention_merge";
        c.run = run_merge;
        c.outputs = 2;
        c.in[0] = operand(F32, 2 * c.dims[3], wide, ordinary);
        c.in[1] = operand(F32, 2 * c.dims[1], c.dims[3], false);
        c.start[0] = operand(F32, 2 * c.dims[3], wide, ordinary);
        c.start[1] = operand(F32, 2 * c.dims[1], c.dims[3], false);
        same_on_all(&c);
    }
}
END_TEST

static status run_norm(struct device *d, const struct call *c, const struct view *out)
{
    TRY(d->ops->rmsnorm_forward(d, &out[0], &out[1], &c->in[0], &c->in[1], 1e-5f));
    return d->ops->rmsnorm_backward(d, &out[2], &out[3], &c->in[2], &c->in[0], &c->in[1], &out[1], c->accumulate);
}

static status run_rope(struct device *d, const struct call *c, const struct view *out)
{
    return d->ops->rope(d, &out[0], (int)c->in[0].cols, &c->in[0], c->index, c->accumulate ? -1 : 1);
}

static status run_swiglu(struct device *d, const struct call *c, const struct view *out)
{
    TRY(d->ops->swiglu_forward(d, &out[0], &c->in[0]));
    return d->ops->swiglu_backward(d, &out[1], &c->in[1], &c->in[0]);
}

static status run_dropout(struct device *d, const struct call *c, const struct view *out)
{
    const struct random_site where = {.seed = 0x123456789abcdef0, .step = 3, .layer = 4, .site = 5};
    TRY(d->ops->dropout_add(d, &out[0], c->accumulate ? &c->in[0] : NULL, &c->in[1], 0.3f, &where, c->row_id));
    return d->ops->dropout_backward(d, &out[1], &c->in[1], 0.3f, &where, c->row_id);
}

static status run_embedding(struct device *d, const struct call *c, const struct view *out)
{
    TRY(d->ops->embedding_forward(d, &out[0], &c->in[0], c->index));
    return d->ops->embedding_backward(d, &out[1], &c->in[1], c->index);
}

/* More columns than rows in some rounds, more rows in others, enough elements for a team of threads in a few. */
START_TEST(row_ops_with_special_numbers_have_the_same_bits_everywhere)
{
    open_devices();
    for (int round = 0; round < ROUNDS; round++) {
        const bool tall = round % 2, plain = round % 3 == 0;
        const int64_t rows = 1 + case_below(tall ? 300 : 20), cols = 1 + case_below(tall ? 40 : 600);
        const int64_t half = 1 + case_below(20), table = 7;
        const struct view x = operand(any(), rows, cols, plain), y = operand(any(), rows, cols, plain);
        const struct view sums = operand(F32, 1, cols, plain), column = operand(F32, rows, 1, true);
        const struct view rows_2f = operand(any(), rows, 2 * cols, plain);
        const struct call calls[] = {
            {.name = "rmsnorm",
             .run = run_norm,
             .outputs = 4,
             .accumulate = tall,
             .in = {x, operand(any(), 1, cols, plain), y},
             .start = {x, column, y, sums}},
            {.name = "rope",
             .run = run_rope,
             .outputs = 1,
             .accumulate = tall,
             .in = {operand(F32, table, 2 * half, true)},
             .start = {operand(any(), rows, 6 * half, plain)},
             .index = case_tokens(rows, (int32_t)table)},
            {.name = "swiglu", .run = run_swiglu, .outputs = 2, .in = {rows_2f, x}, .start = {y, rows_2f}},
            {.name = "dropout",
             .run = run_dropout,
             .outputs = 2,
             .accumulate = tall,
             .in = {y, x},
             .start = {x, y},
             .row_id = case_row_ids(rows, (int64_t)1 << 33, 3)},
            {.name = "embedding",
             .run = run_embedding,
             .outputs = 2,
             .in = {operand(any(), table, cols, plain), x},
             .start = {y, operand(F32, table, cols, plain)},
             .index = case_tokens(rows, (int32_t)table)},
        };
        for (int i = 0; i < COUNT(calls); i++)
            same_on_all(&calls[i]);
    }
}
END_TEST

static status run_cross_entropy(struct device *d, const struct call *c, const struct view *out)
{
    int32_t *predicted = case_memory((size_t)out[0].rows * sizeof *predicted);
    TRY(d->ops->cross_entropy(d, &out[0], predicted, &out[1], &c->in[0], c->index, 0.25f));
    for (int64_t r = 0; r < out[0].rows; r++)
        element_store(&out[2], r, 0, predicted[r]);
    return OK;
}

static status run_adamw(struct device *d, const struct call *c, const struct view *out)
{
    const struct adamw how = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.7f, 0.19f, 0.0975f};
    return d->ops->adamw(d, &out[0], &out[1], &out[2], &out[3], &c->in[0], &how);
}

static status run_flat(struct device *d, const struct call *c, const struct view *out)
{
    double sum;
    TRY(d->ops->add(d, &out[0], &c->in[0]));
    TRY(d->ops->convert(d, &out[1], &c->in[1]));
    TRY(d->ops->sum_squares(d, &sum, &c->in[1]));
    element_store(&out[2], 0, 0, sum);
    return OK;
}

START_TEST(loss_and_optimizer_with_special_numbers_have_the_same_bits_everywhere)
{
    open_devices();
    for (int round = 0; round < ROUNDS; round++) {
        const bool plain = round % 2;
        const int64_t rows = 1 + case_below(60), cols = 1 + case_below(300), count = 1 + case_below(40000);
        const struct view loss = operand(F32, rows, 1, true), logits = operand(F32, rows, cols, plain);
        const struct view flat = operand(F32, 1, count, plain), square = case_magnitude(&flat, F32);
        const struct call calls[] = {
            {.name = "cross_entropy",
             .run = run_cross_entropy,
             .outputs = 3,
             .in = {logits},
             .start = {loss, operand(any(), rows, cols, true), loss},
             .index = case_tokens(rows, (int32_t)cols)},
            {.name = "adamw",
             .run = run_adamw,
             .outputs = 4,
             .in = {flat},
             .start = {operand(any(), 1, count, true), flat, flat, square}},
            {.name = "add, convert and sum_squares",
             .run = run_flat,
             .outputs = 3,
             .in = {logits, operand(any(), rows, cols, plain)},
             .start = {logits, operand(any(), rows, cols, plain), case_uniform(F32, 1, 1)}},
        };
        for (int i = 0; i < COUNT(calls); i++)
            same_on_all(&calls[i]);
    }
}
END_TEST

/* What the other tests leave out is told here. */
START_TEST(instruction_set_opens_unless_the_machine_lacks_it)
{
    struct device *d = case_cpu(sets[_i], 1);
    ck_assert(d || strcmp(sets[_i], "scalar"));
    if (!d)
        printf("SKIP %s: this machine lacks it, so nobody compared its bits\n", sets[_i]);
    device_close(d);
}
END_TEST

START_TEST(unknown_instruction_set_is_refused_with_the_list)
{
    struct device *d;
    setenv("REMATCH_ISA", "neon", 1);
    ck_assert_int_eq(device_open(&d, "cpu", 1, 0), ERR_USAGE);
    ck_said("neon");
    ck_said("avx512, avx2 or scalar");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {gemm_with_special_numbers_has_the_same_bits_everywhere, 1},
        {attention_has_the_same_bits_everywhere, 1},
        {row_ops_with_special_numbers_have_the_same_bits_everywhere, 1},
        {loss_and_optimizer_with_special_numbers_have_the_same_bits_everywhere, 1},
        {instruction_set_opens_unless_the_machine_lacks_it, COUNT(sets)},
        {unknown_instruction_set_is_refused_with_the_list, 1},
    };
    return cases_run("isa", tests, COUNT(tests), close_devices);
}
