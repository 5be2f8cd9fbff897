/* record.h - what a run leaves: one archive, verified when read.
 *
 * `*.rematch.tar.zst` (or `.tar`): pax members first, `manifest.json` last with size and XXH3-128 of each. Member names
 * are relative, flat and known; sizes are bounded; links, devices, folders, duplicates are refused. Members that hold
 * times or environments are marked `measured`: "identical" means all the others.
 * The manifest's seal (data/seal.h) covers every byte before it, headers and padding too. The same members give the
 * same bytes. Byte table in data/FORMATS.md; names and bounds in record_members.c. Library: libarchive.
 *
 * Errors: ERR_INPUT names the archive, the member, what is wrong and what to do; ERR_IO.
 */
#ifndef REMATCH_DATA_RECORD_H
#define REMATCH_DATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/file.h"
#include "kernels/status.h"

#define RECORD_SUFFIX ".rematch.tar.zst"

/* ---- writing: beside the name, renamed when sealed ---- */
struct record_writer;
status record_create(struct record_writer **out, const char *path); /* compressed when path ends in .zst (level 1) */
/* ERR_ARGUMENT for an unknown name, a name twice, or more bytes than the name allows. */
status record_add(struct record_writer *w, const char *member, const void *bytes, size_t size, bool measured);
status record_add_file(struct record_writer *w, const char *member, const char *path, bool measured);
status record_seal(struct record_writer *w);  /* writes the manifest, syncs, renames; w is released either way */
void record_abandon(struct record_writer *w); /* NULL-safe: removes what was written */

/* ---- reading ---- */
struct record_member {
    char name[96];
    uint64_t size;
    struct xxh3 hash;
    bool measured;
};

struct record;
/* Opens and verifies the whole archive: manifest complete, sizes and hashes right, nothing beside. */
status record_open(struct record **out, const char *path);
void record_close(struct record *r);
const char *record_path(const struct record *r);
int record_count(const struct record *r);
const struct record_member *record_at(const struct record *r, int i); /* in archive order, without the manifest */
const struct record_member *record_find(const struct record *r, const char *member); /* NULL when absent */

/* A member's bytes, borrowed until close, verified. Small archives are unpacked to memory by record_open; larger ones to
 * an unlinked temporary file in TMPDIR (else beside the archive), which is mapped. ERR_INPUT when absent. */
status record_read(struct record *r, const char *member, const void **bytes, size_t *size);

/* Unmeasured members of both equal by manifest; on false *first names one that differs or is missing. */
bool record_identical(const struct record *a, const struct record *b, const char **first);

#endif
