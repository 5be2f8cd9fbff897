/* Writing a shard: tokens go to the file as they come, table and names stay in memory until the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "data/little_endian.h"
#include "data/shard_format.h"
#include "data/shards.h"

struct bytes {
    char *at;
    size_t size, capacity;
};

struct shard_writer {
    struct file_draft draft;
    XXH3_state_t *hash; /* of the tokens */
    struct bytes table, names;
    uint64_t documents, tokens;
};

static status bytes_add(struct bytes *b, const void *more, size_t size)
{
    if (b->size + size > b->capacity) {
        size_t capacity = 2 * (b->size + size);
        char *wider = realloc(b->at, capacity);
        if (!wider)
            return FAIL(ERR_MEMORY, "no memory for %zu bytes of a shard's table", capacity);
        b->at = wider;
        b->capacity = capacity;
    }
    memcpy(b->at + b->size, more, size);
    b->size += size;
    return OK;
}

status shard_create(struct shard_writer **out, const char *path, const char *tokenizer, int vocab)
{
    static const char zeros[SHARD_HEADER_BYTES];
    status st = OK;
    struct shard_writer *w = NULL;
    if (strcmp(tokenizer, SHARD_TOKENIZER))
        return FAIL(ERR_USAGE, "tokenizer '%s' is unknown; the one that is known is " SHARD_TOKENIZER, tokenizer);
    if (vocab != SHARD_VOCAB)
        return FAIL(ERR_USAGE, "tokenizer " SHARD_TOKENIZER " has %d tokens, not %d", SHARD_VOCAB, vocab);
    if (!(w = calloc(1, sizeof *w)) || !(w->hash = XXH3_createState())) {
        st = FAIL(ERR_MEMORY, "'%s': no memory to write a shard", path);
        goto done;
    }
    XXH3_128bits_reset(w->hash);
    TRY_DONE(file_draft_open(&w->draft, path));
    TRY_DONE(file_draft_write(&w->draft, zeros, sizeof zeros)); /* the header's place */
    *out = w;
    w = NULL;
done:
    shard_abandon(w);
    return st;
}

void shard_abandon(struct shard_writer *w)
{
    if (!w)
        return;
    file_draft_abandon(&w->draft);
    XXH3_freeState(w->hash);
    free(w->table.at);
    free(w->names.at);
    free(w);
}

static status add_tokens(struct shard_writer *w, const void *text, size_t bytes)
{
    XXH3_128bits_update(w->hash, text, bytes);
    w->tokens += bytes;
    return file_draft_write(&w->draft, text, bytes);
}

/* The table's entry for the document that begins here; the last one stands behind the last document. */
static status add_entry(struct shard_writer *w)
{
    char entry[SHARD_ENTRY_BYTES];
    le64_put(entry, w->tokens);
    le64_put(entry + 8, w->names.size);
    return bytes_add(&w->table, entry, sizeof entry);
}

/* A name that is not UTF-8 is printed so that a terminal shows which bytes it has. */
static status name_is_no_text(const char *name)
{
    char escaped[401];
    size_t length = 0;
    for (; *name && length + 4 < sizeof escaped; name++)
        length +=
            (size_t)snprintf(escaped + length, sizeof escaped - length,
                             *name >= ' ' && *name <= '~' && *name != '\\' ? "%c" : "\\x%02x", (unsigned char)*name);
    return FAIL(ERR_INPUT, "'%s'%s: the name is not UTF-8, and records hold names as text; rename the file", escaped,
                *name ? "..." : "");
}

status shard_add_document(struct shard_writer *w, const char *name, const void *text, size_t bytes)
{
    size_t length = strlen(name);
    if (!length || length > SHARD_NAME_MOST)
        return FAIL(ERR_INPUT, "'%.100s': a document's name has 1 to %d bytes, this one has %zu", name, SHARD_NAME_MOST,
                    length);
    if (!json_is_utf8(name))
        return name_is_no_text(name);
    if (!bytes)
        return FAIL(ERR_INPUT, "'%s': is empty; leave it out of the shard", name);
    TRY(add_entry(w));
    TRY(bytes_add(&w->names, name, length + 1));
    TRY(add_tokens(w, text, bytes));
    TRY(add_tokens(w, SHARD_DOCUMENT_END, strlen(SHARD_DOCUMENT_END)));
    w->documents++;
    return OK;
}

static void put_hash(char *at, struct xxh3 hash) { memcpy(at, hash.byte, sizeof hash.byte); }

static void make_header(const struct shard_writer *w, char header[SHARD_HEADER_BYTES])
{
    XXH128_canonical_t tokens;
    memset(header, 0, SHARD_HEADER_BYTES);
    memcpy(header + SHARD_AT_MAGIC, SHARD_MAGIC, strlen(SHARD_MAGIC));
    le32_put(header + SHARD_AT_VERSION, SHARD_VERSION);
    le32_put(header + SHARD_AT_TOKEN_BYTES, SHARD_TOKEN_BYTES);
    le32_put(header + SHARD_AT_VOCAB, SHARD_VOCAB);
    le64_put(header + SHARD_AT_DOCUMENTS, w->documents);
    le64_put(header + SHARD_AT_TOKENS, w->tokens);
    le64_put(header + SHARD_AT_NAME_BYTES, w->names.size);
    memcpy(header + SHARD_AT_TOKENIZER, SHARD_TOKENIZER, strlen(SHARD_TOKENIZER));
    XXH128_canonicalFromHash(&tokens, XXH3_128bits_digest(w->hash));
    memcpy(header + SHARD_AT_TOKENS_HASH, tokens.digest, sizeof tokens.digest);
    put_hash(header + SHARD_AT_TABLE_HASH, xxh3_of(w->table.at, w->table.size));
    put_hash(header + SHARD_AT_NAMES_HASH, xxh3_of(w->names.at, w->names.size));
    put_hash(header + SHARD_AT_HEADER_HASH, xxh3_of(header, SHARD_AT_HEADER_HASH));
}

status shard_seal(struct shard_writer *w)
{
    static const char zeros[8];
    status st = OK;
    char header[SHARD_HEADER_BYTES];
    if (!w->documents) {
        st = FAIL(ERR_INPUT, "'%s': no document was added; give inputs that hold text", w->draft.path);
        goto done;
    }
    TRY_DONE(add_entry(w));
    make_header(w, header);
    TRY_DONE(file_draft_write(&w->draft, zeros, shard_padded(w->tokens) - w->tokens));
    TRY_DONE(file_draft_write(&w->draft, w->table.at, w->table.size));
    TRY_DONE(file_draft_write(&w->draft, w->names.at, w->names.size));
    if (fseeko(w->draft.stream, 0, SEEK_SET)) {
        st = FAIL(ERR_IO, "'%s': cannot go back to its header: %s", w->draft.partial, strerror(errno));
        goto done;
    }
    TRY_DONE(file_draft_write(&w->draft, header, sizeof header));
    TRY_DONE(file_draft_commit(&w->draft, true));
done:
    shard_abandon(w);
    return st;
}
