/* rematch-sweep - trains one point of a study: another target, recompute policy, replicate or planted fault. */
#include "stages/command.h"
#include "stages/options.h"

enum { FAULT = OPTION_OWN, GRANULARITY, METHOD, NUM_LAYERS, MODULES, PRECISION, START, ON_MISMATCH, AUDIT };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct trainer_options *o = state->input;
    if (trainer_option(o, key, argument))
        return 0;
    switch (key) {
    case FAULT:
        o->fault = argument;
        return 0;
    case GRANULARITY:
        o->granularity = argument;
        return 0;
    case METHOD:
        o->method = argument;
        return 0;
    case NUM_LAYERS:
        if (command_integer(&o->num_layers, argument, "--recompute-num-layers", 0, 1 << 12) != OK)
            argp_error(state, "%s", status_text());
        return 0;
    case MODULES:
        o->modules = argument;
        return 0;
    case PRECISION:
        o->precision = argument;
        return 0;
    case START:
        o->start = argument;
        return 0;
    case ON_MISMATCH:
        o->on_mismatch = argument;
        return 0;
    case AUDIT:
        if (command_integer(&o->audit, argument, "--audit", 0, POINT_AUDITS) != OK)
            argp_error(state, "%s", status_text());
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TRAINER_OPTIONS,
        {NULL, 0, NULL, 0,
         "What makes another point of a planned one (it gets the name that a study would give it):", 1},
        {"fault", FAULT, "NAME[:OPTIONS]", 0,
         "plant rng-redrawn, gemm-order (mode=fixed|random), attention-order, biased-rounding (mode=zero|truncating), "
         "precision-lost (mode=fp32|fp8), stale-weights, chunk-input, grad-dropped (parameter=qkv|...), bit-flip "
         "(rate=R) or cp-offset (offset=N); options of all: layers=A-B, from=STEP, rank=R",
         1},
        {"recompute-granularity", GRANULARITY, "full|selective", 0, "as Megatron-LM", 1},
        {"recompute-method", METHOD, "block|uniform", 0, "with full", 1},
        {"recompute-num-layers", NUM_LAYERS, "N", 0, "block: layers recomputed; uniform: layers per chunk", 1},
        {"recompute-modules", MODULES, "LIST", 0, "with selective: core_attn,mlp,layernorm", 1},
        {"recompute-precision", PRECISION, "bf16|fp32", 0, "what a rebuild stores", 1},
        {"on-mismatch", ON_MISMATCH, "stop|continue", 0, "what a recomputed tensor that differs does to the run", 1},
        {"audit", AUDIT, "N", 0, "compare N gradients at the weights it starts from with those without recompute", 1},
        {"start", START, "branch|scratch", 0, "from the trunk's branch, or from step 0", 1},
        {0}};
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Trains one point of a study and seals its record: runs/S/records/POINT.rematch.tar.zst.\v"
        "Start it under `mpirun -n RANKS --bind-to none`, a rank for each data-parallel part of the target (dp). An "
        "interrupted run continues; a finished one is a no-op. Exit "
        "status 3: a recomputed tensor differed and the point says on_mismatch: stop. SIGTERM, SIGUSR1 and SIGUSR2 "
        "write a checkpoint and end with status 75.",
        NULL,
        NULL,
        NULL};
    struct trainer_options o = {.num_layers = -1, .audit = -1};
    command_parse(&argp, argc, argv, &o);
    return trainer_main(&o, false, &argc, &argv);
}
