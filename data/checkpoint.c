/* Checkpoints of a live folder. The order of events is what makes a kill harmless:
 *   parts written and synced -> commit.json written and synced -> folder renamed -> parent synced -> others removed. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/jsonl.h"
#include "data/live_format.h"
#include "data/seal.h"

/* ---- folders ---- */

static status print_path(char out[LIVE_PATH], const char *folder, const char *file)
{
    if (snprintf(out, LIVE_PATH, "%s/%s", folder, file) >= LIVE_PATH)
        return FAIL(ERR_USAGE, "'%s/%s': the path is too long; choose a shorter run folder", folder, file);
    return OK;
}

/* The step of "checkpoint-STEP", or 0 for any other name, "checkpoint-STEP.partial" among them. */
static int64_t step_of(const char *name)
{
    char again[64];
    if (strncmp(name, LIVE_PREFIX, strlen(LIVE_PREFIX)))
        return 0;
    int64_t step = strtoll(name + strlen(LIVE_PREFIX), NULL, 10);
    snprintf(again, sizeof again, LIVE_PREFIX "%" PRId64, step);
    return strcmp(name, again) ? 0 : step;
}

static int is_checkpoint(const struct dirent *entry)
{
    return !strncmp(entry->d_name, LIVE_PREFIX, strlen(LIVE_PREFIX));
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    int64_t x = step_of((*a)->d_name), y = step_of((*b)->d_name);
    return (x < y) - (x > y);
}

static status list_checkpoints(const struct live *l, struct dirent ***entries, int *count)
{
    *count = scandir(l->folder, entries, is_checkpoint, newest_first);
    return *count < 0 ? FAIL(ERR_IO, "'%s': cannot list: %s", l->folder, strerror(errno)) : OK;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

status live_checkpoints_remove(struct live *l, const char *keep)
{
    status st = OK;
    struct dirent **entries;
    int count;
    char path[LIVE_PATH];
    TRY(list_checkpoints(l, &entries, &count));
    for (int i = 0; i < count; i++) {
        if (keep && !strcmp(entries[i]->d_name, keep))
            continue;
        TRY_DONE(print_path(path, l->folder, entries[i]->d_name));
        TRY_DONE(file_remove_folder(path));
    }
done:
    free_entries(entries, count);
    return st;
}

/* ---- writing ---- */

status live_checkpoint_begin(struct live *l, int64_t step, const char **folder)
{
    char name[64];
    snprintf(name, sizeof name, LIVE_PREFIX "%" PRId64 ".partial", step);
    TRY(print_path(l->begun, l->folder, name));
    TRY(file_remove_folder(l->begun));
    TRY(file_make_folder(l->begun));
    *folder = l->begun;
    return OK;
}

struct parts {
    json_t *list;
    const char *folder;
};

static status add_part(void *self, const char *path)
{
    struct parts *parts = self;
    const void *bytes;
    size_t size;
    char hash[33];
    TRY(file_map(path, &bytes, &size));
    struct xxh3 sum = xxh3_of(bytes, size);
    file_unmap(bytes, size);
    xxh3_hex(&sum, hash);
    if (json_array_append_new(parts->list, json_pack("{sssIss}", "file", path + strlen(parts->folder) + 1, "size",
                                                     (json_int_t)size, "xxh3_128", hash)))
        return FAIL(ERR_MEMORY, "'%s': no memory for its entry in " LIVE_COMMIT, path);
    return OK;
}

static json_t *offsets_object(const struct live_offset *offsets, int count)
{
    json_t *object = json_object();
    for (int i = 0; object && i < count; i++)
        if (json_object_set_new(object, offsets[i].file, json_integer((json_int_t)offsets[i].offset))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static void configuration_hash(const char *configuration, char hash[33])
{
    struct xxh3 sum = xxh3_of(configuration, strlen(configuration));
    xxh3_hex(&sum, hash);
}

static status write_commit(const char *folder, int64_t step, const char *configuration,
                           const struct live_offset *offsets, int count)
{
    status st = OK;
    char hash[33], path[LIVE_PATH], *text = NULL;
    size_t size;
    json_t *commit = NULL;
    struct parts parts = {json_array(), folder};
    TRY_DONE(file_walk(folder, add_part, &parts));
    configuration_hash(configuration, hash);
    commit = json_pack("{sssisssIsssOso}", "format", LIVE_FORMAT, "version", LIVE_VERSION, "seal", SEAL_BLANK, "step",
                       (json_int_t)step, "configuration", hash, "files", parts.list, "offsets",
                       offsets_object(offsets, count));
    TRY_DONE(json_text(&text, &size, commit));
    TRY_DONE(seal_text(text, size));
    TRY_DONE(print_path(path, folder, LIVE_COMMIT));
    TRY_DONE(file_write(path, text, size));
done:
    json_decref(parts.list);
    json_decref(commit);
    free(text);
    return st;
}

/* ---- reading ---- */

static status check_part(const char *folder, const json_t *part)
{
    const char *file, *hex;
    int64_t expected;
    const void *bytes;
    size_t size;
    struct xxh3 hash;
    char path[LIVE_PATH];
    TRY(json_fields(part, 3, folder));
    TRY(json_text_read(&file, part, "file", folder));
    TRY(json_integer_read(&expected, part, "size", 0, folder));
    TRY(json_text_read(&hex, part, "xxh3_128", folder));
    TRY(print_path(path, folder, file));
    TRY(file_map(path, &bytes, &size));
    struct xxh3 sum = xxh3_of(bytes, size);
    file_unmap(bytes, size);
    if ((int64_t)size != expected || !xxh3_of_hex(&hash, hex) || !xxh3_equal(&hash, &sum))
        return FAIL(ERR_INPUT, "'%s': differs from what " LIVE_COMMIT " says", path);
    return OK;
}

static status check_commit(const char *folder, int64_t step, const char *text, size_t size, const json_t *commit)
{
    bool holds;
    const char *format;
    int64_t version, written;
    size_t i;
    json_t *part, *files = json_object_get(commit, "files");
    TRY(seal_text_holds(&holds, text, size));
    if (!holds)
        return FAIL(ERR_INPUT, "'%s': " LIVE_COMMIT " does not match its seal", folder);
    TRY(json_fields(commit, 7, folder));
    TRY(json_text_read(&format, commit, "format", folder));
    TRY(json_integer_read(&version, commit, "version", 0, folder));
    TRY(json_integer_read(&written, commit, "step", 1, folder));
    if (strcmp(format, LIVE_FORMAT) || version != LIVE_VERSION || written != step || !json_is_array(files))
        return FAIL(ERR_INPUT, "'%s': " LIVE_COMMIT " is of another format, version or step", folder);
    json_array_foreach(files, i, part) TRY(check_part(folder, part));
    return OK;
}

/* The commit of a checkpoint that can be used. Any failure means: it cannot. */
static status read_commit(const char *folder, int64_t step, json_t **out)
{
    status st = OK;
    char path[LIVE_PATH], *text = NULL;
    size_t size;
    json_t *commit = NULL;
    TRY(print_path(path, folder, LIVE_COMMIT));
    TRY_DONE(file_read(path, LIVE_COMMIT_MOST, &text, &size));
    TRY_DONE(json_object_parse(&commit, text, size, path));
    TRY_DONE(check_commit(folder, step, text, size, commit));
    *out = commit;
    commit = NULL;
done:
    json_decref(commit);
    free(text);
    return st;
}

/* What a caller must be told about; a folder that is only damaged or unfinished is passed over instead. */
static bool is_of_the_machine(status st) { return st == ERR_MEMORY || st == ERR_USAGE; }

/* Work that is done again must not be done in silence. */
static void note_passed_over(struct live *l, const char *name)
{
    size_t length = strlen(l->note);
    snprintf(l->note + length, sizeof l->note - length, "%s%s is damaged and was passed over: %s", length ? "; " : "",
             name, status_text());
}

const char *live_note(const struct live *l) { return *l->note ? l->note : NULL; }

static status find_newest(struct live *l, int64_t *step, json_t **commit)
{
    status st = OK;
    struct dirent **entries;
    int count;
    *commit = NULL;
    *l->note = 0;
    TRY(list_checkpoints(l, &entries, &count));
    for (int i = 0; i < count && !*commit && step_of(entries[i]->d_name) > 0; i++) {
        *step = step_of(entries[i]->d_name);
        TRY_DONE(print_path(l->found, l->folder, entries[i]->d_name));
        status read = read_commit(l->found, *step, commit);
        if (is_of_the_machine(read)) {
            st = read;
            goto done;
        }
        if (read != OK)
            note_passed_over(l, entries[i]->d_name);
    }
done:
    free_entries(entries, count);
    return st;
}

static status take_commit(const struct live *l, const json_t *commit, const char *configuration,
                          struct live_offset *offsets, int count)
{
    char hash[33];
    const char *written;
    const json_t *list = json_object_get(commit, "offsets");
    configuration_hash(configuration, hash);
    TRY(json_text_read(&written, commit, "configuration", l->found));
    if (strcmp(written, hash))
        return FAIL(ERR_INPUT,
                    "'%s': is the checkpoint of another configuration; finish that run, or remove the folder '%s' to "
                    "start anew",
                    l->found, l->folder);
    for (int i = 0; i < count; i++) {
        int64_t offset;
        TRY(json_integer_read(&offset, list, offsets[i].file, 0, l->found));
        offsets[i].offset = (uint64_t)offset;
    }
    return OK;
}

status live_checkpoint_find(struct live *l, const char *configuration, int64_t *step, const char **folder,
                            struct live_offset *offsets, int count)
{
    json_t *commit;
    TRY(find_newest(l, step, &commit));
    if (!commit) {
        *step = 0;
        *folder = NULL;
        for (int i = 0; i < count; i++)
            offsets[i].offset = 0;
        return OK;
    }
    status st = take_commit(l, commit, configuration, offsets, count);
    json_decref(commit);
    *folder = l->found;
    return st;
}

/* ---- commit ---- */

/* Gives the written folder its name, unless a valid checkpoint of the step has it. */
static status publish(const char *written, const char *path, int64_t step)
{
    json_t *standing = NULL;
    if (file_exists(path)) {
        status st = read_commit(path, step, &standing);
        json_decref(standing);
        if (st == OK)
            return OK;
        TRY(file_remove_folder(path));
    }
    return file_rename_folder(written, path);
}

status live_checkpoint_commit(struct live *l, int64_t step, const char *configuration,
                              const struct live_offset *offsets, int count)
{
    char name[64], path[LIVE_PATH], written[LIVE_PATH];
    snprintf(name, sizeof name, LIVE_PREFIX "%" PRId64, step);
    TRY(print_path(path, l->folder, name));
    if (snprintf(written, sizeof written, "%s.partial", path) >= LIVE_PATH || strcmp(written, l->begun))
        return FAIL(ERR_ARGUMENT, "checkpoint %" PRId64 " is committed without having been begun", step);
    TRY(write_commit(written, step, configuration, offsets, count));
    TRY(publish(written, path, step));
    *l->begun = 0;
    return live_checkpoints_remove(l, name);
}
