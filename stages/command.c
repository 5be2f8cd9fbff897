#include "stages/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "Rematch " REMATCH_VERSION;

void command_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    argp_err_exit_status = 2;
    argp_parse(argp, argc, argv, ARGP_IN_ORDER, NULL, input); /* a list may follow an option */
}

int command_exit(status st)
{
    /* What was printed may still lie in a buffer, and the disk behind it may be full. */
    if (st == OK && (fflush(stdout) || ferror(stdout)))
        st = FAIL(ERR_IO, "cannot write the output: %s", strerror(errno));
    if (st != OK)
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, status_text());
    return status_exit_code(st);
}

status command_integer(int64_t *out, const char *text, const char *what, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return FAIL(ERR_USAGE, "%s '%s': expected a whole number from %lld to %lld", what, text, (long long)least,
                    (long long)most);
    *out = value;
    return OK;
}

status command_real(double *out, const char *text, const char *what, double least, double most)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value) || value < least || value > most)
        return FAIL(ERR_USAGE, "%s '%s': expected a number from %g to %g", what, text, least, most);
    *out = value;
    return OK;
}

status command_bytes(uint64_t *out, const char *text, const char *what)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (!errno && end != text && isfinite(value) && value >= 0)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strcmp(end, units[i].suffix) && value * units[i].factor < 0x1p63) {
                *out = (uint64_t)(value * units[i].factor);
                return OK;
            }
    return FAIL(ERR_USAGE, "%s '%s': expected bytes such as 48GiB, 80GB or 1024", what, text);
}
