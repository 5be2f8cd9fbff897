/* Reading shards: a mapping that is verified once, then indexed. */
#include "data/shards.h"

#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/little_endian.h"
#include "data/shard_format.h"

struct shard {
    char *path;
    const char *bytes;
    size_t size;
    uint64_t tokens, documents;
    const char *token, *table, *names;
};

static status refuse(const struct shard *s, const char *section, const char *what)
{
    return FAIL(ERR_INPUT, "'%s': %s: %s; make the shard again with rematch-shard", s->path, section, what);
}

static bool zeros(const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i])
            return false;
    return true;
}

static bool hash_stands(const char *at, const void *bytes, size_t size)
{
    struct xxh3 hash = xxh3_of(bytes, size);
    return !memcmp(at, hash.byte, sizeof hash.byte);
}

static status check_header(const struct shard *s)
{
    const char *h = s->bytes;
    if (s->size < SHARD_HEADER_BYTES)
        return refuse(s, "header", "the file is shorter than a header");
    if (memcmp(h + SHARD_AT_MAGIC, SHARD_MAGIC, strlen(SHARD_MAGIC)))
        return refuse(s, "header", "this is not a token shard");
    if (le32_get(h + SHARD_AT_VERSION) != SHARD_VERSION)
        return FAIL(ERR_INPUT, "'%s': header: version %u, this program reads version %d; make the shard again", s->path,
                    le32_get(h + SHARD_AT_VERSION), SHARD_VERSION);
    if (!hash_stands(h + SHARD_AT_HEADER_HASH, h, SHARD_AT_HEADER_HASH))
        return refuse(s, "header", "its hash does not match");
    if (!zeros(h + SHARD_AT_RESERVED, 4) || !zeros(h + SHARD_AT_ZEROS, SHARD_AT_HEADER_HASH - SHARD_AT_ZEROS))
        return refuse(s, "header", "reserved bytes are not zero");
    /* Compared with the zeros behind, so that nothing can follow the name. */
    char tokenizer[SHARD_TOKENIZER_BYTES] = SHARD_TOKENIZER;
    if (memcmp(h + SHARD_AT_TOKENIZER, tokenizer, sizeof tokenizer) ||
        le32_get(h + SHARD_AT_TOKEN_BYTES) != SHARD_TOKEN_BYTES || le32_get(h + SHARD_AT_VOCAB) != SHARD_VOCAB)
        return refuse(s, "header", "tokenizer, token width or vocabulary is not that of '" SHARD_TOKENIZER "'");
    return OK;
}

/* Finds the sections. Counts are compared with the room that is left, so that no sum can overflow. */
static status place_sections(struct shard *s)
{
    uint64_t left = s->size - SHARD_HEADER_BYTES;
    uint64_t name_bytes = le64_get(s->bytes + SHARD_AT_NAME_BYTES);
    s->tokens = le64_get(s->bytes + SHARD_AT_TOKENS);
    s->documents = le64_get(s->bytes + SHARD_AT_DOCUMENTS);
    if (s->tokens > left || shard_padded(s->tokens) > left)
        return refuse(s, "tokens", "the file is cut");
    left -= shard_padded(s->tokens);
    if (!s->documents || s->documents >= left / SHARD_ENTRY_BYTES)
        return refuse(s, "document table", "the file is cut, or has no documents");
    left -= (s->documents + 1) * SHARD_ENTRY_BYTES;
    if (name_bytes != left)
        return refuse(s, "names", "the file is cut, or bytes follow its end");
    s->token = s->bytes + SHARD_HEADER_BYTES;
    s->table = s->token + shard_padded(s->tokens);
    s->names = s->table + (s->documents + 1) * SHARD_ENTRY_BYTES;
    return OK;
}

static uint64_t name_offset(const struct shard *s, uint64_t i)
{
    return le64_get(s->table + i * SHARD_ENTRY_BYTES + 8);
}

/* Documents follow each other without holes, each with at least one token and a name that ends at the next one's. */
static status check_table(const struct shard *s)
{
    uint64_t name_bytes = le64_get(s->bytes + SHARD_AT_NAME_BYTES);
    if (shard_document_start(s, 0) || name_offset(s, 0) || shard_document_start(s, s->documents) != s->tokens ||
        name_offset(s, s->documents) != name_bytes)
        return refuse(s, "document table", "does not span the tokens and names");
    for (uint64_t i = 0; i < s->documents; i++) {
        uint64_t name = name_offset(s, i), next = name_offset(s, i + 1);
        if (shard_document_start(s, i) >= shard_document_start(s, i + 1) || name >= next || next > name_bytes)
            return refuse(s, "document table", "is not in ascending order");
        if (memchr(s->names + name, 0, next - name) != s->names + next - 1)
            return refuse(s, "names", "a name does not end where the next begins");
    }
    return OK;
}

static status verify(struct shard *s)
{
    TRY(check_header(s));
    TRY(place_sections(s));
    if (!hash_stands(s->bytes + SHARD_AT_TOKENS_HASH, s->token, s->tokens))
        return refuse(s, "tokens", "their hash does not match");
    if (!zeros(s->token + s->tokens, shard_padded(s->tokens) - s->tokens))
        return refuse(s, "tokens", "the bytes behind them are not zero");
    if (!hash_stands(s->bytes + SHARD_AT_TABLE_HASH, s->table, (s->documents + 1) * SHARD_ENTRY_BYTES))
        return refuse(s, "document table", "its hash does not match");
    if (!hash_stands(s->bytes + SHARD_AT_NAMES_HASH, s->names, (size_t)(s->bytes + s->size - s->names)))
        return refuse(s, "names", "their hash does not match");
    return check_table(s);
}

status shard_open(struct shard **out, const char *path)
{
    status st = OK;
    const void *bytes;
    struct shard *s = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        st = FAIL(ERR_MEMORY, "'%s': no memory to open it", path);
        goto done;
    }
    TRY_DONE(file_map(path, &bytes, &s->size));
    s->bytes = bytes;
    TRY_DONE(verify(s));
    *out = s;
    s = NULL;
done:
    shard_close(s);
    return st;
}

void shard_close(struct shard *s)
{
    if (!s)
        return;
    file_unmap(s->bytes, s->size);
    free(s->path);
    free(s);
}

uint64_t shard_tokens(const struct shard *s) { return s->tokens; }

uint64_t shard_documents(const struct shard *s) { return s->documents; }

int shard_vocab(const struct shard *s) { return (int)le32_get(s->bytes + SHARD_AT_VOCAB); }

const char *shard_tokenizer(const struct shard *s) { return s->bytes + SHARD_AT_TOKENIZER; }

const char *shard_document_name(const struct shard *s, uint64_t i) { return s->names + name_offset(s, i); }

uint64_t shard_document_start(const struct shard *s, uint64_t i) { return le64_get(s->table + i * SHARD_ENTRY_BYTES); }

void shard_copy(const struct shard *s, uint64_t first, uint64_t count, int32_t *tokens)
{
    const uint8_t *from = (const uint8_t *)s->token + first;
    for (uint64_t i = 0; i < count; i++)
        tokens[i] = from[i];
}

void shard_hash(const struct shard *s, char hex[33])
{
    struct xxh3 hash;
    memcpy(hash.byte, s->bytes + SHARD_AT_HEADER_HASH, sizeof hash.byte); /* over the hashes of all sections */
    xxh3_hex(&hash, hex);
}
