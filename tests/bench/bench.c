/* bench - measures the CPU backend: figures in rounds, tables in Markdown on stdout, raw rows in a file.
 *
 * Run by bench.sh, which adds what the machine is. Nothing here is a test: no figure decides anything but a table's
 * "met".
 */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "stages/command.h"
#include "tests/bench/bench.h"

/* In the order of the tables; the profile comes last, before what RESULTS.md makes of it. */
/* What is held against a step comes right behind it in a round; what uses most memory, and the other programs, at the end. */
static const struct group *const groups[] = {
    &group_peak, &group_gemm,       &group_attention, &group_step,  &group_recompute, &group_certificate,
    &group_head, &group_arithmetic, &group_profile,   &group_files, &group_gpt2,      &group_torch,
};

struct options {
    const char *only, *rows, *onednn, *torch;
    int64_t rounds, threads;
};

static const struct argp_option table[] = {
    {"only", 'o', "GROUPS", 0, "Measure these groups only, separated by commas", 0},
    {"rounds", 'r', "N", 0, "Rounds, 1 to 99; default 7", 0},
    {"threads", 't', "N", 0, "Threads; default: OpenMP's", 0},
    {"onednn", 'd', "COMMAND", 0, "Measure against this peer (peer_onednn)", 0},
    {"torch", 'p', "COMMAND", 0, "Measure against this peer (peer_torch.py)", 0},
    {"rows", 'w', "FILE", 0, "Write the raw rows there, one JSON object a line", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct options *o = state->input;
    status st = OK;
    switch (key) {
    case 'o':
        o->only = value;
        return 0;
    case 'r':
        st = command_integer(&o->rounds, value, "--rounds", 1, ROUNDS_MOST);
        break;
    case 't':
        st = command_integer(&o->threads, value, "--threads", 1, 1024);
        break;
    case 'd':
        o->onednn = value;
        return 0;
    case 'p':
        o->torch = value;
        return 0;
    case 'w':
        o->rows = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (st != OK)
        argp_error(state, "%s", status_text());
    return 0;
}

static const char *group_names(void)
{
    static char names[256];
    for (int i = 0; i < COUNT(groups); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", groups[i]->name);
    return names;
}

static int find_group(const char *name, size_t length)
{
    for (int i = 0; i < COUNT(groups); i++)
        if (strlen(groups[i]->name) == length && !strncmp(groups[i]->name, name, length))
            return i;
    return -1;
}

/* Marks the groups that `only` names; all where it is NULL. */
static status choose(const char *only, bool wanted[COUNT(groups)])
{
    for (int i = 0; i < COUNT(groups); i++)
        wanted[i] = !only;
    while (only) {
        size_t length = strcspn(only, ",");
        int i = find_group(only, length);
        if (i < 0)
            return FAIL(ERR_USAGE, "--only: '%.*s': no such group; there are %s", (int)length, only, group_names());
        wanted[i] = true;
        only = only[length] ? only + length + 1 : NULL;
    }
    return OK;
}

static void print_disturbance(const struct bench *b)
{
    double own = bench_own_time(b);
    printf("Between the figures this process had %.0f %% of its threads' processor time.%s\n\n", own * 100,
           own < 0.95 ? " **Other processes took the rest: figures of this run say little.**" : "");
}

static status run(const struct options *o)
{
    struct bench b = {.threads = o->threads ? (int)o->threads : omp_get_max_threads(),
                      .rounds = (int)o->rounds,
                      .onednn = o->onednn,
                      .torch = o->torch};
    bool wanted[COUNT(groups)];
    void *self[COUNT(groups)] = {0};
    status st = OK;
    omp_set_num_threads(b.threads);
    TRY(choose(o->only, wanted));
    for (int i = 0; i < COUNT(groups); i++)
        if (wanted[i])
            TRY_DONE(groups[i]->open(&b, &self[i]));
    TRY_DONE(bench_measure(&b));
    print_disturbance(&b);
    for (int i = 0; i < COUNT(groups); i++)
        if (wanted[i]) {
            printf("## %s\n\n", groups[i]->title);
            groups[i]->print(&b, self[i], stdout);
            putchar('\n');
        }
    if (o->rows)
        st = bench_write_rows(&b, o->rows);
done:
    bench_close(&b);
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        table, parse_option, NULL, "Measures the CPU backend. Prints tables in Markdown.", 0, 0, 0};
    struct options o = {.rounds = 7};
    command_parse(&argp, argc, argv, &o);
    return command_exit(run(&o));
}
