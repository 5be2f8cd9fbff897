/* readers.h - what the readers of logs share: slices of text, numbers as they were printed, and the builder of runs.
 *
 * A reader goes through the text and tells the builder, line by line: this step, this value. The builder decides what a
 * step that goes back means, and keeps the notes.
 */
#ifndef REMATCH_STAGES_LOGS_READERS_H
#define REMATCH_STAGES_LOGS_READERS_H

#include <stddef.h>
#include <string.h>

#include "stages/logs/logs.h"

/* ---- text ---- */

struct text { /* borrowed, without a NUL behind it */
    const char *at;
    size_t size;
};

static inline struct text text_of(const char *s) { return (struct text){s, strlen(s)}; }
static inline struct text text_from(struct text t, const char *at) /* the rest, from a place inside of it */
{
    return (struct text){at, t.size - (size_t)(at - t.at)};
}
bool text_is(struct text t, const char *s);
bool text_starts(struct text t, const char *s);
bool text_ends(struct text t, const char *s);
const char *text_find(struct text t, const char *s); /* NULL: not there */
struct text text_trim(struct text t);                /* without blanks at both ends */
/* Printable UTF-8, cut to `size` with its NUL; other bytes are '?'. */
void text_copy(char *out, size_t size, struct text t);

/* A number at the beginning of `t`, its length in bytes; 0: there is none. nan and inf in any case; with `thousands`
 * "76,631" is one too. */
size_t text_number(struct text t, bool thousands, struct log_point *out);
/* The whole text is a number. */
bool text_is_number(struct text t, struct log_point *out);
bool text_is_integer(struct text t, int64_t *out);

/* Lines, ended by \n, \r\n or a bare \r (progress bars). `number` counts from 1. */
struct line {
    struct text text;
    int64_t number;
};
bool line_next(struct line *line, struct text *rest);

/* A line of a launcher: without colours (copied to `buffer`, when there are any), time stamps left in place, the rank's
 * prefix taken off: "[default3]:", "[rank0]:", "3: ". *tag is the prefix's name, "" for none. */
enum { LINE_LONGEST = 1 << 16 };
struct text line_strip(struct text line, struct text *tag, char buffer[LINE_LONGEST]);

/* ---- JSON, and Python's dicts, which add quotes like 'this', None, True and nan ---- */

struct tree_scalar {
    int depth; /* keys that lead here */
    const struct text *key;
    const int64_t *index; /* of each key: its number in the array, -1 in an object */
    struct text value;    /* as printed; a string without its quotes, escapes left as they are */
    bool quoted;
};
enum { TREE_DEEPEST = 32 };
/* Calls `scalar` for each scalar, depth first, and `closed` (NULL: nothing) after each object. *end is behind the value.
 * False where the text is no such value, at *end. A status of a callback other than OK stops: it goes to *failed. */
typedef status tree_take(void *self, const struct tree_scalar *s);
bool tree_walk(struct text text, tree_take *scalar, tree_take *closed, void *self, const char **end, status *failed);

/* ---- rows of named values: JSON lines, dicts, tables ---- */

enum { ROW_MOST = 1024 };
struct row {
    int count;
    struct {
        struct text name, value;
    } cell[ROW_MOST];
    char names[1 << 15]; /* of nested keys, joined by '/' */
    size_t used;
};
/* Sums up a whole training, as the Trainer's last row does. */
bool row_is_summary(const struct row *row);
/* The cell that holds the step; -1: none. */
int row_step(const struct row *row, int64_t *step, int64_t *planned);

/* ---- building ---- */

struct log_reader;
struct builder {
    struct logs *logs;
    const struct log_reader *reader;
    bool separate_series;    /* steps of one series say nothing about the others */
    bool merges;             /* tags are ranks, and ranks that print the same are one run */
    struct run_state *state; /* of each run */
    struct log_run settings; /* what was heard, its settings only */
    int64_t heard;           /* how often */
    int current;             /* the run being filled, -1: none */
    int64_t values;
    int64_t line; /* being read, 0: lines are not counted */
    int64_t unread_lines, first_unread;
};

void build_begin(struct builder *b, struct logs *logs, const struct log_reader *reader);
/* Ends all runs: intervals, notes, doubles. ERR_INPUT when there is nothing. Releases the builder either way. */
status build_end(struct builder *b, status so_far);

/* Values that follow belong to the run of this tag (a rank's prefix, a column's run). */
status build_run(struct builder *b, struct text tag);
/* They belong to this step. One that goes back is a resumed run's, or, not beyond the run's first step, another run's. */
status build_step(struct builder *b, int64_t step);
status build_value(struct builder *b, struct text name, enum log_role role, struct log_point value);
/* The series of that name, made when there is none; NULL: there are too many, or *failed. */
struct log_series *build_series(struct builder *b, struct text name, enum log_role role, status *failed);
int64_t build_last_step(const struct builder *b); /* of the run being filled; -1: none yet */
void build_planned(struct builder *b, int64_t steps);
status build_setting(struct builder *b, struct text key, struct text value);
/* The values of a row at the builder's step; cells that hold no number are passed over. */
status build_row(struct builder *b, const struct row *row);
/* A series that stays the same is a setting, unless the log gave it; one that changes is "2 to 64". */
status build_constant(struct builder *b, const char *series, const char *key);
static inline const char *plural(int64_t count) { return count == 1 ? "" : "s"; }
/* Of the run being filled. */
status build_note(struct builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The line looks like one of a training, and could not be read. */
void build_unread(struct builder *b);

/* ---- names of columns, keys and tags ---- */

struct log_name {
    const char *name;
    enum log_role role;
    enum log_unit unit;
};
/* What a column of this name holds, by the names that programs use; LOG_OTHER for others. */
const struct log_name *name_find(struct text name);
/* Whether it holds steps, and how well: 0 no, larger is better ("global_step" before "step" before "iter"). */
int name_is_step(struct text name);

/* ---- readers ---- */

struct log_source {
    const char *path;
    struct text text, head; /* all of it; as much as tells its format */
};

struct log_reader {
    const char *program, *versions;
    const char *evidence; /* where its printing was looked up, or a real file of it; NULL: not verified */
    /* Number of its lines or entries in the head, at least roughly; 0: not its format. */
    int64_t (*matches)(const struct log_reader *reader, const struct log_source *s);
    status (*read)(struct builder *b, const struct log_reader *reader, const struct log_source *s);
    const struct pattern *patterns;      /* of patterns.c */
    const struct row_format *row_format; /* of rows.c */
    bool shortest; /* zeros at the end of a number are not printed: a series has the place of its finest number */
    bool mean;     /* a loss is the mean over the steps since the line before */
};

/* Families, in order: of formats that match equally well the first is meant. */
struct log_family {
    const struct log_reader *readers;
    int count;
};
extern const struct log_family family_events, family_documents, family_lines, family_megatron, family_rows,
    family_tables;

#endif
