/* parallel.h - the only place that knows how a sequence is spread over ranks: one attend() for the block.
 *
 * A context-parallel rank would hold chunks of the sequence, exchange keys and values around the ring, and join partial
 * results with attention_merge; with one rank a sequence is one chunk, and attend() is one op.
 */
#ifndef REMATCH_MODEL_PARALLEL_H
#define REMATCH_MODEL_PARALLEL_H

#include "model/block.h"

/* attention (M,H) and lse (B*heads,T) from the rotated qkv (M,H+2KV), causal. */
status attend(struct block *b, const struct pass *pass, const struct view *attention, const struct view *lse,
              const struct view *qkv);

/* d_qkv (M,H+2KV) from d_attention (M,H); all of the forward's tensors as attend() left them. */
status attend_backward(struct block *b, const struct pass *pass, const struct plan *plan, const struct view *d_qkv,
                       const struct view *d_attention, const struct view *attention, const struct view *lse,
                       const struct view *qkv);

#endif
