/* Live folders: one holder, checkpoints that exist only when committed, and kills at any moment that leave a start. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/file.h"
#include "data/live.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static const char configuration[] = "{\"name\":\"l40s-r24\"}";

static struct live *opened(const char *folder)
{
    struct live *l;
    ck_ok(live_open(&l, folder));
    return l;
}

static void write_part(const char *folder, int64_t step)
{
    char path[4200], text[100];
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    snprintf(text, sizeof text, "state of step %lld", (long long)step);
    ck_ok(file_write(path, text, strlen(text)));
}

static status checkpoint(struct live *l, int64_t step)
{
    const char *folder;
    const struct live_offset offsets[] = {{"metrics.jsonl", (uint64_t)step * 10},
                                          {"timing.jsonl", (uint64_t)step * 20}};
    TRY(live_checkpoint_begin(l, step, &folder));
    write_part(folder, step);
    return live_checkpoint_commit(l, step, configuration, offsets, 2);
}

/* Asserts that the newest checkpoint is whole and of `step`; 0: that there is none. */
static void expect_newest(struct live *l, int64_t expected)
{
    int64_t step;
    const char *folder;
    struct live_offset offsets[] = {{"timing.jsonl", 1}, {"metrics.jsonl", 1}};
    ck_ok(live_checkpoint_find(l, configuration, &step, &folder, offsets, 2));
    ck_assert_int_eq(step, expected);
    ck_assert_uint_eq(offsets[0].offset, (uint64_t)step * 20);
    ck_assert_uint_eq(offsets[1].offset, (uint64_t)step * 10);
    if (!step) {
        ck_assert_ptr_null(folder);
        return;
    }
    char path[4200], text[100], *bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    snprintf(text, sizeof text, "state of step %lld", (long long)step);
    ck_ok(file_read(path, 100, &bytes, &size));
    ck_assert_str_eq(bytes, text);
    free(bytes);
}

START_TEST(live_second_holder_refused_with_process)
{
    const char *folder = temporary_path("held/deep/point");
    struct live *l = opened(folder), *second;
    char process[32];
    snprintf(process, sizeof process, "process %ld", (long)getpid());
    ck_assert_int_eq(live_open(&second, folder), ERR_IO);
    ck_said(process);
    live_close(l);
    l = opened(folder);
    live_close(l);
    live_close(NULL);
}
END_TEST

START_TEST(live_lock_that_is_a_link_refused)
{
    struct live *l;
    char *text;
    size_t size;
    ck_ok(file_write(temporary_path("precious"), "stays", 5));
    ck_ok(file_make_folder(temporary_path("trapped")));
    ck_assert_int_eq(symlink("../precious", temporary_path("trapped/lock")), 0);
    ck_assert_int_eq(live_open(&l, temporary_path("trapped")), ERR_IO);
    ck_said("trapped/lock': cannot open: ");
    ck_said("it is a link: remove it");
    ck_ok(file_read(temporary_path("precious"), 10, &text, &size));
    ck_assert_str_eq(text, "stays");
    free(text);
}
END_TEST

START_TEST(live_status_of_nan_is_null)
{
    char *text;
    size_t size;
    struct live *l = opened(temporary_path("status"));
    ck_ok(live_status(l, "running", 7, 250, 0.0 / 0.0, 1024.5));
    ck_ok(file_read(live_path(l, "status.json"), 1000, &text, &size));
    ck_assert_str_eq(text, "{\"loss\":null,\"state\":\"running\",\"step\":7,\"steps\":250,\"tokens_per_s\":1024.5}\n");
    free(text);
    live_close(l);
}
END_TEST

START_TEST(checkpoint_newest_is_found_and_older_removed)
{
    struct live *l = opened(temporary_path("newest"));
    expect_newest(l, 0);
    ck_ok(checkpoint(l, 50));
    expect_newest(l, 50);
    ck_ok(checkpoint(l, 100));
    ck_ok(checkpoint(l, 1000));
    expect_newest(l, 1000);
    ck_assert(!file_exists(live_path(l, "checkpoint-50")) && !file_exists(live_path(l, "checkpoint-100")));
    ck_ok(checkpoint(l, 1000)); /* the same step again */
    expect_newest(l, 1000);
    ck_assert(!file_exists(live_path(l, "checkpoint-1000.partial")));
    live_close(l);
}
END_TEST

START_TEST(checkpoint_uncommitted_does_not_exist)
{
    const char *folder;
    struct live *l = opened(temporary_path("uncommitted"));
    ck_ok(checkpoint(l, 50));
    ck_ok(live_checkpoint_begin(l, 100, &folder));
    write_part(folder, 100);
    expect_newest(l, 50);
    ck_assert_int_eq(live_checkpoint_commit(l, 99, configuration, NULL, 0), ERR_ARGUMENT);
    live_close(l);
}
END_TEST

static void expect_noted(const struct live *l, const char *text)
{
    ck_assert_ptr_nonnull(live_note(l));
    ck_assert_ptr_nonnull(strstr(live_note(l), text));
}

START_TEST(checkpoint_damaged_falls_back_to_older)
{
    static const char *const damaged[] = {"checkpoint-200/commit.json", "checkpoint-200/state.safetensors"};
    char *bytes;
    size_t size;
    struct live *l = opened(temporary_path("damaged"));
    ck_ok(checkpoint(l, 100));
    /* Kept beside as a kill between rename and removal leaves it. */
    ck_assert_int_eq(rename(live_path(l, "checkpoint-100"), temporary_path("kept")), 0);
    ck_ok(checkpoint(l, 200));
    ck_assert_int_eq(rename(temporary_path("kept"), live_path(l, "checkpoint-100")), 0);
    expect_newest(l, 200);
    for (int i = 0; i < 2; i++) {
        const char *path = live_path(l, damaged[i]);
        ck_ok(file_read(path, 1 << 20, &bytes, &size));
        bytes[size / 2] ^= 1;
        ck_ok(file_write(path, bytes, size));
        expect_newest(l, 100);
        expect_noted(l, "checkpoint-200 is damaged and was passed over: ");
        bytes[size / 2] ^= 1;
        ck_ok(file_write(live_path(l, damaged[i]), bytes, size));
        expect_newest(l, 200);
        ck_assert_ptr_null(live_note(l));
        free(bytes);
    }
    ck_assert_int_eq(unlink(live_path(l, damaged[1])), 0);
    expect_newest(l, 100);
    live_close(l);
}
END_TEST

START_TEST(checkpoint_all_damaged_start_anew_and_say_so)
{
    struct live *l = opened(temporary_path("all_damaged"));
    ck_ok(checkpoint(l, 50));
    ck_assert_int_eq(unlink(live_path(l, "checkpoint-50/commit.json")), 0);
    ck_ok(file_make_folder(live_path(l, "checkpoint-60")));
    ck_ok(
        file_make_folder(live_path(l, "checkpoint-70.partial"))); /* unfinished, as after any kill: not worth a word */
    expect_newest(l, 0);
    expect_noted(l, "checkpoint-60 is damaged and was passed over: ");
    expect_noted(l, "; checkpoint-50 is damaged and was passed over: ");
    ck_assert_ptr_null(strstr(live_note(l), "checkpoint-70"));
    live_close(l);
}
END_TEST

START_TEST(checkpoint_of_other_configuration_refused)
{
    int64_t step;
    const char *folder;
    struct live *l = opened(temporary_path("foreign"));
    ck_ok(checkpoint(l, 50));
    ck_assert_int_eq(live_checkpoint_find(l, "{}", &step, &folder, NULL, 0), ERR_INPUT);
    ck_said("another configuration");
    ck_said("checkpoint-50");
    live_close(l);
}
END_TEST

START_TEST(live_finished_leaves_no_folder)
{
    struct live *l = opened(temporary_path("finished"));
    ck_ok(checkpoint(l, 50));
    ck_ok(file_write(live_path(l, "metrics.jsonl"), "", 0));
    ck_ok(live_finish(l));
    ck_assert(!file_exists(temporary_path("finished")));
    live_close(l);
    l = opened(temporary_path("finished"));
    expect_newest(l, 0);
    live_close(l);
}
END_TEST

/* ---- kills ---- */

/* Writes checkpoints of steps 1, 2, ... from the newest on; tells of each that stands, until it is killed. */
static void run_until_killed(const char *folder, int told)
{
    int64_t step;
    const char *found;
    struct live *l;
    if (live_open(&l, folder) != OK || live_checkpoint_find(l, configuration, &step, &found, NULL, 0) != OK)
        _exit(1);
    for (;;) {
        if (checkpoint(l, ++step) != OK || write(told, &step, sizeof step) != sizeof step)
            _exit(1);
    }
}

START_TEST(checkpoint_after_kill_at_any_moment_is_whole)
{
    const char *folder = temporary_path("killed");
    int64_t promised = 0;
    unsigned seed = 20240607;
    for (int kills = 0; kills < 40; kills++) {
        int pipes[2], how;
        ck_assert_int_eq(pipe(pipes), 0);
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (!child)
            run_until_killed(folder, pipes[1]);
        close(pipes[1]);
        /* Every other one gets through a checkpoint first, however busy the machine is. */
        if (kills % 2)
            ck_assert_int_eq(read(pipes[0], &promised, sizeof promised), sizeof promised);
        usleep(500 + (useconds_t)(rand_r(&seed) % 20000));
        kill(child, SIGKILL);
        waitpid(child, &how, 0);
        ck_assert(WIFSIGNALED(how));
        for (int64_t step; read(pipes[0], &step, sizeof step) == sizeof step;)
            promised = step;
        close(pipes[0]);
        struct live *l = opened(folder);
        int64_t step;
        const char *found;
        ck_ok(live_checkpoint_find(l, configuration, &step, &found, NULL, 0));
        ck_assert_int_ge(step, promised);
        expect_newest(l, step);
        live_close(l);
    }
    ck_assert_int_ge(promised, 20);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {live_second_holder_refused_with_process, 1},
        {live_lock_that_is_a_link_refused, 1},
        {live_status_of_nan_is_null, 1},
        {checkpoint_newest_is_found_and_older_removed, 1},
        {checkpoint_uncommitted_does_not_exist, 1},
        {checkpoint_damaged_falls_back_to_older, 1},
        {checkpoint_all_damaged_start_anew_and_say_so, 1},
        {checkpoint_of_other_configuration_refused, 1},
        {live_finished_leaves_no_folder, 1},
        {checkpoint_after_kill_at_any_moment_is_whole, 1},
    };
    return suite_run("live", tests, COUNT(tests));
}
