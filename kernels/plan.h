/* plan.h - arithmetic as a pure function of inputs and plan.
 *
 * A plan says in which order an op reduces. It is chosen once per (arithmetic, op, shape) and never changes; the first
 * forward and the recompute hold the *same plan object*. That is the control of every study: recompute is bit-exact by
 * construction. An arithmetic (profile) is the rule from which plans are made; on the CPU backend a profile stands in
 * for a card and reports call it simulated.
 *
 * GEMM: the k axis is cut into chunks of `chunk` elements (0: one chunk). Each chunk is summed on its own, from zero,
 *       k ascending, one fused multiply-add per element in binary32; the chunk sums are then added to zero (or, when
 *       accumulating, to C) in `order`. No other reduction exists, so bits do not depend on tiles, threads or rows.
 * Attention: online softmax over blocks of `chunk` keys, ascending (keys at `k` with k / chunk equal share a block).
 *       Its products sum as GEMM's do: over head_dim in one chunk, over keys a block at a time, over queries (dk, dv)
 *       32 queries of a q_chunk at a time.
 * Rounding of both: nearest as above; or
 *   truncating   how tensor cores sum. In a chunk the k axis is cut into groups of TRUNCATE_GROUP elements, the last may
 *         be shorter. The products of a group are rounded to binary32 (of BF16 operands they are exact). With E the
 *         largest exponent among them and the sum so far, all of these are cut toward zero to multiples of
 *         2^(E - 23 - TRUNCATE_EXTRA_BITS), but never of less than 2^-126; they are added exactly, and the total is cut
 *         toward zero to binary32: the sum so far of the next group. A total of 0 is +0. Where the largest of them is
 *         not finite, the sum is the plain one, k ascending, so an infinity or a NaN. Chunk sums join to nearest.
 *         Source: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330, 2021;
 *         group and bits as Khattak, Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv:2512.07004, 2025, and its
 *         software find them for BF16 on H100 and H200: 16 products and 2 bits (V100 4 and 0; A100, L40S 8 and 1). The
 *         cards take for a product's exponent the sum of its operands', which may be one less, and keep smaller numbers.
 *   to-zero      sums as nearest, and a result that is stored as BF16 is cut toward zero: a crude bias.
 * Row reductions (norms, softmax of the head): 16 lanes, element i in lane i % 16, lanes folded 8+8, 4+4, 2+2, 1+1;
 *       the same on every backend and no part of a plan.
 */
#ifndef REMATCH_KERNELS_PLAN_H
#define REMATCH_KERNELS_PLAN_H

#include "kernels/status.h"
#include "kernels/tensor.h"

enum plan_op {
    PLAN_GEMM_NT, /* C(m,n) = A(m,k) B(n,k)^T   forward: activations times a (out,in) weight */
    PLAN_GEMM_NN, /* C(m,n) = A(m,k) B(k,n)     input gradient */
    PLAN_GEMM_TN, /* C(m,n) = A(k,m)^T B(k,n)   weight gradient; k = tokens */
    PLAN_ATTENTION
};

enum plan_order {
    ORDER_ASCENDING,
    ORDER_DESCENDING,
    ORDER_RANDOM /* a permutation of the chunks per call, drawn from Philox; reproducible from the call's `draw` */
};

enum plan_rounding { ROUND_NEAREST, ROUND_TRUNCATE, ROUND_TO_ZERO };
const char *plan_rounding_name(enum plan_rounding r); /* "nearest", "truncating", "to-zero" */

enum { TRUNCATE_GROUP = 16, TRUNCATE_EXTRA_BITS = 2 };

struct arithmetic {
    char name[32];
    enum plan_order order;
    enum plan_rounding rounding;
    int64_t gemm_chunk;      /* elements of k summed from zero before they join the total; 0: all */
    int64_t attention_block; /* keys per online-softmax block */
    bool simulated;          /* stands in for a card */
};

struct plan {
    enum plan_op op;
    int64_t dims[6]; /* GEMM: m, n, k. Attention: batch, heads, kv_heads, q_tokens, k_tokens, head_dim */
    enum plan_order order;
    int64_t chunk;
    enum plan_rounding rounding;
    size_t workspace_bytes; /* what the op takes from the device's workspace, all threads together */
    char identity[160];     /* what goes into the record: backend, op, dims, order, chunk, rounding */
};

/* The named profiles: `exact` (sequential k), `h800-sim`, `l40s-sim`, `random` (ORDER_RANDOM, chunks of 16).
 * ERR_USAGE for another name, with the list of them. */
status arithmetic_find(struct arithmetic *out, const char *name);

/* The dial of a study: what is changed about a profile. */
enum arithmetic_mode {
    ARITHMETIC_FIXED,  /* nothing */
    ARITHMETIC_RANDOM, /* the order of chunks is drawn per call; chunks at most 16 long, because two chunks commute */
    ARITHMETIC_TRUNCATING, /* ROUND_TRUNCATE */
    ARITHMETIC_TO_ZERO,    /* ROUND_TO_ZERO */
    ARITHMETIC_OTHER_ORDER /* another fixed order of GEMMs: short chunks, added the other way round */
};
const char *
arithmetic_mode_name(enum arithmetic_mode m); /* "fixed", "random", "truncating", "to-zero", "other-order" */

/* Set apart for the first forward with its backward, and for the recompute: there `fixed` means what the forward did,
 * drawn orders included, and every other mode turns the profile. */
struct arithmetic_dial {
    enum arithmetic_mode forward, recompute;
};

/* `base`, turned. What the mode does not name stays, so that modes can be combined. */
struct arithmetic arithmetic_turned(const struct arithmetic *base, enum arithmetic_mode mode);

/* The sequence in which `count` chunks are added: sequence[i] = index of the i-th chunk. `draw` names the call and is
 * read by ORDER_RANDOM only (Fisher-Yates over Philox). */
void plan_sequence(const struct plan *plan, uint64_t draw, int64_t count, int32_t *sequence);

/* Number of chunks of a GEMM plan: ceil(k / chunk), at least 1. */
int64_t plan_chunks(const struct plan *plan);

#endif
