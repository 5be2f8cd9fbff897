/* safetensors.h - tensors in files, with Hugging Face names.
 *
 * Layout: u64 header bytes, JSON header, data; offsets relative to the data; little-endian. We write wider elements
 * first, then by name, without holes, the data at a multiple of 64 bytes: every tensor is aligned to its elements. We
 * read what the format allows and refuse the rest (overlaps, holes, a range outside the file, a header over 100 MiB,
 * unknown types). Our files carry a seal (data/seal.h) in their metadata, which is verified; foreign ones need none.
 * Source: huggingface/safetensors, README "Format". Byte table in data/FORMATS.md.
 */
#ifndef REMATCH_DATA_SAFETENSORS_H
#define REMATCH_DATA_SAFETENSORS_H

#include "kernels/status.h"
#include "kernels/tensor.h"

struct named_tensor {
    char name[160];
    struct view view; /* rows x cols; written as a 2-D shape, or 1-D when rows = 1 and `vector` */
    bool vector;
};

/* Atomically writes a file. `metadata`: "key", "value", ..., NULL, or NULL; "rematch" and "seal" are ours. Rows may be
 * strided. ERR_ARGUMENT for a name twice. */
status safetensors_write(const char *path, const struct named_tensor *tensors, int count, const char *const *metadata);

struct safetensors;

/* From a file (mapped), or from memory (borrowed; `name` is what messages call it). ERR_INPUT names file and place. */
status safetensors_open(struct safetensors **out, const char *path);
status safetensors_parse(struct safetensors **out, const char *name, const void *bytes, size_t size);
void safetensors_close(struct safetensors *s);

int safetensors_count(const struct safetensors *s);
/* Tensor i in order of offset. Views are read-only memory, borrowed until close; n-D shapes are folded to
 * (product of all but the last) x last. */
const struct named_tensor *safetensors_at(const struct safetensors *s, int i);
/* NULL when absent, both. */
const struct named_tensor *safetensors_find(const struct safetensors *s, const char *name);
const char *safetensors_metadata(const struct safetensors *s, const char *key);

#endif
