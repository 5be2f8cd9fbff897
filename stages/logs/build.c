/* From lines to runs: what a step that goes back means, which values stand, and what is noted. */
#include "stages/logs/build_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { RUNS_MOST = 256, NOTES_MOST = 64, SETTINGS_MOST = 4096 };

status build_no_memory(const struct builder *b) { return FAIL(ERR_MEMORY, "'%s': no memory", b->logs->path); }

/* Room for one more element: capacities are powers of two from 8. */
static status grow(const struct builder *b, void *array, int64_t count, size_t element)
{
    if (count && (count < 8 || (count & (count - 1))))
        return OK;
    void *wider = realloc(*(void **)array, (size_t)(count ? 2 * count : 8) * element);
    if (!wider)
        return build_no_memory(b);
    *(void **)array = wider;
    return OK;
}

void build_begin(struct builder *b, struct logs *logs, const struct log_reader *reader)
{
    *b = (struct builder){.logs = logs, .reader = reader, .current = -1};
}

/* ---- notes ---- */

status build_note_of(const struct builder *b, struct log_run *run, const char *text)
{
    if (run->notes == NOTES_MOST)
        return OK;
    TRY(grow(b, &run->note, run->notes, sizeof *run->note));
    run->note[run->notes] = strdup(text);
    if (!run->note[run->notes])
        return build_no_memory(b);
    run->notes++;
    return OK;
}

status build_note(struct builder *b, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return build_note_of(b, run_of(b), text);
}

void build_unread(struct builder *b)
{
    if (!b->unread_lines++)
        b->first_unread = b->line;
}

/* ---- settings ---- */

static struct log_setting *find_setting(const struct log_run *run, const char *key)
{
    for (int i = 0; i < run->settings; i++)
        if (!strcmp(run->setting[i].key, key))
            return &run->setting[i];
    return NULL;
}

static status set_setting(struct builder *b, struct log_run *run, const char *key, const char *value)
{
    struct log_setting *known = find_setting(run, key);
    char *copy = strdup(value);
    if (!copy)
        return build_no_memory(b);
    if (known) {
        free(known->value);
        known->value = copy;
        return OK;
    }
    status st = run->settings == SETTINGS_MOST
                    ? FAIL(ERR_INPUT, "'%s': more than %d settings; is it a log?", b->logs->path, SETTINGS_MOST)
                    : grow(b, &run->setting, run->settings, sizeof *run->setting);
    char *name = st == OK ? strdup(key) : NULL;
    if (!name) {
        free(copy);
        return st == OK ? build_no_memory(b) : st;
    }
    run->setting[run->settings].key = name;
    run->setting[run->settings++].value = copy;
    return OK;
}

status build_setting(struct builder *b, struct text key, struct text value)
{
    char name[LOG_NAME], text[512];
    text_copy(name, sizeof name, key);
    text_copy(text, sizeof text, value);
    b->heard++;
    return set_setting(b, &b->settings, name, text);
}

status build_take_settings(struct builder *b, int64_t step)
{
    struct run_state *state = state_of(b);
    struct log_run *run = run_of(b);
    if (state->heard == b->heard)
        return OK;
    state->heard = b->heard;
    for (int i = 0; i < b->settings.settings; i++) {
        const struct log_setting *now = &b->settings.setting[i];
        const struct log_setting *before = find_setting(run, now->key);
        if (before && strcmp(before->value, now->value))
            TRY(build_note(b, "from step %" PRId64 " on %s is %s, before it was %s", step, now->key, now->value,
                           before->value));
        TRY(set_setting(b, run, now->key, now->value));
    }
    return OK;
}

status build_constant(struct builder *b, const char *series, const char *key)
{
    struct log_run *run = run_of(b);
    const struct log_series *s = NULL;
    char text[80];
    for (int i = 0; i < run->series_count && !s; i++)
        if (!strcmp(run->series[i].name, series) && run->series[i].count)
            s = &run->series[i];
    if (!s || find_setting(run, key))
        return OK;
    double first = s->point[0].value, last = s->point[s->count - 1].value;
    snprintf(text, sizeof text, first == last ? "%.15g" : "%.15g to %.15g", first, last);
    return set_setting(b, run, key, text);
}

void build_planned(struct builder *b, int64_t steps) { run_of(b)->planned_steps = steps; }

/* ---- runs ---- */

static status new_run(struct builder *b, const char *tag, int ordinal)
{
    struct logs *logs = b->logs;
    if (logs->runs == RUNS_MOST)
        return FAIL(ERR_INPUT, "'%s': its steps begin anew more than %d times; sort it by step, or cut it into files",
                    logs->path, RUNS_MOST);
    TRY(grow(b, &logs->run, logs->runs, sizeof *logs->run));
    TRY(grow(b, &b->state, logs->runs, sizeof *b->state));
    struct log_run *run = &logs->run[logs->runs];
    struct run_state *state = &b->state[logs->runs];
    *run = (struct log_run){0};
    *state = (struct run_state){.ordinal = ordinal, .heard = -1};
    snprintf(state->tag, sizeof state->tag, "%s", tag);
    if (*tag && ordinal == 1)
        snprintf(run->name, sizeof run->name, "%s", tag);
    else
        snprintf(run->name, sizeof run->name, "%.100s%s%d", tag, *tag ? "-" : "", ordinal);
    b->current = logs->runs++;
    return OK;
}

status build_run(struct builder *b, struct text tag)
{
    char name[LOG_NAME];
    text_copy(name, sizeof name, tag);
    if (b->current >= 0 && !strcmp(state_of(b)->tag, name))
        return OK;
    for (int i = b->logs->runs - 1; i >= 0; i--)
        if (!strcmp(b->state[i].tag, name)) {
            b->current = i;
            return OK;
        }
    return new_run(b, name, 1);
}

/* ---- seams ---- */

status build_end_seam(struct builder *b)
{
    struct run_state *state = state_of(b);
    if (!state->replaced_count)
        return OK;
    int64_t last = state->replaced[state->replaced_count - 1].step;
    char agreement[160] = "";
    if (state->compared && !state->differing)
        snprintf(agreement, sizeof agreement, "; as far as they overlap they are equal");
    else if (state->compared)
        snprintf(agreement, sizeof agreement,
                 "; %" PRId64 " of %" PRId64 " that overlap differ, first at step %" PRId64, state->differing,
                 state->compared, state->first_differing);
    TRY(build_note(
        b, "resumed at step %" PRId64 ": steps up to %" PRId64 " had been printed before, and the later values stand%s",
        state->seam, last, agreement));
    free(state->replaced);
    state->replaced = NULL;
    state->replaced_count = state->compared = state->differing = 0;
    return OK;
}

/* Number of points of a series below `step`. */
static int64_t points_below(const struct log_series *s, int64_t step)
{
    int64_t low = 0, high = s->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->point[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static status begin_seam(struct builder *b, int64_t step)
{
    struct run_state *state = state_of(b);
    TRY(build_end_seam(b));
    state->seam = step;
    for (int i = 0; i < run_of(b)->series_count; i++) {
        struct log_series *s = &run_of(b)->series[i];
        /* An evaluation of the very step may stand before the line that continues it. */
        int64_t keep = points_below(s, step + (s->role == LOG_HELD_OUT)), dropped = s->count - keep;
        if (s->role == LOG_LOSS && dropped && !state->replaced) {
            state->replaced = malloc((size_t)dropped * sizeof *state->replaced);
            if (!state->replaced)
                return build_no_memory(b);
            memcpy(state->replaced, s->point + keep, (size_t)dropped * sizeof *s->point);
            state->replaced_count = dropped;
        }
        s->count = keep;
        b->values -= dropped;
    }
    return OK;
}

bool build_same_value(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void compare_with_replaced(struct run_state *state, const struct log_point *p)
{
    int64_t low = 0, high = state->replaced_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (state->replaced[middle].step < p->step)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == state->replaced_count || state->replaced[low].step != p->step)
        return;
    state->compared++;
    if (!build_same_value(state->replaced[low].value, p->value) && !state->differing++)
        state->first_differing = p->step;
}

status build_step(struct builder *b, int64_t step)
{
    if (b->current < 0)
        TRY(build_run(b, text_of("")));
    struct run_state *state = state_of(b);
    if (state->begun && step < state->last && !b->separate_series) {
        if (step <= state->first) {
            char tag[LOG_NAME];
            snprintf(tag, sizeof tag, "%s", state->tag);
            TRY(new_run(b, tag, state->ordinal + 1));
            state = state_of(b);
        } else
            TRY(begin_seam(b, step));
    }
    if (!state->begun)
        state->first = step;
    state->begun = true;
    state->last = step;
    return build_take_settings(b, step);
}

int64_t build_last_step(const struct builder *b)
{
    return b->current >= 0 && state_of(b)->begun ? state_of(b)->last : -1;
}

/* ---- values ---- */

struct log_series *build_series(struct builder *b, struct text name, enum log_role role, status *failed)
{
    struct log_run *run = run_of(b);
    char printable[LOG_NAME];
    for (int i = 0; i < run->series_count; i++)
        if (text_is(name, run->series[i].name))
            return &run->series[i];
    text_copy(printable, sizeof printable, name);
    for (int i = 0; i < run->series_count; i++)
        if (!strcmp(printable, run->series[i].name))
            return &run->series[i];
    if (run->series_count == SERIES_MOST) {
        state_of(b)->left_out_series++;
        return NULL;
    }
    *failed = grow(b, &run->series, run->series_count, sizeof *run->series);
    if (*failed != OK)
        return NULL;
    struct log_series *s = &run->series[run->series_count++];
    *s = (struct log_series){.role = role};
    memcpy(s->name, printable, sizeof printable);
    return s;
}

/* The step was printed before: by another rank, or in the line before. */
static void repeat_value(struct run_state *state, enum log_role role, struct log_point *known,
                         const struct log_point *p)
{
    bool counts = role != LOG_OTHER;
    if (build_same_value(known->value, p->value))
        state->repeated += counts;
    else if (counts && !state->contradicted++)
        state->first_contradicted = p->step;
    *known = *p;
}

status build_value(struct builder *b, struct text name, enum log_role role, struct log_point value)
{
    status failed = OK;
    struct run_state *state = state_of(b);
    struct log_series *s = build_series(b, name, role, &failed);
    if (!s)
        return failed;
    value.step = state->last;
    if (s->count && value.step < s->point[s->count - 1].step) {
        int64_t keep = points_below(s, value.step);
        b->values -= s->count - keep;
        state->rewound += s->count - keep;
        s->count = keep;
    }
    if (s->count && value.step == s->point[s->count - 1].step) {
        repeat_value(state, s->role, &s->point[s->count - 1], &value);
        return OK;
    }
    if (++b->values > LOG_VALUES_MOST)
        return FAIL(ERR_INPUT, "'%s': more than %d values; cut it to the steps that matter", b->logs->path,
                    LOG_VALUES_MOST);
    TRY(grow(b, &s->point, s->count, sizeof *s->point));
    s->point[s->count++] = value;
    if (s->role == LOG_LOSS)
        compare_with_replaced(state, &value);
    return OK;
}

/* ---- what was built ---- */

const struct log_series *log_run_series(const struct log_run *run, enum log_role role)
{
    const struct log_series *best = NULL;
    for (int i = 0; i < run->series_count; i++)
        if (run->series[i].role == role && (!best || run->series[i].count > best->count))
            best = &run->series[i];
    return best;
}

const char *log_run_setting(const struct log_run *run, const char *key)
{
    const struct log_setting *setting = find_setting(run, key);
    return setting ? setting->value : NULL;
}
