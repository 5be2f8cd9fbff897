/* Every op of both tables refuses operands that do not fit, and says which op, which operand and which shapes. */
#include "tests/op_cases.h"

/* The table under test: each test runs on both. */
static const struct ops *table(int index)
{
    const struct ops *ops;
    ck_ok(ops_find(index ? "cpu" : "reference", &ops));
    return ops;
}

enum { TABLES = 2 };

/* Checks come before an op's work, so these calls need no device. */
static void refused(status got, const char *beginning)
{
    ck_assert_int_eq(got, ERR_ARGUMENT);
    ck_said_first(beginning);
}

START_TEST(gemm_refuses_each_operand_that_does_not_fit)
{
    const struct plan plan = {.op = PLAN_GEMM_NT, .dims = {2, 3, 4}};
    const struct view a = case_uniform(F32, 2, 4), b = case_uniform(F32, 3, 4), c = case_view(F32, 2, 3);
    const struct view narrow = case_view(BF16, 2, 3), tokens = case_view(I32, 2, 4);
    for (int t = 0; t < TABLES; t++) {
        op_gemm *gemm = table(t)->gemm;
        refused(gemm(NULL, &plan, 0, &c, &b, &b, false), "gemm: a is F32 (3,4)");
        refused(gemm(NULL, &plan, 0, &c, &a, &a, false), "gemm: b is F32 (2,4)");
        refused(gemm(NULL, &plan, 0, &a, &a, &b, false), "gemm: c is F32 (2,4)");
        refused(gemm(NULL, &plan, 0, &narrow, &a, &b, true), "gemm: c is BF16 (2,3)");
        refused(gemm(NULL, &plan, 0, &c, &tokens, &b, false), "gemm: a is I32 (2,4)");
    }
}
END_TEST

START_TEST(attention_refuses_each_operand_that_does_not_fit)
{
    const uint8_t kind = CHUNK_ALL;
    struct attention_shape shape = {1, 4, 6, 2, 1, 2, 1, 1, &kind, 1, case_positions(4, 0, 1), case_positions(6, 0, 1)};
    const struct view q = case_uniform(F32, 4, 4), k = case_uniform(F32, 6, 2), lse = case_uniform(F32, 2, 4);
    for (int t = 0; t < TABLES; t++) {
        const struct ops *ops = table(t);
        refused(ops->attention_forward(NULL, NULL, &shape, &k, &lse, &q, &k, &k),
                "attention_forward: out is F32 (6,2)");
        refused(ops->attention_forward(NULL, NULL, &shape, &q, &q, &q, &k, &k), "attention_forward: lse is F32 (4,4)");
        refused(ops->attention_forward(NULL, NULL, &shape, &q, &lse, &q, &q, &k), "attention_forward: k is F32 (4,4)");
        refused(ops->attention_forward(NULL, NULL, &shape, &q, &lse, &q, &k, &q), "attention_forward: v is F32 (4,4)");
        refused(ops->attention_merge(NULL, &shape, &q, &lse, &k, &lse), "attention_merge: part_out is F32 (6,2)");
        refused(ops->attention_backward(NULL, NULL, &shape, &q, &q, &k, &q, &q, &k, &k, &q, &lse, false),
                "attention_backward: dk is F32 (4,4)");
        shape.q_chunks = 3;
        refused(ops->attention_forward(NULL, NULL, &shape, &q, &lse, &q, &k, &k),
                "attention_forward: 3 and 1 chunks do not divide");
        shape.q_chunks = 1;
        shape.kv_heads = 3;
        refused(ops->attention_forward(NULL, NULL, &shape, &q, &lse, &q, &k, &k),
                "attention_forward: 3 key heads do not divide");
        shape.kv_heads = 1;
    }
}
END_TEST

START_TEST(row_ops_refuse_each_operand_that_does_not_fit)
{
    const struct view x = case_uniform(F32, 3, 8), other = case_uniform(F32, 3, 6), w = case_uniform(F32, 1, 8);
    const struct view rstd = case_uniform(F32, 3, 1);
    const int32_t position[] = {0, 1, 3};
    const struct random_site site = {.seed = 1};
    const int64_t *row_id = case_row_ids(3, 0, 1);
    for (int t = 0; t < TABLES; t++) {
        const struct ops *ops = table(t);
        refused(ops->rmsnorm_forward(NULL, &other, &rstd, &x, &w, 0), "rmsnorm_forward: y is F32 (3,6)");
        refused(ops->rmsnorm_forward(NULL, &x, &rstd, &x, &rstd, 0), "rmsnorm_forward: w is F32 (3,1)");
        refused(ops->rmsnorm_backward(NULL, &x, &rstd, &x, &x, &w, &rstd, false), "rmsnorm_backward: dw is F32 (3,1)");
        refused(ops->rope(NULL, &x, 3, &x, position, 1), "rope: heads of 3 do not divide 8");
        refused(ops->rope(NULL, &x, 4, &x, position, 1), "rope: table is F32 (3,8)");
        refused(ops->rope(NULL, &x, 8, &x, position, 1), "rope: position 3 of row 2 is outside");
        refused(ops->swiglu_forward(NULL, &x, &x), "swiglu_forward: gate_up is F32 (3,8)");
        refused(ops->swiglu_backward(NULL, &x, &x, &x), "swiglu_backward: d_gate_up is F32 (3,8)");
        refused(ops->dropout_add(NULL, &x, &other, &x, 0.5f, &site, row_id), "dropout_add: residual is F32 (3,6)");
        refused(ops->dropout_add(NULL, &x, NULL, &x, 1, &site, row_id), "dropout_add: p is 1");
        refused(ops->dropout_backward(NULL, &x, &other, 0.5f, &site, row_id), "dropout_backward: y is F32 (3,8)");
    }
}
END_TEST

START_TEST(ends_and_optimizer_refuse_each_operand_that_does_not_fit)
{
    const struct view x = case_uniform(F32, 3, 8), other = case_uniform(F32, 3, 6), flat = case_uniform(F32, 1, 8);
    const struct view narrow = case_uniform(BF16, 3, 8), one = case_uniform(F32, 3, 1), tokens = case_view(I32, 3, 8);
    const int32_t index[] = {0, 1, 2};
    const struct adamw how = {.lr = 1};
    const int64_t *row_id = case_row_ids(3, 0, 1);
    struct digest tile;
    for (int t = 0; t < TABLES; t++) {
        const struct ops *ops = table(t);
        refused(ops->embedding_forward(NULL, &other, &x, index), "embedding_forward: y is F32 (3,6)");
        refused(ops->embedding_backward(NULL, &narrow, &x, index), "embedding_backward: d_table is BF16");
        refused(ops->cross_entropy(NULL, &x, NULL, NULL, &x, index, 1), "cross_entropy: loss is F32 (3,8)");
        refused(ops->cross_entropy(NULL, &one, NULL, &other, &x, index, 1), "cross_entropy: d_logits is F32 (3,6)");
        refused(ops->adamw(NULL, &flat, &flat, &flat, &x, &flat, &how), "adamw: v is F32 (3,8)");
        refused(ops->add(NULL, &x, &other), "add: x is F32 (3,6)");
        refused(ops->add(NULL, &narrow, &narrow), "add: y is BF16 (3,8)");
        refused(ops->convert(NULL, &other, &x), "convert: y is F32 (3,6)");
        refused(ops->digest(NULL, &tile, &tokens, BF16, row_id), "digest: x is I32");
    }
}
END_TEST

START_TEST(cpu_table_refuses_f64)
{
    const struct view x = case_uniform(F64, 3, 8), y = case_view(F32, 3, 8);
    ck_assert_int_eq(table(1)->convert(NULL, &y, &x), ERR_ARGUMENT);
    ck_said("F64");
    ck_ok(table(0)->convert(NULL, &y, &x));
}
END_TEST

START_TEST(unknown_table_is_refused_with_the_list)
{
    const struct ops *ops;
    ck_assert_int_eq(ops_find("gpu", &ops), ERR_USAGE);
    ck_said("cpu or reference");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {gemm_refuses_each_operand_that_does_not_fit, 1},
        {attention_refuses_each_operand_that_does_not_fit, 1},
        {row_ops_refuse_each_operand_that_does_not_fit, 1},
        {ends_and_optimizer_refuse_each_operand_that_does_not_fit, 1},
        {cpu_table_refuses_f64, 1},
        {unknown_table_is_refused_with_the_list, 1},
    };
    return cases_run("check", tests, COUNT(tests), NULL);
}
