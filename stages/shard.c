/* rematch-shard - text files to one token shard.
 *
 * Inputs are files, folders (walked in byte order of names; links and devices are passed over) and lists of paths as
 * data/corpus.sh writes them. A document is a file and is called by its path as given. Left out are empty files and, of
 * folders, the shard itself: a second run over the same folder gives the same shard.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "data/shards.h"
#include "stages/command.h"

enum { VOCAB = 256 };
#define LIST_MOST ((size_t)1 << 30)

struct options {
    const char *output, *tokenizer;
    bool json;
    const char **inputs; /* in order of the command line; lists are marked */
    bool *is_list;
    int count;
};

static const struct argp_option table[] = {
    {"output", 'o', "FILE", 0, "The shard to write; it replaces an older one when it is complete", 0},
    {"tokenizer", 't', "NAME", 0, "byte (default): one token for each byte, 256 in all", 0},
    {"list", 'l', "FILE", 0, "Read paths from FILE, one a line, in its order", 0},
    {"json", 'j', 0, 0, "Print the summary as one JSON object", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o':
        o->output = value;
        return 0;
    case 't':
        o->tokenizer = value;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case 'l':
        o->is_list[o->count] = true;
        o->inputs[o->count++] = value;
        return 0;
    case ARGP_KEY_ARG:
        o->inputs[o->count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!o->output)
            argp_error(state, "no output: give -o FILE");
        if (!o->count)
            argp_error(state, "no input: give files, folders or --list FILE");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct job {
    struct shard_writer *writer;
    const char *output;
    int64_t empty; /* files left out */
};

static status add_file(void *self, const char *path)
{
    struct job *job = self;
    const void *text;
    size_t bytes;
    TRY(file_map(path, &text, &bytes));
    if (!bytes) {
        job->empty++;
        return OK;
    }
    status st = shard_add_document(job->writer, path, text, bytes);
    file_unmap(text, bytes);
    return st;
}

static status add_file_of_folder(void *self, const char *path)
{
    const struct job *job = self;
    return file_is_output(path, job->output) ? OK : add_file(self, path);
}

static status add_path(struct job *job, const char *path)
{
    struct stat info;
    if (!stat(path, &info) && S_ISDIR(info.st_mode))
        return file_walk(path, add_file_of_folder, job);
    TRY(file_check_input(path, job->output));
    return add_file(job, path);
}

static status add_list(struct job *job, const char *list)
{
    status st = OK;
    char *text = NULL;
    size_t size;
    TRY(file_check_input(list, job->output));
    TRY(file_read(list, LIST_MOST, &text, &size));
    if (memchr(text, 0, size)) {
        st = FAIL(ERR_INPUT, "'%s': holds a NUL byte; expected a text with one path a line", list);
        goto done;
    }
    for (char *rest = text, *path; (path = strsep(&rest, "\n"));)
        if (*path)
            TRY_DONE(add_path(job, path));
done:
    free(text);
    return st;
}

static status print_summary(const struct options *o, const struct job *job)
{
    struct shard *shard;
    char hash[33];
    TRY(shard_open(&shard, o->output));
    uint64_t documents = shard_documents(shard), tokens = shard_tokens(shard);
    shard_hash(shard, hash);
    shard_close(shard);
    if (!o->json) {
        printf("%s: %llu documents, %llu tokens, %lld empty files left out, hash %s\n", o->output,
               (unsigned long long)documents, (unsigned long long)tokens, (long long)job->empty, hash);
        return OK;
    }
    char *text;
    size_t size;
    json_t *summary =
        json_pack("{sssIsIsIssss}", "file", o->output, "documents", (json_int_t)documents, "tokens", (json_int_t)tokens,
                  "empty", (json_int_t)job->empty, "tokenizer", o->tokenizer, "hash", hash);
    status st = json_text(&text, &size, summary);
    json_decref(summary);
    TRY(st);
    fputs(text, stdout);
    free(text);
    return OK;
}

static status make_shard(const struct options *o)
{
    status st = OK;
    struct job job = {.output = o->output};
    TRY_DONE(shard_create(&job.writer, o->output, o->tokenizer, VOCAB));
    for (int i = 0; i < o->count; i++)
        TRY_DONE(o->is_list[i] ? add_list(&job, o->inputs[i]) : add_path(&job, o->inputs[i]));
    st = shard_seal(job.writer);
    job.writer = NULL;
    if (st == OK)
        st = print_summary(o, &job);
done:
    shard_abandon(job.writer);
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        table, parse_option, "INPUT...", "Makes a token shard of text files, folders of them, or lists of paths.", 0, 0,
        0};
    struct options o = {.tokenizer = "byte"};
    o.inputs = calloc((size_t)argc, sizeof *o.inputs);
    o.is_list = calloc((size_t)argc, sizeof *o.is_list);
    if (!o.inputs || !o.is_list)
        return command_exit(FAIL(ERR_MEMORY, "no memory for %d arguments", argc));
    command_parse(&argp, argc, argv, &o);
    status st = make_shard(&o);
    free(o.inputs);
    free(o.is_list);
    return command_exit(st);
}
