#include "kernels/cpu/simd/attention.h"
#include "kernels/cpu/simd/vecmath.h"

/* Weights of both partial results of up to 16 queries; lse moves on. Where neither saw a key, out stays. */
static void weigh(float *mine, float *theirs, float *lse, const float *part_lse, int count)
{
    const vf a = vf_load_part(lse, count), b = vf_load_part(part_lse, count), nothing = vf_set(-INFINITY);
    const vf larger = vf_max(a, b);
    const vm blind = vf_equal(larger, nothing);
    const vf finite = vf_select(blind, vf_zero(), larger);
    const vf x = vf_exp(vf_sub(a, finite)), y = vf_exp(vf_sub(b, finite)), sum = vf_add(x, y);
    vf_store(mine, vf_select(blind, vf_set(1.0f), vf_div(x, sum)));
    vf_store(theirs, vf_select(blind, vf_zero(), vf_div(y, sum)));
    vf_store_part(lse, vf_select(blind, nothing, vf_add(finite, vf_log(sum))), count);
}

static void merge_row(float *out, const float *part, int head_dim, float mine, float theirs)
{
    for (int c = 0; c < head_dim; c += LANES) {
        const int count = lanes(head_dim - c);
        const vf weighted = vf_mul(vf_load_part(part + c, count), vf_set(theirs));
        vf_store_part(out + c, vf_fma(vf_load_part(out + c, count), vf_set(mine), weighted), count);
    }
}

static void merge_head(const struct attention_shape *s, const struct view *out, const struct view *lse,
                       const struct view *part_out, const struct view *part_lse, int64_t sequence, int head)
{
    const int64_t lse_row = sequence * s->heads + head, column = (int64_t)head * s->head_dim;
    for (int64_t i = 0; i < s->q_tokens; i += LANES) {
        float mine[LANES], theirs[LANES];
        const int count = lanes(s->q_tokens - i);
        weigh(mine, theirs, view_at(lse, lse_row, i), view_at(part_lse, lse_row, i), count);
        for (int r = 0; r < count; r++) {
            const int64_t row = sequence * s->q_tokens + i + r;
            merge_row(view_at(out, row, column), view_at(part_out, row, column), s->head_dim, mine[r], theirs[r]);
        }
    }
}

status NAME(cpu_attention_merge)(struct device *d, const struct attention_shape *shape, const struct view *out,
                                 const struct view *lse, const struct view *part_out, const struct view *part_lse)
{
    TRY(check_attention_merge(shape, out, lse, part_out, part_lse));
    TRY(CPU_CHECK_STORAGE("attention_merge", out, lse, part_out, part_lse));
    const int64_t heads = shape->batch * shape->heads;
#pragma omp parallel for num_threads(cpu_threads(d, out->rows * out->cols)) schedule(static)
    for (int64_t i = 0; i < heads; i++)
        merge_head(shape, out, lse, part_out, part_lse, i / shape->heads, (int)(i % shape->heads));
    return OK;
}
