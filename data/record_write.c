/* Writing a record. Two libarchive writers stand one behind the other, because the seal covers the tar stream before
 * compression:  members -> tar (pax) -> hash -> zstd or nothing -> file. */
#include "data/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "data/record_format.h"
#include "data/seal.h"

struct record_writer {
    struct file_draft draft;
    struct archive *packed, *tar;
    struct archive_entry *entry;
    XXH3_state_t *stream; /* of everything that went through tar */
    struct record_member *members;
    int count;
};

/* libarchive says "Write error", and the system's reason apart. */
static status write_failed(const struct record_writer *w, const char *what, struct archive *archive)
{
    int reason = archive_errno(archive);
    return FAIL(ERR_IO, "'%s': cannot write %s: %s%s%s%s", w->draft.partial, what, record_archive_error(archive),
                reason > 0 ? ": " : "", reason > 0 ? strerror(reason) : "", file_remedy(reason));
}

static la_ssize_t take_tar_bytes(struct archive *tar, void *self, const void *bytes, size_t size)
{
    struct record_writer *w = self;
    XXH3_128bits_update(w->stream, bytes, size);
    la_ssize_t written = archive_write_data(w->packed, bytes, size);
    if (written < 0)
        archive_set_error(tar, archive_errno(w->packed), "%s", record_archive_error(w->packed));
    return written;
}

static status open_packed(struct record_writer *w, bool compressed)
{
    if (compressed && (archive_write_add_filter_zstd(w->packed) != ARCHIVE_OK ||
                       archive_write_set_filter_option(w->packed, "zstd", "compression-level", "1") != ARCHIVE_OK))
        return FAIL(ERR_IO, "'%s': this libarchive cannot compress with zstd (%s); name the record *.rematch.tar",
                    w->draft.path, record_archive_error(w->packed));
    archive_entry_set_filetype(w->entry, AE_IFREG);
    if (archive_write_set_format_raw(w->packed) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(w->packed, 1) != ARCHIVE_OK ||
        archive_write_open_FILE(w->packed, w->draft.stream) != ARCHIVE_OK ||
        archive_write_header(w->packed, w->entry) != ARCHIVE_OK)
        return write_failed(w, "a record", w->packed);
    return OK;
}

static status open_tar(struct record_writer *w)
{
    /* Unblocked: what is written is hashed at once, and no padding follows the end. */
    if (archive_write_set_format_pax_restricted(w->tar) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(w->tar, 0) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(w->tar, 1) != ARCHIVE_OK ||
        archive_write_open(w->tar, w, NULL, take_tar_bytes, NULL) != ARCHIVE_OK)
        return write_failed(w, "a record", w->tar);
    return OK;
}

status record_create(struct record_writer **out, const char *path)
{
    status st = OK;
    size_t length = strlen(path);
    struct record_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->packed = archive_write_new()) || !(w->tar = archive_write_new()) ||
        !(w->entry = archive_entry_new()) || !(w->stream = XXH3_createState()) ||
        !(w->members = calloc(RECORD_MEMBERS_MOST, sizeof *w->members))) {
        st = FAIL(ERR_MEMORY, "'%s': no memory to write a record", path);
        goto done;
    }
    XXH3_128bits_reset(w->stream);
    TRY_DONE(file_draft_open(&w->draft, path));
    TRY_DONE(open_packed(w, length > 4 && !strcmp(path + length - 4, ".zst")));
    TRY_DONE(open_tar(w));
    *out = w;
    w = NULL;
done:
    record_abandon(w);
    return st;
}

void record_abandon(struct record_writer *w)
{
    if (!w)
        return;
    /* In this order: freeing an archive ends it, and each ends into the next. */
    archive_write_free(w->tar);
    archive_write_free(w->packed);
    archive_entry_free(w->entry);
    file_draft_abandon(&w->draft);
    XXH3_freeState(w->stream);
    free(w->members);
    free(w);
}

/* Everything that a header says is fixed here, so that archives depend on their members only. */
static status write_header(struct record_writer *w, const char *member, size_t size)
{
    archive_entry_clear(w->entry);
    archive_entry_set_pathname(w->entry, member);
    archive_entry_set_filetype(w->entry, AE_IFREG);
    archive_entry_set_perm(w->entry, RECORD_MODE);
    archive_entry_set_mtime(w->entry, 0, 0);
    archive_entry_set_size(w->entry, (la_int64_t)size);
    if (archive_write_header(w->tar, w->entry) != ARCHIVE_OK)
        return write_failed(w, member, w->tar);
    return OK;
}

static status write_bytes(struct record_writer *w, const char *member, const void *bytes, size_t size)
{
    /* libarchive takes the whole of it or fails; an empty write would be nothing. */
    if (size && archive_write_data(w->tar, bytes, size) != (la_ssize_t)size)
        return write_failed(w, member, w->tar);
    return OK;
}

status record_add(struct record_writer *w, const char *member, const void *bytes, size_t size, bool measured)
{
    const char *path = w->draft.path;
    uint64_t limit = record_member_limit(member);
    if (!limit || !strcmp(member, RECORD_MANIFEST))
        return FAIL(ERR_ARGUMENT, "'%s': no member of a record is called '%s'", path, member);
    if (size > limit)
        return FAIL(ERR_ARGUMENT, "'%s': %s has %zu bytes, at most %llu are allowed", path, member, size,
                    (unsigned long long)limit);
    for (int i = 0; i < w->count; i++)
        if (!strcmp(w->members[i].name, member))
            return FAIL(ERR_ARGUMENT, "'%s': %s is added twice", path, member);
    if (w->count == RECORD_MEMBERS_MOST)
        return FAIL(ERR_ARGUMENT, "'%s': more than %d members", path, RECORD_MEMBERS_MOST);
    TRY(write_header(w, member, size));
    TRY(write_bytes(w, member, bytes, size));
    struct record_member *m = &w->members[w->count++];
    strcpy(m->name, member);
    m->size = size;
    m->hash = xxh3_of(bytes, size);
    m->measured = measured;
    return OK;
}

status record_add_file(struct record_writer *w, const char *member, const char *path, bool measured)
{
    const void *bytes;
    size_t size;
    TRY(file_map(path, &bytes, &size));
    status st = record_add(w, member, bytes, size, measured);
    file_unmap(bytes, size);
    return st;
}

static json_t *manifest_object(const struct record_writer *w)
{
    json_t *members = json_array();
    for (int i = 0; members && i < w->count; i++) {
        const struct record_member *m = &w->members[i];
        char hash[33];
        xxh3_hex(&m->hash, hash);
        if (json_array_append_new(members, json_pack("{sssIsssb}", "name", m->name, "size", (json_int_t)m->size,
                                                     "xxh3_128", hash, "measured", (int)m->measured))) {
            json_decref(members);
            members = NULL;
        }
    }
    return json_pack("{sssissso}", "format", RECORD_FORMAT, "version", RECORD_VERSION, "seal", SEAL_BLANK, "members",
                     members);
}

static status write_manifest(struct record_writer *w)
{
    status st = OK;
    char *text = NULL;
    size_t size;
    json_t *object = manifest_object(w);
    TRY_DONE(json_text(&text, &size, object));
    TRY_DONE(write_header(w, RECORD_MANIFEST, size));
    seal_update(w->stream, text, size);
    seal_set(w->stream, text, size);
    TRY_DONE(write_bytes(w, RECORD_MANIFEST, text, size));
done:
    json_decref(object);
    free(text);
    return st;
}

status record_seal(struct record_writer *w)
{
    status st = OK;
    TRY_DONE(write_manifest(w));
    if (archive_write_close(w->tar) != ARCHIVE_OK)
        st = write_failed(w, "the end of the record", w->tar);
    else if (archive_write_close(w->packed) != ARCHIVE_OK)
        st = write_failed(w, "the end of the record", w->packed);
    else
        st = file_draft_commit(&w->draft, true);
done:
    record_abandon(w);
    return st;
}
