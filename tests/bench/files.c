/* What a run reads and writes: records, checkpoints, tokens. */
#include <stdlib.h>
#include <sys/stat.h>

#include "data/record.h"
#include "data/shards.h"
#include "stages/state.h"
#include "tests/bench/step.h"
#include "tests/temporary.h"

/* Records of the weights of H 128: their bytes are what a record's bytes are. */
static const struct {
    const char *label, *suffix;
} packings[] = {{"tar", ".rematch.tar"}, {"tar, zstd level 1", RECORD_SUFFIX}};

static const char *const payloads[] = {"BF16", "F32"};

struct archive {
    const void *bytes;
    size_t size;
    char path[4096];
    double archived; /* bytes on disk */
    const struct figure *write, *read;
};

struct files {
    struct archive archive[COUNT(packings)][COUNT(payloads)];
    struct step *step;
    const struct figure *checkpoint;
    struct shard *shard;
    struct loader loader;
    uint64_t next;
    const struct figure *load;
};

enum { LOADED = 1000, SEQUENCE = 256, DOCUMENTS = 1000, DOCUMENT = 16384 };

/* ---- records ---- */

static status write_record(void *self)
{
    const struct archive *a = self;
    struct record_writer *w;
    TRY(record_create(&w, a->path));
    status st = record_add(w, "final.safetensors", a->bytes, a->size, false);
    if (st == OK)
        return record_seal(w);
    record_abandon(w);
    return st;
}

static status read_record(void *self)
{
    const struct archive *a = self;
    struct record *r;
    const void *bytes;
    size_t size;
    TRY(record_open(&r, a->path));
    status st = record_read(r, "final.safetensors", &bytes, &size);
    record_close(r);
    return st;
}

static status add_archive(struct bench *b, struct archive *a, int packing, int payload, const struct view *v)
{
    struct stat info;
    a->bytes = v->data;
    a->size = view_bytes(v);
    snprintf(a->path, sizeof a->path, "%s/%s%s", temporary_folder(), payloads[payload], packings[packing].suffix);
    struct figure write = {.run = write_record, .self = a, .bytes = (double)a->size};
    struct figure read = {.run = read_record, .self = a, .bytes = (double)a->size};
    snprintf(write.name, sizeof write.name, "record write %s %s", packings[packing].label, payloads[payload]);
    snprintf(read.name, sizeof read.name, "record read %s %s", packings[packing].label, payloads[payload]);
    TRY(bench_add(b, &write, &a->write));
    if (!stat(a->path, &info))
        a->archived = (double)info.st_size;
    return bench_add(b, &read, &a->read);
}

/* ---- checkpoint ---- */

static status write_checkpoint(void *self)
{
    const struct files *f = self;
    return state_write(temporary_path("state.safetensors"), f->step->decoder, &f->step->shape,
                       STATE_MASTER | STATE_MOMENTS, 1);
}

/* ---- tokens ---- */

static status write_shard(const char *path)
{
    static char text[DOCUMENT];
    struct shard_writer *w;
    status st = OK;
    TRY(shard_create(&w, path, "byte", 256));
    for (int i = 0; i < DOCUMENT; i++)
        text[i] = (char)('a' + i * 31 % 26);
    for (int i = 0; i < DOCUMENTS && st == OK; i++)
        st = shard_add_document(w, "text", text, sizeof text);
    if (st == OK)
        return shard_seal(w);
    shard_abandon(w);
    return st;
}

static void close_shard(void *shard) { shard_close(shard); }

static status load(void *self)
{
    struct files *f = self;
    int32_t tokens[SEQUENCE + 1];
    for (int i = 0; i < LOADED; i++)
        loader_sequence(&f->loader, f->next++, tokens);
    return OK;
}

static status add_loader(struct bench *b, struct files *f)
{
    static const int weights[3] = {1, 0, 0};
    const char *path = temporary_path("tokens.shard");
    TRY(write_shard(path));
    TRY(shard_open(&f->shard, path));
    bench_own(b, f->shard, close_shard);
    TRY(loader_open(&f->loader, f->shard, weights, SPLIT_TRAIN, SEQUENCE, 1));
    return bench_add(b, &(struct figure){.name = "loader", .run = load, .self = f}, &f->load);
}

/* ---- the group ---- */

static void remove_folder(void *unused)
{
    (void)unused;
    temporary_remove();
}

static status open_files(struct bench *b, void **self)
{
    struct files *f = *self = bench_new(b, sizeof *f);
    bench_own(b, NULL, remove_folder);
    TRY(step_find(b, &step_shapes[1], &f->step));
    struct optimizer_state state = decoder_state(f->step->decoder);
    const struct view *of[COUNT(payloads)] = {&state.weight, &state.master};
    for (int p = 0; p < COUNT(packings); p++)
        for (int i = 0; i < COUNT(payloads); i++)
            TRY(add_archive(b, &f->archive[p][i], p, i, of[i]));
    struct figure checkpoint = {.name = "checkpoint write", .run = write_checkpoint, .self = f};
    checkpoint.bytes = 3.0 * (double)view_bytes(&state.master);
    TRY(bench_add(b, &checkpoint, &f->checkpoint));
    return add_loader(b, f);
}

static void print_files(const struct bench *b, void *self, FILE *out)
{
    const struct files *f = self;
    fputs("| record | payload | MB | write, GB/s | read, GB/s | size / archived |\n|---|---|---|---|---|---|\n", out);
    for (int p = 0; p < COUNT(packings); p++)
        for (int i = 0; i < COUNT(payloads); i++) {
            const struct archive *a = &f->archive[p][i];
            double size = (double)a->size;
            fprintf(out, "| %s | %s | %.0f | %s | %s | %.2f |\n", packings[p].label, payloads[i], size * 1e-6,
                    spread_text(spread_rate(b, a->write, size), 1e-9, 2),
                    spread_text(spread_rate(b, a->read, size), 1e-9, 2), size / a->archived);
        }
    fprintf(out,
            "\nWeights of H 128. Writing hashes and syncs, reading verifies.\n\n"
            "Checkpoint of %.0f MB: %s GB/s. Loader: %s million tokens/s.\n",
            f->checkpoint->bytes * 1e-6, spread_text(spread_rate(b, f->checkpoint, f->checkpoint->bytes), 1e-9, 2),
            spread_text(spread_rate(b, f->load, (double)LOADED * SEQUENCE), 1e-6, 0));
}

const struct group group_files = {"files", "Files", open_files, print_files};
