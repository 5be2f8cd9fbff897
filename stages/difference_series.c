#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "stages/difference.h"

/* One quantity of two runs, over the steps that both have. */
struct gap {
    int64_t equal, first, largest_step, not_finite;
    double largest;
};

static void gap_clear(struct gap *g)
{
    memset(g, 0, sizeof *g);
    g->first = g->largest_step = -1;
}

static void gap_add(struct gap *g, int64_t step, double a, double b)
{
    if (!memcmp(&a, &b, sizeof a)) {
        g->equal++;
        return;
    }
    if (g->first < 0)
        g->first = step;
    double difference = fabs(b - a);
    if (!isfinite(difference)) {
        g->not_finite++;
    } else if (g->largest_step < 0 || difference > g->largest) {
        g->largest = difference;
        g->largest_step = step;
    }
}

static json_t *step_or_null(int64_t step) { return step < 0 ? json_null() : json_integer(step); }

static status gap_json(json_t **out, const struct gap *g)
{
    status st = OK;
    json_t *object = json_object();
    TRY_DONE(difference_put(object, "equal_steps", json_integer(g->equal)));
    TRY_DONE(difference_put(object, "first_differing_step", step_or_null(g->first)));
    TRY_DONE(difference_put(object, "largest", json_exact(g->largest)));
    TRY_DONE(difference_put(object, "largest_step", step_or_null(g->largest_step)));
    TRY_DONE(difference_put(object, "not_finite", json_integer(g->not_finite)));
    *out = json_incref(object);
done:
    json_decref(object);
    return st;
}

/* Reads a JSON-lines member; `name` gets what messages call it. */
static status member(struct side *s, const char *file, char name[4096], const void **bytes, size_t *size)
{
    snprintf(name, 4096, "%s: %s", record_path(s->record), file);
    return record_read(s->record, file, bytes, size);
}

static status side_metrics(struct side *s, struct metric **metrics, int64_t *count)
{
    char name[4096];
    const void *bytes;
    size_t size;
    TRY(member(s, "metrics.jsonl", name, &bytes, &size));
    return metrics_read(metrics, count, name, bytes, size);
}

static status metrics_json(json_t **out, int64_t common, int64_t only_a, int64_t only_b, const struct gap *loss,
                           const struct gap *grad_norm)
{
    status st = OK;
    json_t *object = json_object(), *part = NULL;
    TRY_DONE(difference_put(object, "common_steps", json_integer(common)));
    TRY_DONE(difference_put(object, "only_a", json_integer(only_a)));
    TRY_DONE(difference_put(object, "only_b", json_integer(only_b)));
    TRY_DONE(gap_json(&part, loss));
    TRY_DONE(difference_put(object, "loss", part));
    TRY_DONE(gap_json(&part, grad_norm));
    TRY_DONE(difference_put(object, "grad_norm", part));
    *out = json_incref(object);
done:
    json_decref(object);
    return st;
}

status difference_metrics(json_t **out, struct side *a, struct side *b)
{
    status st = OK;
    struct metric *ma = NULL, *mb = NULL;
    int64_t na = 0, nb = 0, common = 0;
    struct gap loss, grad_norm;
    gap_clear(&loss);
    gap_clear(&grad_norm);
    TRY_DONE(side_metrics(a, &ma, &na));
    TRY_DONE(side_metrics(b, &mb, &nb));
    for (int64_t i = 0, j = 0; i < na && j < nb;) {
        if (ma[i].step < mb[j].step) {
            i++;
        } else if (ma[i].step > mb[j].step) {
            j++;
        } else {
            gap_add(&loss, ma[i].step, ma[i].loss, mb[j].loss);
            gap_add(&grad_norm, ma[i].step, ma[i].grad_norm, mb[j].grad_norm);
            i++, j++, common++;
        }
    }
    TRY_DONE(metrics_json(out, common, na - common, nb - common, &loss, &grad_norm));
done:
    free(ma);
    free(mb);
    return st;
}

/* The sequences that both evaluated at one step: held-out sets are read in order, so the first ones are the same. */
static status evaluation_json(json_t **out, const struct evaluation *a, const struct evaluation *b)
{
    status st = OK;
    int sequences = a->sequences < b->sequences ? a->sequences : b->sequences;
    struct gap gap;
    double sum = 0;
    json_t *object = json_object(), *list = json_array();
    gap_clear(&gap);
    for (int i = 0; i < sequences; i++) {
        double difference = b->loss[i] - a->loss[i];
        gap_add(&gap, i, a->loss[i], b->loss[i]);
        sum += difference;
        TRY_DONE(difference_append(list, json_exact(difference)));
    }
    TRY_DONE(difference_put(object, "step", json_integer(a->step)));
    TRY_DONE(difference_put(object, "sequences", json_integer(sequences)));
    TRY_DONE(difference_put(object, "equal", json_integer(gap.equal)));
    TRY_DONE(difference_put(object, "mean", json_exact(sequences ? sum / sequences : 0)));
    TRY_DONE(difference_put(object, "largest", json_exact(gap.largest)));
    TRY_DONE(difference_put(object, "not_finite", json_integer(gap.not_finite)));
    TRY_DONE(difference_put(object, "difference", json_incref(list)));
    *out = json_incref(object);
done:
    json_decref(object);
    json_decref(list);
    return st;
}

static status side_evaluations(struct side *s, struct evaluations *out)
{
    char name[4096];
    const void *bytes;
    size_t size;
    TRY(member(s, "evaluations.jsonl", name, &bytes, &size));
    return evaluations_read(out, name, bytes, size);
}

status difference_held_out(json_t **out, struct side *a, struct side *b)
{
    status st = OK;
    struct evaluations ea = {0}, eb = {0};
    json_t *list = json_array(), *line = NULL;
    TRY_DONE(side_evaluations(a, &ea));
    TRY_DONE(side_evaluations(b, &eb));
    for (int i = 0, j = 0; i < ea.count && j < eb.count;) {
        if (ea.at[i].step < eb.at[j].step) {
            i++;
        } else if (ea.at[i].step > eb.at[j].step) {
            j++;
        } else {
            TRY_DONE(evaluation_json(&line, &ea.at[i++], &eb.at[j++]));
            TRY_DONE(difference_append(list, line));
        }
    }
    *out = json_incref(list);
done:
    evaluations_free(&ea);
    evaluations_free(&eb);
    json_decref(list);
    return st;
}
