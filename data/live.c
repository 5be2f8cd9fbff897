/* The folder of a running point: lock, paths, status. Checkpoints are in checkpoint.c. */
#include "data/live.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/jsonl.h"
#include "data/live_format.h"

static status held_by_another(const char *path, int fd)
{
    char holder[32] = {0};
    ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
    holder[strcspn(holder, "\n")] = 0;
    return FAIL(ERR_IO, "'%s': process %s is running this point; wait for it or stop it", path,
                got > 0 && *holder ? holder : "(unknown)");
}

/* Opens and locks. Between the two, the holder may have finished and removed the folder: then *again. */
static status try_lock(struct live *l, const char *path, bool *again)
{
    struct stat opened, named;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    *again = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return *again ? OK : FAIL(ERR_IO, "'%s': cannot open: %s%s", path, strerror(errno), file_remedy(errno));
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        status st = errno == EWOULDBLOCK ? held_by_another(path, fd)
                                         : FAIL(ERR_IO, "'%s': cannot lock: %s", path, strerror(errno));
        close(fd);
        return st;
    }
    if (fstat(fd, &opened) || stat(path, &named) || opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
        *again = true;
        close(fd);
        return OK;
    }
    l->lock = fd;
    if (ftruncate(fd, 0) || dprintf(fd, "%ld\n", (long)getpid()) < 0)
        return FAIL(ERR_IO, "'%s': cannot write: %s%s", path, strerror(errno), file_remedy(errno));
    return OK;
}

status live_open(struct live **out, const char *folder)
{
    status st = OK;
    bool again;
    struct live *l = calloc(1, sizeof *l);
    if (!l || !(l->folder = strdup(folder))) {
        free(l);
        return FAIL(ERR_MEMORY, "'%s': no memory to open it", folder);
    }
    l->lock = -1;
    do {
        TRY_DONE(file_make_folder(folder));
        TRY_DONE(try_lock(l, live_path(l, LIVE_LOCK), &again));
    } while (again);
    *out = l;
    l = NULL;
done:
    live_close(l);
    return st;
}

void live_close(struct live *l)
{
    if (!l)
        return;
    if (l->lock >= 0)
        close(l->lock);
    free(l->folder);
    free(l);
}

const char *live_path(struct live *l, const char *file)
{
    snprintf(l->path, sizeof l->path, "%s/%s", l->folder, file);
    return l->path;
}

static json_t *finite_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

status live_status(struct live *l, const char *state, int64_t step, int64_t steps, double loss, double tokens_per_s)
{
    status st = OK;
    char *text = NULL;
    size_t size;
    struct file_draft draft = {0};
    json_t *object = json_pack("{sssIsIsoso}", "state", state, "step", (json_int_t)step, "steps", (json_int_t)steps,
                               "loss", finite_or_null(loss), "tokens_per_s", finite_or_null(tokens_per_s));
    TRY_DONE(json_text(&text, &size, object));
    TRY_DONE(file_draft_open(&draft, live_path(l, "status.json")));
    TRY_DONE(file_draft_write(&draft, text, size));
    TRY_DONE(file_draft_commit(&draft, false));
done:
    file_draft_abandon(&draft);
    json_decref(object);
    free(text);
    return st;
}

static status remove_path(void *self, const char *path)
{
    const char *lock = self;
    return strcmp(path, lock) && unlink(path) ? FAIL(ERR_IO, "'%s': cannot remove: %s", path, strerror(errno)) : OK;
}

status live_finish(struct live *l)
{
    /* Checkpoints first: without one, and with its record sealed, a point that is killed here starts and finishes
     * again. The lock goes last, while it is held. */
    TRY(live_checkpoints_remove(l, NULL));
    TRY(file_walk(l->folder, remove_path, (void *)live_path(l, LIVE_LOCK)));
    return file_remove_folder(l->folder);
}
