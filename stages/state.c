#include "stages/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

status tensor_list_add(struct tensor_list *list, struct named_tensor **out)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 256;
        struct named_tensor *at = realloc(list->at, (size_t)capacity * sizeof *at);
        if (!at)
            return FAIL(ERR_MEMORY, "no memory for a list of %d tensors", capacity);
        list->at = at;
        list->capacity = capacity;
    }
    *out = &list->at[list->count++];
    memset(*out, 0, sizeof **out);
    return OK;
}

void tensor_list_free(struct tensor_list *list)
{
    free(list->at);
    *list = (struct tensor_list){0};
}

/* Calls `visit` for each Hugging Face tensor inside a flat array. */
static status each_tensor(const struct model_shape *shape, const char *prefix, const struct view *flat,
                          status (*visit)(void *self, const struct named_tensor *tensor), void *self)
{
    for (int index = 0; index < shape_parameter_count(shape); index++) {
        struct parameter p = shape_parameter(shape, index);
        struct view whole = block_parameter(shape, flat, index);
        for (int i = 0; i < shape_hf_count(shape, index); i++) {
            struct named_tensor tensor = {.vector = p.rows == 1};
            char name[96];
            int64_t row, rows;
            shape_hf_tensor(shape, index, i, name, &row, &rows);
            snprintf(tensor.name, sizeof tensor.name, "%s%s", prefix, name);
            tensor.view = view_rows(&whole, row, rows);
            TRY(visit(self, &tensor));
        }
    }
    return OK;
}

static status append(void *self, const struct named_tensor *tensor)
{
    struct named_tensor *place;
    TRY(tensor_list_add(self, &place));
    *place = *tensor;
    return OK;
}

status state_list(struct tensor_list *list, const struct model_shape *shape, const char *prefix,
                  const struct view *flat)
{
    return each_tensor(shape, prefix, flat, append, list);
}

status state_write(const char *path, struct decoder *decoder, const struct model_shape *shape, unsigned parts,
                   int64_t step)
{
    struct optimizer_state state = decoder_state(decoder);
    bool *stale_valid;
    const struct view *stale = decoder_stale(decoder, &stale_valid);
    struct tensor_list list = {0};
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, step);
    const char *const metadata[] = {"format", "pt", "step", text, NULL};
    status st = OK;
    if (parts & STATE_WEIGHTS)
        TRY_DONE(state_list(&list, shape, "", &state.weight));
    if (parts & STATE_MASTER)
        TRY_DONE(state_list(&list, shape, "master.", &state.master));
    if (parts & STATE_MOMENTS) {
        TRY_DONE(state_list(&list, shape, "m.", &state.m));
        TRY_DONE(state_list(&list, shape, "v.", &state.v));
    }
    if (parts & STATE_STALE && stale && *stale_valid)
        TRY_DONE(state_list(&list, shape, "stale.", stale));
    TRY_DONE(safetensors_write(path, list.at, list.count, metadata));
done:
    tensor_list_free(&list);
    return st;
}

/* ---- loading ---- */

struct source {
    const struct safetensors *file;
    const char *name;
    struct device *device;
};

status state_find(const struct named_tensor **out, const struct safetensors *file, const char *name, const char *tensor,
                  int64_t rows, int64_t cols)
{
    *out = safetensors_find(file, tensor);
    if (!*out)
        return FAIL(ERR_INPUT, "%s: tensor '%s' is missing: it holds another model or another kind of state", name,
                    tensor);
    const struct view *v = &(*out)->view;
    if (v->rows != rows || v->cols != cols)
        return FAIL(ERR_INPUT,
                    "%s: tensor '%s' is %" PRId64 " x %" PRId64 ", and the model's is %" PRId64 " x %" PRId64, name,
                    tensor, v->rows, v->cols, rows, cols);
    return OK;
}

static status find_for(const struct named_tensor **out, const struct source *source, const struct named_tensor *place)
{
    return state_find(out, source->file, source->name, place->name, place->view.rows, place->view.cols);
}

static status copy_in(void *self, const struct named_tensor *place)
{
    const struct source *source = self;
    const struct named_tensor *found;
    TRY(find_for(&found, source, place));
    if (found->view.type != place->view.type)
        return FAIL(ERR_INPUT, "%s: tensor '%s' is %s, and the model's is %s", source->name, place->name,
                    dtype_name(found->view.type), dtype_name(place->view.type));
    memcpy(place->view.data, found->view.data, view_bytes(&place->view));
    return OK;
}

static status widen_in(void *self, const struct named_tensor *place)
{
    const struct source *source = self;
    const struct named_tensor *found;
    TRY(find_for(&found, source, place));
    return source->device->ops->convert(source->device, &place->view, &found->view);
}

static status load_flat(struct source *source, const struct model_shape *shape, const char *prefix,
                        const struct view *flat)
{
    memset(flat->data, 0, view_bytes(flat)); /* the gaps between parameters */
    return each_tensor(shape, prefix, flat, copy_in, source);
}

status state_load(struct decoder *decoder, const struct model_shape *shape, const struct safetensors *file,
                  const char *name, int64_t *step)
{
    struct optimizer_state state = decoder_state(decoder);
    struct source source = {file, name, decoder_device(decoder)};
    const char *text = safetensors_metadata(file, "step");
    char *end = NULL;
    *step = text ? strtoll(text, &end, 10) : -1;
    if (!text || *end || *step < 0)
        return FAIL(ERR_INPUT, "%s: metadata 'step' is '%s', expected a whole number", name, text ? text : "absent");
    TRY(load_flat(&source, shape, "master.", &state.master));
    TRY(load_flat(&source, shape, "m.", &state.m));
    TRY(load_flat(&source, shape, "v.", &state.v));
    bool *stale_valid;
    const struct view *stale = decoder_stale(decoder, &stale_valid);
    if (stale && safetensors_find(file, "stale.model.norm.weight")) {
        TRY(load_flat(&source, shape, "stale.", stale));
        *stale_valid = true;
    }
    return decoder_round_weights(decoder);
}

status state_import(struct decoder *decoder, const struct model_shape *shape, const struct safetensors *file,
                    const char *name)
{
    struct optimizer_state state = decoder_state(decoder);
    struct source source = {file, name, decoder_device(decoder)};
    const struct view *const flat[] = {&state.master, &state.m, &state.v};
    for (int i = 0; i < 3; i++)
        memset(flat[i]->data, 0, view_bytes(flat[i]));
    TRY(each_tensor(shape, "", &state.master, widen_in, &source));
    return decoder_round_weights(decoder);
}

static status broadcast_flat(struct comm *comm, const struct view *flat)
{
    return comm_broadcast(comm, flat->data, view_bytes(flat));
}

status state_broadcast(struct decoder *decoder, struct comm *comm, int64_t *step)
{
    struct optimizer_state state = decoder_state(decoder);
    bool *stale_valid;
    const struct view *stale = decoder_stale(decoder, &stale_valid);
    TRY(comm_broadcast(comm, step, sizeof *step));
    TRY(broadcast_flat(comm, &state.weight));
    TRY(broadcast_flat(comm, &state.master));
    TRY(broadcast_flat(comm, &state.m));
    TRY(broadcast_flat(comm, &state.v));
    if (!stale)
        return OK;
    TRY(comm_broadcast(comm, stale_valid, sizeof *stale_valid));
    return *stale_valid ? broadcast_flat(comm, stale) : OK;
}

struct xxh3 state_digest(struct decoder *decoder)
{
    /* Gaps are zero, so the flat array is a function of the parameters. */
    struct view weight = decoder_state(decoder).weight;
    return xxh3_of(weight.data, view_bytes(&weight));
}
