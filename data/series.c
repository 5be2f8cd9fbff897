/* The series of a run in JSON lines: metrics.jsonl and evaluations.jsonl, declared in jsonl.h. */
#include "data/jsonl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more element; `count` doubles from 64. */
static status grow(void **array, int64_t count, size_t element, const char *where)
{
    bool full = count == 0 || (count >= 64 && (count & (count - 1)) == 0);
    if (!full)
        return OK;
    void *wider = realloc(*array, (size_t)(count ? 2 * count : 64) * element);
    if (!wider)
        return FAIL(ERR_MEMORY, "%s: no memory for %lld lines", where, (long long)count);
    *array = wider;
    return OK;
}

/* ---- metrics ---- */

status metric_append(struct jsonl *j, const struct metric *m)
{
    return jsonl_append(j, json_pack("{sIsosososI}", "step", (json_int_t)m->step, "loss", json_exact(m->loss),
                                     "grad_norm", json_exact(m->grad_norm), "learning_rate",
                                     json_exact(m->learning_rate), "tokens", (json_int_t)m->tokens));
}

struct metric_list {
    struct metric *at;
    int64_t count;
};

static status metric_line(void *self, json_t *object, const char *where)
{
    struct metric_list *list = self;
    struct metric m;
    TRY(json_fields(object, 5, where));
    TRY(json_integer_read(&m.step, object, "step", 1, where));
    TRY(json_exact_read(&m.loss, object, "loss", where));
    TRY(json_exact_read(&m.grad_norm, object, "grad_norm", where));
    TRY(json_exact_read(&m.learning_rate, object, "learning_rate", where));
    TRY(json_integer_read(&m.tokens, object, "tokens", 0, where));
    if (list->count && m.step - 1 != list->at[list->count - 1].step)
        return FAIL(ERR_INPUT, "%s: step %lld follows step %lld; lines are lost or doubled", where, (long long)m.step,
                    (long long)list->at[list->count - 1].step);
    TRY(grow((void **)&list->at, list->count, sizeof m, where));
    list->at[list->count++] = m;
    return OK;
}

status metrics_read(struct metric **out, int64_t *count, const char *name, const void *bytes, size_t size)
{
    struct metric_list list = {0};
    status st = jsonl_each(name, bytes, size, metric_line, &list);
    if (st != OK) {
        free(list.at);
        return st;
    }
    *out = list.at;
    *count = list.count;
    return OK;
}

/* ---- evaluations ---- */

status evaluation_append(struct jsonl *j, const struct evaluation *e)
{
    json_t *loss = json_array();
    for (int i = 0; i < e->sequences; i++)
        if (json_array_append_new(loss, json_exact(e->loss[i]))) {
            json_decref(loss);
            loss = NULL;
            break;
        }
    /* A NULL value makes json_pack give NULL, and jsonl_append reports it. */
    return jsonl_append(j, json_pack("{sssIso}", "kind", "held_out", "step", (json_int_t)e->step, "loss", loss));
}

status score_append(struct jsonl *j, const struct score *s)
{
    return jsonl_append(j, json_pack("{sssIsssIsIsIsI}", "kind", "score", "step", (json_int_t)s->step, "file", s->file,
                                     "tokens", (json_int_t)s->tokens, "tokens_right", (json_int_t)s->tokens_right,
                                     "lines", (json_int_t)s->lines, "lines_right", (json_int_t)s->lines_right));
}

static status losses_read(struct evaluation *e, const json_t *object, const char *where)
{
    const json_t *loss = json_object_get(object, "loss");
    size_t count = json_array_size(loss);
    if (!count || count > INT32_MAX)
        return FAIL(ERR_INPUT, "%s: \"loss\": expected an array with a hex float per sequence", where);
    if (!(e->loss = malloc(count * sizeof *e->loss)))
        return FAIL(ERR_MEMORY, "%s: no memory for %zu losses", where, count);
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_pack("{sO}", "loss", json_array_get(loss, i));
        status st = json_exact_read(&e->loss[i], one, "loss", where);
        json_decref(one);
        TRY(st);
    }
    e->sequences = (int)count;
    return OK;
}

static status held_out_line(struct evaluations *all, const json_t *object, const char *where)
{
    TRY(grow((void **)&all->at, all->count, sizeof *all->at, where));
    struct evaluation *e = &all->at[all->count];
    *e = (struct evaluation){0};
    all->count++; /* counted before it is filled, so that evaluations_free finds its losses */
    TRY(json_fields(object, 3, where));
    TRY(json_integer_read(&e->step, object, "step", 0, where));
    return losses_read(e, object, where);
}

static status score_line(struct evaluations *all, const json_t *object, const char *where)
{
    const char *file;
    TRY(grow((void **)&all->score, all->scores, sizeof *all->score, where));
    struct score *s = &all->score[all->scores];
    TRY(json_fields(object, 7, where));
    TRY(json_integer_read(&s->step, object, "step", 0, where));
    TRY(json_text_read(&file, object, "file", where));
    TRY(json_integer_read(&s->tokens, object, "tokens", 0, where));
    TRY(json_integer_read(&s->tokens_right, object, "tokens_right", 0, where));
    TRY(json_integer_read(&s->lines, object, "lines", 0, where));
    TRY(json_integer_read(&s->lines_right, object, "lines_right", 0, where));
    if (strlen(file) >= sizeof s->file)
        return FAIL(ERR_INPUT, "%s: \"file\" has %zu bytes, at most %zu are allowed", where, strlen(file),
                    sizeof s->file - 1);
    if (s->tokens_right > s->tokens || s->lines_right > s->lines)
        return FAIL(ERR_INPUT, "%s: more are right than there are", where);
    strcpy(s->file, file);
    all->scores++;
    return OK;
}

static status evaluation_line(void *self, json_t *object, const char *where)
{
    const char *kind;
    TRY(json_text_read(&kind, object, "kind", where));
    if (!strcmp(kind, "held_out"))
        return held_out_line(self, object, where);
    if (!strcmp(kind, "score"))
        return score_line(self, object, where);
    return FAIL(ERR_INPUT, "%s: \"kind\" is '%.60s', expected held_out or score", where, kind);
}

status evaluations_read(struct evaluations *out, const char *name, const void *bytes, size_t size)
{
    *out = (struct evaluations){0};
    return jsonl_each(name, bytes, size, evaluation_line, out);
}

void evaluations_free(struct evaluations *e)
{
    for (int i = 0; i < e->count; i++)
        free(e->at[i].loss);
    free(e->at);
    free(e->score);
    *e = (struct evaluations){0};
}
