/* Reading safetensors. The header is data from outside: each number is checked before it is used. */
#include "data/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/jsonl.h"
#include "data/little_endian.h"
#include "data/safetensors_format.h"
#include "data/seal.h"

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100 << 20, RANK_LIMIT = 8 };

struct safetensors {
    char *name;
    const char *bytes;
    size_t size;
    bool mapped;
    json_t *header;
    struct named_tensor *tensors;       /* in order of offset */
    const struct named_tensor **sorted; /* by name */
    int count;
};

/* Every message about the content begins and ends the same way. */
static status refuse(const struct safetensors *s, const char *tensor, const char *what)
{
    return FAIL(ERR_INPUT, "'%s': %s%s%s; the file is damaged or not safetensors: write or fetch it again", s->name,
                tensor ? tensor : "", tensor ? ": " : "", what);
}

static int by_offset(const void *a, const void *b)
{
    const struct named_tensor *x = a, *y = b;
    if (x->view.data != y->view.data)
        return (const char *)x->view.data < (const char *)y->view.data ? -1 : 1;
    size_t bytes_x = view_bytes(&x->view), bytes_y = view_bytes(&y->view);
    return bytes_x != bytes_y ? (bytes_x > bytes_y) - (bytes_x < bytes_y) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct named_tensor *x = *(const struct named_tensor *const *)a, *y = *(const struct named_tensor *const *)b;
    return strcmp(x->name, y->name);
}

static status read_type(struct safetensors *s, const char *name, const json_t *entry, enum dtype *type)
{
    const char *text = json_string_value(json_object_get(entry, "dtype"));
    if (!text)
        return refuse(s, name, "\"dtype\" is missing");
    for (*type = BF16; *type <= I32; (*type)++)
        if (!strcmp(text, dtype_name(*type)))
            return OK;
    return FAIL(ERR_INPUT, "'%s': %s: type '%.20s' is not one of BF16, F32, F64, I32; convert the file", s->name, name,
                text);
}

/* Folds the shape into rows x cols; a scalar is 1 x 1. */
static status read_shape(struct safetensors *s, const char *name, const json_t *entry, struct named_tensor *t)
{
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > RANK_LIMIT)
        return refuse(s, name, "\"shape\" is not an array of at most 8 numbers");
    int64_t rows = 1, cols = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *number = json_array_get(shape, i);
        int64_t length = json_is_integer(number) ? json_integer_value(number) : -1;
        rows = i ? rows * cols : 1;
        cols = length;
        /* One bound keeps every product far from overflow: a longer tensor than the file cannot be in it. */
        if (length < 0 || (uint64_t)length > s->size || (length && (uint64_t)rows > s->size / (uint64_t)length))
            return refuse(s, name, "\"shape\" does not fit the file");
    }
    t->vector = rank == 1;
    t->view.rows = rows;
    t->view.cols = t->view.stride = cols;
    return OK;
}

static status read_entry(struct safetensors *s, const char *name, const json_t *entry, const char *data,
                         uint64_t data_bytes, struct named_tensor *t)
{
    if (strlen(name) >= sizeof t->name)
        return refuse(s, name, "the name is longer than 159 bytes");
    strcpy(t->name, name);
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return refuse(s, name, "expected dtype, shape and data_offsets");
    TRY(read_type(s, name, entry, &t->view.type));
    TRY(read_shape(s, name, entry, t));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return refuse(s, name, "\"data_offsets\" is not a pair of whole numbers");
    json_int_t start = json_integer_value(from), end = json_integer_value(to);
    if (start < 0 || end < start || (uint64_t)end > data_bytes)
        return refuse(s, name, "its bytes lie outside the file");
    if ((uint64_t)(end - start) != view_bytes(&t->view))
        return refuse(s, name, "its bytes do not match its shape");
    t->view.data = (char *)data + start;
    if ((uintptr_t)t->view.data % dtype_bytes(t->view.type) && end > start)
        return FAIL(ERR_INPUT, "'%s': %s: is not aligned to its elements; save it again with a current safetensors",
                    s->name, name);
    return OK;
}

static status check_tiling(struct safetensors *s, const char *data, uint64_t data_bytes)
{
    const char *next = data;
    for (int i = 0; i < s->count; i++) {
        const struct named_tensor *t = &s->tensors[i];
        if (t->view.data != next)
            return refuse(s, t->name,
                          (const char *)t->view.data < next ? "overlaps another tensor" : "a hole precedes it");
        next += view_bytes(&t->view);
    }
    return next == data + data_bytes ? OK : refuse(s, NULL, "bytes follow the last tensor");
}

static status read_tensors(struct safetensors *s, const char *data, uint64_t data_bytes)
{
    const char *name;
    json_t *entry;
    size_t entries = json_object_size(s->header);
    s->tensors = calloc(entries + 1, sizeof *s->tensors);
    s->sorted = calloc(entries + 1, sizeof *s->sorted);
    if (!s->tensors || !s->sorted || entries > INT32_MAX)
        return FAIL(ERR_MEMORY, "'%s': no memory for %zu tensors", s->name, entries);
    json_object_foreach(s->header, name, entry) if (strcmp(name, "__metadata__"))
        TRY(read_entry(s, name, entry, data, data_bytes, &s->tensors[s->count++]));
    qsort(s->tensors, (size_t)s->count, sizeof *s->tensors, by_offset);
    TRY(check_tiling(s, data, data_bytes));
    for (int i = 0; i < s->count; i++)
        s->sorted[i] = &s->tensors[i];
    qsort(s->sorted, (size_t)s->count, sizeof *s->sorted, by_name);
    return OK;
}

/* Three marks say that a file is ours; damage that leaves one of them is noticed, because then the seal must hold. */
static status check_metadata(struct safetensors *s, size_t header_bytes)
{
    const char *key;
    json_t *value;
    json_t *metadata = json_object_get(s->header, "__metadata__");
    bool sealed = seal_place(s->bytes, LENGTH_BYTES + header_bytes) >= 0;
    bool ours = sealed;
    if (metadata && !json_is_object(metadata))
        return refuse(s, "__metadata__", "is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return refuse(s, key, "the value in __metadata__ is not a text");
        ours |= !strcmp(key, SAFETENSORS_MARK) || !strcmp(json_string_value(value), SAFETENSORS_MARKED);
    }
    if (!ours)
        return OK;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return FAIL(ERR_MEMORY, "'%s': no memory for a hash state", s->name);
    bool holds = false;
    if (sealed) {
        XXH3_128bits_reset(state);
        seal_update(state, s->bytes, LENGTH_BYTES + header_bytes);
        XXH3_128bits_update(state, s->bytes + LENGTH_BYTES + header_bytes, s->size - LENGTH_BYTES - header_bytes);
        holds = seal_holds(state, s->bytes, LENGTH_BYTES + header_bytes);
    }
    XXH3_freeState(state);
    return holds ? OK : refuse(s, NULL, "its content does not match its seal");
}

static status parse(struct safetensors *s)
{
    if (s->size < LENGTH_BYTES + 2)
        return refuse(s, NULL, "is shorter than a header");
    uint64_t header_bytes = le64_get(s->bytes);
    if (header_bytes > HEADER_LIMIT || header_bytes > s->size - LENGTH_BYTES)
        return refuse(s, NULL, "its header would be longer than the file or 100 MiB");
    const char *text = s->bytes + LENGTH_BYTES;
    if (*text != '{')
        return refuse(s, NULL, "its header does not begin with '{'");
    char where[512];
    snprintf(where, sizeof where, "'%s': header", s->name);
    TRY(json_object_parse(&s->header, text, header_bytes, where));
    TRY(check_metadata(s, header_bytes));
    return read_tensors(s, text + header_bytes, s->size - LENGTH_BYTES - header_bytes);
}

static status safetensors_make(struct safetensors **out, const char *name)
{
    struct safetensors *s = calloc(1, sizeof *s);
    if (!s || !(s->name = strdup(name))) {
        free(s);
        return FAIL(ERR_MEMORY, "'%s': no memory to open it", name);
    }
    *out = s;
    return OK;
}

status safetensors_open(struct safetensors **out, const char *path)
{
    status st = OK;
    const void *bytes;
    struct safetensors *s;
    TRY(safetensors_make(&s, path));
    TRY_DONE(file_map(path, &bytes, &s->size));
    s->bytes = bytes;
    s->mapped = true;
    TRY_DONE(parse(s));
    *out = s;
    s = NULL;
done:
    safetensors_close(s);
    return st;
}

status safetensors_parse(struct safetensors **out, const char *name, const void *bytes, size_t size)
{
    struct safetensors *s;
    TRY(safetensors_make(&s, name));
    s->bytes = bytes;
    s->size = size;
    status st = parse(s);
    if (st == OK)
        *out = s;
    else
        safetensors_close(s);
    return st;
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    if (s->mapped)
        file_unmap(s->bytes, s->size);
    json_decref(s->header);
    free(s->tensors);
    free(s->sorted);
    free(s->name);
    free(s);
}

int safetensors_count(const struct safetensors *s) { return s->count; }

const struct named_tensor *safetensors_at(const struct safetensors *s, int i) { return &s->tensors[i]; }

const struct named_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct named_tensor wanted;
    const struct named_tensor *key = &wanted;
    if (strlen(name) >= sizeof wanted.name)
        return NULL;
    strcpy(wanted.name, name);
    const struct named_tensor **found = bsearch(&key, s->sorted, (size_t)s->count, sizeof *s->sorted, by_name);
    return found ? *found : NULL;
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
    return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key));
}
