/* Every differentiable op of the reference table against central differences, in F64 storage.
 *
 * The loss of a test is sum(weight * output) with random weights, so the weights are the output's gradient. Bound: with
 * step h = 2^-17 the truncation is h^2 |f'''| / 6, about 1e-11 |f'''|, and the rounding of the loss 2^-53 |f| / h, about
 * 1e-11 |f|; with |f| and |f'''| up to some hundreds times the largest gradient that is far below the 1e-7 allowed.
 */
#include "tests/op_cases.h"

#include <math.h>

#include "kernels/element.h"

static const double step = 0x1p-17, bound = 1e-7;

typedef double loss_of(const void *self);

/* dx is the gradient of loss(self) with respect to the elements of x. */
static void check_slope(const char *name, loss_of *loss, const void *self, const struct view *x, const struct view *dx)
{
    const double largest = case_largest(dx);
    ck_assert_msg(largest > 0, "%s: the gradient is zero or NaN", name);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->cols; c++) {
            const double at = element_load(x, r, c), gradient = element_load(dx, r, c);
            element_store(x, r, c, at + step);
            const double above = loss(self);
            element_store(x, r, c, at - step);
            const double slope = (above - loss(self)) / (2 * step);
            element_store(x, r, c, at);
            ck_assert_msg(fabs(slope - gradient) <= bound * largest, "%s (%d,%d): gradient %.17g, slope %.17g", name,
                          (int)r, (int)c, gradient, slope);
        }
}

static double weighted_sum(const struct view *weight, const struct view *y)
{
    double sum = 0;
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++)
            sum += element_load(weight, r, c) * element_load(y, r, c);
    return sum;
}

static const struct plan attention_plan = {.op = PLAN_ATTENTION};

static struct plan plan_of(enum plan_op op, int64_t m, int64_t n, int64_t k)
{
    struct plan plan = {.op = op, .dims = {m, n, k}};
    ck_ok(reference_ops.plan(NULL, &plan));
    return plan;
}

struct linear {
    struct plan plan;
    struct view x, w, y, dy;
};

static double linear_loss(const void *self)
{
    const struct linear *l = self;
    ck_ok(reference_ops.gemm(NULL, &l->plan, 0, &l->y, &l->x, &l->w, false));
    return weighted_sum(&l->dy, &l->y);
}

START_TEST(gemm_nn_and_tn_are_the_gradients_of_gemm_nt)
{
    enum { M = 5, N = 4, K = 7 };
    const struct linear l = {plan_of(PLAN_GEMM_NT, M, N, K), case_uniform(F64, M, K), case_uniform(F64, N, K),
                             case_view(F64, M, N), case_uniform(F64, M, N)};
    const struct view dx = case_view(F64, M, K), dw = case_view(F64, N, K);
    const struct plan to_x = plan_of(PLAN_GEMM_NN, M, K, N), to_w = plan_of(PLAN_GEMM_TN, N, K, M);
    ck_ok(reference_ops.gemm(NULL, &to_x, 0, &dx, &l.dy, &l.w, false));
    ck_ok(reference_ops.gemm(NULL, &to_w, 0, &dw, &l.dy, &l.x, false));
    check_slope("dx", linear_loss, &l, &l.x, &dx);
    check_slope("dw", linear_loss, &l, &l.w, &dw);
}
END_TEST

struct attention {
    const struct attention_shape *shape;
    struct view q, k, v, out, lse, d_out;
};

static double attention_loss(const void *self)
{
    const struct attention *a = self;
    ck_ok(reference_ops.attention_forward(NULL, &attention_plan, a->shape, &a->out, &a->lse, &a->q, &a->k, &a->v));
    return weighted_sum(&a->d_out, &a->out);
}

static void check_attention(const struct attention_shape *s)
{
    const int64_t q_rows = s->batch * s->q_tokens, q_cols = (int64_t)s->heads * s->head_dim;
    const int64_t k_rows = s->batch * s->k_tokens, k_cols = (int64_t)s->kv_heads * s->head_dim;
    const struct attention a = {s,
                                case_uniform(F64, q_rows, q_cols),
                                case_uniform(F64, k_rows, k_cols),
                                case_uniform(F64, k_rows, k_cols),
                                case_view(F64, q_rows, q_cols),
                                case_view(F64, s->batch * s->heads, s->q_tokens),
                                case_uniform(F64, q_rows, q_cols)};
    const struct view dq = case_view(F64, q_rows, q_cols), dk = case_view(F64, k_rows, k_cols);
    const struct view dv = case_view(F64, k_rows, k_cols);
    attention_loss(&a);
    ck_ok(reference_ops.attention_backward(NULL, &attention_plan, s, &dq, &dk, &dv, &a.d_out, &a.q, &a.k, &a.v, &a.out,
                                           &a.lse, false));
    check_slope("dq", attention_loss, &a, &a.q, &dq);
    check_slope("dk", attention_loss, &a, &a.k, &dk);
    check_slope("dv", attention_loss, &a, &a.v, &dv);
}

static const uint8_t causal[] = {CHUNK_CAUSAL}, all[] = {CHUNK_ALL};
static const uint8_t lower_triangle[] = {CHUNK_CAUSAL, CHUNK_NONE, CHUNK_ALL, CHUNK_CAUSAL};

START_TEST(causal_attention_of_one_head_matches_differences)
{
    const int32_t *position = case_positions(6, 0, 1);
    check_attention(&(struct attention_shape){2, 6, 6, 1, 1, 4, 1, 1, causal, 0.5f, position, position});
}
END_TEST

START_TEST(full_attention_of_grouped_queries_matches_differences)
{
    const int32_t *position = case_positions(6, 0, 1);
    check_attention(&(struct attention_shape){2, 4, 6, 4, 2, 3, 1, 1, all, 0.7f, position, position});
}
END_TEST

START_TEST(attention_over_chunk_pairs_matches_differences)
{
    const int32_t *position = case_positions(8, 0, 1);
    check_attention(&(struct attention_shape){1, 8, 8, 2, 1, 4, 2, 2, lower_triangle, 0.5f, position, position});
}
END_TEST

START_TEST(attention_of_a_query_that_sees_nothing_matches_differences)
{
    const int32_t *q_position = case_positions(5, 0, 1), *k_position = case_positions(4, 2, 1);
    check_attention(&(struct attention_shape){1, 5, 4, 2, 2, 4, 1, 1, causal, 0.5f, q_position, k_position});
}
END_TEST

static const float eps = 1e-3f;

struct norm {
    struct view x, w, y, rstd, dy;
};

static double norm_loss(const void *self)
{
    const struct norm *n = self;
    ck_ok(reference_ops.rmsnorm_forward(NULL, &n->y, &n->rstd, &n->x, &n->w, eps));
    return weighted_sum(&n->dy, &n->y);
}

START_TEST(rmsnorm_backward_matches_differences)
{
    enum { R = 5, C = 7 };
    const struct norm n = {case_uniform(F64, R, C), case_uniform(F64, 1, C), case_view(F64, R, C), case_view(F64, R, 1),
                           case_uniform(F64, R, C)};
    const struct view dx = case_view(F64, R, C), dw = case_view(F64, 1, C);
    norm_loss(&n);
    case_fill(&dx, 0);
    ck_ok(reference_ops.rmsnorm_backward(NULL, &dx, &dw, &n.dy, &n.x, &n.w, &n.rstd, false));
    check_slope("dx", norm_loss, &n, &n.x, &dx);
    check_slope("dw", norm_loss, &n, &n.w, &dw);
}
END_TEST

struct rope {
    struct view x, y, table, dy;
    const int32_t *position;
    int head_dim;
};

static double rope_loss(const void *self)
{
    const struct rope *r = self;
    ck_ok(reference_ops.convert(NULL, &r->y, &r->x));
    ck_ok(reference_ops.rope(NULL, &r->y, r->head_dim, &r->table, r->position, 1));
    return weighted_sum(&r->dy, &r->y);
}

START_TEST(rope_backward_matches_differences)
{
    enum { R = 5, HEAD = 6, POSITIONS = 9 };
    const struct rope r = {case_uniform(F64, R, 2 * HEAD),     case_view(F64, R, 2 * HEAD),
                           case_uniform(F64, POSITIONS, HEAD), case_uniform(F64, R, 2 * HEAD),
                           case_tokens(R, POSITIONS),          HEAD};
    const struct view dx = case_copy(&r.dy, F64);
    ck_ok(reference_ops.rope(NULL, &dx, HEAD, &r.table, r.position, -1));
    check_slope("dx", rope_loss, &r, &r.x, &dx);
}
END_TEST

struct unary {
    struct view x, y, dy;
};

static double swiglu_loss(const void *self)
{
    const struct unary *u = self;
    ck_ok(reference_ops.swiglu_forward(NULL, &u->y, &u->x));
    return weighted_sum(&u->dy, &u->y);
}

START_TEST(swiglu_backward_matches_differences)
{
    enum { R = 5, F = 7 };
    const struct unary u = {case_uniform(F64, R, 2 * F), case_view(F64, R, F), case_uniform(F64, R, F)};
    const struct view dx = case_view(F64, R, 2 * F);
    ck_ok(reference_ops.swiglu_backward(NULL, &dx, &u.dy, &u.x));
    check_slope("dx", swiglu_loss, &u, &u.x, &dx);
}
END_TEST

static const struct random_site dropout_site = {.seed = 7, .step = 3, .layer = 2, .site = 1};

struct dropout {
    struct unary u;
    const int64_t *row_id;
};

static double dropout_loss(const void *self)
{
    const struct dropout *d = self;
    ck_ok(reference_ops.dropout_add(NULL, &d->u.y, NULL, &d->u.x, 0.4f, &dropout_site, d->row_id));
    return weighted_sum(&d->u.dy, &d->u.y);
}

START_TEST(dropout_backward_matches_differences)
{
    enum { R = 5, C = 7 };
    const struct dropout d = {{case_uniform(F64, R, C), case_view(F64, R, C), case_uniform(F64, R, C)},
                              case_row_ids(R, 3, 2)};
    const struct view dx = case_view(F64, R, C);
    ck_ok(reference_ops.dropout_backward(NULL, &dx, &d.u.dy, 0.4f, &dropout_site, d.row_id));
    check_slope("dx", dropout_loss, &d, &d.u.x, &dx);
}
END_TEST

struct embedding {
    struct unary u; /* x: the table */
    const int32_t *token;
};

static double embedding_loss(const void *self)
{
    const struct embedding *e = self;
    ck_ok(reference_ops.embedding_forward(NULL, &e->u.y, &e->u.x, e->token));
    return weighted_sum(&e->u.dy, &e->u.y);
}

START_TEST(embedding_backward_matches_differences)
{
    enum { R = 9, V = 5, C = 4 }; /* more rows than tokens: some token repeats */
    const struct embedding e = {{case_uniform(F64, V, C), case_view(F64, R, C), case_uniform(F64, R, C)},
                                case_tokens(R, V)};
    const struct view d_table = case_view(F64, V, C);
    case_fill(&d_table, 0);
    ck_ok(reference_ops.embedding_backward(NULL, &d_table, &e.u.dy, e.token));
    check_slope("d_table", embedding_loss, &e, &e.u.x, &d_table);
}
END_TEST

struct cross_entropy {
    struct view logits, loss;
    const int32_t *target;
};

static double mean_cross_entropy(const void *self)
{
    const struct cross_entropy *e = self;
    ck_ok(reference_ops.cross_entropy(NULL, &e->loss, NULL, NULL, &e->logits, e->target, 0));
    double sum = 0;
    for (int64_t r = 0; r < e->loss.rows; r++)
        sum += element_load(&e->loss, r, 0);
    return sum / (double)e->loss.rows;
}

START_TEST(cross_entropy_gradient_matches_differences)
{
    enum { R = 4, V = 11 };
    const struct cross_entropy e = {case_uniform(F64, R, V), case_view(F64, R, 1), case_tokens(R, V)};
    const struct view d_logits = case_view(F64, R, V);
    ck_ok(reference_ops.cross_entropy(NULL, &e.loss, NULL, &d_logits, &e.logits, e.target, 1.0f / R));
    check_slope("d_logits", mean_cross_entropy, &e, &e.logits, &d_logits);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {gemm_nn_and_tn_are_the_gradients_of_gemm_nt, 1},
        {causal_attention_of_one_head_matches_differences, 1},
        {full_attention_of_grouped_queries_matches_differences, 1},
        {attention_over_chunk_pairs_matches_differences, 1},
        {attention_of_a_query_that_sees_nothing_matches_differences, 1},
        {rmsnorm_backward_matches_differences, 1},
        {rope_backward_matches_differences, 1},
        {swiglu_backward_matches_differences, 1},
        {dropout_backward_matches_differences, 1},
        {embedding_backward_matches_differences, 1},
        {cross_entropy_gradient_matches_differences, 1},
    };
    return cases_run("gradients", tests, COUNT(tests), NULL);
}
