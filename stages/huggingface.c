#include "stages/huggingface.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "stages/layout.h"

#define CONFIG "config.json"
#define WEIGHTS "model.safetensors"
enum { CONFIG_LIMIT = 1 << 20, FOLDER_PATH = LAYOUT_PATH / 2 };

/* Whole numbers of a config.json, and where the shape has them. */
static const struct {
    const char *key;
    size_t offset;
} sizes[] = {
    {"vocab_size", offsetof(struct model_shape, vocab)},
    {"hidden_size", offsetof(struct model_shape, hidden)},
    {"intermediate_size", offsetof(struct model_shape, ffn)},
    {"num_hidden_layers", offsetof(struct model_shape, layers)},
    {"num_attention_heads", offsetof(struct model_shape, heads)},
    {"num_key_value_heads", offsetof(struct model_shape, kv_heads)},
};

/* Keys that may say one thing, which is also what their absence means; only the type must be there. */
static const struct {
    const char *key, *value;
} constants[] = {
    {"model_type", "\"llama\""}, {"hidden_act", "\"silu\""},   {"attention_bias", "false"},
    {"mlp_bias", "false"},       {"attention_dropout", "0.0"},
};

/* ---- reading config.json ---- */

struct config {
    const char *path;
    const json_t *object;
};

static status refuse(const struct config *c, const char *key, const json_t *value, const char *expected)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    status st = FAIL(ERR_INPUT, "'%s': \"%s\" is %.80s, expected %s: give the checkpoint of a plain Llama", c->path,
                     key, text ? text : "missing", expected);
    free(text);
    return st;
}

/* NULL for a key that is absent, or null: Python's None. */
static const json_t *value_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static status read_sizes(const struct config *c, struct model_shape *s)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const json_t *value = value_of(c->object, sizes[i].key);
        if (!value && sizes[i].offset == offsetof(struct model_shape, kv_heads))
            value = value_of(c->object, "num_attention_heads");
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
        if (number < 1 || number > INT_MAX)
            return refuse(c, sizes[i].key, value, "a whole number from 1");
        *(int *)((char *)s + sizes[i].offset) = (int)number;
    }
    return OK;
}

static status read_real(const struct config *c, const json_t *object, const char *key, float *out)
{
    const json_t *value = value_of(object, key);
    if (value && !json_is_number(value))
        return refuse(c, key, value, "a number");
    if (value)
        *out = (float)json_number_value(value);
    return OK;
}

static status check_constants(const struct config *c)
{
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        const json_t *value = value_of(c->object, constants[i].key);
        json_t *allowed = json_loads(constants[i].value, JSON_DECODE_ANY, NULL);
        bool equal = json_is_number(allowed)
                         ? json_is_number(value) && json_number_value(value) == json_number_value(allowed)
                         : json_equal(value, allowed);
        json_decref(allowed);
        if (value ? !equal : i == 0)
            return refuse(c, constants[i].key, value, constants[i].value);
    }
    return OK;
}

/* Rotary positions are described in "rope_parameters", by older versions in "rope_scaling"; theta may stand beside. */
static status read_rope(const struct config *c, float *theta)
{
    static const char *const sections[] = {"rope_scaling", "rope_parameters"};
    TRY(read_real(c, c->object, "rope_theta", theta));
    for (int i = 0; i < 2; i++) {
        const char *key;
        json_t *value;
        json_t *rope = (json_t *)value_of(c->object, sections[i]);
        if (rope && !json_is_object(rope))
            return refuse(c, sections[i], rope, "an object");
        json_object_foreach(rope, key, value)
        {
            bool type = !strcmp(key, "rope_type") || !strcmp(key, "type");
            if (type ? strcmp(json_is_string(value) ? json_string_value(value) : "", "default") != 0
                     : strcmp(key, "rope_theta") != 0)
                return refuse(c, sections[i], rope, "rotary positions of the type default, with no more than a theta");
        }
        TRY(read_real(c, rope, "rope_theta", theta));
    }
    return OK;
}

static status read_shape(const struct config *c, struct model_shape *s)
{
    *s = (struct model_shape){.sequence = 1, .rope_theta = 10000, .norm_eps = 1e-6f, .init_std = 0.02f};
    TRY(check_constants(c));
    TRY(read_sizes(c, s));
    TRY(read_real(c, c->object, "rms_norm_eps", &s->norm_eps));
    TRY(read_rope(c, &s->rope_theta));
    const json_t *tied = value_of(c->object, "tie_word_embeddings"), *head_dim = value_of(c->object, "head_dim");
    if (tied && !json_is_boolean(tied))
        return refuse(c, "tie_word_embeddings", tied, "true or false");
    s->tied = json_is_true(tied);
    if (shape_check(s) != OK)
        return FAIL(ERR_INPUT, "'%s': %s", c->path, status_text());
    if (head_dim && json_integer_value(head_dim) != shape_head_dim(s))
        return refuse(c, "head_dim", head_dim, "hidden_size / num_attention_heads");
    return OK;
}

static status read_config(struct model_shape *shape, const char *path)
{
    char *text;
    size_t size;
    json_t *object = NULL;
    char where[LAYOUT_PATH + 2];
    snprintf(where, sizeof where, "'%s'", path);
    TRY(file_read(path, CONFIG_LIMIT, &text, &size));
    status st = json_object_parse(&object, text, size, where);
    if (st == OK)
        st = read_shape(&(struct config){path, object}, shape);
    json_decref(object);
    free(text);
    return st;
}

/* ---- reading weights ---- */

status huggingface_gather(struct tensor_list *list, const struct model_shape *shape, const struct safetensors *file,
                          const char *name)
{
    for (int index = 0; index < shape_parameter_count(shape); index++)
        for (int i = 0; i < shape_hf_count(shape, index); i++) {
            char tensor[96];
            int64_t row, rows;
            const struct named_tensor *found;
            struct named_tensor *place;
            shape_hf_tensor(shape, index, i, tensor, &row, &rows);
            TRY(state_find(&found, file, name, tensor, rows, shape_parameter(shape, index).cols));
            TRY(tensor_list_add(list, &place));
            *place = *found;
        }
    return OK;
}

static bool is_listed(const struct tensor_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->at[i].name, name))
            return true;
    return false;
}

static status check_weights(const struct huggingface *h, const char *path)
{
    struct tensor_list list = {0};
    status st = OK;
    TRY_DONE(huggingface_gather(&list, &h->shape, h->weights, path));
    for (int i = 0; i < list.count; i++)
        if (list.at[i].view.type != BF16 && list.at[i].view.type != F32)
            TRY_DONE(FAIL(ERR_INPUT, "'%s': tensor '%s' is %s, expected BF16 or F32: convert the checkpoint", path,
                          list.at[i].name, dtype_name(list.at[i].view.type)));
    if (list.count == safetensors_count(h->weights))
        goto done;
    for (int i = 0; i < safetensors_count(h->weights); i++) {
        const char *name = safetensors_at(h->weights, i)->name;
        if (!is_listed(&list, name))
            TRY_DONE(FAIL(ERR_INPUT,
                          "'%s': tensor '%s' belongs to no parameter of the model that " CONFIG " describes: give the "
                          "checkpoint of a plain Llama, saved by LlamaForCausalLM",
                          path, name));
    }
done:
    tensor_list_free(&list);
    return st;
}

static status open_weights(struct huggingface *h, const char *folder)
{
    char path[LAYOUT_PATH], index[LAYOUT_PATH];
    layout_file(path, folder, WEIGHTS);
    if (!file_exists(path) && file_exists(layout_file(index, folder, WEIGHTS ".index.json")))
        return FAIL(ERR_INPUT,
                    "'%s': the checkpoint is split into several files: save it as one, with "
                    "save_pretrained(folder, max_shard_size='1TB')",
                    index);
    TRY(safetensors_open(&h->weights, path));
    return check_weights(h, path);
}

static status hash_folder(char hex[33], const char *folder)
{
    static const char *const files[] = {CONFIG, WEIGHTS};
    struct xxh3 part[2];
    for (int i = 0; i < 2; i++) {
        char path[LAYOUT_PATH];
        const void *bytes;
        size_t size;
        TRY(file_map(layout_file(path, folder, files[i]), &bytes, &size));
        part[i] = xxh3_of(bytes, size);
        file_unmap(bytes, size);
    }
    struct xxh3 both = xxh3_of(part, sizeof part);
    xxh3_hex(&both, hex);
    return OK;
}

status huggingface_open(struct huggingface *h, const char *folder)
{
    char path[LAYOUT_PATH];
    status st;
    *h = (struct huggingface){0};
    TRY_DONE(read_config(&h->shape, layout_file(path, folder, CONFIG)));
    TRY_DONE(open_weights(h, folder));
    TRY_DONE(hash_folder(h->hash, folder));
done:
    if (st != OK)
        huggingface_close(h);
    return st;
}

void huggingface_close(struct huggingface *h)
{
    safetensors_close(h->weights);
    h->weights = NULL;
}

status huggingface_load(struct decoder *decoder, const struct model_shape *shape, const char *folder, const char *hash)
{
    char path[LAYOUT_PATH];
    struct huggingface h;
    TRY(huggingface_open(&h, folder));
    status st =
        strcmp(h.hash, hash) == 0
            ? state_import(decoder, shape, h.weights, layout_file(path, folder, WEIGHTS))
            : FAIL(ERR_INPUT,
                   "'%s': is another checkpoint (hash %s) than the study was planned with (%s): put the old one "
                   "back, or plan a new study",
                   folder, h.hash, hash);
    huggingface_close(&h);
    return st;
}

/* ---- writing ---- */

/* The shortest decimal that a float is read back from. */
static double shortest(float value)
{
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == value)
            return strtod(text, NULL);
    }
    return value;
}

static json_t *config_object(const struct model_shape *s, enum dtype type)
{
    /* Tokens are bytes: none of them begins, ends or fills a text, as LlamaConfig's defaults would have it. */
    json_t *object = json_pack("{s:[s],s:i,s:f,s:f,s:b,s:s,s:n,s:n,s:n}", "architectures", "LlamaForCausalLM",
                               "max_position_embeddings", s->sequence, "rms_norm_eps", shortest(s->norm_eps),
                               "rope_theta", shortest(s->rope_theta), "tie_word_embeddings", s->tied, "torch_dtype",
                               type == BF16 ? "bfloat16" : "float32", "bos_token_id", "eos_token_id", "pad_token_id");
    bool whole = object != NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        whole &=
            !json_object_set_new(object, sizes[i].key, json_integer(*(const int *)((const char *)s + sizes[i].offset)));
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        whole &= !json_object_set_new(object, constants[i].key, json_loads(constants[i].value, JSON_DECODE_ANY, NULL));
    if (whole)
        return object;
    json_decref(object);
    return NULL;
}

static status write_config(const char *path, const struct model_shape *s, enum dtype type)
{
    json_t *object = config_object(s, type);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)), *lines = NULL;
    json_decref(object);
    int length = text ? asprintf(&lines, "%s\n", text) : -1;
    free(text);
    if (length < 0)
        return FAIL(ERR_MEMORY, "'%s': no memory for it", path);
    status st = file_write(path, lines, (size_t)length);
    free(lines);
    return st;
}

static status write_folder(const char *folder, const struct model_shape *shape, const struct tensor_list *weights)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    char path[LAYOUT_PATH];
    TRY(file_remove_folder(folder));
    TRY(file_make_folder(folder));
    TRY(write_config(layout_file(path, folder, CONFIG), shape, weights->at[0].view.type));
    return safetensors_write(layout_file(path, folder, WEIGHTS), weights->at, weights->count, metadata);
}

status huggingface_write(const char *folder, const struct model_shape *shape, const struct tensor_list *weights)
{
    char path[FOLDER_PATH], partial[FOLDER_PATH + sizeof ".partial"];
    size_t length = (size_t)snprintf(path, sizeof path, "%s", folder);
    while (length > 1 && length < sizeof path && path[length - 1] == '/')
        path[--length] = '\0';
    if (!length || length >= sizeof path)
        return FAIL(ERR_USAGE, "'%.80s': expected the name of a folder", folder);
    if (file_exists(path))
        return FAIL(ERR_USAGE, "'%s': is there already: give another folder, or remove it", path);
    snprintf(partial, sizeof partial, "%s.partial", path);
    status st = write_folder(partial, shape, weights);
    if (st == OK)
        st = file_rename_folder(partial, path);
    if (st != OK)
        file_remove_folder(partial);
    return st;
}
