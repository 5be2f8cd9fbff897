#include "stages/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump {
    struct observer observer; /* first member: the observer is the dump */
    struct decoder *decoder;
    struct tensor_list list; /* owns the data of its views, until `own` */
    int own;
    bool first_micro_batch;
};

static status keep(struct dump *d, const char *kind, int layer, const char *tensor, const struct view *view)
{
    struct named_tensor *place;
    TRY(tensor_list_add(&d->list, &place));
    d->own = d->list.count;
    snprintf(place->name, sizeof place->name, "%s.layers.%d.%s", kind, layer, tensor);
    place->view = view_of(malloc(view_bytes(view)), view->type, view->rows, view->cols);
    if (!place->view.data)
        return FAIL(ERR_MEMORY, "no memory to dump %zu bytes of %s", view_bytes(view), place->name);
    for (int64_t r = 0; r < view->rows; r++)
        memcpy(view_at(&place->view, r, 0), view_at(view, r, 0), (size_t)view->cols * dtype_bytes(view->type));
    return OK;
}

static status dump_seen(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    struct dump *d = (struct dump *)self;
    d->first_micro_batch = pass->micro_batch == 0;
    if (!d->first_micro_batch || pass->phase == PHASE_EVALUATE || pass->phase == PHASE_WITNESS)
        return OK;
    const char *kind = pass->phase == PHASE_FORWARD ? "forward" : "recompute";
    return keep(d, kind, pass->layer, block_tensor_name(t), view);
}

static status dump_gradient(struct observer *self, int layer, const struct view *d_input)
{
    struct dump *d = (struct dump *)self;
    return d->first_micro_batch ? keep(d, "gradient", layer, "input", d_input) : OK;
}

status dump_begin(struct dump **out, struct decoder *decoder)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return FAIL(ERR_MEMORY, "no memory for a dump");
    (*out)->observer.seen = dump_seen;
    (*out)->observer.gradient = dump_gradient;
    (*out)->decoder = decoder;
    decoder_observe(decoder, &(*out)->observer, false);
    return OK;
}

status dump_write(struct dump *d, const char *path, const struct model_shape *shape, int64_t step)
{
    struct view gradient = decoder_state(d->decoder).grad;
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, step);
    const char *const metadata[] = {"step", text, NULL};
    TRY(state_list(&d->list, shape, "gradient.", &gradient));
    return safetensors_write(path, d->list.at, d->list.count, metadata);
}

void dump_end(struct dump *d)
{
    if (!d)
        return;
    decoder_forget(d->decoder, &d->observer);
    for (int i = 0; i < d->own; i++)
        free(d->list.at[i].view.data);
    tensor_list_free(&d->list);
    free(d);
}
