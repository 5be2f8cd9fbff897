/* unpacked.h - bytes of unknown length, collected: in memory while they are few, then in an unlinked temporary file.
 *
 * Whoever sends more than memory holds fills a disk at most, and an unlinked file is gone with the process. Errors:
 * ERR_IO with the folder; ERR_MEMORY.
 */
#ifndef REMATCH_DATA_UNPACKED_H
#define REMATCH_DATA_UNPACKED_H

#include <stddef.h>
#include <stdio.h>

#include "kernels/status.h"

struct unpacked { /* zeroed is empty */
    char *memory;
    size_t size, capacity;
    FILE *file;
    char *path;        /* what messages call the file, which has no name any more */
    const char *bytes; /* all of them, after unpacked_finish */
};

/* `beside`: the file whose folder serves when TMPDIR is not set. */
status unpacked_add(struct unpacked *u, const char *beside, const void *bytes, size_t size);
status unpacked_finish(struct unpacked *u);
void unpacked_free(struct unpacked *u);

#endif
