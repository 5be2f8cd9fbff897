/* huggingface.h - models in Hugging Face's layout: a folder with the config.json and model.safetensors of a
 * LlamaForCausalLM, as save_pretrained writes and from_pretrained reads it.
 *
 * What this decoder has not is refused, never passed over: other kinds of models, biases, scaled rotary positions, split
 * files, tensors that no parameter claims. A key that config.json leaves out has LlamaConfig's default.
 * Source: transformers, models/llama/configuration_llama.py and modeling_rope_utils.py.
 * Errors: ERR_INPUT names file, key or tensor, what it is, what was expected and what to do; ERR_IO.
 */
#ifndef REMATCH_STAGES_HUGGINGFACE_H
#define REMATCH_STAGES_HUGGINGFACE_H

#include "stages/state.h"

struct huggingface {
    struct model_shape shape;    /* of no preset, without dropout; the sequence is the study's to say */
    char hash[33];               /* XXH3-128 of two hashes, 16 bytes each: of config.json and of model.safetensors */
    struct safetensors *weights; /* BF16 or F32, those of the shape and no others */
};

/* On an error nothing is left to close. */
status huggingface_open(struct huggingface *h, const char *folder);
void huggingface_close(struct huggingface *h);

/* A folder's weights into the decoder, as state_import says. ERR_INPUT when its hash is not `hash`. */
status huggingface_load(struct decoder *decoder, const struct model_shape *shape, const char *folder, const char *hash);

/* The weights of a model of this shape inside a file, under their Hugging Face names: views into the file. */
status huggingface_gather(struct tensor_list *list, const struct model_shape *shape, const struct safetensors *file,
                          const char *name);

/* Writes the folder, whole or not at all. ERR_USAGE when there is something of that name. */
status huggingface_write(const char *folder, const struct model_shape *shape, const struct tensor_list *weights);

#endif
