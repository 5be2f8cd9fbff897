/* live_format.h - what live.c and checkpoint.c share; not for other files. */
#ifndef REMATCH_DATA_LIVE_FORMAT_H
#define REMATCH_DATA_LIVE_FORMAT_H

#include "data/file.h"
#include "data/live.h"

#define LIVE_LOCK "lock"
#define LIVE_COMMIT "commit.json"
#define LIVE_FORMAT "rematch-checkpoint"
#define LIVE_PREFIX "checkpoint-"
enum { LIVE_VERSION = 1, LIVE_PATH = 4096, LIVE_COMMIT_MOST = 64 << 20 };

struct live {
    char *folder;
    int lock;
    char path[LIVE_PATH];  /* of live_path */
    char begun[LIVE_PATH]; /* folders that are lent: of the checkpoint that is written, */
    char found[LIVE_PATH]; /* and of the one that was found */
    char note[1024];       /* of live_note; "" for none */
};

/* Removes every folder checkpoint-* but `keep` (a name, or NULL for none). */
status live_checkpoints_remove(struct live *l, const char *keep);

#endif
