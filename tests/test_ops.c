/* The row ops, the ends of the model and the optimizer: CPU table against reference. GEMM and attention have test
 * programs of their own. Each test states the bound that it allows; NULL bounds mean equal bits. */
#include "tests/conform.h"

#include <math.h>

#include "kernels/element.h"

/* Odd sizes, one element, a whole vector, enough elements to wake several threads. */
static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {5, 16}, {37, 33}, {130, 67}, {300, 96}};
enum { SHAPES = COUNT(shapes) };

/* Storage of the big operands, and of the results. */
static const enum dtype mixes[][2] = {{BF16, BF16}, {F32, F32}, {BF16, F32}, {F32, BF16}};
enum { MIXES = COUNT(mixes) };

struct operands {
    struct view a, b, c, d;
    const int64_t *row_id;
    const int32_t *index;
    int head_dim, direction;
    float p;
    bool flag; /* accumulate, or leave an optional operand out */
    struct adamw adamw;
    enum dtype as;
    double largest; /* of |dy w|, for a bound */
};

static double at(const struct view *v, int64_t r, int64_t c) { return element_load(v, r, c); }

/* A bound element by element: f(row, col) of the operands. */
typedef double bound_formula(const struct operands *o, int64_t r, int64_t c);

static struct view bound_by(bound_formula *formula, const struct operands *o, int64_t rows, int64_t cols)
{
    const struct view bound = case_view(F64, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            element_store(&bound, r, c, formula(o, r, c));
    return bound;
}

/* ---- RMSNorm ---- */

static const float eps = 1e-5f;

static status rmsnorm_forward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->rmsnorm_forward(d, &out[0], &out[1], &o->a, &o->b, eps);
}

static status rmsnorm_forward_in_place(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->rmsnorm_forward(d, &out[0], &out[1], &out[0], &o->b, eps);
}

/* C squares, the mean, eps; half of that remains after the root, which rounds once, as does the reciprocal. */
static double rstd_relative(int64_t cols) { return gamma_of((double)(cols + 2) / 2 + 3); }

static double rstd_error(const struct operands *o, int64_t r, int64_t c)
{
    (void)c;
    double squares = 0;
    for (int64_t i = 0; i < o->a.cols; i++)
        squares += at(&o->a, r, i) * at(&o->a, r, i);
    return rstd_relative(o->a.cols) / sqrt(squares / (double)o->a.cols + (double)eps);
}

/* y = x rstd w: two more roundings; 1 % for products of errors, and for the error of rstd itself. */
static double rmsnorm_error(const struct operands *o, int64_t r, int64_t c)
{
    const double rstd = rstd_error(o, r, 0) / rstd_relative(o->a.cols);
    return (rstd_relative(o->a.cols) + 2 * u) * 1.01 * fabs(at(&o->a, r, c) * at(&o->b, 0, c)) * rstd;
}

START_TEST(rmsnorm_forward_is_within_bound)
{
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            const struct operands o = {.a = case_uniform(mixes[t][0], rows, cols), .b = case_uniform(BF16, 1, cols)};
            const struct view y_bound = bound_by(rmsnorm_error, &o, rows, cols);
            const struct view rstd_bound = bound_by(rstd_error, &o, rows, 1);
            const struct output fresh[] = {{mixes[t][1], rows, cols, NULL, &y_bound},
                                           {F32, rows, 1, NULL, &rstd_bound}};
            const struct output in_place[] = {{mixes[t][0], rows, cols, &o.a, &y_bound},
                                              {F32, rows, 1, NULL, &rstd_bound}};
            conform("rmsnorm_forward", rmsnorm_forward, &o, fresh, 2);
            conform("rmsnorm_forward in place", rmsnorm_forward_in_place, &o, in_place, 2);
        }
}
END_TEST

/* a: dy, b: x, c: w, d: rstd */
static status rmsnorm_backward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->rmsnorm_backward(d, &out[0], &out[1], &o->a, &o->b, &o->c, &o->d, o->flag);
}

/* The mean of C products is at most max|dy w| / rstd in size, because rstd mean|x| <= 1: both terms of dx stay below
 * rstd max|dy w| (1 + |x| rstd), and carry C + 8 roundings. The sum with dx, of size up to 1, adds one. */
static double rmsnorm_dx_error(const struct operands *o, int64_t r, int64_t c)
{
    const double rstd = at(&o->d, r, 0);
    return gamma_of((double)o->b.cols + 8) * rstd * o->largest * (1 + fabs(at(&o->b, r, c)) * rstd) + u;
}

/* R products of three factors; the sum may start from up to 1. */
static double rmsnorm_dw_error(const struct operands *o, int64_t r, int64_t c)
{
    (void)r;
    double sum = o->flag ? 1 : 0;
    for (int64_t i = 0; i < o->b.rows; i++)
        sum += fabs(at(&o->a, i, c) * at(&o->b, i, c) * at(&o->d, i, 0));
    return gamma_of((double)o->b.rows + 3) * sum;
}

START_TEST(rmsnorm_backward_is_within_bound)
{
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            struct operands o = {.a = case_uniform(mixes[t][0], rows, cols),
                                 .b = case_uniform(mixes[t][0], rows, cols)};
            o.c = case_uniform(BF16, 1, cols);
            o.d = case_view(F32, rows, 1);
            o.flag = t % 2;
            o.largest = case_largest(&o.a) * case_largest(&o.c);
            const struct view y = case_view(F32, rows, cols);
            ck_ok(reference_ops.rmsnorm_forward(NULL, &y, &o.d, &o.b, &o.c, eps));
            const struct view dx_start = case_uniform(mixes[t][1], rows, cols), dw_start = case_uniform(F32, 1, cols);
            const struct view dx_bound = bound_by(rmsnorm_dx_error, &o, rows, cols);
            const struct view dw_bound = bound_by(rmsnorm_dw_error, &o, 1, cols);
            const struct output output[] = {{mixes[t][1], rows, cols, &dx_start, &dx_bound},
                                            {F32, 1, cols, o.flag ? &dw_start : NULL, &dw_bound}};
            conform("rmsnorm_backward", rmsnorm_backward, &o, output, 2);
        }
}
END_TEST

/* ---- rotary positions ---- */

static status rope(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->rope(d, &out[0], o->head_dim, &o->b, o->index, o->direction);
}

START_TEST(rope_is_within_bound)
{
    /* Two products below 1 and their difference: 3 roundings of numbers up to 2. */
    enum { POSITIONS = 50 };
    const int head_dims[] = {2, 6, 16, 34, 64};
    for (int h = 0; h < 5; h++)
        for (int type = 0; type < 2; type++)
            for (int direction = -1; direction <= 1; direction += 2) {
                const int64_t rows = 61, cols = 3 * head_dims[h];
                const struct view start = case_uniform(type ? F32 : BF16, rows, cols);
                const struct operands o = {.b = case_uniform(F32, POSITIONS, head_dims[h]),
                                           .index = case_tokens(rows, POSITIONS),
                                           .head_dim = head_dims[h],
                                           .direction = direction};
                const struct view bound = bound_of(rows, cols, 6 * u);
                const struct output x = {start.type, rows, cols, &start, &bound};
                conform("rope", rope, &o, &x, 1);
            }
}
END_TEST

/* ---- SwiGLU ---- */

/* Gates from -16 to 16: both tails of the sigmoid. */
static struct view gates_of(enum dtype type, int64_t rows, int64_t width)
{
    const struct view gate_up = case_uniform(type, rows, 2 * width);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            element_store(&gate_up, r, c, 16 * at(&gate_up, r, c));
    return gate_up;
}

static status swiglu_forward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->swiglu_forward(d, &out[0], &o->a);
}

/* exp, 1 + exp, the quotient, two products: all relative. */
static const double sigmoid_error = 4 * 0x1p-24 + 2 * 0x1p-24;

static double swiglu_error(const struct operands *o, int64_t r, int64_t c)
{
    const double gate = at(&o->a, r, c), up = at(&o->a, r, c + o->a.cols / 2);
    return (sigmoid_error + 3 * u) * fabs(gate * up) / (1 + exp(-gate));
}

START_TEST(swiglu_forward_is_within_bound)
{
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const struct operands o = {.a = gates_of(mixes[t][0], shapes[s][0], shapes[s][1])};
            const struct view bound = bound_by(swiglu_error, &o, shapes[s][0], shapes[s][1]);
            const struct output y = {mixes[t][1], shapes[s][0], shapes[s][1], NULL, &bound};
            conform("swiglu_forward", swiglu_forward, &o, &y, 1);
        }
}
END_TEST

/* a: gate_up, b: dy */
static status swiglu_backward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->swiglu_backward(d, &out[0], &o->b, &o->a);
}

/* d_up as the forward. d_gate: 1 - sigmoid has the *absolute* error of sigmoid, which the gate multiplies. */
static double swiglu_gradient_error(const struct operands *o, int64_t r, int64_t c)
{
    const int64_t width = o->b.cols;
    const double gate = at(&o->a, r, c % width), up = at(&o->a, r, c % width + width);
    const double gradient = fabs(at(&o->b, r, c % width)), sigmoid = 1 / (1 + exp(-gate));
    if (c >= width)
        return (sigmoid_error + 3 * u) * gradient * fabs(gate) * sigmoid;
    return (2 * sigmoid_error + 6 * u) * gradient * fabs(up) * sigmoid * (1 + fabs(gate));
}

START_TEST(swiglu_backward_is_within_bound)
{
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const int64_t rows = shapes[s][0], width = shapes[s][1];
            const struct operands o = {.a = gates_of(mixes[t][0], rows, width), .b = case_uniform(BF16, rows, width)};
            const struct view bound = bound_by(swiglu_gradient_error, &o, rows, 2 * width);
            const struct output d_gate_up = {mixes[t][1], rows, 2 * width, NULL, &bound};
            conform("swiglu_backward", swiglu_backward, &o, &d_gate_up, 1);
        }
}
END_TEST

/* ---- dropout ---- */

static const struct random_site site = {.seed = 0x123456789abcdef0, .step = 9, .layer = 31, .site = 2};

/* flag: no residual */
static status dropout_add(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->dropout_add(d, &out[0], o->flag ? NULL : &o->b, &o->a, o->p, &site, o->row_id);
}

static status dropout_add_onto_residual(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->dropout_add(d, &out[0], &out[0], &o->a, o->p, &site, o->row_id);
}

static status dropout_backward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->dropout_backward(d, &out[0], &out[0], o->p, &site, o->row_id);
}

START_TEST(dropout_conforms_bit_by_bit_where_its_scale_is_a_power_of_two)
{
    /* At p = 0.1 the scale and the product are rounded, and the sum of numbers up to 1 and 1.2. A mask that differs in
     * one element is off by that element, far above this. */
    const float rates[] = {0, 0.5f, 0.1f};
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++)
            for (int i = 0; i < 3; i++) {
                const int64_t rows = shapes[s][0], cols = shapes[s][1];
                struct operands o = {.a = case_uniform(mixes[t][0], rows, cols), .p = rates[i]};
                o.b = case_uniform(mixes[t][1], rows, cols);
                o.row_id = case_row_ids(rows, 1000003, 5);
                const struct view close = bound_of(rows, cols, 6 * u), *bound = i == 2 ? &close : NULL;
                const struct output fresh = {mixes[t][1], rows, cols, NULL, bound};
                const struct output onto = {mixes[t][1], rows, cols, &o.b, bound};
                conform("dropout_add", dropout_add, &o, &fresh, 1);
                conform("dropout_add onto the residual", dropout_add_onto_residual, &o, &onto, 1);
                conform("dropout_backward", dropout_backward, &o, &onto, 1);
                o.flag = true;
                conform("dropout_add without residual", dropout_add, &o, &fresh, 1);
            }
}
END_TEST

/* ---- embedding and cross-entropy ---- */

static status embedding_forward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->embedding_forward(d, &out[0], &o->a, o->index);
}

static status embedding_backward(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->embedding_backward(d, &out[0], &o->a, o->index);
}

START_TEST(embedding_conforms_bit_by_bit)
{
    /* The backward adds one row after another, each sum rounded: the same numbers in both tables. */
    enum { V = 23 };
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            const struct operands table = {.a = case_uniform(mixes[t][0], V, cols), .index = case_tokens(rows, V)};
            const struct operands gradient = {.a = case_uniform(mixes[t][0], rows, cols), .index = table.index};
            const struct view start = case_uniform(F32, V, cols);
            const struct output y = {mixes[t][1], rows, cols, NULL, NULL}, d_table = {F32, V, cols, &start, NULL};
            conform("embedding_forward", embedding_forward, &table, &y, 1);
            conform("embedding_backward", embedding_backward, &gradient, &d_table, 1);
        }
}
END_TEST

/* out: loss, predicted, d_logits */
static status cross_entropy(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->cross_entropy(d, &out[0], out[1].data, &out[2], &o->a, o->index, o->p);
}

static status cross_entropy_in_place(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->cross_entropy(d, &out[0], NULL, &out[1], &out[1], o->index, o->p);
}

START_TEST(cross_entropy_is_within_bound)
{
    /* Logits up to 8, so differences up to 16: exponents are off by 16 u, a sum of V weights by gamma(V), a log by
     * exp_error, log-sum-exp and loss by a rounding of numbers up to 8 + log V and 16 + log V. The gradient is at most
     * the scale times one weight, off by as much again. */
    const int64_t vocabularies[] = {1, 5, 33, 256, 1000};
    for (int v = 0; v < 5; v++)
        for (int t = 0; t < 2; t++) {
            const int64_t rows = 41, cols = vocabularies[v];
            struct operands o = {.a = case_uniform(F32, rows, cols), .index = case_tokens(rows, (int32_t)cols)};
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < cols; c++) /* rounded to quarters: ties for the largest occur */
                    element_store(&o.a, r, c, floor(32 * at(&o.a, r, c)) / 4);
            o.p = 1.0f / 41;
            const double sum = 16 * u + exp_error + gamma_of((double)cols), size = 24 + 2 * log((double)cols);
            const double lse = sum + exp_error + u * size, weight = lse + 2 * u * size + exp_error + 4 * u;
            const struct view loss_bound = bound_of(rows, 1, lse + u * size);
            const struct view gradient_bound = bound_of(rows, cols, o.p * weight);
            const struct output fresh[] = {{F32, rows, 1, NULL, &loss_bound},
                                           {I32, 1, rows, NULL, NULL},
                                           {t ? F32 : BF16, rows, cols, NULL, &gradient_bound}};
            const struct output in_place[] = {{F32, rows, 1, NULL, &loss_bound},
                                              {F32, rows, cols, &o.a, &gradient_bound}};
            conform("cross_entropy", cross_entropy, &o, fresh, 3);
            conform("cross_entropy in place", cross_entropy_in_place, &o, in_place, 2);
        }
}
END_TEST

/* ---- optimizer ---- */

/* a: grad; out: weight, master, m, v */
static status adamw(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->adamw(d, &out[0], &out[1], &out[2], &out[3], &o->a, &o->adamw);
}

START_TEST(adamw_is_within_bound)
{
    /* |grad|, |m|, |master| <= 1, v in [0.01, 0.26]. m: 5 roundings of numbers up to 1. v, a sum of positive terms: a
     * relative 6 u. The root of v / c2 is at least 0.17, and with eps wrong by a relative 6 u; m / c1, at most 2.5, by
     * 15 u: so the quotient, at most 15, is off by (15 u + 6 u 2.5) / 0.17 + 15 u < 200 u, and after decay and lr by
     * less than 0.01 * 250 u. The difference from the master rounds once more. */
    const struct adamw how = {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.7f, 0.4f, 0.3f};
    const int64_t lengths[] = {1, 17, 1000, 20011};
    for (int n = 0; n < 4; n++)
        for (int t = 0; t < 2; t++) {
            const int64_t cols = lengths[n];
            const struct operands o = {.a = case_uniform(F32, 1, cols), .adamw = how};
            const struct view master = case_uniform(F32, 1, cols), m = case_uniform(F32, 1, cols);
            const struct view v = case_uniform(F32, 1, cols);
            for (int64_t c = 0; c < cols; c++)
                element_store(&v, 0, c, 0.01 + 0.25 * fabs(at(&v, 0, c)));
            const struct view m_bound = bound_of(1, cols, 5 * u), v_bound = bound_of(1, cols, 6 * u);
            const struct view master_bound = bound_of(1, cols, 0.01 * 250 * u + 2 * u);
            const struct output output[] = {{t ? F32 : BF16, 1, cols, NULL, &master_bound},
                                            {F32, 1, cols, &master, &master_bound},
                                            {F32, 1, cols, &m, &m_bound},
                                            {F32, 1, cols, &v, &v_bound}};
            conform("adamw", adamw, &o, output, 4);
        }
}
END_TEST

START_TEST(adamw_weight_is_the_rounded_master)
{
    const struct adamw how = {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.7f, 0.4f, 0.3f};
    const struct view weight = case_view(BF16, 1, 999), rounded = case_view(BF16, 1, 999);
    const struct view master = case_uniform(F32, 1, 999), m = case_uniform(F32, 1, 999), v = case_uniform(F32, 1, 999);
    const struct view squares = case_magnitude(&v, F32), grad = case_uniform(F32, 1, 999);
    struct device *d = conform_cpu();
    ck_ok(d->ops->adamw(d, &weight, &master, &m, &squares, &grad, &how));
    ck_ok(reference_ops.convert(NULL, &rounded, &master));
    ck_assert_uint_eq(case_differing(&weight, &rounded), 0);
}
END_TEST

static status sum_squares(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->sum_squares(d, out[0].data, &o->a);
}

static status add(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->add(d, &out[0], &o->a);
}

static status convert(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->convert(d, &out[0], &o->a);
}

/* out: tiles, two 64-bit lanes each */
static status digest(struct device *d, const void *self, const struct view *out)
{
    const struct operands *o = self;
    return d->ops->digest(d, out[0].data, &o->a, o->as, o->row_id);
}

START_TEST(sums_conversions_and_digests_conform_bit_by_bit)
{
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < MIXES; t++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            const struct view start = case_uniform(F32, rows, cols);
            const struct operands o = {
                .a = case_uniform(mixes[t][0], rows, cols), .row_id = case_row_ids(rows, 77, 3), .as = mixes[t][1]};
            const struct operands wide = {.a = case_uniform(F32, rows, cols)};
            const struct output sum = {F64, 1, 1, NULL, NULL}, total = {F32, rows, cols, &start, NULL};
            const struct output converted = {mixes[t][1], rows, cols, NULL, NULL};
            const struct output tiles = {F64, 1, 2 * digest_tiles(rows), NULL, NULL};
            conform("sum_squares", sum_squares, &o, &sum, 1);
            conform("add", add, &wide, &total, 1);
            conform("convert", convert, &o, &converted, 1);
            conform("digest", digest, &o, &tiles, 1);
        }
}
END_TEST

START_TEST(convert_of_special_numbers_conforms_bit_by_bit)
{
    static const uint32_t special[] = {0x00000000, 0x80000000, 0x00000001, 0x80007fff, 0x00008000,
                                       0x00008001, 0x007fffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff,
                                       0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x3f808000,
                                       0x3f818000, 0x3f808001, 0x3f807fff, 0x7fffffff};
    enum { N = COUNT(special) };
    const struct operands o = {.a = view_of((void *)special, F32, 1, N)};
    const struct output narrow = {BF16, 1, N, NULL, NULL}, same = {F32, 1, N, NULL, NULL};
    conform("convert of special numbers", convert, &o, &narrow, 1);
    conform("convert of special numbers to their own type", convert, &o, &same, 1);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {rmsnorm_forward_is_within_bound, 1},
        {rmsnorm_backward_is_within_bound, 1},
        {rope_is_within_bound, 1},
        {swiglu_forward_is_within_bound, 1},
        {swiglu_backward_is_within_bound, 1},
        {dropout_conforms_bit_by_bit_where_its_scale_is_a_power_of_two, 1},
        {embedding_conforms_bit_by_bit, 1},
        {cross_entropy_is_within_bound, 1},
        {adamw_is_within_bound, 1},
        {adamw_weight_is_the_rounded_master, 1},
        {sums_conversions_and_digests_conform_bit_by_bit, 1},
        {convert_of_special_numbers_conforms_bit_by_bit, 1},
    };
    return cases_run("ops", tests, COUNT(tests), conform_close);
}
