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

struct arithmetic {
    char name[32];
    enum plan_order order;
    int64_t gemm_chunk;      /* elements of k summed from zero before they join the total; 0: all */
    int64_t attention_block; /* keys per online-softmax block */
    bool simulated;          /* stands in for a card */
};

struct plan {
    enum plan_op op;
    int64_t dims[6]; /* GEMM: m, n, k. Attention: batch, heads, kv_heads, q_tokens, k_tokens, head_dim */
    enum plan_order order;
    int64_t chunk;
    size_t workspace_bytes; /* what the op takes from the device's workspace, all threads together */
    char identity[160];     /* what goes into the record: backend, op, dims, order, chunk */
};

/* The named profiles: `exact` (sequential k), `h800-sim`, `l40s-sim`, `random` (ORDER_RANDOM, chunks of 16).
 * ERR_USAGE for another name, with the list of them. */
status arithmetic_find(struct arithmetic *out, const char *name);

/* `base` with its order drawn per call: the arithmetic of replicates. Keeps chunks at most 16 long, because two chunks
 * commute and would give the same bits in either order. */
struct arithmetic arithmetic_randomised(const struct arithmetic *base);

/* The sequence in which `count` chunks are added: sequence[i] = index of the i-th chunk. `draw` names the call and is
 * read by ORDER_RANDOM only (Fisher-Yates over Philox). */
void plan_sequence(const struct plan *plan, uint64_t draw, int64_t count, int32_t *sequence);

/* Number of chunks of a GEMM plan: ceil(k / chunk), at least 1. */
int64_t plan_chunks(const struct plan *plan);

#endif
