#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* Words drawn at a time, and what one vector step draws: 8 Philox blocks of 4 words. */
enum { DRAWN = 256, STEP_BLOCKS = WORD_LANES, STEP_WORDS = 4 * STEP_BLOCKS };

/* A mask's stream: the parts of Philox's counter and key that are the same for all of its blocks, the key raised for
 * each round. */
struct stream {
    uint32_t c2, c3, key[10][2], keep_from;
    float factor;
};

static struct stream open_stream(const struct random_site *where, float p)
{
    struct stream s = {.c2 = where->layer << 8 | where->site, .c3 = where->step};
    uint32_t k0 = (uint32_t)where->seed, k1 = (uint32_t)(where->seed >> 32);
    for (int round = 0; round < 10; round++) {
        s.key[round][0] = k0;
        s.key[round][1] = k1;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    s.keep_from = (uint32_t)ceil((double)p * 0x1p32);
    s.factor = 1.0f / (1.0f - p);
    return s;
}

/* The words of 8 consecutive blocks. A 32-bit word lives in the low half of a lane; what collects in the high half is
 * never read, because the multiplication takes low halves only. */
static inline void draw_step(uint32_t *words, const struct stream *s, uint64_t block)
{
    uint64_t low[STEP_BLOCKS], high[STEP_BLOCKS];
    for (int i = 0; i < STEP_BLOCKS; i++) {
        low[i] = block + (uint64_t)i;
        high[i] = low[i] >> 32;
    }
    vu c0 = vu_load(low), c1 = vu_load(high), c2 = vu_set(s->c2), c3 = vu_set(s->c3);
    const vu m0 = vu_set(0xD2511F53u), m1 = vu_set(0xCD9E8D57u);
    for (int round = 0; round < 10; round++) {
        const vu p0 = vu_mul_low(c0, m0), p1 = vu_mul_low(c2, m1);
        c0 = vu_xor(vu_xor(vu_high(p1), c1), vu_set(s->key[round][0]));
        c2 = vu_xor(vu_xor(vu_high(p0), c3), vu_set(s->key[round][1]));
        c1 = p1;
        c3 = p0;
    }
    vu_store_interleaved(words, vu_join_low(c0, c1), vu_join_low(c2, c3));
}

/* words[0 .. count) are those of elements first, first + 1, ... `first` is a multiple of 4; room for a step more. */
static void draw(uint32_t *words, const struct stream *s, uint64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i += STEP_WORDS)
        draw_step(words + i, s, (first + (uint64_t)i) / 4);
}

/* y = mask * x * factor (+ residual), for one row whose first element is number `element`. */
static void drop_row(void *y, enum dtype y_type, const void *residual, enum dtype residual_type, const void *x,
                     enum dtype x_type, int64_t cols, const struct stream *s, uint64_t element)
{
    uint32_t words[DRAWN + 3 + STEP_WORDS + LANES];
    for (int64_t start = 0; start < cols; start += DRAWN) {
        const int64_t end = start + DRAWN < cols ? start + DRAWN : cols;
        const uint64_t first = element + (uint64_t)start, skipped = first % 4;
        draw(words, s, first - skipped, end - start + (int64_t)skipped);
        for (int64_t c = start; c < end; c += LANES) {
            const int count = lanes(end - c);
            const vm kept = vm_at_least(words + skipped + (c - start), s->keep_from);
            vf value = vf_mul(vf_get(x, x_type, c, count), vf_set(s->factor));
            value = vf_select(kept, value, vf_zero());
            if (residual)
                value = vf_add(vf_get(residual, residual_type, c, count), value);
            vf_put(y, y_type, c, count, value);
        }
    }
}

static void add_row(void *y, enum dtype y_type, const void *residual, enum dtype residual_type, const void *x,
                    enum dtype x_type, int64_t cols)
{
    for (int64_t c = 0; c < cols; c += LANES) {
        const int count = lanes(cols - c);
        vf value = vf_get(x, x_type, c, count);
        if (residual)
            value = vf_add(vf_get(residual, residual_type, c, count), value);
        vf_put(y, y_type, c, count, value);
    }
}

static void drop(struct device *d, const struct view *y, const struct view *residual, const struct view *x, float p,
                 const struct random_site *where, const int64_t *row_id)
{
    const struct stream s = open_stream(where, p);
    const enum dtype residual_type = residual ? residual->type : F32;
#pragma omp parallel for num_threads(cpu_threads(d, x->rows * x->cols)) schedule(static)
    for (int64_t row = 0; row < x->rows; row++) {
        void *to = view_at(y, row, 0);
        const void *from = view_at(x, row, 0), *base = residual ? view_at(residual, row, 0) : NULL;
        if (p > 0)
            drop_row(to, y->type, base, residual_type, from, x->type, x->cols, &s,
                     (uint64_t)row_id[row] * (uint64_t)x->cols);
        else
            add_row(to, y->type, base, residual_type, from, x->type, x->cols);
    }
}

status NAME(cpu_dropout_add)(struct device *d, const struct view *y, const struct view *residual, const struct view *x,
                             float p, const struct random_site *where, const int64_t *row_id)
{
    TRY(check_dropout("dropout_add", y, residual, x, p));
    TRY(CPU_CHECK_STORAGE("dropout_add", y, residual, x));
    drop(d, y, residual, x, p, where, row_id);
    return OK;
}

status NAME(cpu_dropout_backward)(struct device *d, const struct view *dx, const struct view *dy, float p,
                                  const struct random_site *where, const int64_t *row_id)
{
    TRY(check_dropout("dropout_backward", dx, NULL, dy, p));
    TRY(CPU_CHECK_STORAGE("dropout_backward", dx, dy));
    drop(d, dx, NULL, dy, p, where, row_id);
    return OK;
}
