/* options.h - what rematch-baseline and rematch-sweep take from the command line, and the run that follows from it. */
#ifndef REMATCH_STAGES_OPTIONS_H
#define REMATCH_STAGES_OPTIONS_H

#include <stdbool.h>

#include "stages/trainer.h"

struct trainer_options {
    const char *run, *point, *device;
    /* rematch-sweep only; NULL or -1: as planned */
    const char *fault, *granularity, *method, *modules, *precision, *start, *on_mismatch;
    int64_t num_layers, audit;
};

/* Keys of the options that both have; further ones begin at OPTION_OWN. */
enum { OPTION_RUN = 'r', OPTION_POINT = 'p', OPTION_DEVICE = 'd', OPTION_OWN = 1000 };
#define TRAINER_OPTIONS                                                                         \
    {"run", OPTION_RUN, "DIR", 0, "the study's folder, as rematch-plan made it", 0},            \
        {"point", OPTION_POINT, "NAME", 0, "the point to run", 0},                              \
    {                                                                                           \
        "device", OPTION_DEVICE, "NAME", 0, "cpu (default) or reference (plain loops, slow)", 0 \
    }
bool trainer_option(struct trainer_options *o, int key, char *argument);

/* Starts MPI, finds the point, applies what the options change, and runs it. `baseline`: the program is
 * rematch-baseline, which runs the trunk and nothing else. Returns the exit status, the same on every rank; one of them
 * has said what went wrong. */
int trainer_main(const struct trainer_options *o, bool baseline, int *argc, char ***argv);

#endif
