/* rematch-diff: two records of training runs, set side by side. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "kernels/compare.h"
#include "stages/command.h"
#include "stages/difference.h"

struct options {
    const char *a, *b, *out;
    bool json;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o':
        o->out = argument;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            o->a = argument;
        else if (state->arg_num == 1)
            o->b = argument;
        else
            argp_error(state, "two records, not '%s' as well", argument);
        return 0;
    case ARGP_KEY_END:
        if (!o->b || !o->out)
            argp_error(state, "expected two records and -o DIFFERENCE" RECORD_SUFFIX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "the difference record to write", 0},
    {"json", 'j', NULL, 0, "print diff.json instead of tables", 0},
    {0},
};

static const struct argp argp = {
    .options = option_table,
    .parser = parse,
    .args_doc = "A" RECORD_SUFFIX " B" RECORD_SUFFIX,
    .doc = "Compares two records of training runs: settings, losses, held-out losses, certificates, dumped tensors and "
           "final weights. Differences are B - A. The exit status says whether the comparison worked, not what it "
           "found."
           "\vdiff.json and differences.jsonl of the difference record are described in stages/difference.h.",
};

/* ---- the tables; they read the summary that was written, so both say the same ---- */

static int64_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double exact(const json_t *object, const char *key)
{
    double value = 0;
    return json_exact_read(&value, object, key, "diff.json") == OK ? value : 0;
}

static void print_config(const json_t *summary)
{
    size_t i;
    json_t *field;
    printf("settings that differ\n");
    json_array_foreach(json_object_get(summary, "config"), i, field)
    {
        char *a = json_dumps(json_object_get(field, "a"), JSON_ENCODE_ANY | JSON_SORT_KEYS);
        char *b = json_dumps(json_object_get(field, "b"), JSON_ENCODE_ANY | JSON_SORT_KEYS);
        printf("  %-32s %s -> %s\n", string(field, "field"), a ? a : "?", b ? b : "?");
        free(a);
        free(b);
    }
}

static void print_gap(const json_t *metrics, const char *key, int64_t common)
{
    const json_t *gap = json_object_get(metrics, key);
    if (json_is_null(json_object_get(gap, "first_differing_step"))) {
        printf("  %-10s equal bits in all %" PRId64 " common steps\n", key, common);
        return;
    }
    printf("  %-10s %" PRId64 " of %" PRId64 " common steps equal, first difference at step %" PRId64
           ", largest %.3g at step %" PRId64,
           key, number(gap, "equal_steps"), common, number(gap, "first_differing_step"), exact(gap, "largest"),
           number(gap, "largest_step"));
    if (number(gap, "not_finite"))
        printf(", %" PRId64 " not finite", number(gap, "not_finite"));
    printf("\n");
}

static void print_series(const json_t *summary)
{
    const json_t *metrics = json_object_get(summary, "metrics");
    size_t i;
    json_t *line;
    printf("metrics%s\n", json_is_true(json_object_get(summary, "same_batches")) ? "" : " (NOT the same batches)");
    print_gap(metrics, "loss", number(metrics, "common_steps"));
    print_gap(metrics, "grad_norm", number(metrics, "common_steps"));
    printf("held-out loss, paired by sequence\n");
    json_array_foreach(json_object_get(summary, "held_out"), i, line)
        printf("  step %-6" PRId64 " %" PRId64 " of %" PRId64 " sequences equal, mean %+.3g, largest %.3g\n",
               number(line, "step"), number(line, "equal"), number(line, "sequences"), exact(line, "mean"),
               exact(line, "largest"));
}

static void print_certificate(const json_t *summary, const char *side)
{
    const json_t *c = json_object_get(json_object_get(summary, "certificate"), side);
    const json_t *first = json_object_get(c, "first");
    if (!json_is_object(c)) {
        printf("  %s none\n", side);
        return;
    }
    printf("  %s compared %" PRId64 ", mismatched %" PRId64 ", announced %" PRId64 "\n", side, number(c, "compared"),
           number(c, "mismatched"), number(c, "expected"));
    if (json_is_object(first))
        printf("    first: step %" PRId64 ", layer %" PRId64 ", %s (%s), accused: %s\n", number(first, "step"),
               number(first, "layer"), string(first, "tensor"), string(first, "op"), string(first, "accused"));
}

static void print_tensor(const char *label, const json_t *line)
{
    if (!json_is_object(line))
        return;
    printf("    %s: ", label);
    if (json_is_integer(json_object_get(line, "layer")))
        printf("layer %" PRId64 " ", number(line, "layer"));
    printf("%s, %" PRId64 " of %" PRId64 " elements, relative L2 %.3g, cosine %.9f\n", string(line, "tensor"),
           number(line, "differing"), number(line, "elements"), exact(line, "relative_l2"), exact(line, "cosine"));
    printf("      ULP");
    for (int i = 1; i < ULP_BUCKETS; i++) {
        int64_t count = json_integer_value(json_array_get(json_object_get(line, "ulp"), (size_t)i));
        if (count)
            printf("  %s: %" PRId64, comparison_bucket_name(i), count);
    }
    printf("\n");
}

static void print_tensors(const json_t *summary)
{
    size_t i;
    json_t *t;
    printf("tensors\n");
    json_array_foreach(json_object_get(summary, "tensors"), i, t)
    {
        printf("  %-12s %-9s %" PRId64 " of %" PRId64 " identical", string(t, "at"), string(t, "pass"),
               number(t, "identical"), number(t, "compared"));
        if (number(t, "other_shape"))
            printf(", %" PRId64 " of other shape", number(t, "other_shape"));
        if (number(t, "only_a") || number(t, "only_b"))
            printf(", only in A %" PRId64 ", only in B %" PRId64, number(t, "only_a"), number(t, "only_b"));
        printf("\n");
        print_tensor("first", json_object_get(t, "first"));
        print_tensor("worst", json_object_get(t, "worst"));
    }
}

static void print_summary(const json_t *summary)
{
    printf("A %s, B %s\n", string(json_object_get(summary, "a"), "name"),
           string(json_object_get(summary, "b"), "name"));
    print_config(summary);
    print_series(summary);
    printf("certificates\n");
    print_certificate(summary, "a");
    print_certificate(summary, "b");
    print_tensors(summary);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    json_t *summary = NULL;
    command_parse(&argp, argc, argv, &options);
    status st = difference_write(&summary, options.a, options.b, options.out);
    if (st == OK && options.json)
        json_dumpf(summary, stdout, JSON_SORT_KEYS | JSON_INDENT(1));
    else if (st == OK)
        print_summary(summary);
    json_decref(summary);
    return command_exit(st);
}
