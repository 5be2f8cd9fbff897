/* dump.h - the tensors of one step, as they were: dump-STEP.safetensors.
 *
 * An observer of the decoder. Of the step's first micro-batch it copies every tensor of every block:
 *   forward.layers.N.<tensor>     as the forward made it
 *   recompute.layers.N.<tensor>   as the rebuild made it
 *   gradient.layers.N.input       gradient of a block's input
 * and, when written, gradient.<Hugging Face name> of every parameter (the sum over the global batch).
 */
#ifndef REMATCH_STAGES_DUMP_H
#define REMATCH_STAGES_DUMP_H

#include "model/decoder.h"
#include "stages/state.h"

struct dump;

status dump_begin(struct dump **out, struct decoder *decoder);
status dump_write(struct dump *d, const char *path, const struct model_shape *shape, int64_t step);
void dump_end(struct dump *d); /* NULL-safe; stops observing */

#endif
