/* Tables: CSV with named columns, sparse ones too, and W&B's exports, whose columns are of several runs. */
#include "stages/logs/readers.h"

#include <stdlib.h>

enum { CELLS_MOST = ROW_MOST };

struct table {
    char comma;
    int columns;
    struct text name[CELLS_MOST];
    int cells;
    struct text cell[CELLS_MOST];
};

/* ---- cells ---- */

/* Quotes are taken off; a doubled quote inside stays doubled, as only numbers and names matter. */
static bool split_cells(struct text line, char comma, struct text *cell, int *count)
{
    const char *at = line.at, *end = line.at + line.size;
    for (*count = 0; *count < CELLS_MOST; at++) {
        const char *start = at, *stop;
        if (at < end && *at == '"') {
            start++;
            do {
                at = at + 1 < end ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
                if (!at)
                    return false;
            } while (at + 1 < end && at[1] == '"' && at++);
            stop = at++;
            if (at < end && *at != comma)
                return false;
        } else {
            at = at < end ? memchr(at, comma, (size_t)(end - at)) : NULL;
            at = at ? at : end;
            stop = at;
        }
        cell[(*count)++] = text_trim((struct text){start, (size_t)(stop - start)});
        if (at == end)
            return true;
    }
    return false;
}

/* The one of these that stands in the line most often; 0: none. */
static char find_comma(struct text line)
{
    char best = 0;
    size_t most = 0;
    for (const char *c = ",\t;"; *c; c++) {
        size_t count = 0;
        for (size_t i = 0; i < line.size; i++)
            count += line.at[i] == *c;
        if (count > most) {
            most = count;
            best = *c;
        }
    }
    return best;
}

static bool read_header(struct table *t, struct text line)
{
    t->comma = find_comma(line);
    return t->comma && split_cells(line, t->comma, t->name, &t->columns);
}

/* Column of the step, -1: none. */
static int step_column(const struct table *t)
{
    int best = -1, rank = 0;
    for (int i = 0; i < t->columns; i++)
        if (name_is_step(t->name[i]) > rank) {
            rank = name_is_step(t->name[i]);
            best = i;
        }
    return best;
}

/* "RUN - METRIC" of W&B; false: the column is not of that form. */
static bool split_column(struct text name, struct text *run, struct text *metric)
{
    static const char dash[] = " - ";
    const char *found = NULL;
    for (const char *at = name.at; (at = text_find(text_from(name, at), dash)); at++)
        found = at;
    if (!found)
        return false;
    *run = (struct text){name.at, (size_t)(found - name.at)};
    *metric = text_from(name, found + sizeof dash - 1);
    return true;
}

static bool is_export(const struct table *t, int step)
{
    struct text run, metric;
    bool all = t->columns > 1;
    for (int i = 0; i < t->columns; i++)
        all &= i == step || split_column(t->name[i], &run, &metric);
    return all;
}

/* ---- recognising ---- */

static struct text first_line(const struct log_source *s)
{
    struct text rest = s->head;
    struct line line = {0};
    while (line_next(&line, &rest))
        if (text_trim(line.text).size)
            return line.text;
    return (struct text){s->head.at, 0};
}

static int numbers_in(const struct text *cell, int count)
{
    int numbers = 0;
    for (int i = 0; i < count; i++) {
        struct log_point p;
        numbers += text_is_number(cell[i], &p);
    }
    return numbers;
}

static int64_t count_kind(const struct log_source *s, bool export, bool named)
{
    int64_t count = 0;
    struct table *t = malloc(sizeof *t);
    if (t && read_header(t, first_line(s))) {
        int step = step_column(t), numbers = numbers_in(t->name, t->columns);
        bool fits =
            named ? numbers == 0 && step >= 0 && is_export(t, step) == export : t->columns > 1 && numbers == t->columns;
        count = fits;
    }
    free(t);
    return count;
}

static int64_t count_export(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return count_kind(s, true, true);
}

static int64_t count_named(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return count_kind(s, false, true);
}

static int64_t count_nameless(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return count_kind(s, false, false);
}

/* ---- reading ---- */

static status take_cell(struct builder *b, const struct table *t, int column, bool export, int64_t step)
{
    struct log_point value;
    struct text run = {t->name[column].at, 0}, metric = t->name[column];
    if (export)
        split_column(t->name[column], &run, &metric);
    if (!text_is_number(t->cell[column], &value)) {
        /* An empty cell belongs to a row of another kind; anything else stands where a loss should. */
        if (text_trim(t->cell[column]).size && name_find(metric)->role != LOG_OTHER)
            build_unread(b);
        return OK;
    }
    /* Minimum and maximum within a bin of the chart; the bin's value stands in the column before them. */
    if (text_ends(metric, "__MIN") || text_ends(metric, "__MAX"))
        return OK;
    const struct log_name *name = name_find(metric);
    TRY(build_run(b, run));
    TRY(build_step(b, step));
    TRY(build_value(b, metric, name->role, value));
    status failed = OK;
    struct log_series *s = build_series(b, metric, name->role, &failed);
    if (s)
        s->unit = name->unit;
    return failed;
}

static status read_table(struct builder *b, const struct log_source *s, bool export)
{
    status st = OK;
    struct text rest = s->text;
    struct table *t = malloc(sizeof *t);
    if (!t)
        return FAIL(ERR_MEMORY, "'%s': no memory", s->path);
    int step_at = -1;
    for (struct line line = {0}; st == OK && line_next(&line, &rest);) {
        int64_t step;
        b->line = line.number;
        if (!text_trim(line.text).size)
            continue;
        if (step_at < 0) {
            read_header(t, line.text);
            step_at = step_column(t);
        } else if (!split_cells(line.text, t->comma, t->cell, &t->cells) || t->cells != t->columns ||
                   !text_is_integer(t->cell[step_at], &step) || step < 0) {
            /* A table that is appended to after a restart says its header again. */
            if (!name_is_step(t->cells > step_at ? t->cell[step_at] : line.text))
                build_unread(b);
        } else
            for (int i = 0; st == OK && i < t->columns; i++)
                if (i != step_at)
                    st = take_cell(b, t, i, export, step);
    }
    free(t);
    return st;
}

static status read_export(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return read_table(b, s, true);
}

static status read_named(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return read_table(b, s, false);
}

static status read_nameless(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)b;
    (void)reader;
    char shown[80];
    text_copy(shown, sizeof shown, first_line(s));
    return FAIL(ERR_INPUT,
                "'%s': its first line, '%s', names no columns; put one above it, such as 'step,loss,grad_norm', with "
                "the names in the order of the columns",
                s->path, shown);
}

static const struct log_reader readers[] = {
    {"W&B export (CSV)", "2024", "a real export", count_export, read_export, NULL, NULL, true, false},
    {"CSV with named columns (Lightning's CSVLogger and others)", "any", "four real files", count_named, read_named,
     NULL, NULL, true, false},
    {"CSV without names", "any", "asks for the names", count_nameless, read_nameless, NULL, NULL, true, false},
};
const struct log_family family_tables = {readers, sizeof readers / sizeof *readers};
