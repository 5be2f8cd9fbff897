/* Records: what is written comes back, equal members give equal bytes, and hostile archives are refused by name. */
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/record.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static const char config[] = "{\"name\":\"h800-r0\"}\n";
static const char timing[] = "{\"seconds\":1.5}\n";

static const char *write_record(const char *name, const char *config_text, const char *timing_text)
{
    const char *path = temporary_path(name);
    struct record_writer *w;
    ck_ok(record_create(&w, path));
    ck_ok(record_add(w, "config.json", config_text, strlen(config_text), false));
    ck_ok(record_add(w, "timing.jsonl", timing_text, strlen(timing_text), true));
    ck_ok(record_add(w, "certificate.bin", "", 0, false));
    ck_ok(record_seal(w));
    return path;
}

static void check_round_trip(const char *path)
{
    struct record *r;
    const void *bytes;
    size_t size;
    ck_ok(record_open(&r, path));
    ck_assert_int_eq(record_count(r), 3);
    ck_assert_str_eq(record_path(r), path);
    ck_assert_str_eq(record_at(r, 0)->name, "config.json");
    ck_assert_str_eq(record_at(r, 1)->name, "timing.jsonl");
    ck_assert(!record_at(r, 0)->measured && record_at(r, 1)->measured);
    ck_ok(record_read(r, "config.json", &bytes, &size));
    ck_assert_uint_eq(size, strlen(config));
    ck_assert_mem_eq(bytes, config, size);
    ck_ok(record_read(r, "certificate.bin", &bytes, &size));
    ck_assert_uint_eq(size, 0);
    ck_assert_ptr_null(record_find(r, "plans.json"));
    ck_assert_int_eq(record_read(r, "plans.json", &bytes, &size), ERR_INPUT);
    ck_said("plans.json");
    record_close(r);
}

START_TEST(record_round_trip_gives_members_back)
{
    check_round_trip(write_record("plain.rematch.tar", config, timing));
    check_round_trip(write_record("packed.rematch.tar.zst", config, timing));
}
END_TEST

START_TEST(record_without_room_refused_with_path_and_reason)
{
    static const char *const names[] = {"full.rematch.tar", "full.rematch.tar.zst"};
    static char bytes[1 << 20];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof bytes; i++) /* nothing that zstd could make small */
        bytes[i] = (char)(rand_r(&seed) >> 8);
    temporary_no_room(1 << 16);
    for (int i = 0; i < COUNT(names); i++) {
        struct record_writer *w;
        ck_ok(record_create(&w, temporary_path(names[i])));
        status st = record_add(w, "metrics.jsonl", bytes, sizeof bytes, false);
        if (st == OK) /* it is still in a buffer */
            st = record_seal(w);
        else
            record_abandon(w);
        ck_assert_int_eq(st, ERR_IO);
        ck_said(names[i]);
        ck_said("File too large");
        ck_assert(!file_exists(temporary_path(names[i])));
    }
}
END_TEST

START_TEST(record_same_members_same_bytes)
{
    char *a, *b;
    size_t size_a, size_b;
    ck_ok(file_read(write_record("a.rematch.tar.zst", config, timing), 1 << 20, &a, &size_a));
    ck_ok(file_read(write_record("b.rematch.tar.zst", config, timing), 1 << 20, &b, &size_b));
    ck_assert_uint_eq(size_a, size_b);
    ck_assert_mem_eq(a, b, size_a);
    free(a);
    free(b);
}
END_TEST

START_TEST(record_sealed_leaves_nothing_beside)
{
    const char *path = write_record("alone.rematch.tar.zst", config, timing);
    char partial[4200];
    snprintf(partial, sizeof partial, "%s.partial", path);
    ck_assert(file_exists(path));
    ck_assert(!file_exists(partial));
}
END_TEST

START_TEST(record_abandoned_leaves_nothing)
{
    struct record_writer *w;
    const char *path = temporary_path("abandoned.rematch.tar.zst");
    char partial[4200];
    snprintf(partial, sizeof partial, "%s.partial", path);
    ck_ok(record_create(&w, path));
    ck_ok(record_add(w, "config.json", config, strlen(config), false));
    ck_assert(file_exists(partial));
    record_abandon(w);
    ck_assert(!file_exists(partial) && !file_exists(path));
    record_abandon(NULL);
}
END_TEST

START_TEST(record_large_member_survives_temporary_file)
{
    enum { LARGE = 70 << 20 }; /* more than a record keeps in memory */
    const void *bytes;
    size_t size;
    struct record_writer *w;
    struct record *r;
    const char *path = temporary_path("large.rematch.tar.zst");
    char *large = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 2654435761u >> 24);
    ck_ok(record_create(&w, path));
    ck_ok(record_add(w, "final.safetensors", large, LARGE, false));
    ck_ok(record_add(w, "dump-12.safetensors", large, 1000, false));
    ck_ok(record_seal(w));
    ck_ok(record_open(&r, path));
    ck_ok(record_read(r, "final.safetensors", &bytes, &size));
    ck_assert_uint_eq(size, LARGE);
    ck_assert(!memcmp(bytes, large, LARGE));
    record_close(r);
    free(large);
}
END_TEST

START_TEST(record_unknown_or_doubled_member_not_written)
{
    static const char *const unknown[] = {
        "model.bin",     "dump-.safetensors", "dump-01.safetensors", "dump-1a.safetensors",
        "manifest.json", "../config.json",    "config.json2",        ""};
    struct record_writer *w;
    ck_ok(record_create(&w, temporary_path("names.rematch.tar")));
    for (int i = 0; i < COUNT(unknown); i++)
        ck_assert_int_eq(record_add(w, unknown[i], "x", 1, false), ERR_ARGUMENT);
    ck_ok(record_add(w, "dump-0.safetensors", "x", 1, false));
    ck_ok(record_add(w, "dump-100.safetensors", "x", 1, false));
    ck_assert_int_eq(record_add(w, "dump-0.safetensors", "x", 1, false), ERR_ARGUMENT);
    record_abandon(w);
}
END_TEST

START_TEST(record_measured_members_do_not_decide_identity)
{
    struct record *a, *b, *c;
    const char *first;
    ck_ok(record_open(&a, write_record("ia.rematch.tar", config, timing)));
    ck_ok(record_open(&b, write_record("ib.rematch.tar", config, "{\"seconds\":9}\n")));
    ck_ok(record_open(&c, write_record("ic.rematch.tar", "{}\n", timing)));
    ck_assert(record_identical(a, b, &first));
    ck_assert(!record_identical(a, c, &first));
    ck_assert_str_eq(first, "config.json");
    record_close(a);
    record_close(b);
    record_close(c);
}
END_TEST

/* ---- hostile archives: made entry by entry, each wrong in one way ---- */

struct hostile {
    const char *name, *link;
    unsigned kind;
    bool hard, sparse;
    la_int64_t declared; /* 0: what is written */
    const char *says;    /* what the message must hold beside the name */
};

static const struct hostile hostile[] = {
    {.name = "/etc/config.json", .kind = AE_IFREG, .says = "absolute"},
    {.name = "../config.json", .kind = AE_IFREG, .says = "climbs"},
    {.name = "a/../../config.json", .kind = AE_IFREG, .says = "climbs"},
    {.name = "a/config.json", .kind = AE_IFREG, .says = "flat"},
    {.name = "config.json", .kind = AE_IFLNK, .link = "/etc/passwd", .says = "symbolic link"},
    {.name = "config.json", .kind = AE_IFREG, .link = "plans.json", .hard = true, .says = "hard link"},
    {.name = "config.json", .kind = AE_IFCHR, .says = "device"},
    {.name = "config.json", .kind = AE_IFBLK, .says = "device"},
    {.name = "config.json", .kind = AE_IFIFO, .says = "pipe"},
    {.name = "config.json", .kind = AE_IFDIR, .says = "folder"},
    {.name = "plans.json", .kind = AE_IFREG, .says = "twice"},
    {.name = "config.json", .kind = AE_IFREG, .sparse = true, .says = "sparse"},
    {.name = "manifest.json", .kind = AE_IFREG, .declared = (16 << 20) + 1, .says = "at most 16777216"},
    {.name = "virus.sh", .kind = AE_IFREG, .says = "not a name"},
    {.name = "dump-007.safetensors", .kind = AE_IFREG, .says = "not a name"},
};

static void write_entry(struct archive *a, const struct hostile *h, const char *text)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, h->name);
    archive_entry_set_filetype(entry, h->kind);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, h->declared                       ? h->declared
                                  : h->kind == AE_IFREG && !h->hard ? (la_int64_t)strlen(text)
                                                                    : 0);
    if (h->kind == AE_IFLNK)
        archive_entry_set_symlink(entry, h->link);
    if (h->hard)
        archive_entry_set_hardlink(entry, h->link);
    if (h->sparse) {
        archive_entry_set_size(entry, 1 << 20);
        archive_entry_sparse_add_entry(entry, 0, 512);
        archive_entry_sparse_add_entry(entry, 1 << 19, 512);
    }
    ck_assert_int_ge(archive_write_header(a, entry), ARCHIVE_WARN);
    if (h->kind == AE_IFREG && !h->hard)
        archive_write_data(a, text, strlen(text));
    archive_entry_free(entry);
}

static void write_hostile(const char *path, const struct hostile *h)
{
    const struct hostile plain = {.name = "plans.json", .kind = AE_IFREG};
    struct archive *a = archive_write_new();
    archive_write_add_filter_zstd(a);
    archive_write_set_format_pax(a);
    ck_assert_int_eq(archive_write_open_filename(a, path), ARCHIVE_OK);
    write_entry(a, &plain, "{}\n");
    write_entry(a, h, "{}\n");
    archive_write_free(a); /* fills up what was declared and not written */
}

START_TEST(record_hostile_member_refused_by_name)
{
    const struct hostile *h = &hostile[_i];
    struct record *r;
    const char *path = temporary_path("hostile.rematch.tar.zst");
    write_hostile(path, h);
    ck_assert_int_eq(record_open(&r, path), ERR_INPUT);
    ck_said(h->name);
    ck_said(h->says);
}
END_TEST

static void refused(const char *path, const void *bytes, size_t size, const char *says)
{
    struct record *r;
    ck_ok(file_write(path, bytes, size));
    ck_assert_msg(record_open(&r, path) == ERR_INPUT, "%s", status_text());
    ck_said(says);
}

START_TEST(record_bytes_behind_or_cut_refused)
{
    char *whole, *longer;
    size_t size;
    const char *path = write_record("ends.rematch.tar", config, timing);
    ck_ok(file_read(path, 1 << 20, &whole, &size));
    longer = calloc(1, size + 512);
    memcpy(longer, whole, size);
    refused(path, longer, size + 512, "follow the end");
    refused(path, longer, size + 1, "follow the end");
    refused(path, whole, size - 1, "cut off");
    refused(path, whole, size - 1024, "cut off");
    refused(path, whole, 2 * 512, "manifest.json: is missing");
    refused(path, whole, 100, "archive");
    refused(path, whole, 0, "empty");
    /* One byte of the padding behind config.json. */
    longer[2 * 512 - 1] = 1;
    refused(path, longer, size, "seal");
    free(longer);
    free(whole);
}
END_TEST

START_TEST(record_member_behind_manifest_refused)
{
    char *whole;
    size_t size;
    const char *path = write_record("behind.rematch.tar", config, timing);
    ck_ok(file_read(path, 1 << 20, &whole, &size));
    /* The first member again, before the end blocks, under a free name. */
    char *longer = calloc(1, size + 1024);
    memcpy(longer, whole, size - 1024);
    memcpy(longer + size - 1024, whole, 1024);
    refused(path, longer, size + 1024, "config.json: is there twice");
    free(longer);
    free(whole);
}
END_TEST

START_TEST(record_foreign_version_and_missing_file_say_so)
{
    char *whole;
    size_t size;
    struct record *r;
    const char *path = write_record("version.rematch.tar", config, timing);
    ck_ok(file_read(path, 1 << 20, &whole, &size));
    char *version = memmem(whole, size, "\"version\":1", 11);
    ck_assert_ptr_nonnull(version);
    version[10] = '7';
    refused(path, whole, size, "version 7");
    refused(path, "PK\003\004 this is not a tar", 20, "archive");
    ck_assert_int_eq(record_open(&r, temporary_path("absent.rematch.tar")), ERR_IO);
    ck_said("absent.rematch.tar");
    free(whole);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {record_round_trip_gives_members_back, 1},
        {record_without_room_refused_with_path_and_reason, 1},
        {record_same_members_same_bytes, 1},
        {record_sealed_leaves_nothing_beside, 1},
        {record_abandoned_leaves_nothing, 1},
        {record_large_member_survives_temporary_file, 1},
        {record_unknown_or_doubled_member_not_written, 1},
        {record_measured_members_do_not_decide_identity, 1},
        {record_hostile_member_refused_by_name, COUNT(hostile)},
        {record_bytes_behind_or_cut_refused, 1},
        {record_member_behind_manifest_refused, 1},
        {record_foreign_version_and_missing_file_say_so, 1},
    };
    return suite_run("record", tests, COUNT(tests));
}
