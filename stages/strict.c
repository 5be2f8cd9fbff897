#include "stages/strict.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "stages/command.h"

/* ---- the document ---- */

static status parser_failed(const struct strict *y, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return FAIL(ERR_MEMORY, "%s: no memory to read it", y->path);
    return FAIL(ERR_USAGE, "%s:%zu: is not YAML: %s", y->path, parser->problem_mark.line + 1,
                parser->problem ? parser->problem : "cannot be read");
}

static const char *refused_token(yaml_token_type_t type)
{
    switch (type) {
    case YAML_ANCHOR_TOKEN:
    case YAML_ALIAS_TOKEN:
        return "anchors and aliases are not part of a study: write the value again";
    case YAML_TAG_TOKEN:
        return "tags (!type) are not part of a study: leave it out";
    case YAML_VERSION_DIRECTIVE_TOKEN:
    case YAML_TAG_DIRECTIVE_TOKEN:
        return "directives (%YAML, %TAG) are not part of a study: leave it out";
    default:
        return NULL;
    }
}

/* The document API resolves aliases and forgets that there were any, so the tokens are looked at first. */
static status check_tokens(const struct strict *y, const char *text, size_t size)
{
    status st = OK;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return FAIL(ERR_MEMORY, "%s: no memory to read it", y->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    for (bool going = true; going && st == OK;) {
        yaml_token_t token;
        if (!yaml_parser_scan(&parser, &token)) {
            st = parser_failed(y, &parser);
            break;
        }
        const char *reason = refused_token(token.type);
        if (reason)
            st = FAIL(ERR_USAGE, "%s:%zu: %s", y->path, token.start_mark.line + 1, reason);
        going = token.type != YAML_STREAM_END_TOKEN;
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    return st;
}

static status check_single(const struct strict *y, yaml_parser_t *parser)
{
    yaml_document_t second;
    if (!yaml_parser_load(parser, &second))
        return parser_failed(y, parser);
    yaml_node_t *root = yaml_document_get_root_node(&second);
    status st = root ? STRICT_FAIL(y, root, "a second document begins: a study is one document") : OK;
    yaml_document_delete(&second);
    return st;
}

status strict_open(struct strict *y, const char *path, const char *text, size_t size)
{
    status st;
    bool loaded = false;
    yaml_parser_t parser;
    y->path = path;
    TRY(check_tokens(y, text, size));
    if (!yaml_parser_initialize(&parser))
        return FAIL(ERR_MEMORY, "%s: no memory to read it", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    loaded = yaml_parser_load(&parser, &y->document);
    if (!loaded)
        TRY_DONE(parser_failed(y, &parser));
    y->root = yaml_document_get_root_node(&y->document);
    if (!y->root)
        TRY_DONE(FAIL(ERR_USAGE, "%s:1: is empty: expected a study", path));
    if (y->root->type != YAML_MAPPING_NODE)
        TRY_DONE(STRICT_FAIL(y, y->root, "expected keys and values (study: ..., model: ..., ...)"));
    TRY_DONE(check_single(y, &parser));
done:
    if (st != OK && loaded)
        yaml_document_delete(&y->document);
    yaml_parser_delete(&parser);
    return st;
}

void strict_close(struct strict *y) { yaml_document_delete(&y->document); }

/* ---- nodes ---- */

int strict_line(const yaml_node_t *node) { return (int)node->start_mark.line + 1; }

static yaml_node_t *node_at(struct strict *y, int index) { return yaml_document_get_node(&y->document, index); }

static const char *text_of(const yaml_node_t *node) { return (const char *)node->data.scalar.value; }

/* A scalar without a NUL inside, which only an escape can bring in. */
static bool is_text(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && strlen(text_of(node)) == node->data.scalar.length;
}

static bool is_plain(const yaml_node_t *node)
{
    return is_text(node) && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

yaml_node_t *strict_find(struct strict *y, yaml_node_t *mapping, const char *key)
{
    if (!mapping)
        return NULL;
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++) {
        yaml_node_t *name = node_at(y, p->key);
        if (is_text(name) && !strcmp(text_of(name), key))
            return node_at(y, p->value);
    }
    return NULL;
}

status strict_item(yaml_node_t **item, struct strict *y, yaml_node_t *sequence, int i)
{
    *item = NULL;
    if (sequence->data.sequence.items.start + i >= sequence->data.sequence.items.top)
        return OK;
    yaml_node_t *node = node_at(y, sequence->data.sequence.items.start[i]);
    if (node->type != YAML_MAPPING_NODE)
        return STRICT_FAIL(y, node, "expected {key: value, ...}");
    *item = node;
    return OK;
}

/* ---- values ---- */

/* A value on its way in. */
struct incoming {
    struct strict *y;
    const struct field *field;
    yaml_node_t *node;
};

static status refuse(const struct incoming *in, const char *expected)
{
    yaml_node_t *n = in->node;
    if (n->type != YAML_SCALAR_NODE)
        return STRICT_FAIL(in->y, n, "%s: expected %s, not a %s", in->field->name, expected,
                           n->type == YAML_MAPPING_NODE ? "mapping" : "list");
    return STRICT_FAIL(in->y, n, "%s '%.80s': expected %s", in->field->name, text_of(n), expected);
}

static status read_integer(int64_t *out, const struct field *f, const char *text)
{
    return command_integer(out, text, f->name, (int64_t)f->least, (int64_t)f->most);
}

/* Whether YAML would take a plain scalar for something else than a text. */
static bool means_something_else(const char *text)
{
    double number;
    static const char words[] = "null Null NULL ~ true True TRUE false False FALSE yes Yes YES no No NO on On ON off "
                                "Off OFF";
    return !*text || field_word(words, text, strlen(text)) >= 0 ||
           command_real(&number, text, "", -DBL_MAX, DBL_MAX) == OK;
}

static status read_text(char *out, const struct field *f, const char *text)
{
    if (strlen(text) >= f->size)
        return FAIL(ERR_USAGE, "%s '%.40s...': longer than %zu characters", f->name, text, f->size - 1);
    if (f->kind == FIELD_NAME && !field_is_name(text))
        return FAIL(ERR_USAGE,
                    "%s '%s': expected letters, digits and . _ - + =, with a letter or digit at both ends: it becomes "
                    "part of file names",
                    f->name, text);
    strcpy(out, text);
    return OK;
}

static status read_word(int *out, const struct field *f, const char *text)
{
    *out = field_word(f->words, text, strlen(text));
    if (*out < 0)
        return FAIL(ERR_USAGE, "%s '%s': expected one of: %s", f->name, text, f->words);
    return OK;
}

/* One scalar's text into the struct at `base`. Lists arrive here item by item, through `index`. */
static status read_scalar(char *base, const struct field *f, const char *text, int index)
{
    void *at = base + f->offset;
    int64_t integer;
    double real;
    int word;
    switch (f->kind) {
    case FIELD_INT:
        TRY(read_integer(&integer, f, text));
        *(int *)at = (int)integer;
        return OK;
    case FIELD_INT64:
    case FIELD_UINT64:
        return read_integer(at, f, text);
    case FIELD_INTEGERS:
        TRY(read_integer((int64_t *)at + index, f, text));
        *(int *)(base + f->count) = index + 1;
        return OK;
    case FIELD_BYTES:
        TRY(command_bytes(at, text, f->name));
        return *(uint64_t *)at >= 1 ? OK : FAIL(ERR_USAGE, "%s '%s': expected more than nothing", f->name, text);
    case FIELD_FLOAT:
        TRY(command_real(&real, text, f->name, f->least, f->most));
        *(float *)at = (float)real;
        return OK;
    case FIELD_DOUBLE:
        return command_real(at, text, f->name, f->least, f->most);
    case FIELD_REALS:
        return command_real((double *)at + index, text, f->name, f->least, f->most);
    case FIELD_BOOL:
        TRY(read_word(&word, &(struct field){.name = f->name, .words = "false true"}, text));
        *(bool *)at = word;
        return OK;
    case FIELD_FLAG:
        TRY(read_word(&word, f, text));
        *(bool *)at = word;
        return OK;
    case FIELD_WORD:
        return read_word(at, f, text);
    case FIELD_SPLIT:
        return field_split(at, text)
                   ? OK
                   : FAIL(ERR_USAGE, "%s '%s': expected three shares of documents such as 969,30,1", f->name, text);
    case FIELD_JOINED:
        if (index) {
            strncat(at, ",", f->size - strlen(at) - 1);
            strncat(at, text, f->size - strlen(at) - 1);
            return strlen(at) + 1 < f->size ? OK : FAIL(ERR_USAGE, "%s: too long", f->name);
        }
        return read_text(at, f, text);
    case FIELD_TEXT:
    case FIELD_NAME:
    case FIELD_OPTIONAL:
        return read_text(at, f, text);
    default:
        return FAIL(ERR_ARGUMENT, "field %s is no scalar", f->name);
    }
}

static bool is_texts_kind(enum field_kind kind)
{
    return kind == FIELD_TEXT || kind == FIELD_NAME || kind == FIELD_OPTIONAL || kind == FIELD_JOINED ||
           kind == FIELD_SPLIT || kind == FIELD_BYTES;
}

static bool is_list_kind(enum field_kind kind)
{
    return kind == FIELD_INTEGERS || kind == FIELD_REALS || kind == FIELD_JOINED;
}

/* A scalar node: numbers and words must be plain, texts must not look like something else. */
static status read_node(char *base, const struct incoming *in, int index)
{
    const struct field *f = in->field;
    if (!is_text(in->node))
        return refuse(in, is_list_kind(f->kind) ? "a plain value, or a list of them" : "a single value");
    const char *text = text_of(in->node);
    bool plain = is_plain(in->node);
    if (is_texts_kind(f->kind)) {
        if (f->kind != FIELD_BYTES && plain && means_something_else(text))
            return refuse(in, "a text; put it in quotes if it is meant to be one");
        if (!*text)
            return refuse(in, "a text that is not empty");
    } else if (!plain) {
        return refuse(in, "a value without quotes");
    }
    if (read_scalar(base, f, text, index) != OK)
        return STRICT_FAIL(in->y, in->node, "%s", status_text());
    return OK;
}

static status read_list(char *base, const struct incoming *in)
{
    const struct field *f = in->field;
    yaml_node_t *list = in->node;
    long count = list->data.sequence.items.top - list->data.sequence.items.start;
    long most = f->kind == FIELD_JOINED ? LONG_MAX : (long)(f->size / 8);
    if (f->kind == FIELD_REALS ? count != most : count > most)
        return STRICT_FAIL(in->y, list, "%s: a list of %ld, expected %s%ld", f->name, count,
                           f->kind == FIELD_REALS ? "" : "at most ", most);
    if (f->kind == FIELD_INTEGERS)
        *(int *)(base + f->count) = 0;
    for (int i = 0; i < count; i++) {
        struct incoming item = {in->y, f, node_at(in->y, list->data.sequence.items.start[i])};
        TRY(read_node(base, &item, i));
    }
    return OK;
}

static status read_value(char *base, const struct incoming *in)
{
    const struct field *f = in->field;
    yaml_node_t *node = in->node;
    switch (f->kind) {
    case FIELD_REFUSED:
        return STRICT_FAIL(in->y, node, "%s: %s", f->name, f->words);
    case FIELD_MAPPING:
    case FIELD_SEQUENCE:
        if (node->type != (f->kind == FIELD_MAPPING ? YAML_MAPPING_NODE : YAML_SEQUENCE_NODE))
            return refuse(in, f->kind == FIELD_MAPPING ? "{key: value, ...}" : "a list of {key: value, ...}");
        *(yaml_node_t **)(base + f->offset) = node;
        return OK;
    default:
        if (node->type == YAML_SEQUENCE_NODE && is_list_kind(f->kind))
            return read_list(base, in);
        if (f->kind == FIELD_REALS)
            return refuse(in, "a list of numbers");
        return read_node(base, in, 0);
    }
}

/* A default is a text of ours: items separated by spaces. */
static status read_fallback(char *base, const struct field *f)
{
    int length;
    if (f->kind == FIELD_INTEGERS)
        *(int *)(base + f->count) = 0;
    for (int i = 0; *f->fallback; i++) {
        char item[64];
        const char *word = field_word_at(f->fallback, i, &length);
        if (!word)
            break;
        snprintf(item, sizeof item, "%.*s", length, word);
        TRY(read_scalar(base, f, item, i));
    }
    return OK;
}

/* ---- mappings ---- */

static void list_keys(char *keys, size_t size, const struct strict_section *section)
{
    size_t used = 0;
    for (int i = 0; i < section->count && used < size; i++) {
        const struct field *f = &section->fields[i];
        if (!strcmp(f->section, section->name) && f->kind != FIELD_REFUSED)
            used += (size_t)snprintf(keys + used, size - used, "%s%s", used ? ", " : "", f->name);
    }
}

static bool is_known(const struct strict_section *section, const char *key)
{
    for (int i = 0; i < section->count; i++)
        if (!strcmp(section->fields[i].section, section->name) && !strcmp(section->fields[i].name, key))
            return true;
    return false;
}

/* In {split: 8,1,1} the commas separate keys: {split: 8, "1": nothing, ...}. */
static bool was_cut_at_comma(struct strict *y, const yaml_node_t *mapping, const yaml_node_pair_t *pair)
{
    const yaml_node_t *value = node_at(y, pair->value);
    return mapping->data.mapping.style == YAML_FLOW_MAPPING_STYLE && pair > mapping->data.mapping.pairs.start &&
           is_plain(value) && !*text_of(value);
}

static status check_keys(struct strict *y, const struct strict_section *section, yaml_node_t *mapping)
{
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++) {
        yaml_node_t *key = node_at(y, p->key);
        const char *text = is_text(key) ? text_of(key) : "?";
        if (!is_known(section, text)) {
            char keys[1024];
            list_keys(keys, sizeof keys, section);
            return STRICT_FAIL(y, key, "unknown key '%.80s'%s%s; there are %s%s", text, *section->name ? " in " : "",
                               section->name, keys,
                               was_cut_at_comma(y, mapping, p) ? "; quote values that contain commas" : "");
        }
        for (yaml_node_pair_t *q = mapping->data.mapping.pairs.start; q < p; q++)
            if (!strcmp(text_of(node_at(y, q->key)), text))
                return STRICT_FAIL(y, key, "key '%s' is there twice, first in line %d", text,
                                   strict_line(node_at(y, q->key)));
    }
    return OK;
}

status strict_read(struct strict *y, const struct strict_section *section, yaml_node_t *mapping, void *base,
                   bool complete)
{
    if (mapping)
        TRY(check_keys(y, section, mapping));
    for (int i = 0; i < section->count; i++) {
        const struct field *f = &section->fields[i];
        if (strcmp(f->section, section->name))
            continue;
        yaml_node_t *node = strict_find(y, mapping, f->name);
        if (node)
            TRY(read_value(base, &(struct incoming){y, f, node}));
        else if (complete && f->required)
            return STRICT_FAIL(y, mapping ? mapping : y->root, "%s%s%s is missing", section->name,
                               *section->name ? "." : "", f->name);
        else if (complete && f->fallback)
            TRY(read_fallback(base, f));
    }
    return OK;
}
