/* Writing safetensors: see safetensors.h. */
#include "data/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/little_endian.h"
#include "data/safetensors_format.h"
#include "data/seal.h"

enum { ALIGNMENT = 64 };

/* Wider elements first keeps every tensor aligned to its elements although there are no holes. */
static int by_width_then_name(const void *a, const void *b)
{
    const struct named_tensor *x = *(const struct named_tensor *const *)a, *y = *(const struct named_tensor *const *)b;
    size_t wide_x = dtype_bytes(x->view.type), wide_y = dtype_bytes(y->view.type);
    return wide_x != wide_y ? (wide_x < wide_y) - (wide_x > wide_y) : strcmp(x->name, y->name);
}

static json_t *metadata_object(const char *const *metadata)
{
    json_t *object = json_pack("{ssss}", SAFETENSORS_MARK, SAFETENSORS_MARKED, "seal", SEAL_BLANK);
    for (; object && metadata && *metadata; metadata += 2)
        if (json_object_set_new(object, metadata[0], json_string(metadata[1]))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *tensor_object(const struct named_tensor *t, uint64_t *offset)
{
    const struct view *v = &t->view;
    uint64_t start = *offset;
    *offset += view_bytes(v);
    json_t *shape =
        t->vector ? json_pack("[I]", (json_int_t)v->cols) : json_pack("[II]", (json_int_t)v->rows, (json_int_t)v->cols);
    return json_pack("{sssos[II]}", "dtype", dtype_name(v->type), "shape", shape, "data_offsets", (json_int_t)start,
                     (json_int_t)*offset);
}

/* The 8 bytes of length and the JSON text, padded with spaces so that the data is aligned. */
static status header_text(char **out, size_t *size, const struct named_tensor *const *sorted, int count,
                          const char *const *metadata)
{
    uint64_t offset = 0;
    json_t *header = json_pack("{so}", "__metadata__", metadata_object(metadata));
    char *text = NULL;
    for (int i = 0; header && i < count; i++)
        if (json_object_set_new(header, sorted[i]->name, tensor_object(sorted[i], &offset))) {
            json_decref(header);
            header = NULL;
        }
    if (header)
        text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    size_t length = text ? strlen(text) : 0;
    *size = (sizeof(uint64_t) + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *out = text ? malloc(*size) : NULL;
    if (*out) {
        le64_put(*out, *size - sizeof(uint64_t));
        memset(*out + sizeof(uint64_t), ' ', *size - sizeof(uint64_t));
        memcpy(*out + sizeof(uint64_t), text, length);
    }
    free(text);
    return *out
               ? OK
               : FAIL(ERR_MEMORY, "cannot make a header for %d tensors: no memory, or a name that is not UTF-8", count);
}

static status write_tensor(struct file_draft *draft, XXH3_state_t *state, const struct view *v)
{
    size_t row_bytes = (size_t)v->cols * dtype_bytes(v->type);
    bool packed = v->stride == v->cols;
    int64_t pieces = packed ? 1 : v->rows;
    size_t bytes = packed ? view_bytes(v) : row_bytes;
    for (int64_t row = 0; bytes && row < pieces; row++) {
        const void *at = view_at(v, row, 0);
        XXH3_128bits_update(state, at, bytes);
        TRY(file_draft_write(draft, at, bytes));
    }
    return OK;
}

static status check(const char *path, const struct named_tensor *const *sorted, int count)
{
    for (int i = 0; i < count; i++) {
        const struct named_tensor *t = sorted[i];
        if (!*t->name || !strcmp(t->name, "__metadata__"))
            return FAIL(ERR_ARGUMENT, "'%s': a tensor cannot be called '%s'", path, t->name);
        if (t->vector && t->view.rows != 1)
            return FAIL(ERR_ARGUMENT, "'%s': the vector '%s' has %lld rows, expected 1", path, t->name,
                        (long long)t->view.rows);
        for (int j = 0; j < i; j++)
            if (!strcmp(sorted[j]->name, t->name))
                return FAIL(ERR_ARGUMENT, "'%s': two tensors are called '%s'", path, t->name);
    }
    return OK;
}

status safetensors_write(const char *path, const struct named_tensor *tensors, int count, const char *const *metadata)
{
    status st = OK;
    char *header = NULL;
    size_t size;
    struct file_draft draft = {0};
    XXH3_state_t *state = XXH3_createState();
    const struct named_tensor **sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!state || !sorted) {
        st = FAIL(ERR_MEMORY, "'%s': no memory for %d tensors", path, count);
        goto done;
    }
    for (int i = 0; i < count; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_width_then_name);
    TRY_DONE(check(path, sorted, count));
    TRY_DONE(header_text(&header, &size, sorted, count, metadata));
    TRY_DONE(file_draft_open(&draft, path));
    XXH3_128bits_reset(state);
    seal_update(state, header, size);
    TRY_DONE(file_draft_write(&draft, header, size));
    for (int i = 0; i < count; i++)
        TRY_DONE(write_tensor(&draft, state, &sorted[i]->view));
    /* The hash of the data is known only now, and the header stands before it. */
    seal_set(state, header, size);
    if (fseeko(draft.stream, 0, SEEK_SET)) {
        st = FAIL(ERR_IO, "'%s': cannot go back to its header: %s", path, strerror(errno));
        goto done;
    }
    TRY_DONE(file_draft_write(&draft, header, size));
    TRY_DONE(file_draft_commit(&draft, true));
done:
    file_draft_abandon(&draft);
    XXH3_freeState(state);
    free(sorted);
    free(header);
    return st;
}
