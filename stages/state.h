/* state.h - a training state as named tensors: what checkpoints, branches and final members hold.
 *
 * Parameters carry Hugging Face's names: "<name>" the weights in the run's storage, "master.<name>", "m.<name>",
 * "v.<name>" in f32, "stale.<name>" the weights of the step before (only with the fault that needs them). Fused
 * parameters are split into the tensors that Hugging Face knows, and joined when loaded.
 * Errors: ERR_INPUT names the file and the tensor that is missing or has another shape or type; ERR_IO.
 */
#ifndef REMATCH_STAGES_STATE_H
#define REMATCH_STAGES_STATE_H

#include "data/file.h"
#include "data/safetensors.h"
#include "kernels/comm.h"
#include "model/decoder.h"

/* A growing list of tensors; zeroed is empty. */
struct tensor_list {
    struct named_tensor *at;
    int count, capacity;
};

/* Space for one more, zeroed; borrowed until the next call. */
status tensor_list_add(struct tensor_list *list, struct named_tensor **out);
void tensor_list_free(struct tensor_list *list);

/* Every parameter of a flat array under "<prefix><Hugging Face name>". */
status state_list(struct tensor_list *list, const struct model_shape *shape, const char *prefix,
                  const struct view *flat);

enum state_part { STATE_WEIGHTS = 1, STATE_MASTER = 2, STATE_MOMENTS = 4, STATE_STALE = 8 };

/* Writes the parts named (STATE_STALE only where there is a valid one), with "step" as metadata. */
status state_write(const char *path, struct decoder *decoder, const struct model_shape *shape, unsigned parts,
                   int64_t step);

/* Loads master, moments and what stale weights there are, rounds the weights; *step as written. */
status state_load(struct decoder *decoder, const struct model_shape *shape, const struct safetensors *file,
                  const char *name, int64_t *step);

/* Starts from the weights of a file that has nothing else, BF16 or F32: widened into the master weights and rounded from
 * there, moments 0. */
status state_import(struct decoder *decoder, const struct model_shape *shape, const struct safetensors *file,
                    const char *name);

/* A file's tensor, which must have this shape. */
status state_find(const struct named_tensor **out, const struct safetensors *file, const char *name, const char *tensor,
                  int64_t rows, int64_t cols);

/* Rank 0's state and step become those of all ranks: archives are read once. */
status state_broadcast(struct decoder *decoder, struct comm *comm, int64_t *step);

/* XXH3-128 of all weights in the run's storage, parameter by parameter. */
struct xxh3 state_digest(struct decoder *decoder);

#endif
