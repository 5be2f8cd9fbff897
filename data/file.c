#include "data/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define REFUSED(what, path) FAIL(ERR_IO, "'%s': cannot %s: %s%s", path, what, strerror(errno), file_remedy(errno))

const char *file_remedy(int reason)
{
    switch (reason) {
    case ENOSPC:
    case EDQUOT:
        return "; make room, or write to another disk";
    case ELOOP: /* of O_NOFOLLOW */
        return "; it is a link: remove it";
    case EISDIR:
        return "; it is a folder: remove it, or give the name of a file";
    case ENOTDIR:
        return "; a part of this path is a file: give a path through folders";
    default:
        return "";
    }
}

/* ---- drafts ---- */

/* Opens and locks the partial file. Between open and lock its writer may have renamed it: then the lock is on a file
 * that is no longer ours to write, and we try again. */
static status lock_partial(const char *partial, int *out)
{
    for (;;) {
        struct stat opened, named;
        int fd = open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
            return errno == ENOENT ? FAIL(ERR_IO, "'%s': cannot create: its folder does not exist; make it", partial)
                                   : REFUSED("create", partial);
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            int reason = errno;
            close(fd);
            if (reason == EWOULDBLOCK)
                return FAIL(ERR_IO, "'%s': another process is writing this file; wait for it or stop it", partial);
            errno = reason;
            return REFUSED("lock", partial);
        }
        if (!fstat(fd, &opened) && !stat(partial, &named) && opened.st_ino == named.st_ino &&
            opened.st_dev == named.st_dev) {
            *out = fd;
            return OK;
        }
        close(fd);
    }
}

static bool is_folder(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

status file_draft_open(struct file_draft *d, const char *path)
{
    status st = OK;
    int fd = -1;
    *d = (struct file_draft){0};
    if (is_folder(path))
        return FAIL(ERR_IO, "'%s': is a folder; give the name of a file in it", path);
    d->path = strdup(path);
    if (!d->path || asprintf(&d->partial, "%s.partial", path) < 0) {
        d->partial = NULL;
        st = FAIL(ERR_MEMORY, "'%s': no memory for its name", path);
        goto done;
    }
    TRY_DONE(lock_partial(d->partial, &fd));
    if (ftruncate(fd, 0) || !(d->stream = fdopen(fd, "w")))
        st = REFUSED("write", d->partial);
done:
    if (st != OK) {
        if (fd >= 0)
            close(fd);
        free(d->path);
        free(d->partial);
        *d = (struct file_draft){0};
    }
    return st;
}

status file_draft_write(struct file_draft *d, const void *bytes, size_t size)
{
    if (size && fwrite(bytes, 1, size, d->stream) != size)
        return REFUSED("write", d->partial);
    return OK;
}

void file_draft_abandon(struct file_draft *d)
{
    if (!d->path)
        return;
    unlink(d->partial);
    fclose(d->stream);
    free(d->path);
    free(d->partial);
    *d = (struct file_draft){0};
}

static status sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return file_sync_folder(".");
    char *folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (!folder)
        return FAIL(ERR_MEMORY, "'%s': no memory for its folder's name", path);
    status st = file_sync_folder(folder);
    free(folder);
    return st;
}

status file_draft_commit(struct file_draft *d, bool durable)
{
    status st = OK;
    if (fflush(d->stream) || (durable && fsync(fileno(d->stream)))) {
        st = REFUSED("write", d->partial);
        goto done;
    }
    if (rename(d->partial, d->path)) {
        st = FAIL(ERR_IO, "'%s': cannot rename to '%s': %s", d->partial, d->path, strerror(errno));
        goto done;
    }
    if (durable)
        st = sync_folder_of(d->path);
    /* The name is no longer ours: abandoning now would remove another process's draft. */
    fclose(d->stream);
    free(d->path);
    free(d->partial);
    *d = (struct file_draft){0};
    return st;
done:
    file_draft_abandon(d);
    return st;
}

static bool is_same(const struct stat *file, const char *path)
{
    struct stat other;
    return !stat(path, &other) && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

bool file_is_output(const char *path, const char *output)
{
    struct stat info;
    char *partial;
    if (stat(path, &info) || asprintf(&partial, "%s.partial", output) < 0)
        return false;
    bool same = is_same(&info, output) || is_same(&info, partial);
    free(partial);
    return same;
}

status file_check_input(const char *path, const char *output)
{
    if (file_is_output(path, output))
        return FAIL(ERR_USAGE, "the output '%s' would overwrite the input '%s': give another output", output, path);
    return OK;
}

status file_write(const char *path, const void *bytes, size_t size)
{
    status st = OK;
    struct file_draft draft = {0};
    TRY_DONE(file_draft_open(&draft, path));
    TRY_DONE(file_draft_write(&draft, bytes, size));
    TRY_DONE(file_draft_commit(&draft, true));
done:
    file_draft_abandon(&draft);
    return st;
}

/* ---- whole files ---- */

static status open_regular(const char *path, int *fd, size_t *size)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return REFUSED("open", path);
    if (fstat(*fd, &info)) {
        status st = REFUSED("stat", path);
        close(*fd);
        return st;
    }
    if (!S_ISREG(info.st_mode)) {
        close(*fd);
        return FAIL(ERR_INPUT, "'%s': is not a regular file; give a file", path);
    }
    *size = (size_t)info.st_size;
    return OK;
}

static status read_exactly(int fd, const char *path, char *bytes, size_t size)
{
    for (size_t have = 0; have < size;) {
        ssize_t got = read(fd, bytes + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return REFUSED("read", path);
        if (!got)
            return FAIL(ERR_INPUT, "'%s': was cut to %zu of %zu bytes while it was read; read it again", path, have,
                        size);
        have += (size_t)got;
    }
    return OK;
}

status file_read(const char *path, size_t limit, char **bytes, size_t *size)
{
    status st = OK;
    int fd;
    char *memory = NULL;
    TRY(open_regular(path, &fd, size));
    if (*size > limit) {
        st = FAIL(ERR_INPUT, "'%s': has %zu bytes, at most %zu are expected; is this the right file?", path, *size,
                  limit);
        goto done;
    }
    if (!(memory = malloc(*size + 1))) {
        st = FAIL(ERR_MEMORY, "'%s': no memory for %zu bytes", path, *size);
        goto done;
    }
    TRY_DONE(read_exactly(fd, path, memory, *size));
    memory[*size] = 0;
    *bytes = memory;
    memory = NULL;
done:
    free(memory);
    close(fd);
    return st;
}

status file_map(const char *path, const void **bytes, size_t *size)
{
    int fd;
    TRY(open_regular(path, &fd, size));
    void *memory = NULL;
    if (*size)
        memory = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0);
    status st = memory == MAP_FAILED ? REFUSED("map", path) : OK;
    close(fd);
    if (st == OK)
        *bytes = memory;
    return st;
}

void file_unmap(const void *bytes, size_t size)
{
    if (bytes)
        munmap((void *)bytes, size);
}

/* ---- folders ---- */

bool file_exists(const char *path) { return !access(path, F_OK); }

status file_sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return REFUSED("open", path);
    status st = fsync(fd) ? REFUSED("sync", path) : OK;
    close(fd);
    return st;
}

status file_make_folder(const char *path)
{
    status st = OK;
    char *part = strdup(path);
    if (!part)
        return FAIL(ERR_MEMORY, "'%s': no memory for its name", path);
    for (char *slash = part; st == OK && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        if (mkdir(part, 0755) && errno != EEXIST)
            st = REFUSED("create the folder", part);
        else if (!is_folder(part))
            st = FAIL(ERR_IO, "'%s': is in the way of the folder '%s'; remove it or choose another folder", part, path);
        if (slash)
            *slash = '/';
    }
    free(part);
    return st;
}

status file_rename_folder(const char *complete, const char *path)
{
    if (rename(complete, path))
        return FAIL(ERR_IO, "'%s': cannot rename to '%s': %s", complete, path, strerror(errno));
    return sync_folder_of(path);
}

static int not_dots(const struct dirent *entry) { return strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."); }

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* What a walk meets. `leave` is called for a folder after its entries. */
struct visitor {
    status (*file)(void *self, const char *path, const struct stat *info);
    status (*leave)(void *self, const char *path);
    void *self;
};

static status walk(const char *folder, const struct visitor *visitor)
{
    status st = OK;
    char *path = NULL;
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, not_dots, by_bytes);
    if (count < 0)
        return errno == ENOENT ? OK : REFUSED("list", folder);
    for (int i = 0; i < count; i++) {
        struct stat info;
        free(path);
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0) {
            path = NULL;
            st = FAIL(ERR_MEMORY, "'%s': no memory for a name in it", folder);
            goto done;
        }
        if (lstat(path, &info)) {
            st = REFUSED("stat", path);
            goto done;
        }
        TRY_DONE(S_ISDIR(info.st_mode) ? walk(path, visitor) : visitor->file(visitor->self, path, &info));
    }
    if (visitor->leave)
        st = visitor->leave(visitor->self, folder);
done:
    free(path);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return st;
}

static status remove_file(void *self, const char *path, const struct stat *info)
{
    (void)self, (void)info;
    return unlink(path) && errno != ENOENT ? REFUSED("remove", path) : OK;
}

static status remove_emptied(void *self, const char *path)
{
    (void)self;
    return rmdir(path) && errno != ENOENT ? REFUSED("remove", path) : OK;
}

status file_remove_folder(const char *path)
{
    const struct visitor remover = {remove_file, remove_emptied, NULL};
    struct stat info;
    if (lstat(path, &info))
        return errno == ENOENT ? OK : REFUSED("stat", path);
    if (!S_ISDIR(info.st_mode))
        return FAIL(ERR_ARGUMENT, "'%s': is not a folder, so it is not removed", path);
    return walk(path, &remover);
}

struct file_visit {
    status (*each)(void *self, const char *path);
    void *self;
};

static status visit_regular(void *self, const char *path, const struct stat *info)
{
    const struct file_visit *visit = self;
    return S_ISREG(info->st_mode) ? visit->each(visit->self, path) : OK;
}

status file_walk(const char *folder, status (*each)(void *self, const char *path), void *self)
{
    struct file_visit visit = {each, self};
    const struct visitor visitor = {visit_regular, NULL, &visit};
    return walk(folder, &visitor);
}

/* ---- hashes ---- */

struct xxh3 xxh3_of(const void *bytes, size_t size)
{
    struct xxh3 hash;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(hash.byte, canonical.digest, sizeof hash.byte);
    return hash;
}

void xxh3_hex(const struct xxh3 *hash, char text[33])
{
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", hash->byte[i]);
}

bool xxh3_of_hex(struct xxh3 *hash, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 32 || strspn(text, digits) != 32)
        return false;
    for (int i = 0; i < 16; i++)
        hash->byte[i] =
            (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

bool xxh3_equal(const struct xxh3 *a, const struct xxh3 *b) { return !memcmp(a->byte, b->byte, sizeof a->byte); }
