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
    static const uint64_t steps[STEP_BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    vu c0 = vu_add(vu_set(block), vu_load(steps)), c1 = vu_high(c0), c2 = vu_set(s->c2), c3 = vu_set(s->c3);
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

/* y = base + mask * x, base being the residual, or 0; without `add`, y = mask * x, which may be -0. */
struct dropping {
    const struct view *y, *residual, *x;
    bool add;
    struct stream stream;
};

static inline void finish(const struct dropping *o, int64_t row, int64_t c, int count, vf value)
{
    if (o->add) {
        const vf base = o->residual ? vf_get(view_at(o->residual, row, 0), o->residual->type, c, count) : vf_zero();
        value = vf_add(base, value);
    }
    vf_put(view_at(o->y, row, 0), o->y->type, c, count, value);
}

/* `element`: the number of the row's first element in the stream. */
static void drop_row(const struct dropping *o, int64_t row, uint64_t element)
{
    uint32_t words[DRAWN + 3 + STEP_WORDS + LANES];
    const int64_t cols = o->x->cols;
    const vf kept = vf_set(o->stream.factor);
    for (int64_t start = 0; start < cols; start += DRAWN) {
        const int64_t end = start + DRAWN < cols ? start + DRAWN : cols;
        const uint64_t first = element + (uint64_t)start, skipped = first % 4;
        draw(words, &o->stream, first - skipped, end - start + (int64_t)skipped);
        for (int64_t c = start; c < end; c += LANES) {
            const int count = lanes(end - c);
            const vm which = vm_at_least(words + skipped + (c - start), o->stream.keep_from);
            const vf x = vf_get(view_at(o->x, row, 0), o->x->type, c, count);
            finish(o, row, c, count, vf_mul(x, vf_select(which, kept, vf_zero())));
        }
    }
}

static void keep_row(const struct dropping *o, int64_t row)
{
    for (int64_t c = 0; c < o->x->cols; c += LANES) {
        const int count = lanes(o->x->cols - c);
        finish(o, row, c, count, vf_get(view_at(o->x, row, 0), o->x->type, c, count));
    }
}

static void drop(struct device *d, const struct dropping *o, float p, const int64_t *row_id)
{
    const int64_t rows = o->x->rows, cols = o->x->cols;
#pragma omp parallel for num_threads(cpu_threads(d, rows *cols)) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        if (p > 0)
            drop_row(o, row, (uint64_t)row_id[row] * (uint64_t)cols);
        else
            keep_row(o, row);
    }
}

status NAME(cpu_dropout_add)(struct device *d, const struct view *y, const struct view *residual, const struct view *x,
                             float p, const struct random_site *where, const int64_t *row_id)
{
    TRY(check_dropout("dropout_add", y, residual, x, p));
    TRY(CPU_CHECK_STORAGE("dropout_add", y, residual, x));
    const struct dropping o = {y, residual, x, true, open_stream(where, p)};
    drop(d, &o, p, row_id);
    return OK;
}

status NAME(cpu_dropout_backward)(struct device *d, const struct view *dx, const struct view *dy, float p,
                                  const struct random_site *where, const int64_t *row_id)
{
    TRY(check_dropout("dropout_backward", dx, NULL, dy, p));
    TRY(CPU_CHECK_STORAGE("dropout_backward", dx, dy));
    const struct dropping o = {dx, NULL, dy, false, open_stream(where, p)};
    drop(d, &o, p, row_id);
    return OK;
}
