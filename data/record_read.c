/* Reading a record. Two libarchive readers stand one behind the other:  file -> zstd or nothing -> kept bytes -> tar.
 * The tar reader judges each header before the bytes behind it are unpacked; afterwards the seal and the hashes are
 * verified over the kept bytes. */
#include "data/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "data/record_format.h"
#include "data/seal.h"
#include "data/unpacked.h"

#define REMEDY "the record is damaged or foreign: copy it again, or run the point again"

struct member {
    struct record_member is;
    uint64_t start; /* of its bytes in the unpacked tar */
};

struct record {
    char *path;
    struct unpacked tar;
    struct member *members, manifest;
    int count;
};

/* What is only needed while a record is opened. */
struct opening {
    struct record *r;
    const void *file;
    size_t size;
    struct archive *packed, *tar;
    bool ended;
    status failed; /* of take_packed_bytes, which can only say that something failed */
};

static status refuse(const struct record *r, const char *member, const char *what)
{
    return FAIL(ERR_INPUT, "'%s': %s: %s; " REMEDY, r->path, member, what);
}

/* ---- unpacking ---- */

static la_ssize_t take_packed_bytes(struct archive *tar, void *self, const void **bytes)
{
    struct opening *o = self;
    size_t size = 0;
    la_int64_t offset;
    while (!o->ended && !size) {
        int got = archive_read_data_block(o->packed, bytes, &size, &offset);
        o->ended = got == ARCHIVE_EOF;
        if (got != ARCHIVE_OK && !o->ended) {
            archive_set_error(tar, EIO, "%s", record_archive_error(o->packed));
            return -1;
        }
    }
    if (o->ended)
        return 0;
    o->failed = unpacked_add(&o->r->tar, o->r->path, *bytes, size);
    if (o->failed != OK) {
        archive_set_error(tar, EIO, "cannot unpack");
        return -1;
    }
    return (la_ssize_t)size;
}

/* A failure of the tar reader: our own when there is one, else what libarchive says. */
static status tar_failure(const struct opening *o, const char *member)
{
    if (o->failed != OK)
        return o->failed;
    return refuse(o->r, member, record_archive_error(o->tar));
}

static status open_archive(struct opening *o)
{
    struct archive_entry *entry;
    const char *path = o->r->path;
    if (!(o->packed = archive_read_new()) || !(o->tar = archive_read_new()))
        return FAIL(ERR_MEMORY, "'%s': no memory to read it", path);
    TRY(file_map(path, &o->file, &o->size));
    archive_read_support_filter_zstd(o->packed);
    archive_read_support_format_raw(o->packed);
    archive_read_support_format_empty(o->packed);
    archive_read_support_format_tar(o->tar);
    int got = archive_read_open_memory(o->packed, o->file, o->size);
    if (got == ARCHIVE_OK)
        got = archive_read_next_header(o->packed, &entry);
    if (got == ARCHIVE_EOF)
        return refuse(o->r, RECORD_MANIFEST, "is missing, the file is empty");
    if (got != ARCHIVE_OK)
        return refuse(o->r, "archive", record_archive_error(o->packed));
    if (archive_read_open(o->tar, o, NULL, take_packed_bytes, NULL) != ARCHIVE_OK)
        return tar_failure(o, "archive");
    return OK;
}

/* ---- headers ---- */

static const char *wrong_kind(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry))
        return "is a hard link, which records never hold";
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return archive_entry_sparse_count(entry) ? "is sparse, which members never are" : NULL;
    case AE_IFLNK:
        return "is a symbolic link, which records never hold";
    case AE_IFDIR:
        return "is a folder, which records never hold";
    default:
        return "is a device, pipe or socket, which records never hold";
    }
}

static const char *wrong_name(const char *name)
{
    if (*name == '/')
        return "is an absolute path";
    if (!strcmp(name, "..") || !strncmp(name, "../", 3) || strstr(name, "/../"))
        return "climbs out of its folder";
    if (strchr(name, '/'))
        return "lies in a folder; members are flat";
    return record_member_limit(name) ? NULL : "is not a name that records use";
}

/* The header of one entry; fills what the archive itself says about the member. */
static status check_entry(struct record *r, struct archive_entry *entry, struct record_member *m)
{
    const char *name = archive_entry_pathname(entry);
    if (!name || !*name)
        return refuse(r, "archive", "a member has no readable name");
    const char *wrong = wrong_kind(entry);
    if (!wrong)
        wrong = wrong_name(name);
    if (wrong)
        return refuse(r, name, wrong);
    la_int64_t size = archive_entry_size(entry);
    uint64_t limit = record_member_limit(name);
    if (!archive_entry_size_is_set(entry) || size < 0 || (uint64_t)size > limit)
        return FAIL(ERR_INPUT, "'%s': %s: declares %lld bytes, at most %llu are allowed; " REMEDY, r->path, name,
                    (long long)size, (unsigned long long)limit);
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->members[i].is.name, name))
            return refuse(r, name, "is there twice");
    if (*r->manifest.is.name)
        return refuse(r, name, "follows the manifest, which is the last member");
    if (r->count == RECORD_MEMBERS_MOST)
        return refuse(r, name, "is one member too many");
    strcpy(m->name, name); /* bounded by the table of names */
    m->size = (uint64_t)size;
    return OK;
}

static status scan_members(struct opening *o)
{
    struct record *r = o->r;
    const char *last = "archive";
    for (;;) {
        struct archive_entry *entry;
        struct member m = {0};
        int got = archive_read_next_header(o->tar, &entry);
        if (got == ARCHIVE_EOF)
            break;
        if (got != ARCHIVE_OK)
            return tar_failure(o, last);
        TRY(check_entry(r, entry, &m.is));
        m.start = (uint64_t)archive_filter_bytes(o->tar, 0);
        if (strcmp(m.is.name, RECORD_MANIFEST)) {
            r->members[r->count] = m;
            last = r->members[r->count++].is.name;
        } else {
            r->manifest = m;
            last = RECORD_MANIFEST;
        }
        if (archive_read_data_skip(o->tar) != ARCHIVE_OK)
            return tar_failure(o, last);
    }
    if (!*r->manifest.is.name)
        return refuse(r, RECORD_MANIFEST, "is missing; was the archive cut?");
    return OK;
}

/* Nothing but the padding of the manifest and the two end blocks may follow, and they are zeros. */
static status check_end(struct opening *o)
{
    struct record *r = o->r;
    const void *bytes;
    uint64_t text_end = r->manifest.start + r->manifest.is.size;
    uint64_t end = (text_end + RECORD_TAR_BLOCK - 1) / RECORD_TAR_BLOCK * RECORD_TAR_BLOCK + RECORD_TAR_END;
    la_ssize_t got = 1;
    while (got > 0 && r->tar.size <= end)
        got = take_packed_bytes(o->tar, o, &bytes);
    if (got < 0)
        return tar_failure(o, "end of the archive");
    if (r->tar.size != end)
        return refuse(r, RECORD_MANIFEST,
                      r->tar.size < end ? "the end of the archive is cut off behind it"
                                        : "bytes follow the end of the archive");
    TRY(unpacked_finish(&r->tar));
    for (uint64_t i = text_end; i < end; i++)
        if (r->tar.bytes[i])
            return refuse(r, RECORD_MANIFEST, "what follows it is not zero");
    return OK;
}

/* ---- the manifest ---- */

static status check_seal(const struct record *r, const char *text, size_t size)
{
    if (seal_place(text, size) < 0)
        return refuse(r, RECORD_MANIFEST, "has no seal");
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return FAIL(ERR_MEMORY, "'%s': no memory for a hash state", r->path);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, r->tar.bytes, r->manifest.start);
    seal_update(state, text, size);
    bool holds = seal_holds(state, text, size);
    XXH3_freeState(state);
    return holds ? OK : refuse(r, RECORD_MANIFEST, "the archive does not match its seal");
}

static status check_member(struct record *r, int i, const json_t *entry, const char *where)
{
    struct record_member *m = &r->members[i].is;
    const char *name, *hex;
    struct xxh3 declared;
    int64_t size;
    TRY(json_fields(entry, 4, where));
    TRY(json_text_read(&name, entry, "name", where));
    TRY(json_text_read(&hex, entry, "xxh3_128", where));
    TRY(json_integer_read(&size, entry, "size", 0, where));
    if (strcmp(name, m->name))
        return refuse(r, m->name, "is not the member that the manifest names at its place");
    if ((uint64_t)size != m->size)
        return refuse(r, m->name, "has another size than the manifest says");
    m->hash = xxh3_of(r->tar.bytes + r->members[i].start, m->size);
    if (!xxh3_of_hex(&declared, hex) || !xxh3_equal(&declared, &m->hash))
        return refuse(r, m->name, "has another hash than the manifest says");
    const json_t *measured = json_object_get(entry, "measured");
    if (!json_is_boolean(measured))
        return refuse(r, m->name, "the manifest does not say whether it is measured");
    m->measured = json_is_true(measured);
    return OK;
}

static status check_members(struct record *r, const json_t *manifest, const char *where)
{
    const char *format;
    int64_t version;
    const json_t *members = json_object_get(manifest, "members");
    TRY(json_text_read(&format, manifest, "format", where));
    TRY(json_integer_read(&version, manifest, "version", 0, where));
    if (strcmp(format, RECORD_FORMAT))
        return refuse(r, RECORD_MANIFEST, "is not that of a " RECORD_FORMAT);
    if (version != RECORD_VERSION)
        return FAIL(ERR_INPUT,
                    "'%s': " RECORD_MANIFEST ": version %lld, this program reads version %d; use the program "
                    "that wrote it",
                    r->path, (long long)version, RECORD_VERSION);
    TRY(json_fields(manifest, 4, where));
    TRY(check_seal(r, r->tar.bytes + r->manifest.start, r->manifest.is.size));
    if (!json_is_array(members) || json_array_size(members) != (size_t)r->count)
        return refuse(r, RECORD_MANIFEST, "lists other members than the archive holds");
    for (int i = 0; i < r->count; i++)
        TRY(check_member(r, i, json_array_get(members, (size_t)i), where));
    return OK;
}

static status check_manifest(struct record *r)
{
    json_t *manifest;
    char where[512];
    snprintf(where, sizeof where, "'%s': " RECORD_MANIFEST, r->path);
    TRY(json_object_parse(&manifest, r->tar.bytes + r->manifest.start, r->manifest.is.size, where));
    status st = check_members(r, manifest, where);
    json_decref(manifest);
    return st;
}

/* ---- the handle ---- */

status record_open(struct record **out, const char *path)
{
    status st = OK;
    struct opening o = {0};
    struct record *r = o.r = calloc(1, sizeof *r);
    if (!r || !(r->path = strdup(path)) || !(r->members = calloc(RECORD_MEMBERS_MOST, sizeof *r->members))) {
        st = FAIL(ERR_MEMORY, "'%s': no memory to read it", path);
        goto done;
    }
    TRY_DONE(open_archive(&o));
    TRY_DONE(scan_members(&o));
    TRY_DONE(check_end(&o));
    TRY_DONE(check_manifest(r));
    *out = r;
    r = NULL;
done:
    archive_read_free(o.tar);
    archive_read_free(o.packed);
    file_unmap(o.file, o.size);
    record_close(r);
    return st;
}

void record_close(struct record *r)
{
    if (!r)
        return;
    unpacked_free(&r->tar);
    free(r->members);
    free(r->path);
    free(r);
}

const char *record_path(const struct record *r) { return r->path; }

int record_count(const struct record *r) { return r->count; }

const struct record_member *record_at(const struct record *r, int i) { return &r->members[i].is; }

const struct record_member *record_find(const struct record *r, const char *member)
{
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->members[i].is.name, member))
            return &r->members[i].is;
    return NULL;
}

status record_read(struct record *r, const char *member, const void **bytes, size_t *size)
{
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->members[i].is.name, member)) {
            *bytes = r->tar.bytes + r->members[i].start;
            *size = r->members[i].is.size;
            return OK;
        }
    return FAIL(ERR_INPUT, "'%s': has no member '%s'; is it the record of another kind of run?", r->path, member);
}

/* An unmeasured member of `a` that `b` lacks or has otherwise, or NULL. */
static const char *differing(const struct record *a, const struct record *b)
{
    for (int i = 0; i < a->count; i++) {
        const struct record_member *x = &a->members[i].is, *y = record_find(b, x->name);
        if (!x->measured && (!y || y->measured || y->size != x->size || !xxh3_equal(&x->hash, &y->hash)))
            return x->name;
    }
    return NULL;
}

bool record_identical(const struct record *a, const struct record *b, const char **first)
{
    *first = differing(a, b);
    if (!*first)
        *first = differing(b, a);
    return !*first;
}
