/* report.c - rematch-report: records, or logs of other trainers, to report.html, report.md, report.json and configs/<target>.yaml. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "stages/command.h"
#include "stages/report/log.h"

enum { FILES_MOST = 256, ALLOWED_MOST = 16 };

struct options {
    const char *run, *output, *fail_on;
    bool json, stable;
    struct report_file baseline[FILES_MOST], candidate[FILES_MOST];
    int baselines, candidates;
    const char *allowed[ALLOWED_MOST];
    int allowed_count;
    struct report_file *list; /* the list that the next bare argument joins */
    int *listed;
};

enum { KEY_RUN = 256, KEY_BASELINE, KEY_CANDIDATE, KEY_JSON, KEY_STABLE, KEY_FAIL_ON, KEY_ALLOW, KEY_LOGS };

static const struct argp_option option_table[] = {
    {"run", KEY_RUN, "runs/S", 0, "Report on a study's records", 0},
    {"baseline", KEY_BASELINE, "FILE...", 0,
     "Or on these, records or logs of other trainers: the baseline, then its replicates; FILE#RUN is one of several "
     "runs in a log",
     0},
    {"candidate", KEY_CANDIDATE, "[NAME=]FILE...", 0, "What is compared with it; one NAME twice makes replicates", 0},
    {"allow", KEY_ALLOW, "SETTING", 0, "Compare logs although their settings of this kind differ", 0},
    {"logs", KEY_LOGS, NULL, 0, "List the logs that are recognised, and exit", 0},
    {"output", 'o', "DIR", 0, "Where the report goes; with --run the default is runs/S/report", 0},
    {"json", KEY_JSON, NULL, 0, "Print report.json as well", 0},
    {"stable", KEY_STABLE, NULL, 0, "Leave out what is measured, to compare reports bit by bit", 0},
    {"fail-on", KEY_FAIL_ON, "VERDICT", 0, "Exit 3 when a point has this verdict (DIVERGED, DIFFERS, ...) or MISMATCH",
     0},
    {0}};

/* "name=path" where the part before '=' holds no '/', so that a path with '=' in it can be given as ./path. */
static struct report_file parse_file(char *text, bool named)
{
    char *equals = named ? strchr(text, '=') : NULL;
    char *slash = strchr(text, '/');
    if (!equals || equals == text || (slash && slash < equals))
        return (struct report_file){text, NULL};
    *equals = '\0';
    return (struct report_file){equals + 1, text};
}

static void add_file(struct argp_state *state, struct options *o, char *text)
{
    if (!o->list)
        argp_error(state, "'%s' follows neither --baseline nor --candidate", text);
    if (*o->listed == FILES_MOST)
        argp_error(state, "more than %d records", FILES_MOST);
    o->list[(*o->listed)++] = parse_file(text, o->list == o->candidate);
}

static void check_options(struct argp_state *state, const struct options *o)
{
    if (!o->run == !o->baselines)
        argp_error(state, "give either --run runs/S, or --baseline with --candidate");
    if (o->run && o->candidates)
        argp_error(state, "--candidate goes with --baseline, not with --run");
    if (o->baselines && !o->candidates)
        argp_error(state, "--baseline needs at least one --candidate");
    if (!o->run && !o->output)
        argp_error(state, "--baseline needs -o DIR");
    for (int i = 0; i < o->candidates; i++)
        for (const char *c = o->candidate[i].name; c && *c; c++)
            if (!isprint((unsigned char)*c))
                argp_error(state, "a candidate's name is printable ASCII");
}

static void add_allowed(struct argp_state *state, struct options *o, const char *word)
{
    if (log_known_group(word) != OK)
        argp_error(state, "%s", status_text());
    if (o->allowed_count == ALLOWED_MOST)
        argp_error(state, "more than %d times --allow", ALLOWED_MOST);
    o->allowed[o->allowed_count++] = word;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case KEY_RUN:
        o->run = argument;
        break;
    case KEY_BASELINE:
        o->list = o->baseline;
        o->listed = &o->baselines;
        add_file(state, o, argument);
        break;
    case KEY_CANDIDATE:
        o->list = o->candidate;
        o->listed = &o->candidates;
        add_file(state, o, argument);
        break;
    case ARGP_KEY_ARG:
        add_file(state, o, argument);
        break;
    case 'o':
        o->output = argument;
        break;
    case KEY_JSON:
        o->json = true;
        break;
    case KEY_STABLE:
        o->stable = true;
        break;
    case KEY_ALLOW:
        add_allowed(state, o, argument);
        break;
    case KEY_LOGS:
        logs_print_formats(stdout);
        exit(EXIT_SUCCESS);
    case KEY_FAIL_ON:
        if (report_known_verdict(argument) != OK)
            argp_error(state, "%s", status_text());
        o->fail_on = argument;
        break;
    case ARGP_KEY_END:
        check_options(state, o);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- writing ---- */

/* Text in memory, so that a file is written whole or not at all. */
static status write_text(const struct report *r, const char *folder, const char *name,
                         status (*print)(FILE *out, const struct report *r))
{
    char path[LAYOUT_PATH], *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return FAIL(ERR_MEMORY, "no memory for %s", name);
    status st = print(out, r);
    if (fclose(out) != 0 && st == OK)
        st = FAIL(ERR_MEMORY, "no memory for %s", name);
    if (st == OK)
        st = file_write(layout_file(path, folder, name), text, size);
    free(text);
    return st;
}

static status print_json(FILE *out, const struct report *r)
{
    json_t *json;
    TRY(report_json(&json, r));
    json_dumpf(json, out, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    fputc('\n', out);
    json_decref(json);
    return OK;
}

static status print_markdown(FILE *out, const struct report *r)
{
    report_markdown(out, r);
    return OK;
}

static status print_html(FILE *out, const struct report *r)
{
    const char *library = getenv("REMATCH_DYGRAPHS");
    return report_html(out, r, library && *library ? library : "/usr/share/javascript/dygraphs");
}

static status write_report(const struct report *r, const struct options *o)
{
    char output[LAYOUT_PATH], configs[LAYOUT_PATH];
    if (o->output)
        snprintf(output, sizeof output, "%s", o->output);
    else
        layout_file(output, o->run, "report");
    layout_file(configs, o->run ? o->run : o->output, "configs");
    TRY(file_make_folder(output));
    TRY(write_text(r, output, "report.json", print_json));
    TRY(write_text(r, output, "report.md", print_markdown));
    TRY(write_text(r, output, "report.html", print_html));
    TRY(report_configs(r, configs));
    if (o->json)
        return print_json(stdout, r);
    printf("%s/report.html\n", output);
    return OK;
}

static status run(const struct options *o)
{
    status st = OK;
    struct report report;
    if (o->run)
        TRY(report_load_study(&report, o->run));
    else
        TRY(report_load_files(&report, o->baseline, o->baselines, o->candidate, o->candidates));
    report.stable = o->stable;
    report.allowed = o->allowed;
    report.allowed_count = o->allowed_count;
    TRY_DONE(report_judge(&report));
    TRY_DONE(write_report(&report, o));
    if (o->fail_on)
        TRY_DONE(report_fail_on(&report, o->fail_on));
done:
    report_free(&report);
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        option_table,
        parse_option,
        NULL,
        "Compares the runs of a study, judges them, and writes report.html, report.md, report.json and the "
        "recommended configurations.\vExit status: 0 done, 1 failed, 2 usage, 3 a point has the verdict of --fail-on.",
        NULL,
        NULL,
        NULL};
    static struct options options;
    command_parse(&argp, argc, argv, &options);
    return command_exit(run(&options));
}
