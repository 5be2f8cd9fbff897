#include "stages/field.h"

#include <stdio.h>
#include <string.h>

#include "stages/point.h"

int field_word(const char *words, const char *text, size_t length)
{
    int found;
    for (int i = 0, wanted = (int)length;; i++) {
        const char *word = field_word_at(words, i, &found);
        if (!word)
            return -1;
        if (found == wanted && !memcmp(word, text, length))
            return i;
    }
}

const char *field_word_at(const char *words, int index, int *length)
{
    for (; index > 0; index--) {
        words = strchr(words, ' ');
        if (!words)
            return NULL;
        words++;
    }
    *length = (int)strcspn(words, " ");
    return words;
}

bool field_is_name(const char *text)
{
    bool begins = true, ends = false;
    for (const char *c = text; *c; c++) {
        ends = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!ends && (begins || !strchr("._-+=", *c)))
            return false;
        begins = false;
    }
    return ends && !strstr(text, "--");
}

bool field_split(int out[3], const char *text)
{
    int value[3], used = 0;
    /* Widths keep each number inside an int. */
    if (strspn(text, "0123456789,") != strlen(text) ||
        sscanf(text, "%6d,%6d,%6d%n", &value[0], &value[1], &value[2], &used) != 3 || text[used])
        return false;
    memcpy(out, value, sizeof value);
    return value[0] + value[1] + value[2] > 0;
}

#define FIELD(in, called, is, member, ...)                                                               \
    {                                                                                                    \
        .section = in, .name = called, .kind = FIELD_##is, FIELD_AT(struct point, member), ##__VA_ARGS__ \
    }
#define RANGE FIELD_RANGE
#define WORDS(text) .words = text
#define DEFAULT(text) .fallback = text
#define REQUIRED .required = true
#define STEPS 1e12                                          /* beyond any run */
#define MODES "fixed random truncating to-zero other-order" /* arithmetic_mode_name, in its order */

#define POLICY(section, policy)                                                            \
    FIELD(section, "granularity", WORD, policy.granularity, WORDS("null full selective")), \
        FIELD(section, "method", WORD, policy.method, WORDS("null block uniform")),        \
        FIELD(section, "num_layers", INT, policy.num_layers, RANGE(0, 1 << 12)),           \
        FIELD(section, "modules", MODULES, policy.modules),                                \
        FIELD(section, "precision", WORD, policy.precision, WORDS("bf16 fp32"))

const struct field point_fields[] = {
    FIELD("", "study", NAME, study),
    FIELD("", "name", NAME, name),
    FIELD("", "index", INT, index, RANGE(0, 1e6)),
    FIELD("", "baseline", BOOL, baseline),
    FIELD("", "replicate", OPTIONAL, replicate),
    FIELD("", "start", FLAG, scratch, WORDS("branch scratch")),
    FIELD("", "fault", OPTIONAL, fault_text),
    FIELD("", "checkpoint_hash", OPTIONAL, checkpoint.hash),
    FIELD("", "seed", UINT64, seed, RANGE(0, FIELD_MOST)),
    FIELD("", "arithmetic_seed", UINT64, arithmetic_seed, RANGE(0, FIELD_MOST)),
    FIELD("", "planned_bytes", UINT64, planned_bytes, RANGE(0, 0x1p62)),
    FIELD("", "planned_activation_bytes", UINT64, planned_activation_bytes, RANGE(0, 0x1p62)),
    FIELD("", "fits", BOOL, fits),

    FIELD("target", "name", NAME, target.name, REQUIRED),
    FIELD("target", "profile", TEXT, target.profile, REQUIRED),
    FIELD("target", "memory", BYTES, target.memory_bytes, RANGE(1, 0x1p62), REQUIRED),
    FIELD("target", "partition", NAME, target.partition, DEFAULT("local")),
    FIELD("target", "dp", INT, target.dp, RANGE(1, 1 << 16), DEFAULT("1")),
    FIELD("target", "cp", INT, target.cp, RANGE(1, 1 << 16), DEFAULT("1")),

    /* One of these two; the rest of the model is what it says. shape_check has the last word on it. */
    FIELD("model", "preset", OPTIONAL, model.preset),
    FIELD("model", "checkpoint", OPTIONAL, checkpoint.path),
    FIELD("model", "layers", INT, model.layers, RANGE(1, 1 << 12)),
    FIELD("model", "hidden", INT, model.hidden, RANGE(1, 1 << 16)),
    FIELD("model", "ffn", INT, model.ffn, RANGE(1, 1 << 18)),
    FIELD("model", "heads", INT, model.heads, RANGE(1, 1 << 10)),
    FIELD("model", "kv_heads", INT, model.kv_heads, RANGE(1, 1 << 10)),
    FIELD("model", "vocab", INT, model.vocab, RANGE(1, 1 << 22)),
    FIELD("model", "tied", BOOL, model.tied),
    FIELD("model", "rope_theta", FLOAT, model.rope_theta, RANGE(1, 1e12)),
    FIELD("model", "norm_eps", FLOAT, model.norm_eps, RANGE(0, 1)),
    FIELD("model", "hidden_dropout", FLOAT, model.hidden_dropout, RANGE(0, 1)),
    FIELD("model", "init_std", FLOAT, model.init_std, RANGE(0, 1)),

    FIELD("data", "source", TEXT, data.source, DEFAULT("corpus")),
    FIELD("data", "split", SPLIT, data.split, DEFAULT("969,30,1")),

    FIELD("training", "steps", INT64, training.rule.steps, RANGE(1, STEPS), REQUIRED),
    FIELD("training", "branch_at", INT64, training.branch_at, RANGE(0, STEPS), DEFAULT("0")),
    FIELD("training", "sequence_length", INT, training.sequence_length, RANGE(1, 1 << 22), REQUIRED),
    FIELD("training", "micro_batch_size", INT, training.micro_batch_size, RANGE(1, 1 << 16), REQUIRED),
    FIELD("training", "global_batch_size", INT, training.global_batch_size, RANGE(1, 1 << 24), REQUIRED),
    FIELD("training", "reduction_groups", INT, training.reduction_groups, RANGE(1, 1 << 16), DEFAULT("1")),
    FIELD("training", "storage", WORD, training.storage, WORDS("bf16 fp32"), DEFAULT("bf16")),
    FIELD("training", "lr", DOUBLE, training.rule.lr, RANGE(0, 1e3), REQUIRED),
    FIELD("training", "min_lr", DOUBLE, training.rule.min_lr, RANGE(0, 1e3), DEFAULT("0")),
    FIELD("training", "warmup_steps", INT64, training.rule.warmup_steps, RANGE(0, STEPS), DEFAULT("0")),
    FIELD("training", "weight_decay", DOUBLE, training.rule.weight_decay, RANGE(0, 1e3), DEFAULT("0.1")),
    FIELD("training", "clip", DOUBLE, training.rule.clip, RANGE(0, 1e9), DEFAULT("1.0")),
    FIELD("training", "beta1", DOUBLE, training.rule.beta1, RANGE(0, 1), DEFAULT("0.9")),
    FIELD("training", "beta2", DOUBLE, training.rule.beta2, RANGE(0, 1), DEFAULT("0.95")),
    FIELD("training", "eps", DOUBLE, training.rule.eps, RANGE(0, 1), DEFAULT("1e-8")),

    FIELD("evaluate", "every", INT64, evaluate.every, RANGE(1, STEPS), DEFAULT("50")),
    FIELD("evaluate", "batches", INT, evaluate.batches, RANGE(1, 1 << 20), DEFAULT("8")),
    FIELD("checkpoint", "every", INT64, checkpoint_every, RANGE(1, STEPS), DEFAULT("50")),
    FIELD("dumps", "steps", INTEGERS, dump_step, RANGE(1, STEPS), DEFAULT(""),
          .count = offsetof(struct point, dump_steps)),
    FIELD("audit", "every", INT64, audit.every, RANGE(0, STEPS), DEFAULT("0")),
    FIELD("audit", "frozen", INT, audit.frozen, RANGE(0, POINT_AUDITS), DEFAULT("0")),
    FIELD("certificate", "every", INT64, certificate.every, RANGE(1, STEPS), DEFAULT("1")),
    FIELD("certificate", "on_mismatch", FLAG, certificate.stop, WORDS("continue stop"), DEFAULT("stop")),
    FIELD("verdict", "margin", DOUBLE, verdict.margin, RANGE(0, 1e3), DEFAULT("0.01")),
    FIELD("verdict", "grad_norm_margin", DOUBLE, verdict.grad_norm_margin, RANGE(0, 1e3), DEFAULT("0.05")),
    FIELD("verdict", "window", REALS, verdict.window, RANGE(0, 1), DEFAULT("0.5 1.0")),
    FIELD("arithmetic", "forward", WORD, dial.forward, WORDS(MODES), DEFAULT("fixed")),
    FIELD("arithmetic", "recompute", WORD, dial.recompute, WORDS(MODES), DEFAULT("fixed")),

    POLICY("recompute", recompute),
    POLICY("vit_recompute", vit_recompute),
};
const int point_field_count = sizeof point_fields / sizeof *point_fields;
