/* Which table this machine runs. The bits do not depend on it, so it is no part of a plan's identity. */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static bool has_scalar(void) { return true; }

/* Widest first. */
static const struct instruction_set {
    const char *name;
    bool (*present)(void);
    const struct ops *table;
} sets[] = {
    {"avx512", has_avx512, &cpu_ops_avx512},
    {"avx2", has_avx2, &cpu_ops_avx2},
    {"scalar", has_scalar, &cpu_ops_scalar},
};

status cpu_ops(const struct ops **out)
{
    const char *wanted = getenv("REMATCH_ISA");
    if (wanted && !*wanted)
        wanted = NULL;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (wanted && strcmp(wanted, sets[i].name))
            continue;
        if (sets[i].present()) {
            *out = sets[i].table;
            return OK;
        }
        if (wanted)
            return FAIL(ERR_USAGE, "REMATCH_ISA=%s: this machine lacks it; unset it to take the widest set present",
                        wanted);
    }
    return FAIL(ERR_USAGE, "REMATCH_ISA=%s is not known: expected avx512, avx2 or scalar", wanted);
}
