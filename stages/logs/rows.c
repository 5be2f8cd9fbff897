/* Rows of named values: JSON lines and printed dicts, one object a line. */
#include "stages/logs/readers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct row_format {
    const char *mark; /* stands in its lines; NULL: a name of a step does */
    bool counts;      /* rows have no step: those with a loss are counted */
    bool exact;       /* numbers are hex floats in quotes */
};

/* ---- rows ---- */

/* "12", "12.0", "12/500". */
static bool read_step(struct text value, int64_t *step, int64_t *planned)
{
    const char *slash = value.size ? memchr(value.at, '/', value.size) : NULL;
    if (slash && !text_is_integer(text_from(value, slash + 1), planned))
        return false;
    if (slash)
        value.size = (size_t)(slash - value.at);
    return text_is_integer(value, step) && *step >= 0;
}

int row_step(const struct row *row, int64_t *step, int64_t *planned)
{
    int best = -1, best_rank = 0;
    for (int i = 0; i < row->count; i++) {
        int64_t s, p = 0;
        int rank = name_is_step(row->cell[i].name);
        if (rank > best_rank && read_step(row->cell[i].value, &s, &p)) {
            best = i;
            best_rank = rank;
            *step = s;
            *planned = p;
        }
        if (text_is(row->cell[i].name, "total_steps") && text_is_integer(row->cell[i].value, &p))
            *planned = p;
    }
    return best;
}

/* Its train_loss is the mean of the whole run. */
bool row_is_summary(const struct row *row)
{
    for (int i = 0; i < row->count; i++)
        if (text_is(row->cell[i].name, "train_runtime"))
            return true;
    return false;
}

status build_row(struct builder *b, const struct row *row)
{
    int64_t step, planned;
    int step_cell = row_step(row, &step, &planned);
    for (int i = 0; i < row->count; i++) {
        struct log_point value;
        const struct log_name *name = name_find(row->cell[i].name);
        if (i == step_cell || !text_is_number(row->cell[i].value, &value))
            continue;
        TRY(build_value(b, row->cell[i].name, name->role, value));
        status failed = OK;
        struct log_series *s = build_series(b, row->cell[i].name, name->role, &failed);
        if (s)
            s->unit = name->unit;
    }
    return OK;
}

static bool has_role(const struct row *row, enum log_role role)
{
    for (int i = 0; i < row->count; i++) {
        struct log_point value;
        if (name_find(row->cell[i].name)->role == role && text_is_number(row->cell[i].value, &value))
            return true;
    }
    return false;
}

/* ---- one object into a row ---- */

/* Nested keys are joined: {"train": {"loss": 1}} has a "train/loss". */
static struct text join_keys(struct row *row, const struct tree_scalar *s)
{
    if (s->depth == 1)
        return s->key[0];
    char *start = row->names + row->used;
    for (int i = 0; i < s->depth; i++) {
        if (s->index[i] >= 0 || row->used + s->key[i].size + 1 > sizeof row->names)
            return (struct text){start, 0};
        if (i)
            row->names[row->used++] = '/';
        memcpy(row->names + row->used, s->key[i].at, s->key[i].size);
        row->used += s->key[i].size;
    }
    return (struct text){start, (size_t)(row->names + row->used - start)};
}

static status take_cell(void *self, const struct tree_scalar *s)
{
    struct row *row = self;
    struct text name = s->depth ? join_keys(row, s) : (struct text){0};
    if (name.size && row->count < ROW_MOST) {
        row->cell[row->count].name = name;
        row->cell[row->count++].value = s->value;
    }
    return OK;
}

/* The line's object; false: it has none, or a broken one. */
static bool read_object(struct row *row, struct text line)
{
    const char *end, *json = text_find(line, "{\""), *dict = text_find(line, "{'");
    const char *at = !dict || (json && json < dict) ? json : dict;
    status failed;
    row->count = 0;
    row->used = 0;
    return at && tree_walk(text_from(line, at), take_cell, NULL, row, &end, &failed);
}

/* A line of the format whose object is cut. */
static bool is_broken(const struct row_format *f, struct text line, struct row *row)
{
    bool marked = f->mark ? text_find(line, f->mark) != NULL : text_starts(line, "{\"");
    return marked && !read_object(row, line);
}

static bool is_row(const struct row_format *f, struct text line, struct row *row)
{
    int64_t step, planned;
    if (f->mark && !text_find(line, f->mark))
        return false;
    if (!read_object(row, line))
        return false;
    if (row_is_summary(row))
        return false;
    return f->counts ? has_role(row, LOG_LOSS) || has_role(row, LOG_HELD_OUT) : row_step(row, &step, &planned) >= 0;
}

static int64_t count_rows(const struct log_reader *reader, const struct log_source *s)
{
    int64_t count = 0;
    struct text rest = s->head;
    struct row *row = malloc(sizeof *row);
    for (struct line line = {0}; row && line_next(&line, &rest);)
        count += is_row(reader->row_format, line.text, row);
    free(row);
    return count;
}

/* ---- reading ---- */

/* "0x1.8p+1", as Rematch writes them, and exactly that. */
static bool read_exact(struct text value, struct log_point *out)
{
    char copy[48], again[48], *end;
    text_copy(copy, sizeof copy, value);
    *out = (struct log_point){.value = strtod(copy, &end)};
    snprintf(again, sizeof again, "%a", out->value);
    return !strcmp(copy, again) || (isnan(out->value) && !strcmp(copy, "nan"));
}

static status take_exact_row(struct builder *b, const struct row *row)
{
    for (int i = 0; i < row->count; i++) {
        struct log_point value;
        const struct log_name *name = name_find(row->cell[i].name);
        if (name->role != LOG_OTHER && read_exact(row->cell[i].value, &value))
            TRY(build_value(b, row->cell[i].name, name->role, value));
    }
    return OK;
}

static status take_row(struct builder *b, const struct row_format *f, const struct row *row, int64_t *counted)
{
    int64_t step = *counted, planned = 0;
    if (f->counts)
        step = *counted += has_role(row, LOG_LOSS);
    else if (row_step(row, &step, &planned) < 0)
        return OK;
    TRY(build_step(b, step));
    if (planned)
        build_planned(b, planned);
    return f->exact ? take_exact_row(b, row) : build_row(b, row);
}

static status read_rows(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    status st = OK;
    const struct row_format *f = reader->row_format;
    int64_t counted = 0;
    struct text rest = s->text;
    struct row *row = malloc(sizeof *row);
    if (!row)
        return FAIL(ERR_MEMORY, "'%s': no memory", s->path);
    for (struct line line = {0}; st == OK && line_next(&line, &rest);) {
        b->line = line.number;
        if (is_row(f, line.text, row))
            st = take_row(b, f, row, &counted);
        else if (is_broken(f, line.text, row))
            build_unread(b);
    }
    for (int i = 0; f->counts && i < b->logs->runs; i++) {
        b->logs->run[i].counted_steps = true;
        b->current = i;
        if (st == OK)
            st = build_note(b, "its lines carry no step: they are counted, and 1 is the first that has a loss");
    }
    free(row);
    return st;
}

/* ---- formats ---- */

static const struct row_format rematch = {.mark = "\":\"0x", .exact = true};
static const struct row_format llama_factory = {.mark = "\"current_steps\""};
static const struct row_format swift = {.mark = "\"global_step/max_steps\""};
static const struct row_format trainer = {.mark = "'epoch'", .counts = true};
static const struct row_format any_rows = {0};

#define READER(program, versions, evidence, format, mean)                             \
    {                                                                                 \
        program, versions, evidence, count_rows, read_rows, NULL, &format, true, mean \
    }

static const struct log_reader readers[] = {
    READER("Rematch metrics.jsonl", "1", "data/FORMATS.md", rematch, false),
    READER("LLaMA-Factory trainer_log.jsonl", "2024 to 2025",
           "hiyouga/LLaMA-Factory src/llamafactory/train/callbacks.py; a real log", llama_factory, true),
    READER("ms-swift logging.jsonl", "2 and 3", "modelscope/ms-swift swift/trainers/callback.py", swift, true),
    READER("Hugging Face Trainer, console", "4.x", "printed lines in public documentation", trainer, true),
    READER("JSON lines with named values", "any", "the names in stages/logs/names.c", any_rows, false),
};
const struct log_family family_rows = {readers, sizeof readers / sizeof *readers};
