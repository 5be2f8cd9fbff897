/* Softmax cross-entropy, row by row: loss = (largest - x[target]) + log(sum of exp(x - largest)). */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

/* Lanes behind the end of a row, so that they win no maximum and add nothing to a sum. */
static inline vf logits_at(const float *x, int64_t c, int count)
{
    float padded[LANES];
    if (count == LANES)
        return vf_load(x + c);
    vf_store(padded, vf_set(-INFINITY));
    memcpy(padded, x + c, (size_t)count * sizeof *padded);
    return vf_load(padded);
}

static float largest_of(const float *x, int64_t cols)
{
    vf largest = vf_set(-INFINITY);
    for (int64_t c = 0; c < cols; c += LANES)
        largest = vf_max(largest, logits_at(x, c, lanes(cols - c)));
    return vf_largest(largest);
}

/* 0 where no element equals it, which only a NaN can bring about. */
static int32_t first_equal(const float *x, int64_t cols, float value)
{
    for (int64_t c = 0; c < cols; c += LANES) {
        const unsigned found = vm_bits(vf_equal(logits_at(x, c, lanes(cols - c)), vf_set(value)));
        if (found)
            return (int32_t)(c + __builtin_ctz(found));
    }
    return 0;
}

static float sum_of_exp(const float *x, int64_t cols, float largest)
{
    vf sum = vf_zero();
    for (int64_t c = 0; c < cols; c += LANES)
        sum = vf_add(sum, vf_exp(vf_sub(logits_at(x, c, lanes(cols - c)), vf_set(largest))));
    return vf_sum(sum);
}

static float log_of(float x)
{
    float result[LANES];
    vf_store(result, vf_log(vf_set(x)));
    return result[0];
}

/* d = scale * (softmax - onehot); d may be x. */
static void put_gradient(void *d, enum dtype type, const float *x, int64_t cols, int32_t target, float largest,
                         float sum, float scale)
{
    const vf share = vf_set(1.0f / sum);
    for (int64_t c = 0; c < cols; c += LANES) {
        const int count = lanes(cols - c);
        vf p = vf_mul(vf_exp(vf_sub(logits_at(x, c, count), vf_set(largest))), share);
        if (target >= c && target < c + count) {
            float each[LANES];
            vf_store(each, p);
            each[target - c] -= 1.0f;
            p = vf_load(each);
        }
        vf_put(d, type, c, count, vf_mul(p, vf_set(scale)));
    }
}

status NAME(cpu_cross_entropy)(struct device *d, const struct view *loss, int32_t *predicted,
                               const struct view *d_logits, const struct view *logits, const int32_t *target,
                               float scale)
{
    TRY(check_cross_entropy(loss, d_logits, logits, target));
    TRY(CPU_CHECK_STORAGE("cross_entropy", loss, d_logits, logits));
    const int64_t cols = logits->cols;
#pragma omp parallel for num_threads(cpu_threads(d, logits->rows *cols)) schedule(static)
    for (int64_t row = 0; row < logits->rows; row++) {
        const float *x = view_at(logits, row, 0);
        const float largest = largest_of(x, cols), sum = sum_of_exp(x, cols, largest);
        *(float *)view_at(loss, row, 0) = (largest - x[target[row]]) + log_of(sum);
        if (predicted)
            predicted[row] = first_equal(x, cols, largest);
        if (d_logits)
            put_gradient(view_at(d_logits, row, 0), d_logits->type, x, cols, target[row], largest, sum, scale);
    }
    return OK;
}
