#include "tests/audit_arrays.h"

#include <math.h>
#include <stdlib.h>

#include "tests/small_model.h"
#include "tests/suite.h"

struct view audit_array_new(const struct model_shape *s)
{
    int64_t n = shape_elements(s);
    return view_of(calloc((size_t)n, sizeof(float)), F32, 1, n);
}

struct audit_arrays audit_arrays_new(void)
{
    struct audit_arrays a = {.shape = small_options().shape};
    struct view *all[] = {&a.state.master, &a.state.m, &a.state.v, &a.state.grad, &a.control};
    for (int i = 0; i < COUNT(all); i++)
        *all[i] = audit_array_new(&a.shape);
    return a;
}

void audit_arrays_free(struct audit_arrays *a)
{
    struct view *all[] = {&a->state.master, &a->state.m, &a->state.v, &a->state.grad, &a->control};
    for (int i = 0; i < COUNT(all); i++)
        free(all[i]->data);
}

float *audit_array_at(const struct view *v, int64_t i) { return view_at(v, 0, i); }

const struct adamw audit_plain_adam = {
    .lr = 1, .beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-30f, .grad_scale = 1, .correction1 = 0.5f, .correction2 = 0.25f};

struct audit *audit_arrays_measure(const struct audit_arrays *a, int threads)
{
    struct audit *out;
    ck_ok(audit_new(&out, &a->shape, 2));
    ck_ok(audit_measure(out, &a->shape, &a->state, &a->control, &audit_plain_adam, threads));
    return out;
}

double audit_normal(uint32_t stream, uint64_t i)
{
    uint32_t word[4];
    const struct random_site where = {.seed = 3, .step = stream};
    philox_block(word, &where, i);
    return sqrt(-2.0 * log(((double)word[0] + 1.0) * 0x1p-32)) * cos(2.0 * M_PI * word[1] * 0x1p-32);
}

void audit_arrays_fill(const struct audit_arrays *a, uint32_t stream, double error)
{
    for (int i = 0; i < shape_parameter_count(&a->shape); i++) {
        struct parameter p = shape_parameter(&a->shape, i);
        for (int64_t j = p.offset; j < p.offset + p.rows * p.cols; j++) {
            *audit_array_at(&a->control, j) = (float)audit_normal(stream, 2 * (uint64_t)j);
            *audit_array_at(&a->state.grad, j) =
                (float)(*audit_array_at(&a->control, j) + error * audit_normal(stream, 2 * (uint64_t)j + 1));
            *audit_array_at(&a->state.master, j) = 1;
        }
    }
}
