/* file.h - files written whole or not at all.
 *
 * A new file is written beside its name, synced, renamed over it, and its folder is synced: a kill at any moment leaves
 * the old file or the new one. What is written is never a link's target. Errors: ERR_IO with the path and the system's
 * reason.
 */
#ifndef REMATCH_DATA_FILE_H
#define REMATCH_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/status.h"

/* Whole file into malloc'ed memory, with a NUL behind it (not counted). ERR_INPUT beyond `limit` bytes. */
status file_read(const char *path, size_t limit, char **bytes, size_t *size);

/* Atomically replaces `path`. */
status file_write(const char *path, const void *bytes, size_t size);

/* ---- the same for a file that is written in pieces: `PATH.partial`, locked, then renamed ----
 * Zeroed is closed. After a kill the next draft of the same path takes the remains over; ERR_IO when another process is
 * writing it. */
struct file_draft {
    FILE *stream;
    char *path, *partial;
};
status file_draft_open(struct file_draft *d, const char *path);
status file_draft_write(struct file_draft *d, const void *bytes, size_t size);
/* Renames. `durable`: synced, file and folder; without it the file may be lost with the machine's power, never torn by
 * a kill. Closed either way. */
status file_draft_commit(struct file_draft *d, bool durable);
void file_draft_abandon(struct file_draft *d); /* removes it; nothing when closed */

/* Whether `path` is the file that a draft of `output` writes or replaces, PATH.partial or PATH, under whatever name. */
bool file_is_output(const char *path, const char *output);
/* ERR_USAGE, naming both, when it is: no program writes over what it reads. */
status file_check_input(const char *path, const char *output);

/* Gives a complete folder its name, durably. ERR_IO when a file, or a folder that is not empty, has it. */
status file_rename_folder(const char *complete, const char *path);

/* Makes renames and new names in a folder durable. */
status file_sync_folder(const char *path);

/* mkdir -p. */
status file_make_folder(const char *path);

/* Removes a folder with everything in it; OK when absent. Does not follow links. */
status file_remove_folder(const char *path);

/* Calls `each` for the regular files below a folder, depth first, names in byte order. Links and devices are skipped. */
status file_walk(const char *folder, status (*each)(void *self, const char *path), void *self);

bool file_exists(const char *path);

/* What to do about the system's reason, to be put behind strerror: "; ...", or "". */
const char *file_remedy(int reason);

/* Read-only mapping of a whole file. An empty file maps to NULL, 0. */
status file_map(const char *path, const void **bytes, size_t *size);
void file_unmap(const void *bytes, size_t size);

struct xxh3 {
    uint8_t byte[16]; /* XXH3-128, canonical (big-endian) representation */
};
struct xxh3 xxh3_of(const void *bytes, size_t size);
void xxh3_hex(const struct xxh3 *hash, char text[33]);
bool xxh3_of_hex(struct xxh3 *hash, const char *text); /* false unless exactly 32 lower-case digits */
bool xxh3_equal(const struct xxh3 *a, const struct xxh3 *b);

#endif
