#include "kernels/ops.h"

#include <string.h>

status ops_find(const char *name, const struct ops **out)
{
    if (!strcmp(name, "cpu"))
        return cpu_ops(out);
    if (!strcmp(name, "reference")) {
        *out = &reference_ops;
        return OK;
    }
    return FAIL(ERR_USAGE, "device '%s' is not known: expected cpu or reference", name);
}
