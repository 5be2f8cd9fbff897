/* From a file to text, and to the reader that knows it. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "data/file.h"
#include "data/unpacked.h"
#include "stages/logs/readers.h"

enum { HEAD = 4 << 20, NAMES = 1024 };
static const uint64_t unpacked_most = 4ull << 30;

static const struct log_family *const families[] = {&family_events,   &family_documents, &family_lines,
                                                    &family_megatron, &family_rows,      &family_tables};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- the text ---- */

struct opened {
    const void *map; /* of the file, as it lies there */
    size_t mapped;
    struct unpacked unpacked;
    struct text text;
};

static void close_text(struct opened *o)
{
    if (o->map)
        file_unmap(o->map, o->mapped);
    unpacked_free(&o->unpacked);
}

static bool is_compressed(const struct opened *o)
{
    const struct text t = {o->map, o->mapped};
    return text_starts(t, "\x1f\x8b") || text_starts(t, "\x28\xb5\x2f\xfd");
}

static status unpack_blocks(struct opened *o, struct archive *archive, const char *path, uint64_t most)
{
    const void *bytes;
    size_t size;
    la_int64_t offset;
    int got;
    while ((got = archive_read_data_block(archive, &bytes, &size, &offset)) == ARCHIVE_OK && o->unpacked.size <= most)
        TRY(unpacked_add(&o->unpacked, path, bytes, size));
    if (got != ARCHIVE_OK && got != ARCHIVE_EOF)
        return FAIL(ERR_INPUT, "'%s': cannot unpack: %s; the file was cut or is damaged", path,
                    archive_error_string(archive));
    return unpacked_finish(&o->unpacked);
}

static status unpack(struct opened *o, const char *path, uint64_t most)
{
    status st = OK;
    struct archive_entry *entry;
    struct archive *archive = archive_read_new();
    if (!archive)
        return FAIL(ERR_MEMORY, "'%s': no memory to read it", path);
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_format_raw(archive);
    if (archive_read_open_memory(archive, o->map, o->mapped) != ARCHIVE_OK ||
        archive_read_next_header(archive, &entry) != ARCHIVE_OK)
        TRY_DONE(FAIL(ERR_INPUT, "'%s': cannot unpack: %s; the file was cut or is damaged", path,
                      archive_error_string(archive)));
    TRY_DONE(unpack_blocks(o, archive, path, most));
    o->text = (struct text){o->unpacked.bytes, o->unpacked.size};
done:
    archive_read_free(archive);
    return st;
}

/* At least the first `most` bytes of the text. */
static status open_text(struct opened *o, const char *path, uint64_t most)
{
    struct stat info;
    *o = (struct opened){0};
    if (stat(path, &info) != 0)
        return FAIL(ERR_IO, "'%s': cannot open: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return FAIL(ERR_INPUT, "'%s': is no file; give the log itself", path);
    TRY(file_map(path, &o->map, &o->mapped));
    if (is_compressed(o))
        return unpack(o, path, most);
    o->text = (struct text){o->map, o->mapped};
    return OK;
}

static status check_text(struct opened *o, const char *path)
{
    if (o->text.size > unpacked_most)
        return FAIL(ERR_INPUT, "'%s': holds more than 4 GiB; cut it to the lines of the training (grep)", path);
    if (text_starts(o->text, "\xff\xfe") || text_starts(o->text, "\xfe\xff"))
        return FAIL(ERR_INPUT, "'%s': is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8", path);
    if (text_starts(o->text, "\xef\xbb\xbf"))
        o->text = text_from(o->text, o->text.at + 3);
    return OK;
}

status logs_is_archive(bool *out, const char *path)
{
    enum { TAR_MAGIC = 257, TAR_BLOCK = 512 };
    struct opened o;
    status st = open_text(&o, path, TAR_BLOCK);
    *out = st == OK && o.text.size >= TAR_BLOCK && !memcmp(o.text.at + TAR_MAGIC, "ustar", 5);
    close_text(&o);
    return st;
}

/* ---- the reader ---- */

static const struct log_reader *best_reader(const struct log_source *s)
{
    const struct log_reader *best = NULL;
    int64_t most = 0;
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < families[f]->count; i++) {
            const struct log_reader *reader = &families[f]->readers[i];
            int64_t count = reader->matches(reader, s);
            if (count > most) {
                most = count;
                best = reader;
            }
        }
    return best;
}

/* In the head, whole lines of it; where that holds nothing known, in all of the text. */
static const struct log_reader *recognise(struct log_source *s)
{
    const char *newline = s->text.size > HEAD ? memrchr(s->text.at, '\n', HEAD) : NULL;
    s->head = newline ? (struct text){s->text.at, (size_t)(newline + 1 - s->text.at)} : s->text;
    const struct log_reader *reader = best_reader(s);
    if (reader || !newline)
        return reader;
    s->head = s->text;
    return best_reader(s);
}

static status not_recognised(const struct log_source *s)
{
    char names[NAMES] = "";
    size_t used = 0;
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < families[f]->count && used < sizeof names; i++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? "; " : "",
                                     families[f]->readers[i].program);
    return FAIL(ERR_INPUT,
                "'%s': not recognised as a log or a record. Tried: %s. A table with a line of names above it, such as "
                "'step,loss,grad_norm', is read from any program",
                s->path, names);
}

status logs_read(struct logs *out, const char *path)
{
    status st = OK;
    struct opened o;
    struct builder builder;
    *out = (struct logs){.path = strdup(path)};
    struct log_source source = {.path = path};
    TRY_DONE(open_text(&o, path, unpacked_most));
    TRY_DONE(check_text(&o, path));
    source.text = o.text;
    const struct log_reader *reader = recognise(&source);
    if (!out->path)
        TRY_DONE(FAIL(ERR_MEMORY, "'%s': no memory", path));
    if (!reader)
        TRY_DONE(not_recognised(&source));
    out->format = reader->program;
    build_begin(&builder, out, reader);
    TRY_DONE(build_end(&builder, reader->read(&builder, reader, &source)));
done:
    close_text(&o);
    if (st != OK)
        logs_free(out);
    return st;
}

/* ---- what there is ---- */

status logs_choose(const struct log_run **out, const struct logs *l, const char *name)
{
    char names[NAMES] = "";
    size_t used = 0;
    for (int i = 0; i < l->runs; i++) {
        if (name ? !strcmp(l->run[i].name, name) : l->runs == 1) {
            *out = &l->run[i];
            return OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? "', '" : "", l->run[i].name);
    }
    if (name)
        return FAIL(ERR_USAGE, "'%s': has no run '%s'; choose one of '%s'", l->path, name, names);
    return FAIL(ERR_USAGE, "'%s': holds %d runs; choose one with '%s#RUN', where RUN is one of '%s'", l->path, l->runs,
                l->path, names);
}

void logs_print_formats(FILE *out)
{
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < families[f]->count; i++) {
            const struct log_reader *reader = &families[f]->readers[i];
            fprintf(out, "%s\t%s\t%s\n", reader->program, reader->versions,
                    reader->evidence ? reader->evidence : "not verified");
        }
}
