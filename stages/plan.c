/* rematch-plan: a study file becomes points, one a line; or: how many layers to recompute on a card. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/jsonl.h"
#include "stages/command.h"
#include "stages/fit.h"
#include "stages/layout.h"
#include "stages/study.h"

#define LAYOUT_STUDY "study.yaml"

enum mode { MODE_STUDY, MODE_LIST, MODE_FIT };

struct options {
    enum mode mode;
    const char *study, *run, *preset;
    bool json, fit_settings;
    uint64_t memory_bytes;
    int64_t sequence_length, micro_batch_size, dp, cp, vocab;
};

/* ---- options ---- */

enum { KEY_LIST = 0x100, KEY_FIT, KEY_PRESET, KEY_MEMORY, KEY_SEQUENCE, KEY_MICRO_BATCH, KEY_DP, KEY_CP, KEY_VOCAB };

static void take_mode(struct options *o, enum mode mode, struct argp_state *state)
{
    if (o->mode != MODE_STUDY)
        argp_error(state, "--list and --fit exclude each other");
    o->mode = mode;
}

static status take_setting(struct options *o, int key, const char *argument)
{
    o->fit_settings = true;
    switch (key) {
    case KEY_PRESET:
        o->preset = argument;
        return OK;
    case KEY_MEMORY:
        return command_bytes(&o->memory_bytes, argument, "--memory");
    case KEY_SEQUENCE:
        return command_integer(&o->sequence_length, argument, "--sequence-length", 1, 1 << 22);
    case KEY_MICRO_BATCH:
        return command_integer(&o->micro_batch_size, argument, "--micro-batch-size", 1, 1 << 16);
    case KEY_DP:
        return command_integer(&o->dp, argument, "--dp", 1, 1 << 12);
    case KEY_CP:
        return command_integer(&o->cp, argument, "--cp", 1, 1 << 12);
    default:
        return command_integer(&o->vocab, argument, "--vocab", 1, 1 << 22);
    }
}

static void check_options(const struct options *o, struct argp_state *state)
{
    if (o->fit_settings && o->mode != MODE_FIT)
        argp_error(state, "--preset, --memory, --sequence-length, --micro-batch-size, --dp, --cp and --vocab belong to "
                          "--fit");
    if (o->mode == MODE_STUDY && !(o->study && o->run))
        argp_error(state, "expected STUDY.yaml and -o FOLDER, or --list FOLDER, or --fit");
    if (o->mode != MODE_STUDY && o->study)
        argp_error(state, "'%s': a study file goes with neither --list nor --fit", o->study);
    if (o->mode == MODE_FIT && !(o->preset && o->memory_bytes))
        argp_error(state, "--fit needs --preset and --memory");
    if (o->mode == MODE_FIT && o->run)
        argp_error(state, "--fit writes no files: leave -o out");
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o':
        o->run = argument;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case KEY_LIST:
        take_mode(o, MODE_LIST, state);
        o->run = argument;
        return 0;
    case KEY_FIT:
        take_mode(o, MODE_FIT, state);
        return 0;
    case KEY_PRESET:
    case KEY_MEMORY:
    case KEY_SEQUENCE:
    case KEY_MICRO_BATCH:
    case KEY_DP:
    case KEY_CP:
    case KEY_VOCAB:
        if (take_setting(o, key, argument) != OK)
            argp_error(state, "%s", status_text());
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num)
            argp_error(state, "one study file, not '%s' as well", argument);
        o->study = argument;
        return 0;
    case ARGP_KEY_END:
        check_options(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"output", 'o', "FOLDER", 0, "the run's folder, runs/NAME: points.jsonl and study.yaml are written there", 0},
    {"json", 'j', NULL, 0, "print JSON instead of a table", 0},
    {"list", KEY_LIST, "FOLDER", 0,
     "print the points of a planned study for scripts: name, role, ranks, fits, against, against_baseline, data "
     "source, cp; separated by tabs, '-' for none",
     0},
    {0, 0, NULL, 0, "How many layers to recompute:", 1},
    {"fit", KEY_FIT, NULL, 0, "print the memory that block N takes, for every N, and the smallest that fits", 1},
    {"preset", KEY_PRESET, "NAME", 0, "model: tiny, demo, study, code-3b", 1},
    {"memory", KEY_MEMORY, "BYTES", 0, "of one card: 48GiB", 1},
    {"sequence-length", KEY_SEQUENCE, "TOKENS", 0, "default: the preset's", 1},
    {"micro-batch-size", KEY_MICRO_BATCH, "N", 0, "sequences at once on each rank; default 1", 1},
    {"dp", KEY_DP, "N", 0, "data-parallel ranks, which share the optimizer's state; default 1", 1},
    {"cp", KEY_CP, "N", 0, "context-parallel ranks, which share each sequence; default 1", 1},
    {"vocab", KEY_VOCAB, "N", 0, "default: the preset's", 1},
    {0},
};

static const struct argp argp = {
    .options = option_table,
    .parser = parse,
    .args_doc = "STUDY.yaml -o FOLDER\n--list FOLDER\n--fit --preset NAME --memory BYTES",
    .doc = "Turns a study file into points, one training run a line of FOLDER/points.jsonl, with the memory that each "
           "needs; or says how many layers to recompute so that a training fits a card.",
};

/* ---- a study ---- */

static status points_text(char **text, size_t *size, const struct study_points *points)
{
    status st = OK;
    FILE *out = open_memstream(text, size);
    if (!out)
        return FAIL(ERR_MEMORY, "no memory for the points");
    for (int i = 0; i < points->count && st == OK; i++) {
        json_t *object = point_to_json(&points->point[i]);
        if (!object || json_dumpf(object, out, JSON_COMPACT) || putc('\n', out) == EOF)
            st = FAIL(ERR_MEMORY, "no memory for point '%s'", points->point[i].name);
        json_decref(object);
    }
    if (fclose(out) && st == OK)
        st = FAIL(ERR_MEMORY, "no memory for the points");
    return st;
}

static bool has_entries(const char *run, const char *folder)
{
    char path[LAYOUT_PATH];
    DIR *dir = opendir(layout_file(path, run, folder));
    bool found = false;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}

/* Records belong to the points that they were made of: those may be followed by others, but not changed. */
static status check_earlier_points(const char *run, const char *text, size_t size)
{
    char path[LAYOUT_PATH], *earlier;
    size_t earlier_size;
    if (!file_exists(layout_file(path, run, LAYOUT_POINTS)) ||
        !(has_entries(run, "records") || has_entries(run, "work")))
        return OK;
    TRY(file_read(path, SIZE_MAX, &earlier, &earlier_size));
    bool kept = earlier_size <= size && !memcmp(earlier, text, earlier_size);
    int line = 1;
    for (size_t i = 0; !kept && i < size && i < earlier_size && text[i] == earlier[i]; i++)
        line += text[i] == '\n';
    free(earlier);
    if (!kept)
        return FAIL(ERR_USAGE,
                    "%s:%d: the study now says something else, and %s holds records of the points as they were: plan "
                    "into another folder with -o, or remove %s/records and %s/work. Points added at the end of a study "
                    "are welcome.",
                    path, line, run, run, run);
    return OK;
}

/* Path without links of the deepest part of `path` that exists, malloc'ed; NULL without memory. */
static char *real_ancestor(const char *path)
{
    char *part = strdup(path), *real = NULL, *slash;
    while (part && !(real = realpath(part, NULL)) && (slash = strrchr(part, '/')))
        *(slash == part && slash[1] ? slash + 1 : slash) = 0; /* "/x" becomes "/" */
    free(part);
    return real ? real : realpath(".", NULL);
}

static bool is_within(const char *path, const char *folder)
{
    size_t length = strcmp(folder, "/") ? strlen(folder) : 0;
    return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

/* A folder of text that holds the run's folder would grow by it: records of training would become text to train on. */
static status check_source_apart(const char *source, const char *run)
{
    status st = OK;
    char *real_source = strcmp(source, "corpus") ? realpath(source, NULL) : NULL;
    if (!real_source) /* nothing that could hold a folder */
        return OK;
    char *real_run = real_ancestor(run);
    if (!real_run)
        st = FAIL(ERR_MEMORY, "'%s': no memory for its path", run);
    else if (is_within(real_run, real_source))
        st = FAIL(ERR_USAGE,
                  "data.source '%s' holds the run's folder '%s', whose shards and records would become text: give a "
                  "folder outside of it with -o, or another source",
                  source, run);
    free(real_source);
    free(real_run);
    return st;
}

static const char *policy_word(const struct point *p)
{
    static _Thread_local char word[64];
    recompute_word(&p->recompute, word);
    return word;
}

static void widen(int *column, const char *text)
{
    int width = (int)strlen(text);
    *column = width > *column ? width : *column;
}

static void print_points(const struct study_points *points, const char *run)
{
    static const double MiB = 0x1p20;
    printf("%s/" LAYOUT_POINTS ": %d points\n", run, points->count);
    int name = (int)strlen("name"), target = (int)strlen("target"), policy = (int)strlen("recompute");
    for (int i = 0; i < points->count; i++) {
        widen(&name, points->point[i].name);
        widen(&target, points->point[i].target.name);
        widen(&policy, policy_word(&points->point[i]));
    }
    printf("%5s  %-*s  %-*s  %-*s  %-7s %7s %12s %15s  fits\n", "index", name, "name", target, "target", policy,
           "recompute", "start", "steps", "planned MiB", "activations MiB");
    for (int i = 0; i < points->count; i++) {
        const struct point *p = &points->point[i];
        int64_t steps = p->training.rule.steps - (p->scratch ? 0 : p->training.branch_at);
        printf("%5d  %-*s  %-*s  %-*s  %-7s %7lld %12.1f %15.1f  %s%s\n", i, name, p->name, target, p->target.name,
               policy, policy_word(p), p->scratch ? "scratch" : "branch", (long long)steps,
               (double)p->planned_bytes / MiB, (double)p->planned_activation_bytes / MiB,
               p->fits ? "yes" : "no: skipped",
               points->automatic[i] ? "  (added: what the points of this target are compared with)" : "");
    }
}

static status print_json(json_t *object)
{
    bool written = object && !json_dumpf(object, stdout, JSON_INDENT(1)) && putchar('\n') != EOF;
    json_decref(object);
    return written ? OK : FAIL(ERR_IO, "cannot write JSON to standard output: %s", strerror(errno));
}

static json_t *points_json(const struct study_points *points, const char *run)
{
    json_t *list = json_array(), *added = json_array();
    for (int i = 0; i < points->count; i++) {
        json_array_append_new(list, point_to_json(&points->point[i]));
        if (points->automatic[i])
            json_array_append_new(added, json_string(points->point[i].name));
    }
    return json_pack("{s:s, s:o, s:o}", "run", run, "points", list, "added", added);
}

static status plan_study(const struct options *o)
{
    status st;
    char path[LAYOUT_PATH], *yaml = NULL, *text = NULL;
    size_t yaml_size, size;
    struct study *study = NULL;
    struct study_points points = {0};
    TRY_DONE(file_read(o->study, STUDY_LIMIT, &yaml, &yaml_size));
    TRY_DONE(study_parse(&study, o->study, yaml, yaml_size));
    TRY_DONE(study_points_make(&points, study));
    TRY_DONE(check_source_apart(points.point[0].data.source, o->run));
    TRY_DONE(points_text(&text, &size, &points));
    TRY_DONE(check_earlier_points(o->run, text, size));
    TRY_DONE(file_make_folder(o->run));
    TRY_DONE(file_write(layout_file(path, o->run, LAYOUT_STUDY), yaml, yaml_size));
    TRY_DONE(file_write(layout_file(path, o->run, LAYOUT_POINTS), text, size));
    if (o->json)
        TRY_DONE(print_json(points_json(&points, o->run)));
    else
        print_points(&points, o->run);
done:
    study_points_free(&points);
    study_free(study);
    free(text);
    free(yaml);
    return st;
}

static status list_points(const char *run)
{
    char path[LAYOUT_PATH];
    struct point *points;
    int count;
    TRY(points_read(&points, &count, layout_file(path, run, LAYOUT_POINTS)));
    for (int i = 0; i < count; i++) {
        const struct point *p = &points[i];
        int reference = points_reference(points, count, i);
        printf("%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\n", p->name, p->baseline ? "baseline" : "point",
               p->target.dp * p->target.cp, p->fits ? "true" : "false", reference < 0 ? "-" : points[reference].name,
               i ? points[0].name : "-", p->data.source, p->target.cp);
    }
    free(points);
    return OK;
}

/* ---- fit ---- */

static status plan_fit(const struct options *o)
{
    status st = OK;
    struct fit fit;
    struct fit_request request = {.micro_batch_size = (int)o->micro_batch_size,
                                  .dp = (int)o->dp,
                                  .cp = (int)o->cp,
                                  .memory_bytes = o->memory_bytes};
    TRY(shape_preset(&request.shape, o->preset));
    if (o->sequence_length)
        request.shape.sequence = (int)o->sequence_length;
    if (o->vocab)
        request.shape.vocab = (int)o->vocab;
    TRY(fit_make(&fit, &request));
    if (o->json)
        TRY_DONE(print_json(fit_json(&fit, &request)));
    else
        fit_print(&fit, &request);
    if (fit.smallest < 0)
        TRY_DONE(FAIL(ERR_RESULT, "no number of recomputed layers fits: raise --dp or --cp, or take a smaller "
                                  "--micro-batch-size"));
done:
    fit_free(&fit);
    return st;
}

int main(int argc, char **argv)
{
    struct options o = {.micro_batch_size = 1, .dp = 1, .cp = 1};
    command_parse(&argp, argc, argv, &o);
    status st = o.mode == MODE_FIT ? plan_fit(&o) : o.mode == MODE_LIST ? list_points(o.run) : plan_study(&o);
    return command_exit(st);
}
