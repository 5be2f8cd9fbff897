/* shard_format.h - the bytes of a shard, for its writer and its reader; not for other files.
 *
 * header (192) | tokens, zeros to a multiple of 8 | table: (documents + 1) x (first token, offset of name), u64 each |
 * names, each ended by NUL
 * Every byte is under a hash, or must be zero; the length of the file follows from the header.
 */
#ifndef REMATCH_DATA_SHARD_FORMAT_H
#define REMATCH_DATA_SHARD_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "RMSHARD\n"
enum {
    SHARD_VERSION = 1,
    SHARD_NAME_MOST = 4095,
    SHARD_ENTRY_BYTES = 16,
    /* offsets in the header */
    SHARD_AT_MAGIC = 0,
    SHARD_AT_VERSION = 8,
    SHARD_AT_TOKEN_BYTES = 12,
    SHARD_AT_VOCAB = 16,
    SHARD_AT_RESERVED = 20,
    SHARD_AT_DOCUMENTS = 24,
    SHARD_AT_TOKENS = 32,
    SHARD_AT_NAME_BYTES = 40,
    SHARD_AT_TOKENIZER = 48, /* 32 bytes, zeros behind the name */
    SHARD_TOKENIZER_BYTES = 32,
    SHARD_AT_TOKENS_HASH = 80,
    SHARD_AT_TABLE_HASH = 96,
    SHARD_AT_NAMES_HASH = 112,
    SHARD_AT_ZEROS = 128,
    SHARD_AT_HEADER_HASH = 176, /* of the bytes before it */
    SHARD_HEADER_BYTES = 192
};

static inline uint64_t shard_padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/* What a tokenizer makes of a text. There is one: `byte`, one token of one byte for each byte. */
#define SHARD_TOKENIZER "byte"
#define SHARD_DOCUMENT_END "\n\n"
enum { SHARD_TOKEN_BYTES = 1, SHARD_VOCAB = 256 };

#endif
