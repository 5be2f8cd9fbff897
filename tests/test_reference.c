/* The reference table on operands whose results are known exactly, and the properties that ops.h promises. Gradients are
 * tested in test_gradients.c. */
#include "tests/op_cases.h"

#include <math.h>

#include "kernels/element.h"

/* One packed row of doubles. */
static struct view row(double *values, int64_t count) { return view_of(values, F64, 1, count); }

static const struct plan attention_plan = {.op = PLAN_ATTENTION};

static struct plan plan_of(enum plan_op op, int64_t m, int64_t n, int64_t k)
{
    struct plan plan = {.op = op, .dims = {m, n, k}};
    ck_ok(reference_ops.plan(NULL, &plan));
    return plan;
}

START_TEST(gemm_orientations_give_the_product_by_hand)
{
    double a[] = {1, 2, 3, 4, 5, 6}, a_transposed[] = {1, 4, 2, 5, 3, 6};
    double b[] = {1, 0, 2, 1, 0, 3}, b_transposed[] = {1, 2, 0, 0, 1, 3}, c[4];
    const double expected[] = {5, 11, 14, 23};
    const struct view out = view_of(c, F64, 2, 2);
    const struct {
        enum plan_op op;
        struct view a, b;
    } product[] = {
        {PLAN_GEMM_NN, view_of(a, F64, 2, 3), view_of(b, F64, 3, 2)},
        {PLAN_GEMM_NT, view_of(a, F64, 2, 3), view_of(b_transposed, F64, 2, 3)},
        {PLAN_GEMM_TN, view_of(a_transposed, F64, 3, 2), view_of(b, F64, 3, 2)},
    };
    for (size_t i = 0; i < 3; i++) {
        const struct plan plan = plan_of(product[i].op, 2, 2, 3);
        ck_ok(reference_ops.gemm(NULL, &plan, 0, &out, &product[i].a, &product[i].b, false));
        ck_assert_mem_eq(c, expected, sizeof c);
        ck_ok(reference_ops.gemm(NULL, &plan, 0, &out, &product[i].a, &product[i].b, true));
        for (int j = 0; j < 4; j++)
            ck_assert_double_eq(c[j], 2 * expected[j]);
    }
}
END_TEST

static const uint8_t causal[] = {CHUNK_CAUSAL}, all[] = {CHUNK_ALL};

/* A shape and its operands. */
struct attention {
    struct attention_shape shape;
    struct view q, k, v, out, lse;
};

static struct attention attention_of(struct attention_shape shape)
{
    const int64_t q_rows = shape.batch * shape.q_tokens, q_cols = (int64_t)shape.heads * shape.head_dim;
    const int64_t k_rows = shape.batch * shape.k_tokens, k_cols = (int64_t)shape.kv_heads * shape.head_dim;
    return (struct attention){shape,
                              case_uniform(F64, q_rows, q_cols),
                              case_uniform(F64, k_rows, k_cols),
                              case_uniform(F64, k_rows, k_cols),
                              case_view(F64, q_rows, q_cols),
                              case_view(F64, shape.batch * shape.heads, shape.q_tokens)};
}

static void attend(const struct attention *a)
{
    ck_ok(reference_ops.attention_forward(NULL, &attention_plan, &a->shape, &a->out, &a->lse, &a->q, &a->k, &a->v));
}

START_TEST(attention_of_equal_scores_is_the_mean_of_visible_values)
{
    /* Zigzag positions as under context parallelism: chunks 0 and 3 of four here, keys of chunks 1 and 2. */
    enum { CHUNK = 2 };
    const int32_t q_position[] = {0, 1, 6, 7}, k_position[] = {2, 3, 4, 5};
    const uint8_t kind[] = {CHUNK_NONE, CHUNK_CAUSAL, CHUNK_ALL, CHUNK_CAUSAL};
    const struct attention a =
        attention_of((struct attention_shape){1, 4, 4, 1, 1, 3, 2, 2, kind, 0.5f, q_position, k_position});
    case_fill(&a.q, 0);
    attend(&a);
    for (int64_t i = 0; i < 4; i++) {
        int seen = 0;
        double mean[3] = {0};
        for (int64_t j = 0; j < 4; j++) {
            const uint8_t pair = kind[i / CHUNK * 2 + j / CHUNK];
            if (pair == CHUNK_NONE || (pair == CHUNK_CAUSAL && k_position[j] > q_position[i]))
                continue;
            seen++;
            for (int64_t c = 0; c < 3; c++)
                mean[c] += element_load(&a.v, j, c);
        }
        ck_assert_double_eq(element_load(&a.lse, 0, i), seen ? log(seen) : -INFINITY);
        for (int64_t c = 0; c < 3; c++)
            ck_assert_double_eq(element_load(&a.out, i, c), seen ? mean[c] / seen : 0);
    }
}
END_TEST

START_TEST(attention_reads_the_key_head_of_its_group)
{
    /* Head h sees only values of key head h / 2, filled with that head's number. */
    enum { HEADS = 4, KV_HEADS = 2, DIM = 3 };
    const int32_t *position = case_positions(5, 0, 1);
    const struct attention a =
        attention_of((struct attention_shape){2, 5, 5, HEADS, KV_HEADS, DIM, 1, 1, causal, 1, position, position});
    for (int64_t c = 0; c < KV_HEADS * DIM; c++) {
        const struct view column = view_cols(&a.v, c, 1);
        case_fill(&column, (double)(1 + c / DIM));
    }
    attend(&a);
    for (int64_t r = 0; r < a.out.rows; r++)
        for (int64_t c = 0; c < HEADS * DIM; c++)
            ck_assert_double_eq_tol(element_load(&a.out, r, c), (double)(1 + c / DIM / 2), 1e-15);
}
END_TEST

START_TEST(gradient_of_lse_is_the_mean_key)
{
    /* d lse_i / d q_i = scale sum_j p_ij k_j: attention with the keys as values. */
    const int32_t *position = case_positions(6, 0, 1);
    struct attention a =
        attention_of((struct attention_shape){1, 6, 6, 1, 1, 4, 1, 1, causal, 0.5f, position, position});
    a.v = a.k;
    attend(&a);
    const struct view mean_key = case_copy(&a.out, F64);
    const double step = 0x1p-17;
    for (int64_t i = 0; i < 6; i++)
        for (int64_t c = 0; c < 4; c++) {
            const double at = element_load(&a.q, i, c);
            element_store(&a.q, i, c, at + step);
            attend(&a);
            const double above = element_load(&a.lse, 0, i);
            element_store(&a.q, i, c, at - step);
            attend(&a);
            const double slope = (above - element_load(&a.lse, 0, i)) / (2 * step);
            element_store(&a.q, i, c, at);
            ck_assert_double_eq_tol(slope, 0.5 * element_load(&mean_key, i, c), 1e-9);
        }
}
END_TEST

/* The part of an attention over keys [first, first + count) of a batch of one. */
static struct attention keys_of(const struct attention *whole, int64_t first, int64_t count)
{
    struct attention part = *whole;
    part.shape.k_tokens = count;
    part.shape.k_position = whole->shape.k_position + first;
    part.k = view_rows(&whole->k, first, count);
    part.v = view_rows(&whole->v, first, count);
    part.out = case_view(whole->out.type, whole->out.rows, whole->out.cols);
    part.lse = case_view(whole->lse.type, whole->lse.rows, whole->lse.cols);
    return part;
}

START_TEST(merged_halves_of_the_keys_are_the_whole)
{
    /* Under the causal mask the first queries see no key of the second half. */
    const int32_t *position = case_positions(7, 0, 1);
    const struct attention whole =
        attention_of((struct attention_shape){1, 7, 7, 4, 2, 5, 1, 1, causal, 0.4f, position, position});
    const struct attention low = keys_of(&whole, 0, 4), high = keys_of(&whole, 4, 3);
    attend(&whole), attend(&low), attend(&high);
    const struct attention *order[2][2] = {{&low, &high}, {&high, &low}};
    for (int o = 0; o < 2; o++) {
        const struct view out = case_copy(&order[o][0]->out, F64), lse = case_copy(&order[o][0]->lse, F64);
        const struct attention *part = order[o][1];
        ck_ok(reference_ops.attention_merge(NULL, &whole.shape, &out, &lse, &part->out, &part->lse));
        for (int64_t r = 0; r < out.rows; r++)
            for (int64_t c = 0; c < out.cols; c++)
                ck_assert_double_eq_tol(element_load(&out, r, c), element_load(&whole.out, r, c), 1e-14);
        for (int64_t r = 0; r < lse.rows; r++)
            for (int64_t c = 0; c < lse.cols; c++)
                ck_assert_double_eq_tol(element_load(&lse, r, c), element_load(&whole.lse, r, c), 1e-14);
    }
}
END_TEST

START_TEST(merge_of_two_parts_that_saw_nothing_stays_empty)
{
    const struct attention_shape shape = {1, 1, 1, 1, 1, 2, 1, 1, all, 1, NULL, NULL};
    double out[] = {0, 0}, part_out[] = {0, 0}, lse = -INFINITY, part_lse = -INFINITY;
    const struct view out_view = row(out, 2), part_view = row(part_out, 2);
    const struct view lse_view = row(&lse, 1), part_lse_view = row(&part_lse, 1);
    ck_ok(reference_ops.attention_merge(NULL, &shape, &out_view, &lse_view, &part_view, &part_lse_view));
    ck_assert_double_eq(lse, -INFINITY);
    ck_assert_double_eq(out[0], 0);
    ck_assert_double_eq(out[1], 0);
}
END_TEST

START_TEST(partial_backward_calls_add_up)
{
    const int32_t *position = case_positions(7, 0, 1);
    const struct attention whole =
        attention_of((struct attention_shape){1, 7, 7, 4, 2, 5, 1, 1, causal, 0.4f, position, position});
    attend(&whole);
    const struct view d_out = case_uniform(F64, 7, 20);
    const struct view dq = case_view(F64, 7, 20), dk = case_view(F64, 7, 10), dv = case_view(F64, 7, 10);
    ck_ok(reference_ops.attention_backward(NULL, &attention_plan, &whole.shape, &dq, &dk, &dv, &d_out, &whole.q,
                                           &whole.k, &whole.v, &whole.out, &whole.lse, false));
    const struct view sum_q = case_view(F64, 7, 20), sum_k = case_view(F64, 7, 10), sum_v = case_view(F64, 7, 10);
    case_fill(&sum_q, 0), case_fill(&sum_k, 0), case_fill(&sum_v, 0);
    for (int64_t first = 0; first < 7; first += 4) {
        const int64_t count = first ? 3 : 4;
        const struct attention part = keys_of(&whole, first, count);
        const struct view part_k = view_rows(&sum_k, first, count), part_v = view_rows(&sum_v, first, count);
        ck_ok(reference_ops.attention_backward(NULL, &attention_plan, &part.shape, &sum_q, &part_k, &part_v, &d_out,
                                               &part.q, &part.k, &part.v, &whole.out, &whole.lse, true));
    }
    ck_assert_uint_eq(case_differing(&sum_k, &dk), 0);
    ck_assert_uint_eq(case_differing(&sum_v, &dv), 0);
    for (int64_t r = 0; r < 7; r++)
        for (int64_t c = 0; c < 20; c++)
            ck_assert_double_eq_tol(element_load(&sum_q, r, c), element_load(&dq, r, c), 1e-15);
}
END_TEST

START_TEST(rmsnorm_of_a_constant_row_is_the_weight)
{
    double x[] = {-4, 4, 4, -4}, w[] = {1, 2, 3, 4}, y[4], rstd = NAN;
    const struct view x_view = row(x, 4), w_view = row(w, 4), y_view = row(y, 4), rstd_view = row(&rstd, 1);
    ck_ok(reference_ops.rmsnorm_forward(NULL, &y_view, &rstd_view, &x_view, &w_view, 0));
    ck_assert_double_eq(rstd, 0.25);
    const double expected[] = {-1, 2, 3, -4};
    ck_assert_mem_eq(y, expected, sizeof y);
    ck_ok(reference_ops.rmsnorm_forward(NULL, &y_view, &rstd_view, &x_view, &w_view, 48)); /* 16 + 48 = 8^2 */
    ck_assert_double_eq(rstd, 0.125);
}
END_TEST

START_TEST(rmsnorm_backward_adds_to_dx_and_accumulates_dw)
{
    const struct view x = case_uniform(F64, 3, 4), w = case_uniform(F64, 1, 4), dy = case_uniform(F64, 3, 4);
    const struct view rstd = case_uniform(F64, 3, 1), dx = case_view(F64, 3, 4), dw = case_view(F64, 1, 4);
    case_fill(&dx, 0);
    ck_ok(reference_ops.rmsnorm_backward(NULL, &dx, &dw, &dy, &x, &w, &rstd, false));
    const struct view once = case_copy(&dx, F64), dw_once = case_copy(&dw, F64);
    ck_ok(reference_ops.rmsnorm_backward(NULL, &dx, &dw, &dy, &x, &w, &rstd, true));
    for (int64_t c = 0; c < 4; c++) {
        ck_assert_double_eq_tol(element_load(&dw, 0, c), 2 * element_load(&dw_once, 0, c), 1e-15);
        for (int64_t r = 0; r < 3; r++)
            ck_assert_double_eq(element_load(&dx, r, c), 2 * element_load(&once, r, c));
    }
}
END_TEST

START_TEST(rope_by_a_quarter_turn_swaps_the_halves)
{
    double x[] = {1, 2, 3, 4, 5, 6, 7, 8}, table[] = {9, 9, 9, 9, 0, 1, 1, 0};
    const struct view x_view = row(x, 8), table_view = view_of(table, F64, 2, 4);
    const int32_t position = 1;
    /* Pair 0 turns by 90 degrees (cos 0, sin 1), pair 1 not at all (cos 1, sin 0); two heads. */
    ck_ok(reference_ops.rope(NULL, &x_view, 4, &table_view, &position, 1));
    const double turned[] = {-3, 2, 1, 4, -7, 6, 5, 8};
    ck_assert_mem_eq(x, turned, sizeof x);
    ck_ok(reference_ops.rope(NULL, &x_view, 4, &table_view, &position, -1));
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(x[i], i + 1);
}
END_TEST

START_TEST(swiglu_has_known_values_at_zero_and_far_out)
{
    double gate_up[] = {0, 100, -1000, 3, 5, 7}, y[3], d_gate_up[6], dy[] = {2, 2, 2};
    const struct view in = row(gate_up, 6), out = row(y, 3), d_in = row(d_gate_up, 6), d_out = row(dy, 3);
    ck_ok(reference_ops.swiglu_forward(NULL, &out, &in));
    ck_assert_double_eq(y[0], 0);
    ck_assert_double_eq(y[1], 500);
    ck_assert_double_eq(y[2], 0);
    ck_ok(reference_ops.swiglu_backward(NULL, &d_in, &d_out, &in));
    const double expected[] = {3, 10, 0, 0, 200, 0}; /* dy up sigmoid(0), dy up, 0 ; 0, dy gate, 0 */
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq_tol(d_gate_up[i], expected[i], 1e-12);
}
END_TEST

static const struct random_site site = {.seed = 7, .step = 3, .layer = 2, .site = 1};

START_TEST(dropout_keeps_the_right_share)
{
    enum { R = 200, C = 500 };
    const struct view x = case_view(F64, R, C), y = case_view(F64, R, C);
    case_fill(&x, 1);
    const float rates[] = {0.1f, 0.5f};
    for (int i = 0; i < 2; i++) {
        const double p = rates[i], n = R * C;
        ck_ok(reference_ops.dropout_add(NULL, &y, NULL, &x, rates[i], &site, case_row_ids(R, 0, 1)));
        int64_t kept = 0;
        for (int64_t r = 0; r < R; r++)
            for (int64_t c = 0; c < C; c++) {
                const double value = element_load(&y, r, c);
                ck_assert(value == 0 || value == 1 / (1 - p));
                kept += value != 0;
            }
        /* 5 standard deviations of a binomial; the draw is fixed, so this passes always or never. */
        ck_assert_double_eq_tol((double)kept, n * (1 - p), 5 * sqrt(n * p * (1 - p)));
    }
}
END_TEST

START_TEST(dropout_draws_the_word_of_the_global_element)
{
    enum { C = 6 };
    double x[C] = {1, 1, 1, 1, 1, 1}, y[C];
    const struct view in = row(x, C), out = row(y, C);
    const int64_t row_id = 11;
    ck_ok(reference_ops.dropout_add(NULL, &out, NULL, &in, 0.5f, &site, &row_id));
    for (uint64_t c = 0; c < C; c++) {
        uint32_t words[4];
        philox_block(words, &site, (11 * C + c) / 4);
        ck_assert_double_eq(y[c], words[(11 * C + c) % 4] >= 0x80000000u ? 2 : 0);
    }
}
END_TEST

START_TEST(dropout_mask_does_not_depend_on_the_split_into_micro_batches)
{
    enum { R = 12, C = 7 };
    const struct view x = case_uniform(F32, R, C), residual = case_uniform(F32, R, C);
    const struct view whole = case_view(F32, R, C), split = case_view(F32, R, C);
    const int64_t *row_id = case_row_ids(R, 100, 1);
    ck_ok(reference_ops.dropout_add(NULL, &whole, &residual, &x, 0.3f, &site, row_id));
    for (int64_t first = 0; first < R; first += 4) {
        const struct view part = view_rows(&split, first, 4), part_x = view_rows(&x, first, 4);
        const struct view part_residual = view_rows(&residual, first, 4);
        ck_ok(reference_ops.dropout_add(NULL, &part, &part_residual, &part_x, 0.3f, &site, row_id + first));
    }
    ck_assert_uint_eq(case_differing(&whole, &split), 0);
}
END_TEST

START_TEST(dropout_mask_depends_on_every_part_of_the_site)
{
    const struct random_site others[] = {{8, 3, 2, 1}, {7, 4, 2, 1}, {7, 3, 3, 1}, {7, 3, 2, 2}};
    const struct view x = case_view(F32, 4, 50), y = case_view(F32, 4, 50), other = case_view(F32, 4, 50);
    const int64_t *row_id = case_row_ids(4, 0, 1);
    case_fill(&x, 1);
    ck_ok(reference_ops.dropout_add(NULL, &y, NULL, &x, 0.5f, &site, row_id));
    for (size_t i = 0; i < 4; i++) {
        ck_ok(reference_ops.dropout_add(NULL, &other, NULL, &x, 0.5f, &others[i], row_id));
        ck_assert_uint_gt(case_differing(&y, &other), 0);
    }
}
END_TEST

START_TEST(dropout_of_zero_is_a_plain_add_and_may_work_in_place)
{
    const struct view x = case_uniform(BF16, 3, 5), y = case_uniform(BF16, 3, 5), sum = case_view(BF16, 3, 5);
    for (int64_t r = 0; r < 3; r++)
        for (int64_t c = 0; c < 5; c++)
            element_store(&sum, r, c, element_load(&x, r, c) + element_load(&y, r, c));
    ck_ok(reference_ops.dropout_add(NULL, &y, &y, &x, 0, &site, case_row_ids(3, 0, 1)));
    ck_assert_uint_eq(case_differing(&y, &sum), 0);
}
END_TEST

START_TEST(embedding_copies_rows_and_adds_gradients)
{
    double table[] = {1, 2, 3, 4, 5, 6}, y[6], dy[] = {1, 2, 4, 8, 16, 32}, d_table[] = {1, 1, 1, 1, 1, 1};
    const int32_t token[] = {2, 0, 2};
    const struct view table_view = view_of(table, F64, 3, 2), y_view = view_of(y, F64, 3, 2);
    const struct view dy_view = view_of(dy, F64, 3, 2), d_table_view = view_of(d_table, F64, 3, 2);
    ck_ok(reference_ops.embedding_forward(NULL, &y_view, &table_view, token));
    const double rows[] = {5, 6, 1, 2, 5, 6}, gradient[] = {5, 9, 1, 1, 18, 35};
    ck_assert_mem_eq(y, rows, sizeof y);
    ck_ok(reference_ops.embedding_backward(NULL, &d_table_view, &dy_view, token));
    ck_assert_mem_eq(d_table, gradient, sizeof gradient);
}
END_TEST

START_TEST(token_outside_the_vocabulary_is_an_input_error)
{
    const struct view table = case_uniform(F64, 3, 2), y = case_view(F64, 2, 2);
    const int32_t tokens[] = {0, 3}, negative[] = {-1, 0};
    ck_assert_int_eq(reference_ops.embedding_forward(NULL, &y, &table, tokens), ERR_INPUT);
    ck_said("token 3 of row 1");
    ck_assert_int_eq(reference_ops.embedding_backward(NULL, &table, &y, negative), ERR_INPUT);
    const struct view loss = case_view(F64, 2, 1), logits = case_uniform(F64, 2, 3);
    ck_assert_int_eq(reference_ops.cross_entropy(NULL, &loss, NULL, NULL, &logits, tokens, 1), ERR_INPUT);
}
END_TEST

START_TEST(cross_entropy_of_equal_logits_is_log_v)
{
    double logits[] = {3, 3, 3, 3, 1, 1001, 1001, 0}, loss[2];
    const int32_t target[] = {2, 1};
    int32_t predicted[2];
    const struct view in = view_of(logits, F64, 2, 4), out = view_of(loss, F64, 2, 1);
    ck_ok(reference_ops.cross_entropy(NULL, &out, predicted, &in, &in, target, 2)); /* gradient in place */
    ck_assert_double_eq_tol(loss[0], log(4), 1e-15);
    ck_assert_double_eq_tol(loss[1], log(2), 1e-12);
    ck_assert_int_eq(predicted[0], 0);
    ck_assert_int_eq(predicted[1], 1);
    const double gradient[] = {0.5, 0.5, -1.5, 0.5, 0, -1, 1, 0};
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol(logits[i], gradient[i], 1e-12);
}
END_TEST

START_TEST(adamw_first_step_moves_by_the_learning_rate)
{
    /* Dyadic numbers throughout: after bias correction m = g and v = g^2, so the update is sign(g). */
    double master[] = {1, -2}, m[] = {0, 0}, v[] = {0, 0}, grad[] = {-8, 2};
    float weight[2];
    const struct view weight_view = view_of(weight, F32, 1, 2), master_view = row(master, 2), m_view = row(m, 2);
    const struct view v_view = row(v, 2), grad_view = row(grad, 2);
    const struct adamw how = {0.25f, 0.5f, 0.75f, 0, 0.5f, 0.5f, 0.5f, 0.25f};
    ck_ok(reference_ops.adamw(NULL, &weight_view, &master_view, &m_view, &v_view, &grad_view, &how));
    const double expected_m[] = {-2, 0.5}, expected_v[] = {4, 0.25};
    const double expected[] = {1 - 0.25 * (0.5 * 1 - 1), -2 - 0.25 * (0.5 * -2 + 1)};
    ck_assert_mem_eq(m, expected_m, sizeof m);
    ck_assert_mem_eq(v, expected_v, sizeof v);
    ck_assert_mem_eq(master, expected, sizeof master);
    ck_assert_float_eq(weight[0], 1.125f);
    ck_assert_float_eq(weight[1], -2.0f);
}
END_TEST

START_TEST(adamw_weight_is_the_master_as_stored_and_rounded)
{
    enum { N = 100 };
    const struct view weight = case_view(BF16, 1, N), master = case_uniform(F32, 1, N), m = case_uniform(F32, 1, N);
    const struct view v = case_uniform(F32, 1, N), grad = case_uniform(F32, 1, N), rounded = case_view(BF16, 1, N);
    case_fill(&v, 0.25);
    const struct adamw how = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 0.5f, 0.5f};
    ck_ok(reference_ops.adamw(NULL, &weight, &master, &m, &v, &grad, &how));
    ck_ok(reference_ops.convert(NULL, &rounded, &master));
    ck_assert_uint_eq(case_differing(&weight, &rounded), 0);
}
END_TEST

START_TEST(sum_squares_follows_its_blocks)
{
    enum { R = 2, C = 4096 };
    const struct view x = case_view(F32, R, C);
    double sum;
    case_fill(&x, 0);
    element_store(&x, 0, 0, 1);
    element_store(&x, 1, 4095, 2);
    ck_ok(reference_ops.sum_squares(NULL, &sum, &x));
    ck_assert_double_eq(sum, 5);
    for (int64_t c = 0; c < C; c++)
        element_store(&x, 1, c, 1);
    /* Beside 2^64 double steps by 4096: ones are lost one at a time, and count as the sum of a block of their own. */
    element_store(&x, 0, 0, 0x1p32);
    element_store(&x, 0, 1, 1);
    ck_ok(reference_ops.sum_squares(NULL, &sum, &x));
    ck_assert_double_eq(sum, 0x1p64 + 4096);
}
END_TEST

START_TEST(add_and_convert_round_once)
{
    float y[] = {1, 0x1p24f}, x[] = {0x1p-24f, 1};
    const struct view y_view = view_of(y, F32, 1, 2), x_view = view_of(x, F32, 1, 2);
    ck_ok(reference_ops.add(NULL, &y_view, &x_view));
    ck_assert_float_eq(y[0], 1);
    ck_assert_float_eq(y[1], 0x1p24f);
    float wide[] = {1 + 0x1p-8f, 1 + 0x3p-8f, -0.0f, INFINITY};
    uint16_t narrow[4];
    const struct view wide_view = view_of(wide, F32, 1, 4), narrow_view = view_of(narrow, BF16, 1, 4);
    ck_ok(reference_ops.convert(NULL, &narrow_view, &wide_view));
    const uint16_t expected[] = {0x3f80, 0x3f82, 0x8000, 0x7f80}; /* both ties go to the even neighbour */
    ck_assert_mem_eq(narrow, expected, sizeof narrow);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {gemm_orientations_give_the_product_by_hand, 1},
        {attention_of_equal_scores_is_the_mean_of_visible_values, 1},
        {attention_reads_the_key_head_of_its_group, 1},
        {gradient_of_lse_is_the_mean_key, 1},
        {merged_halves_of_the_keys_are_the_whole, 1},
        {merge_of_two_parts_that_saw_nothing_stays_empty, 1},
        {partial_backward_calls_add_up, 1},
        {rmsnorm_of_a_constant_row_is_the_weight, 1},
        {rmsnorm_backward_adds_to_dx_and_accumulates_dw, 1},
        {rope_by_a_quarter_turn_swaps_the_halves, 1},
        {swiglu_has_known_values_at_zero_and_far_out, 1},
        {dropout_keeps_the_right_share, 1},
        {dropout_draws_the_word_of_the_global_element, 1},
        {dropout_mask_does_not_depend_on_the_split_into_micro_batches, 1},
        {dropout_mask_depends_on_every_part_of_the_site, 1},
        {dropout_of_zero_is_a_plain_add_and_may_work_in_place, 1},
        {embedding_copies_rows_and_adds_gradients, 1},
        {token_outside_the_vocabulary_is_an_input_error, 1},
        {cross_entropy_of_equal_logits_is_log_v, 1},
        {adamw_first_step_moves_by_the_learning_rate, 1},
        {adamw_weight_is_the_master_as_stored_and_rounded, 1},
        {sum_squares_follows_its_blocks, 1},
        {add_and_convert_round_once, 1},
    };
    return cases_run("reference", tests, COUNT(tests), NULL);
}
