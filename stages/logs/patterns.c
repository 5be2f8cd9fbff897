/* Programs that print a line a step, each as rows of patterns.
 *
 * A pattern is the text of a line with fields in braces. Its first word is searched in the line; a blank stands for any
 * number of blanks, "..." for anything up to what follows it. `also` are parts that may stand anywhere behind, or not at
 * all: the programs' versions differ in them.
 *
 *   {step} {loss} {held_out} {grad_norm} {lr}  what they say     {_} any word without a blank, comma or bar
 *   {planned}  last step of the schedule       {epoch} {in_epoch} {of_epoch}  step = (epoch - 1) of_epoch + in_epoch
 *   {=NAME}    a value under this name         {last_held_out}  of an evaluation before, printed until the next one
 * A pattern without {step} belongs to the step of the line before it.
 */
#include "stages/logs/readers.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

enum { ALSO_MOST = 6, TAKEN_MOST = 16, LINE_READ_MOST = 1 << 14 };

struct pattern {
    const char *line, *also[ALSO_MOST];
};

/* ---- matching ---- */

struct taken {
    int count;
    bool has_step;
    int64_t step, planned, epoch, in_epoch, of_epoch;
    struct {
        struct text name;
        enum log_role role;
        struct log_point value;
        bool stays; /* it is new only when it differs from the one before */
    } value[TAKEN_MOST];
};

static const struct {
    const char *field, *name;
    enum log_role role;
} value_fields[] = {{"loss", "loss", LOG_LOSS},
                    {"held_out", "held-out loss", LOG_HELD_OUT},
                    {"last_held_out", "held-out loss", LOG_HELD_OUT},
                    {"grad_norm", "grad norm", LOG_GRAD_NORM},
                    {"lr", "learning rate", LOG_LEARNING_RATE}};

static size_t take_integer(struct text rest, int64_t *out)
{
    size_t blanks = 0, size = 0;
    while (blanks < rest.size && rest.at[blanks] == ' ')
        blanks++;
    while (blanks + size < rest.size && isdigit((unsigned char)rest.at[blanks + size]))
        size++;
    return size && size < 16 && text_is_integer((struct text){rest.at + blanks, size}, out) ? blanks + size : 0;
}

static size_t take_value(struct text rest, struct text field, struct taken *taken)
{
    struct log_point value;
    size_t blanks = 0;
    while (blanks < rest.size && rest.at[blanks] == ' ')
        blanks++;
    size_t size = text_number(text_from(rest, rest.at + blanks), true, &value);
    if (!size || taken->count == TAKEN_MOST)
        return 0;
    struct text name = {field.at + 1, field.size - 1};
    enum log_role role = LOG_OTHER;
    for (size_t i = 0; i < sizeof value_fields / sizeof *value_fields; i++)
        if (text_is(field, value_fields[i].field)) {
            name = text_of(value_fields[i].name);
            role = value_fields[i].role;
        }
    taken->value[taken->count].name = name;
    taken->value[taken->count].role = role;
    taken->value[taken->count].stays = text_is(field, "last_held_out");
    taken->value[taken->count++].value = value;
    return blanks + size;
}

static size_t take_word(struct text rest)
{
    size_t i = 0;
    while (i < rest.size && rest.at[i] == ' ')
        i++;
    size_t start = i;
    while (i < rest.size && !strchr(" ,|]/)", rest.at[i]))
        i++;
    return i > start ? i : 0;
}

/* Bytes that the field takes from `rest`, 0: it does not match. */
static size_t take_field(struct text rest, struct text field, struct taken *taken)
{
    const struct {
        const char *name;
        int64_t *to;
    } integers[] = {{"step", &taken->step},
                    {"planned", &taken->planned},
                    {"epoch", &taken->epoch},
                    {"in_epoch", &taken->in_epoch},
                    {"of_epoch", &taken->of_epoch}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (text_is(field, integers[i].name)) {
            size_t size = take_integer(rest, integers[i].to);
            taken->has_step |= size && (i == 0 || i == 3);
            return size;
        }
    return text_is(field, "_") ? take_word(rest) : take_value(rest, field, taken);
}

/* Matches from the beginning of `rest` on. */
static bool match_here(struct text rest, const char *pattern, struct taken *taken)
{
    while (*pattern) {
        size_t size = 0;
        if (*pattern == '{') {
            size_t length = strcspn(pattern + 1, "}");
            size = take_field(rest, (struct text){pattern + 1, length}, taken);
            if (!size)
                return false;
            pattern += length + 2;
        } else if (!strncmp(pattern, "...", 3)) {
            size_t length = strcspn(pattern + 3, "{");
            char literal[64];
            snprintf(literal, sizeof literal, "%.*s", (int)length, pattern + 3);
            const char *found = text_find(rest, literal);
            if (!found)
                return false;
            size = (size_t)(found - rest.at) + length;
            pattern += 3 + length;
        } else if (*pattern == ' ') {
            while (size < rest.size && rest.at[size] == ' ')
                size++;
            pattern++;
        } else {
            if (!rest.size || *rest.at != *pattern)
                return false;
            size = 1;
            pattern++;
        }
        rest = text_from(rest, rest.at + size);
    }
    return true;
}

/* Matches wherever the pattern's beginning, up to its first blank or field, is found. */
static bool match_anywhere(struct text line, const char *pattern, struct taken *taken)
{
    const char *end = line.at + line.size;
    size_t head = strcspn(pattern, " {");
    bool word = isalnum((unsigned char)*pattern);
    for (const char *at = line.at; at < end && (at = memmem(at, (size_t)(end - at), pattern, head)); at++) {
        /* "train_loss:" holds "loss:": a word is found whole. */
        if (word && at > line.at && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            continue;
        struct taken attempt = *taken;
        if (match_here(text_from(line, at), pattern, &attempt)) {
            *taken = attempt;
            return true;
        }
    }
    return false;
}

/* Parts that are not there change nothing. */
static bool match_line(struct text line, const struct pattern *pattern, struct taken *taken)
{
    *taken = (struct taken){0};
    if (!match_anywhere(line, pattern->line, taken))
        return false;
    for (int i = 0; i < ALSO_MOST && pattern->also[i]; i++)
        match_anywhere(line, pattern->also[i], taken);
    if (taken->of_epoch && taken->epoch)
        taken->step = (taken->epoch - 1) * taken->of_epoch + taken->in_epoch;
    return true;
}

/* ---- reading ---- */

static const struct pattern *find_pattern(const struct log_reader *reader, struct text line, struct taken *taken)
{
    for (const struct pattern *p = reader->patterns; p->line; p++)
        if (match_line(line, p, taken))
            return p;
    return NULL;
}

static int64_t count_lines(const struct log_reader *reader, const struct log_source *s)
{
    int64_t count = 0;
    struct taken taken;
    struct text rest = s->head, tag;
    char *plain = malloc(LINE_LONGEST);
    for (struct line line = {0}; plain && line_next(&line, &rest);)
        if (line.text.size < LINE_READ_MOST && find_pattern(reader, line_strip(line.text, &tag, plain), &taken))
            count += taken.count > 0;
    free(plain);
    return count;
}

static status take_line(struct builder *b, const struct taken *taken, struct text tag)
{
    TRY(build_run(b, tag));
    if (taken->has_step)
        TRY(build_step(b, taken->step));
    else if (build_last_step(b) < 0)
        return OK; /* of no step */
    if (taken->planned)
        build_planned(b, taken->planned);
    for (int i = 0; i < taken->count; i++) {
        status failed = OK;
        const struct log_series *s = build_series(b, taken->value[i].name, taken->value[i].role, &failed);
        bool old = s && s->count && s->point[s->count - 1].value == taken->value[i].value.value;
        if (!old || !taken->value[i].stays)
            TRY(build_value(b, taken->value[i].name, taken->value[i].role, taken->value[i].value));
    }
    return OK;
}

static status read_lines(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    status st = OK;
    struct taken taken;
    struct text rest = s->text, tag;
    char *plain = malloc(LINE_LONGEST);
    if (!plain)
        return FAIL(ERR_MEMORY, "'%s': no memory", s->path);
    b->merges = true;
    for (struct line line = {0}; st == OK && line_next(&line, &rest);) {
        b->line = line.number;
        if (line.text.size >= LINE_READ_MOST)
            continue;
        struct text text = line_strip(line.text, &tag, plain);
        if (find_pattern(reader, text, &taken))
            st = take_line(b, &taken, tag);
    }
    for (b->current = 0; st == OK && b->current < b->logs->runs; b->current++)
        st = build_constant(b, "global batch size", "global_batch_size");
    free(plain);
    return st;
}

/* ---- the programs ---- */

#define PATTERNS(name, ...) static const struct pattern name[] = {__VA_ARGS__, {0}}

PATTERNS(llmc, {"s:{step} trl:{loss}", {"lr:{lr}", "norm:{grad_norm}"}}, {"s:{step} tel:{held_out}", {0}},
         {"s:{step} eval:{=eval}", {0}});
PATTERNS(llmc_console, {"step {step}/{planned} | loss {loss}", {"| norm {grad_norm}", "| lr {lr}"}},
         {"val loss {held_out}", {0}});
PATTERNS(nanogpt, {"iter {step}: loss {loss}, time", {"lr {lr}"}},
         {"step {step}: train loss {=train loss estimate}, val loss {held_out}", {0}});
PATTERNS(speedrun, {"step:{step}/{planned} train_loss:{loss}", {0}},
         {"step:{step}/{planned} val_loss:{held_out}", {0}});
PATTERNS(torchtitan, {"validate step: {step} loss: {held_out}", {0}},
         {"step: {step} loss: {loss}", {"grad_norm: {grad_norm}"}});
PATTERNS(nemo, {"Training epoch {_}, iteration {_}/{_} |...global_step: {step}",
                {"| reduced_train_loss: {loss}", "| lr: {lr}", "| grad_norm: {grad_norm}",
                 "| val_loss: {last_held_out}", "| global_batch_size: {=global batch size}"}});
PATTERNS(litgpt, {"Epoch {_} | iter {step} step {_} | loss train: {loss},", {0}},
         {"iter {step}: val loss {held_out},", {0}});
PATTERNS(maxtext, {"completed step: {step}, seconds: {_},", {"loss: {loss}"}},
         {"eval metrics after step: {step}, loss={held_out}", {0}},
         {"Completed eval after train step {step}, loss={held_out}", {0}});
PATTERNS(paddlenlp, {"- loss: {loss}, learning_rate: {lr}, global_step: {step},", {"grad_norm: {grad_norm}"}},
         {"- eval_loss: {held_out},", {0}});
PATTERNS(mindformers,
         {"Epoch:[{epoch}/{_}], step:[{in_epoch}/{of_epoch}], loss",
          {"loss: {loss},", "loss:[{loss}/", "lr: {lr},", "global_norm: {grad_norm}", "global_norm: [{grad_norm}"}});
PATTERNS(olmo, {"[step={step}/", {"[step={_}/{planned}"}}, {"train/CrossEntropyLoss={loss}", {0}},
         {"train/CE loss={loss}", {0}}, {"optim/total_grad_norm={grad_norm}", {0}},
         {"optim/total grad norm={grad_norm}", {0}}, {"optim/learning_rate_group0={lr}", {0}});

#define READER(program, versions, evidence, patterns, shortest, mean)                        \
    {                                                                                        \
        program, versions, evidence, count_lines, read_lines, patterns, NULL, shortest, mean \
    }

static const struct log_reader readers[] = {
    READER("llm.c main.log", "all", "karpathy/llm.c llmc/logger.h; a real log", llmc, false, false),
    READER("llm.c console", "train_gpt2.cu of 2024", "karpathy/llm.c train_gpt2.cu", llmc_console, false, false),
    READER("nanoGPT", "train.py", "karpathy/nanoGPT train.py; a real log", nanogpt, false, false),
    READER("modded-nanogpt", "train_gpt2.py of 2024", "KellerJordan/modded-nanogpt; two real logs", speedrun, false,
           false),
    READER("torchtitan", "2025", "pytorch/torchtitan torchtitan/components/metrics.py", torchtitan, false, false),
    READER("NeMo 2", "2024 to 2025", "NVIDIA/NeMo nemo/lightning/pytorch/callbacks/progress_printer.py", nemo, true,
           true),
    READER("litgpt", "pretrain.py, finetune", "Lightning-AI/litgpt litgpt/pretrain.py", litgpt, false, false),
    READER("MaxText", "2023 to 2025", "AI-Hypercomputer/maxtext MaxText/metric_logger.py", maxtext, false, false),
    READER("PaddleNLP", "2.x", "PaddlePaddle/PaddleNLP paddlenlp/trainer/trainer_callback.py", paddlenlp, true, true),
    READER("MindFormers", "1.x", "mindspore-lab/mindformers mindformers/core/callback/callback.py", mindformers, true,
           false),
    READER("OLMo, OLMo-core", "2024 to 2025",
           "allenai/OLMo olmo/train.py; allenai/OLMo-core .../callbacks/console_logger.py", olmo, false, false),
};
const struct log_family family_lines = {readers, sizeof readers / sizeof *readers};
