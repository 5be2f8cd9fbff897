/* The end of reading: intervals and places of series, notes, and ranks that printed the same. */
#include "stages/logs/build_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static int compare_integers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The most frequent distance between neighbouring steps, of equal ones the smallest. */
static status find_interval(const struct builder *b, struct log_series *s)
{
    if (s->count < 2)
        return OK;
    int64_t *distance = malloc((size_t)s->count * sizeof *distance), most = 0;
    if (!distance)
        return build_no_memory(b);
    for (int64_t i = 1; i < s->count; i++)
        distance[i] = s->point[i].step - s->point[i - 1].step;
    qsort(distance + 1, (size_t)s->count - 1, sizeof *distance, compare_integers);
    for (int64_t i = 1, same = 0; i < s->count; i++) {
        same = i > 1 && distance[i] == distance[i - 1] ? same + 1 : 1;
        if (same > most) {
            most = same;
            s->interval = distance[i];
        }
    }
    free(distance);
    return OK;
}

static void share_finest_place(struct log_series *s)
{
    double finest = INFINITY;
    for (int64_t i = 0; i < s->count; i++)
        if (isfinite(s->point[i].value) && s->point[i].half_unit < finest)
            finest = s->point[i].half_unit;
    for (int64_t i = 0; i < s->count; i++)
        if (isfinite(s->point[i].value))
            s->point[i].half_unit = finest;
}

static status end_run(struct builder *b)
{
    struct run_state *state = state_of(b);
    TRY(build_end_seam(b));
    if (b->current == b->logs->runs - 1)
        TRY(build_take_settings(b, state->last)); /* some stand behind the values */
    for (int i = 0; i < run_of(b)->series_count; i++) {
        TRY(find_interval(b, &run_of(b)->series[i]));
        if (b->reader->shortest)
            share_finest_place(&run_of(b)->series[i]);
        run_of(b)->series[i].mean = b->reader->mean && run_of(b)->series[i].role == LOG_LOSS;
    }
    if (state->repeated)
        TRY(build_note(b, "%" PRId64 " value%s printed again for the same step, equal", state->repeated,
                       plural(state->repeated)));
    if (state->contradicted)
        TRY(build_note(b,
                       "%" PRId64 " value%s printed again for the same step and different, first at step %" PRId64
                       "; the later stand",
                       state->contradicted, plural(state->contradicted), state->first_contradicted));
    if (state->rewound)
        TRY(build_note(b, "%" PRId64 " value%s of steps that came again later; the later stand", state->rewound,
                       plural(state->rewound)));
    if (state->left_out_series)
        TRY(build_note(b, "values of series beyond the first %d are left out", SERIES_MOST));
    if (b->unread_lines)
        TRY(build_note(b, "left out %" PRId64 " line%s of a training that could not be read, first line %" PRId64,
                       b->unread_lines, plural(b->unread_lines), b->first_unread));
    return OK;
}

static bool runs_equal(const struct log_run *a, const struct log_run *b)
{
    bool equal = a->series_count == b->series_count;
    for (int i = 0; equal && i < a->series_count; i++) {
        const struct log_series *x = &a->series[i], *y = &b->series[i];
        equal = !strcmp(x->name, y->name) && x->count == y->count;
        for (int64_t k = 0; equal && k < x->count; k++)
            equal = x->point[k].step == y->point[k].step && build_same_value(x->point[k].value, y->point[k].value);
    }
    return equal;
}

static void free_run(struct log_run *run)
{
    for (int i = 0; i < run->series_count; i++)
        free(run->series[i].point);
    for (int i = 0; i < run->settings; i++) {
        free(run->setting[i].key);
        free(run->setting[i].value);
    }
    for (int i = 0; i < run->notes; i++)
        free(run->note[i]);
    free(run->series);
    free(run->setting);
    free(run->note);
}

static int find_equal(const struct builder *b, int run, int among)
{
    for (int i = 0; b->merges && i < among; i++)
        if (b->state[i].ordinal == b->state[run].ordinal && runs_equal(&b->logs->run[i], &b->logs->run[run]))
            return i;
    return -1;
}

/* Ranks that print the same lines are one run; a run of whose lines none could be read is none. */
static status drop_runs(struct builder *b)
{
    status st = OK;
    int kept = 0;
    for (int i = 0; i < b->logs->runs; i++) {
        struct log_run *run = &b->logs->run[i];
        int same = find_equal(b, i, kept);
        char text[2 * LOG_NAME + 64];
        snprintf(text, sizeof text, "%s printed the same values", run->name);
        if (same >= 0 && st == OK)
            st = build_note_of(b, &b->logs->run[same], text);
        if (same >= 0 || !run->series_count)
            free_run(run);
        else {
            b->state[kept] = b->state[i];
            b->logs->run[kept++] = *run;
        }
    }
    b->logs->runs = kept;
    return st;
}

static status end_runs(struct builder *b)
{
    for (b->current = 0; b->current < b->logs->runs; b->current++)
        TRY(end_run(b));
    TRY(drop_runs(b));
    if (!b->logs->runs)
        return FAIL(ERR_INPUT, "'%s': is of %s, but holds no values", b->logs->path, b->logs->format);
    return OK;
}

status build_end(struct builder *b, status so_far)
{
    int states = b->logs->runs;
    status st = so_far == OK ? end_runs(b) : so_far;
    for (int i = 0; i < states; i++)
        free(b->state[i].replaced);
    free(b->state);
    free_run(&b->settings);
    return st;
}

void logs_free(struct logs *l)
{
    for (int i = 0; i < l->runs; i++)
        free_run(&l->run[i]);
    free(l->run);
    free(l->path);
    *l = (struct logs){0};
}
