/* Files: whole or not at all, one writer at a time, and folders removed without following links. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/file.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static void expect_content(const char *path, const char *text)
{
    char *bytes;
    size_t size;
    ck_ok(file_read(path, 1000, &bytes, &size));
    ck_assert_uint_eq(size, strlen(text));
    ck_assert_str_eq(bytes, text);
    free(bytes);
}

START_TEST(file_write_replaces_whole)
{
    const char *path = temporary_path("replaced");
    ck_ok(file_write(path, "a longer text", 13));
    ck_ok(file_write(path, "short", 5));
    expect_content(path, "short");
}
END_TEST

START_TEST(file_draft_abandoned_keeps_old_file)
{
    struct file_draft draft;
    const char *path = temporary_path("kept");
    ck_ok(file_write(path, "old", 3));
    ck_ok(file_draft_open(&draft, path));
    ck_ok(file_draft_write(&draft, "new", 3));
    expect_content(path, "old");
    file_draft_abandon(&draft);
    expect_content(path, "old");
    ck_assert(!file_exists(temporary_path("kept.partial")));
}
END_TEST

START_TEST(file_draft_second_writer_refused)
{
    struct file_draft first, second;
    const char *path = temporary_path("contended");
    ck_ok(file_draft_open(&first, path));
    ck_assert_int_eq(file_draft_open(&second, path), ERR_IO);
    ck_said("another process is writing");
    ck_ok(file_draft_commit(&first, true));
    ck_ok(file_draft_open(&second, path));
    file_draft_abandon(&second);
}
END_TEST

START_TEST(file_draft_takes_over_remains)
{
    const char *path = temporary_path("remains");
    ck_ok(file_write(temporary_path("remains.partial"), "left by a killed writer", 23));
    ck_ok(file_write(path, "new", 3));
    expect_content(path, "new");
}
END_TEST

START_TEST(file_read_beyond_limit_or_absent_refused)
{
    char *bytes;
    size_t size;
    const char *path = temporary_path("limit");
    ck_ok(file_write(path, "12345", 5));
    ck_assert_int_eq(file_read(path, 4, &bytes, &size), ERR_INPUT);
    ck_assert_int_eq(file_read(temporary_path("absent"), 4, &bytes, &size), ERR_IO);
    ck_said("absent");
    ck_assert_int_eq(file_read(temporary_folder(), 4, &bytes, &size), ERR_INPUT);
}
END_TEST

START_TEST(file_empty_maps_to_null)
{
    const void *bytes = "";
    size_t size = 1;
    ck_ok(file_write(temporary_path("empty"), "", 0));
    ck_ok(file_map(temporary_path("empty"), &bytes, &size));
    ck_assert_ptr_null(bytes);
    ck_assert_uint_eq(size, 0);
    file_unmap(bytes, size);
}
END_TEST

START_TEST(output_that_is_an_input_refused)
{
    const char *a = temporary_path("text"), *link = temporary_path("other-name");
    ck_ok(file_write(a, "x", 1));
    ck_assert_int_eq(symlink("text", link), 0);
    ck_assert_int_eq(file_check_input(a, a), ERR_USAGE);
    ck_assert_int_eq(file_check_input(link, a), ERR_USAGE);
    ck_said(link);
    ck_assert_int_eq(file_check_input(a, link), ERR_USAGE);
    ck_said(a);
    ck_ok(file_write(temporary_path("new.partial"), "x", 1));
    ck_assert_int_eq(file_check_input(temporary_path("new.partial"), temporary_path("new")), ERR_USAGE);
    ck_ok(file_check_input(a, temporary_path("new")));
    ck_ok(file_check_input(temporary_path("absent"), temporary_path("absent")));
}
END_TEST

START_TEST(file_where_it_cannot_be_refused_with_a_remedy)
{
    ck_ok(file_make_folder(temporary_path("folder")));
    ck_assert_int_eq(file_write(temporary_path("folder"), "x", 1), ERR_IO);
    ck_said("is a folder; give the name of a file in it");
    ck_assert_int_eq(file_write(temporary_path("nowhere/x"), "x", 1), ERR_IO);
    ck_said("nowhere/x.partial': cannot create: its folder does not exist; make it");
    ck_ok(file_write(temporary_path("plain"), "x", 1));
    ck_assert_int_eq(file_write(temporary_path("plain/x"), "x", 1), ERR_IO);
    ck_said("a part of this path is a file");
    ck_assert_int_eq(symlink("plain", temporary_path("trap.partial")), 0);
    ck_assert_int_eq(file_write(temporary_path("trap"), "longer", 6), ERR_IO);
    ck_said("it is a link: remove it");
    expect_content(temporary_path("plain"), "x");
}
END_TEST

START_TEST(file_without_room_refused_with_path_and_reason)
{
    static const char bytes[8192];
    temporary_no_room(4096);
    ck_assert_int_eq(file_write(temporary_path("full"), bytes, sizeof bytes), ERR_IO);
    ck_said("full.partial': cannot write: File too large");
    ck_assert(!file_exists(temporary_path("full.partial")));
}
END_TEST

START_TEST(folder_made_deep_and_removed_without_following_links)
{
    ck_ok(file_write(temporary_path("outside"), "stays", 5));
    ck_ok(file_make_folder(temporary_path("tree/a/b")));
    ck_ok(file_make_folder(temporary_path("tree/a/b")));
    ck_ok(file_write(temporary_path("tree/a/file"), "x", 1));
    ck_assert_int_eq(symlink(temporary_folder(), temporary_path("tree/a/loop")), 0);
    ck_assert_int_eq(file_make_folder(temporary_path("tree/a/file/c")), ERR_IO);
    ck_ok(file_remove_folder(temporary_path("tree")));
    ck_assert(!file_exists(temporary_path("tree")));
    expect_content(temporary_path("outside"), "stays");
    ck_ok(file_remove_folder(temporary_path("tree")));
}
END_TEST

static status note(void *self, const char *path)
{
    strcat(self, strrchr(path, '/'));
    return OK;
}

START_TEST(walk_visits_regular_files_in_byte_order)
{
    char seen[100] = "";
    static const char *const files[] = {"walk/b", "walk/B", "walk/a/z", "walk/a-", "walk/c/a"};
    ck_ok(file_make_folder(temporary_path("walk/a")));
    ck_ok(file_make_folder(temporary_path("walk/c")));
    for (int i = 0; i < 5; i++)
        ck_ok(file_write(temporary_path(files[i]), "x", 1));
    ck_assert_int_eq(symlink("b", temporary_path("walk/link")), 0);
    ck_ok(file_walk(temporary_path("walk"), note, seen));
    ck_assert_str_eq(seen, "/B/z/a-/b/a");
}
END_TEST

START_TEST(xxh3_is_canonical_and_reads_back)
{
    struct xxh3 hash = xxh3_of("", 0), back;
    char text[33];
    xxh3_hex(&hash, text);
    ck_assert_str_eq(text, "99aa06d3014798d86001c324468d497f"); /* `xxhsum -H128` of nothing */
    ck_assert(xxh3_of_hex(&back, text) && xxh3_equal(&back, &hash));
    ck_assert(!xxh3_of_hex(&back, "99AA06d3014798d86001c324468d497f"));
    ck_assert(!xxh3_of_hex(&back, "99aa06d3014798d86001c324468d497"));
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {file_write_replaces_whole, 1},
        {file_draft_abandoned_keeps_old_file, 1},
        {file_draft_second_writer_refused, 1},
        {file_draft_takes_over_remains, 1},
        {file_read_beyond_limit_or_absent_refused, 1},
        {file_empty_maps_to_null, 1},
        {output_that_is_an_input_refused, 1},
        {file_where_it_cannot_be_refused_with_a_remedy, 1},
        {file_without_room_refused_with_path_and_reason, 1},
        {folder_made_deep_and_removed_without_following_links, 1},
        {walk_visits_regular_files_in_byte_order, 1},
        {xxh3_is_canonical_and_reads_back, 1},
    };
    return suite_run("file", tests, COUNT(tests));
}
