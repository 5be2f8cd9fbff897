/* file.h - files written whole or not at all.
 *
 * A new file is written beside its name, synced, renamed over it, and its folder is synced: a kill at any moment leaves
 * the old file or the new one. Errors: ERR_IO with the path and the system's reason.
 */
#ifndef REMATCH_DATA_FILE_H
#define REMATCH_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

/* Whole file into malloc'ed memory, with a NUL behind it (not counted). ERR_INPUT beyond `limit` bytes. */
status file_read(const char *path, size_t limit, char **bytes, size_t *size);

/* Atomically replaces `path`. */
status file_write(const char *path, const void *bytes, size_t size);

/* mkdir -p. */
status file_make_folder(const char *path);

/* Removes a folder with everything in it; OK when absent. Does not follow links. */
status file_remove_folder(const char *path);

bool file_exists(const char *path);

/* Read-only mapping of a whole file. An empty file maps to NULL, 0. */
status file_map(const char *path, const void **bytes, size_t *size);
void file_unmap(const void *bytes, size_t size);

struct xxh3 {
    uint8_t byte[16]; /* XXH3-128, canonical (big-endian) representation */
};
struct xxh3 xxh3_of(const void *bytes, size_t size);
void xxh3_hex(const struct xxh3 *hash, char text[33]);

#endif
