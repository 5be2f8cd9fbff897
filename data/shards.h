/* shards.h - token shards: header, tokens, document table, names; and the loader that reads them in a fixed order.
 *
 * Byte table in data/FORMATS.md: magic, version, 64-bit counts, token width, XXH3-128 of every section; little-endian.
 * A shard is memory-mapped. Documents are whole files of the corpus; the tokenizer `byte` has 256 tokens and no
 * end-of-document token: every document ends in a newline pair, which is part of it.
 */
#ifndef REMATCH_DATA_SHARDS_H
#define REMATCH_DATA_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

struct shard_writer;
/* ERR_USAGE for a tokenizer that we do not have, or a vocabulary that is not its own. */
status shard_create(struct shard_writer **out, const char *path, const char *tokenizer, int vocab);
/* ERR_INPUT for an empty text, or a name that is empty, longer than 4095 bytes, or not UTF-8: records hold names
 * as JSON. */
status shard_add_document(struct shard_writer *w, const char *name, const void *text, size_t bytes);
/* ERR_INPUT without a document; atomic; w is released either way. */
status shard_seal(struct shard_writer *w);
void shard_abandon(struct shard_writer *w);

struct shard;
/* Maps and verifies (all hashes). ERR_INPUT names file, section and remedy. */
status shard_open(struct shard **out, const char *path);
void shard_close(struct shard *s);

uint64_t shard_tokens(const struct shard *s);
uint64_t shard_documents(const struct shard *s);
int shard_vocab(const struct shard *s);
const char *shard_tokenizer(const struct shard *s);
const char *shard_document_name(const struct shard *s, uint64_t i);
uint64_t shard_document_start(const struct shard *s, uint64_t i); /* i = documents: one past the end */
void shard_copy(const struct shard *s, uint64_t first, uint64_t count, int32_t *tokens);
void shard_hash(const struct shard *s, char hex[33]); /* of everything in it */

/* ---- the loader ---- */

enum split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST };

/* Documents of a split: shares of the document count in Megatron's manner ("969,30,1" -> normalised, bookends, Python's
 * round). First and one-past-last document. */
void split_documents(const int weights[3], uint64_t documents, enum split which, uint64_t *first, uint64_t *last);

/* Windows of sequence + 1 tokens, `sequence` apart, over the split's tokens (a window may cross documents). Global
 * sequence n is window permutation(seed, n / windows)[n % windows]: a Feistel permutation per epoch, so the order is a
 * function of (seed, n) only. */
struct loader {
    const struct shard *shard;
    uint64_t first_token, windows;
    int sequence;
    uint64_t seed;
    bool shuffled; /* train; held-out sets are read in order */
};
/* ERR_USAGE when the split is shorter than one window: says how many tokens it has and needs. */
status loader_open(struct loader *out, const struct shard *shard, const int weights[3], enum split which, int sequence,
                   uint64_t seed);
/* tokens (sequence + 1): inputs are [0, sequence), targets [1, sequence]. */
void loader_sequence(const struct loader *l, uint64_t n, int32_t *tokens);

#endif
