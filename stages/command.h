/* command.h - what every executable does the same way: options through argp, errors to stderr, exit status.
 *
 * A main is: parse with command_parse, do the work as a function returning status, return command_exit(status).
 */
#ifndef REMATCH_STAGES_COMMAND_H
#define REMATCH_STAGES_COMMAND_H

#include <argp.h>
#include <stdint.h>

#include "kernels/status.h"

/* argp_parse with --version, --help and usage errors that exit with 2. `argp` is the program's own table. */
void command_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Prints "rematch-plan: <text>" to stderr unless `st` is OK, and gives the exit status of contract 8. */
int command_exit(status st);

/* Whole-string conversions. ERR_USAGE names `what` and the value: nothing is half-parsed. */
status command_integer(int64_t *out, const char *text, const char *what, int64_t least, int64_t most);
status command_real(double *out, const char *text, const char *what, double least, double most);
/* "48GiB", "80GB", "1024" (bytes). */
status command_bytes(uint64_t *out, const char *text, const char *what);

#endif
