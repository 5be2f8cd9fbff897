/* rematch-baseline - trains the trunk of a study: the run that stores every activation on the reference target. */
#include "stages/command.h"
#include "stages/options.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
    if (trainer_option(state->input, key, argument))
        return 0;
    return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {TRAINER_OPTIONS, {0}};
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Trains the baseline of a study and seals its record: runs/S/records/POINT.rematch.tar.zst.\v"
        "Start it under `mpirun -n RANKS --bind-to none`, a rank for each data-parallel part of the target (dp). An "
        "interrupted run continues; a finished one is a no-op. "
        "SIGTERM, SIGUSR1 and SIGUSR2 write a checkpoint and end with status 75.",
        NULL,
        NULL,
        NULL};
    struct trainer_options o = {.num_layers = -1};
    command_parse(&argp, argc, argv, &o);
    return trainer_main(&o, true, &argc, &argv);
}
