/* record_format.h - what writer and reader of records agree on; not for other files. */
#ifndef REMATCH_DATA_RECORD_FORMAT_H
#define REMATCH_DATA_RECORD_FORMAT_H

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>

#include "data/record.h"

#define RECORD_MANIFEST "manifest.json"
#define RECORD_FORMAT "rematch-record"
enum {
    RECORD_VERSION = 1,
    RECORD_MEMBERS_MOST = 4096,
    RECORD_TAR_BLOCK = 512,
    RECORD_TAR_END = 2 * RECORD_TAR_BLOCK, /* the zero blocks that end a tar */
    RECORD_MODE = 0644
};

/* Most bytes that a member of this name may have, or 0 when no member is called so. */
uint64_t record_member_limit(const char *name);

/* "name": NULL-safe text of libarchive's last error. */
const char *record_archive_error(struct archive *archive);

#endif
