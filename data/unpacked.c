#include "data/unpacked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMORY_MOST = 64 << 20 };

/* "FOLDER/rematch-XXXXXX", malloc'ed. */
static char *pattern_of(const char *beside)
{
    char *pattern;
    const char *folder = getenv("TMPDIR");
    const char *slash = strrchr(beside, '/');
    int made;
    if (folder && *folder)
        made = asprintf(&pattern, "%s/rematch-XXXXXX", folder);
    else
        made = asprintf(&pattern, "%.*srematch-XXXXXX", slash ? (int)(slash - beside) + 1 : 0, beside);
    return made < 0 ? NULL : pattern;
}

static status no_room(const struct unpacked *u)
{
    return FAIL(ERR_IO, "'%s': cannot unpack to this temporary file: %s; set TMPDIR to a folder with more room",
                u->path, strerror(errno));
}

static status write_file(struct unpacked *u, const void *bytes, size_t size)
{
    return size && fwrite(bytes, 1, size, u->file) != size ? no_room(u) : OK;
}

static status move_to_file(struct unpacked *u, const char *beside)
{
    u->path = pattern_of(beside);
    if (!u->path)
        return FAIL(ERR_MEMORY, "no memory for the name of a temporary file");
    int fd = mkostemp(u->path, O_CLOEXEC);
    if (fd >= 0) {
        unlink(u->path);
        u->file = fdopen(fd, "w+");
    }
    status st = OK;
    if (!u->file) {
        st = FAIL(ERR_IO, "'%s': cannot create a temporary file: %s; set TMPDIR to a folder that can be written",
                  u->path, strerror(errno));
        if (fd >= 0)
            close(fd);
    } else {
        st = write_file(u, u->memory, u->size);
        free(u->memory);
        u->memory = NULL;
    }
    return st;
}

status unpacked_add(struct unpacked *u, const char *beside, const void *bytes, size_t size)
{
    if (!u->file && u->size + size > MEMORY_MOST)
        TRY(move_to_file(u, beside));
    if (u->file) {
        TRY(write_file(u, bytes, size));
    } else if (size) {
        if (u->size + size > u->capacity) {
            size_t capacity = 2 * (u->size + size);
            char *wider = realloc(u->memory, capacity);
            if (!wider)
                return FAIL(ERR_MEMORY, "no memory for %zu unpacked bytes", capacity);
            u->memory = wider;
            u->capacity = capacity;
        }
        memcpy(u->memory + u->size, bytes, size);
    }
    u->size += size;
    return OK;
}

status unpacked_finish(struct unpacked *u)
{
    if (!u->file) {
        u->bytes = u->memory;
        return OK;
    }
    if (fflush(u->file))
        return no_room(u);
    void *map = mmap(NULL, u->size, PROT_READ, MAP_SHARED, fileno(u->file), 0);
    if (map == MAP_FAILED)
        return FAIL(ERR_IO, "'%s': cannot map this temporary file: %s", u->path, strerror(errno));
    u->bytes = map;
    return OK;
}

void unpacked_free(struct unpacked *u)
{
    if (u->file && u->bytes)
        munmap((void *)u->bytes, u->size);
    if (u->file)
        fclose(u->file);
    free(u->memory);
    free(u->path);
    *u = (struct unpacked){0};
}
