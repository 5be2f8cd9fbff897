/* log_settings.c - what two runs say about how they were made, side by side. A log tells some of it, a record all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stages/report/log.h"

enum { VALUE = 64 };

/* Settings without which a gap of losses says nothing about recompute, by Megatron-LM's names. */
static const struct {
    const char *key, *group;
} compared[] = {
    {"num_layers", "model"},
    {"hidden_size", "model"},
    {"ffn_hidden_size", "model"},
    {"num_attention_heads", "model"},
    {"padded_vocab_size", "model"},
    {"hidden_dropout", "model"},
    {"attention_dropout", "model"},
    {"data_path", "data"},
    {"split", "data"},
    {"seq_length", "sequence"},
    {"global_batch_size", "global_batch"},
    {"train_batch_size", "global_batch"},
    {"lr", "schedule"},
    {"min_lr", "schedule"},
    {"train_iters", "schedule"},
    {"max_steps", "schedule"},
    {"num_train_epochs", "schedule"},
    {"lr_decay_style", "schedule"},
    {"lr_decay_iters", "schedule"},
    {"lr_warmup_iters", "schedule"},
    {"optimizer", "optimizer"},
    {"weight_decay", "optimizer"},
    {"clip_grad", "optimizer"},
    {"adam_beta1", "optimizer"},
    {"adam_beta2", "optimizer"},
    {"adam_eps", "optimizer"},
    {"seed", "seed"},
};
static const char *const groups =
    "model, data, sequence, global_batch, schedule, optimizer, seed, interval, unit, steps";

static const char *group_of(const char *key)
{
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++)
        if (!strcmp(key, compared[i].key))
            return compared[i].group;
    return "";
}

/* ---- what a run says ---- */

/* A record's, where its point has it under that name. */
static const char *point_setting(char text[VALUE], const struct point *p, const char *key)
{
    const struct {
        const char *key;
        double value;
    } values[] = {{"num_layers", p->model.layers},
                  {"hidden_size", p->model.hidden},
                  {"ffn_hidden_size", p->model.ffn},
                  {"num_attention_heads", p->model.heads},
                  {"padded_vocab_size", p->model.vocab},
                  {"hidden_dropout", p->model.hidden_dropout},
                  {"seq_length", p->training.sequence_length},
                  {"global_batch_size", p->training.global_batch_size},
                  {"lr", p->training.rule.lr},
                  {"min_lr", p->training.rule.min_lr},
                  {"train_iters", (double)p->training.rule.steps},
                  {"lr_warmup_iters", (double)p->training.rule.warmup_steps},
                  {"weight_decay", p->training.rule.weight_decay},
                  {"clip_grad", p->training.rule.clip},
                  {"seed", (double)p->seed}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!strcmp(key, values[i].key)) {
            snprintf(text, VALUE, "%.9g", values[i].value);
            return text;
        }
    return NULL;
}

static const char *setting(char text[VALUE], const struct run *run, const char *key)
{
    return run->log ? log_run_setting(run->log->run, key) : point_setting(text, &run->point, key);
}

static bool values_equal(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (*a && *b && !*end_a && !*end_b)
        return x == y || fabs(x - y) <= 1e-6 * fabs(x); /* 1e-05 and single precision's 9.9999997e-06 */
    return !strcmp(a, b);
}

/* Steps that a value stands for. */
static int64_t span(const struct run *run)
{
    const struct log_series *loss = run->log ? run->log->loss : NULL;
    return loss && loss->mean && loss->interval ? loss->interval : 1;
}

static bool in_bits(const struct run *run) { return run->log && run->log->loss->unit == LOG_BITS; }
static bool counted(const struct run *run) { return run->log && run->log->run->counted_steps; }

struct rates {
    int64_t common, differing, first; /* steps */
};

/* Learning rates side by side, as far as both are printed. */
static struct rates compare_rates(const struct run *a, const struct run *b)
{
    struct rates rates = {0};
    const struct log_series *x = a->log ? a->log->learning_rate : NULL, *y = b->log ? b->log->learning_rate : NULL;
    for (int64_t i = 0, k = 0; x && y && i < x->count && k < y->count;) {
        const struct log_point *p = &x->point[i], *q = &y->point[k];
        i += p->step <= q->step;
        k += q->step <= p->step;
        if (p->step != q->step)
            continue;
        rates.common++;
        double least = fmax(p->half_unit, q->half_unit) + 1e-6 * fabs(p->value);
        if (!(fabs(p->value - q->value) <= least) && !rates.differing++)
            rates.first = p->step;
    }
    return rates;
}

/* ---- differences ---- */

static status differ_in_print(const struct run *a, const struct run *b, log_differs *differs, void *self)
{
    char x[VALUE], y[VALUE];
    const struct rates rates = compare_rates(a, b);
    if (span(a) != span(b)) {
        snprintf(x, sizeof x, "%lld", (long long)span(a));
        snprintf(y, sizeof y, "%lld", (long long)span(b));
        TRY(differs(self, "steps that a printed loss is the mean of", "interval", x, y));
    }
    if (in_bits(a) != in_bits(b))
        TRY(differs(self, "unit of the loss", "unit", in_bits(a) ? "bits" : "nats", in_bits(b) ? "bits" : "nats"));
    if (counted(a) != counted(b))
        TRY(differs(self, "where steps come from", "steps", counted(a) ? "counted lines" : "printed steps",
                    counted(b) ? "counted lines" : "printed steps"));
    /* A step that one run skipped shifts its schedule by one; another schedule differs nearly everywhere. */
    if (2 * rates.differing > rates.common) {
        snprintf(x, sizeof x, "another at %lld of %lld steps", (long long)rates.differing, (long long)rates.common);
        snprintf(y, sizeof y, "first at step %lld", (long long)rates.first);
        TRY(differs(self, "learning rate", "schedule", x, y));
    }
    return OK;
}

status log_differences(const struct run *a, const struct run *b, log_differs *differs, void *self)
{
    char text[2][VALUE];
    TRY(differ_in_print(a, b, differs, self));
    const struct run *with = a->log ? a : b;
    for (int i = 0; i < with->log->run->settings; i++) {
        const char *key = with->log->run->setting[i].key;
        const char *x = setting(text[0], a, key), *y = setting(text[1], b, key);
        if (x && y && !values_equal(x, y))
            TRY(differs(self, key, group_of(key), x, y));
    }
    return OK;
}

/* ---- whether they may be compared ---- */

struct check {
    const struct report *r;
    const struct run *a, *b;
};

static status check_difference(void *self, const char *key, const char *group, const char *a, const char *b)
{
    const struct check *c = self;
    bool allowed = !*group;
    for (int i = 0; i < c->r->allowed_count; i++)
        allowed |= !strcmp(c->r->allowed[i], group);
    if (allowed)
        return OK;
    return FAIL(ERR_INPUT,
                "'%s' and '%s' cannot be compared: %s: %s against %s; a gap of losses would say nothing about "
                "recompute. Take runs with the same, or say that it may differ: --allow %s",
                c->a->path, c->b->path, key, a, b, group);
}

status log_check_comparable(const struct report *r, const struct run *a, const struct run *b)
{
    struct check check = {r, a, b};
    return log_differences(a, b, check_difference, &check);
}

status log_known_group(const char *word)
{
    const char *found = strstr(groups, word);
    size_t length = strlen(word);
    bool whole = found && length && strcspn(word, ", ") == length && (found[length] == ',' || !found[length]) &&
                 (found == groups || found[-1] == ' ');
    return whole ? OK : FAIL(ERR_USAGE, "--allow '%s': expected one of %s", word, groups);
}
