#include "kernels/cpu/cpu.h"

status cpu_check_storage(const char *op, int count, const struct view *const operands[])
{
    for (int i = 0; i < count; i++)
        if (operands[i] && operands[i]->type != BF16 && operands[i]->type != F32)
            return FAIL(ERR_ARGUMENT,
                        "%s: an operand is stored as %s, expected BF16 or F32 on the cpu; use the "
                        "reference table for others",
                        op, dtype_name(operands[i]->type));
    return OK;
}
