/* Whole JSON documents: Megatron-LM's values of functional tests, and the Trainer's state. */
#include "stages/logs/readers.h"

#include <math.h>
#include <stdlib.h>

static status broken(const struct log_source *s, const char *at)
{
    long line = 1;
    for (const char *c = s->text.at; c < at; c++)
        line += *c == '\n';
    return FAIL(ERR_INPUT, "'%s':%ld: is not JSON from here on; the file was cut or is damaged", s->path, line);
}

/* Nothing but blanks behind the value. */
static bool is_document(const struct log_source *s, const char *end)
{
    return text_trim(text_from(s->text, end)).size == 0;
}

static bool begins_as_object(const struct log_source *s)
{
    struct text t = text_trim(s->head);
    return t.size && *t.at == '{';
}

/* ---- {"lm loss": {"start_step": 1, "end_step": 100, "step_interval": 1, "values": {"1": 10.93341, ...}}, ...} ---- */

struct golden {
    struct builder *b;
    int64_t start, interval; /* of a list of values, which older versions wrote */
};

static status take_golden(void *self, const struct tree_scalar *s)
{
    struct golden *g = self;
    struct log_point value;
    int64_t step;
    if (s->depth == 2 && text_is(s->key[1], "start_step"))
        text_is_integer(s->value, &g->start);
    if (s->depth == 2 && text_is(s->key[1], "step_interval"))
        text_is_integer(s->value, &g->interval);
    if (s->depth != 3 || !text_is(s->key[1], "values") || !text_is_number(s->value, &value))
        return OK;
    if (s->index[2] >= 0)
        step = g->start + s->index[2] * g->interval;
    else if (!text_is_integer(s->key[2], &step))
        return OK;
    TRY(build_step(g->b, step));
    return build_value(g->b, s->key[0], name_find(s->key[0])->role, value);
}

static int64_t count_golden(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return begins_as_object(s) && text_find(s->head, "\"step_interval\"") && text_find(s->head, "\"values\"");
}

static status read_golden(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    struct golden g = {.b = b, .interval = 1};
    const char *end;
    status failed;
    b->separate_series = true;
    bool fine = tree_walk(s->text, take_golden, NULL, &g, &end, &failed);
    TRY(failed);
    return fine && is_document(s, end) ? OK : broken(s, end);
}

/* ---- {"log_history": [{"loss": 1.2, "step": 5, ...}, ...], "max_steps": 100, ...} ---- */

struct state {
    struct builder *b;
    struct row row;
    int64_t planned;
    struct text setting[8];
    int settings;
};

static const char *const state_settings[] = {"logging_steps", "max_steps", "num_train_epochs", "train_batch_size"};

static status take_state(void *self, const struct tree_scalar *s)
{
    struct state *state = self;
    struct row *row = &state->row;
    if (s->depth == 3 && text_is(s->key[0], "log_history") && row->count < ROW_MOST) {
        row->cell[row->count].name = s->key[2];
        row->cell[row->count++].value = s->value;
    }
    for (size_t i = 0; s->depth == 1 && i < sizeof state_settings / sizeof *state_settings; i++)
        if (text_is(s->key[0], state_settings[i]))
            TRY(build_setting(state->b, s->key[0], s->value));
    if (s->depth == 1 && text_is(s->key[0], "max_steps"))
        text_is_integer(s->value, &state->planned);
    return OK;
}

static status close_entry(void *self, const struct tree_scalar *s)
{
    struct state *state = self;
    int64_t step, planned;
    if (s->depth != 2)
        return OK;
    if (!row_is_summary(&state->row) && row_step(&state->row, &step, &planned) >= 0) {
        TRY(build_step(state->b, step));
        TRY(build_row(state->b, &state->row));
    }
    state->row.count = 0;
    return OK;
}

static int64_t count_state(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    return begins_as_object(s) && text_find(s->head, "\"log_history\"");
}

static status read_state(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    const char *end;
    status failed;
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return FAIL(ERR_MEMORY, "'%s': no memory", s->path);
    state->b = b;
    bool fine = tree_walk(s->text, take_state, close_entry, state, &end, &failed);
    fine &= is_document(s, end);
    for (int i = 0; i < b->logs->runs; i++)
        b->logs->run[i].planned_steps = state->planned;
    free(state);
    TRY(failed);
    return fine ? OK : broken(s, end);
}

static const struct log_reader readers[] = {
    {"Megatron-LM functional test values", "2024 to 2026", "six real files", count_golden, read_golden, NULL, NULL,
     true, false},
    {"Hugging Face Trainer, trainer_state.json", "4.x", "a real file", count_state, read_state, NULL, NULL, true, true},
};
const struct log_family family_documents = {readers, sizeof readers / sizeof *readers};
