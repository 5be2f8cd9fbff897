#include "stages/fit.h"

#include <stdio.h>
#include <stdlib.h>

static const double GiB = 0x1p30;

status fit_make(struct fit *out, const struct fit_request *q)
{
    status st = OK;
    struct recompute_plan *recompute = NULL;
    *out = (struct fit){.layers = q->shape.layers, .smallest = -1};
    TRY(shape_check(&q->shape));
    if (q->cp > 1 && q->shape.sequence % (2 * (int64_t)q->cp))
        return FAIL(ERR_USAGE, "sequence length %d: must be a multiple of 2 x cp %d", q->shape.sequence, q->cp);
    struct memory_request request = {.shape = q->shape,
                                     .micro_batch = q->micro_batch_size,
                                     .tokens = q->shape.sequence / q->cp,
                                     .storage = BF16,
                                     .reduction_groups = 1,
                                     .shards = q->dp * q->cp,
                                     .certificate = true};
    out->plan = calloc((size_t)out->layers + 1, sizeof *out->plan);
    if (!out->plan)
        return FAIL(ERR_MEMORY, "no memory for %d plans", out->layers + 1);
    for (int n = 0; n <= out->layers; n++) {
        struct recompute_policy policy;
        TRY_DONE(recompute_parse(&policy, "full", "block", n, NULL, NULL));
        recompute_plan_free(recompute);
        TRY_DONE(recompute_plan_make(&recompute, &policy, out->layers));
        TRY_DONE(memory_plan_make(&out->plan[n], &request, recompute));
        if (out->smallest < 0 && out->plan[n].arena_bytes <= q->memory_bytes)
            out->smallest = n;
    }
done:
    recompute_plan_free(recompute);
    if (st != OK)
        fit_free(out);
    return st;
}

void fit_free(struct fit *f)
{
    free(f->plan);
    f->plan = NULL;
}

/* What to give to Megatron-LM: block 0 stores everything there as well. */
static const char *const flags = "--recompute-granularity full --recompute-method block --recompute-num-layers";

void fit_print(const struct fit *f, const struct fit_request *q)
{
    const struct memory_plan *any = &f->plan[0];
    printf("%s: %d layers, sequence %d, micro-batch %d, dp %d, cp %d; GiB on each of %d cards of %.1f GiB\n"
           "weights %.2f  gradients %.2f  optimizer %.2f  scratch %.2f\n"
           "  N  stored  rebuilt  witness   total\n",
           q->shape.preset, f->layers, q->shape.sequence, q->micro_batch_size, q->dp, q->cp, q->dp * q->cp,
           (double)q->memory_bytes / GiB, (double)any->weights / GiB, (double)any->gradients / GiB,
           (double)any->optimizer / GiB, (double)any->scratch / GiB);
    for (int n = 0; n <= f->layers; n++) {
        const struct memory_plan *p = &f->plan[n];
        printf("%3d %7.2f %8.2f %8.2f %7.2f  %s\n", n, (double)p->stored_activations / GiB,
               (double)p->rebuilt_activations / GiB, (double)p->witness / GiB, (double)p->arena_bytes / GiB,
               p->arena_bytes > q->memory_bytes ? "too much"
               : n == f->smallest               ? "fits: the smallest N"
                                                : "fits");
    }
    if (f->smallest >= 0)
        printf("Megatron-LM: %s %d\n", flags, f->smallest);
}

json_t *fit_json(const struct fit *f, const struct fit_request *q)
{
    json_t *blocks = json_array();
    for (int n = 0; n <= f->layers; n++) {
        const struct memory_plan *p = &f->plan[n];
        json_array_append_new(
            blocks, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "recompute_num_layers", n,
                              "weights", (json_int_t)p->weights, "gradients", (json_int_t)p->gradients, "optimizer",
                              (json_int_t)p->optimizer, "stored_activations", (json_int_t)p->stored_activations,
                              "rebuilt_activations", (json_int_t)p->rebuilt_activations, "witness",
                              (json_int_t)p->witness, "scratch", (json_int_t)p->scratch, "planned_bytes",
                              (json_int_t)p->arena_bytes, "fits", p->arena_bytes <= q->memory_bytes));
    }
    json_t *smallest = f->smallest < 0 ? json_null() : json_integer(f->smallest);
    json_t *megatron = f->smallest < 0 ? json_null() : json_sprintf("%s %d", flags, f->smallest);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:o, s:o}", "preset", q->shape.preset, "sequence_length",
                     q->shape.sequence, "micro_batch_size", q->micro_batch_size, "dp", q->dp, "cp", q->cp, "memory",
                     (json_int_t)q->memory_bytes, "block", blocks, "smallest", smallest, "megatron", megatron);
}
