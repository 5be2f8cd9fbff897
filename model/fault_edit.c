/* fault_edit.c - what a fault does to a pass (fault.c reads its text). */
#include <math.h>
#include <string.h>

#include "kernels/element.h"
#include "model/fault.h"

bool fault_keeps_weights(const struct fault *f) { return f->kind == FAULT_STALE_WEIGHTS; }

bool fault_widens(const struct fault *f) { return f->kind == FAULT_PRECISION_LOST && f->mode == FAULT_MODE_FP32; }

struct arithmetic fault_arithmetic(const struct fault *f, const struct arithmetic *recompute, int64_t tokens)
{
    struct arithmetic how = *recompute;
    switch (f->kind) {
    case FAULT_GEMM_ORDER:
        return arithmetic_turned(recompute, f->mode == FAULT_MODE_RANDOM ? ARITHMETIC_RANDOM : ARITHMETIC_OTHER_ORDER);
    case FAULT_ATTENTION_ORDER:
        /* Half of what a block holds: a block longer than the sequence holds no more than that. */
        how.attention_block = ((how.attention_block < tokens ? how.attention_block : tokens) + 1) / 2;
        return how;
    case FAULT_BIASED_ROUNDING:
        return arithmetic_turned(recompute, f->mode == FAULT_MODE_ZERO ? ARITHMETIC_TO_ZERO : ARITHMETIC_TRUNCATING);
    default:
        return how;
    }
}

int32_t fault_position(const struct fault *f, int64_t position, int64_t tokens)
{
    return (int32_t)((position + (f->offset ? f->offset : tokens / 2)) % tokens);
}

bool fault_acts(const struct fault *f, int layer, int64_t step, int rank)
{
    return f->kind != FAULT_NONE && layer >= f->first_layer && layer <= f->last_layer && step >= f->from &&
           (f->rank < 0 || f->rank == rank);
}

void fault_edit(const struct fault *f, struct pass *pass, const struct fault_material *material)
{
    switch (f->kind) {
    case FAULT_NONE:
        break;
    case FAULT_RNG_REDRAWN:
        /* Any other key will do; the complement can never be the key itself. */
        pass->key.seed = ~pass->key.seed;
        break;
    case FAULT_GEMM_ORDER:
        pass->plans = material->other;
        pass->redraw = f->mode == FAULT_MODE_RANDOM;
        break;
    case FAULT_ATTENTION_ORDER:
    case FAULT_BIASED_ROUNDING:
        pass->plans = material->other;
        break;
    case FAULT_PRECISION_LOST:
        if (fault_widens(f))
            pass->storage = F32;
        else
            pass->damage = f;
        break;
    case FAULT_STALE_WEIGHTS:
        if (material->stale_weight)
            memcpy(pass->weight, material->stale_weight, sizeof pass->weight);
        break;
    case FAULT_CHUNK_INPUT:
        pass->reads = material->chunk_first;
        break;
    case FAULT_GRAD_DROPPED:
        pass->dropped = 1u << (f->parameter - PARAMETER_INPUT_NORM);
        break;
    case FAULT_BIT_FLIP:
        pass->damage = f;
        break;
    case FAULT_CP_OFFSET:
        pass->position = material->position;
        break;
    }
}

/* ---- damage ---- */

/* The exponent e of a finite x: |x| in [2^(e-1), 2^e). */
static int exponent_of(double x)
{
    int e;
    frexp(x, &e);
    return e;
}

static int largest_exponent(const struct view *v)
{
    double largest = 0;
    for (int64_t r = 0; r < v->rows; r++)
        for (int64_t c = 0; c < v->cols; c++) {
            double x = fabs(element_load(v, r, c));
            largest = x > largest && isfinite(x) ? x : largest;
        }
    return exponent_of(largest);
}

/* E4M3: 4 significant bits, 14 binades of full precision below 2^8; to nearest even. The tensor is scaled by the power
 * of two that brings its largest below 2^8, which leaves its relative errors as they are. Micikevicius et al., "FP8
 * Formats for Deep Learning", arXiv:2209.05433. */
static void round_to_e4m3(const struct view *v)
{
    enum { BITS = 4, BINADES = 14 };
    const int lowest = largest_exponent(v) - BINADES + 1;
    for (int64_t r = 0; r < v->rows; r++)
        for (int64_t c = 0; c < v->cols; c++) {
            double x = element_load(v, r, c);
            if (!isfinite(x))
                continue;
            int e = exponent_of(x);
            double unit = ldexp(1, (e > lowest ? e : lowest) - BITS);
            element_store(v, r, c, unit * rint(x / unit));
        }
}

/* Drawn by step, layer, micro-batch of the global batch and tensor: whoever makes the tensor flips the same bit. */
static void flip_a_bit(const struct pass *pass, enum block_tensor t, const struct view *v)
{
    const struct random_site where = {pass->key.seed, pass->key.step, (uint32_t)pass->layer, SITE_FAULT};
    uint32_t word[4];
    philox_block(word, &where, (uint64_t)pass->micro_batch << 8 | (uint64_t)t);
    if (word[0] >= pass->damage->rate * 0x1p32)
        return;
    /* The modulo's bias is below 2^-24 for any tensor that occurs. */
    uint64_t bit = ((uint64_t)word[2] << 32 | word[1]) % (8 * view_bytes(v));
    ((unsigned char *)v->data)[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

void fault_damage(const struct pass *pass, enum block_tensor t, const struct view *made)
{
    if (pass->damage->kind == FAULT_BIT_FLIP)
        flip_a_bit(pass, t, made);
    else if (!strcmp(block_op_family(block_tensor_op(t)), "gemm"))
        round_to_e4m3(made);
}
