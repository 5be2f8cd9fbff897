#include "tests/temporary.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static char folder[3072];

static void give_up(const char *what)
{
    fprintf(stderr, "temporary folder '%s': %s: %s\n", folder, what, strerror(errno));
    exit(EXIT_FAILURE);
}

const char *temporary_folder(void)
{
    if (!*folder) {
        const char *parent = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/rematch-test-XXXXXX", parent && *parent ? parent : "/tmp");
        if (!mkdtemp(folder))
            give_up("cannot create");
    }
    return folder;
}

const char *temporary_path(const char *name)
{
    static char paths[8][4096];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", temporary_folder(), name);
    return path;
}

void temporary_no_room(size_t bytes)
{
    signal(SIGXFSZ, SIG_IGN); /* writes fail with EFBIG instead */
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, bytes}))
        give_up("cannot limit the size of files");
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

void temporary_remove(void)
{
    if (*folder && nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        give_up("cannot remove");
    *folder = 0;
}
