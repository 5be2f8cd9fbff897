#include "kernels/plan.h"

#include <string.h>

#include "kernels/philox.h"

static const struct arithmetic profiles[] = {
    {"exact", ORDER_ASCENDING, ROUND_NEAREST, 0, 128, false},
    {"h800-sim", ORDER_ASCENDING, ROUND_NEAREST, 128, 128, true},
    {"l40s-sim", ORDER_DESCENDING, ROUND_NEAREST, 32, 64, true},
    {"random", ORDER_RANDOM, ROUND_NEAREST, 16, 128, false},
};

status arithmetic_find(struct arithmetic *out, const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (!strcmp(profiles[i].name, name)) {
            *out = profiles[i];
            return OK;
        }
    return FAIL(ERR_USAGE, "arithmetic profile '%s' is not known: expected exact, h800-sim, l40s-sim or random", name);
}

const char *plan_rounding_name(enum plan_rounding r)
{
    static const char *const names[] = {"nearest", "truncating", "to-zero"};
    return names[r];
}

const char *arithmetic_mode_name(enum arithmetic_mode m)
{
    static const char *const names[] = {"fixed", "random", "truncating", "to-zero", "other-order"};
    return names[m];
}

struct arithmetic arithmetic_turned(const struct arithmetic *base, enum arithmetic_mode mode)
{
    struct arithmetic how = *base;
    switch (mode) {
    case ARITHMETIC_FIXED:
        break;
    case ARITHMETIC_RANDOM:
        how.order = ORDER_RANDOM;
        if (how.gemm_chunk == 0 || how.gemm_chunk > 16)
            how.gemm_chunk = 16;
        break;
    case ARITHMETIC_TRUNCATING:
        how.rounding = ROUND_TRUNCATE;
        break;
    case ARITHMETIC_TO_ZERO:
        how.rounding = ROUND_TO_ZERO;
        break;
    case ARITHMETIC_OTHER_ORDER:
        how.gemm_chunk = 16;
        how.order = base->order == ORDER_DESCENDING ? ORDER_ASCENDING : ORDER_DESCENDING;
        break;
    }
    return how;
}

int64_t plan_chunks(const struct plan *plan)
{
    int64_t k = plan->dims[2];
    return plan->chunk == 0 || plan->chunk >= k ? 1 : (k + plan->chunk - 1) / plan->chunk;
}

void plan_sequence(const struct plan *plan, uint64_t draw, int64_t count, int32_t *sequence)
{
    for (int64_t i = 0; i < count; i++)
        sequence[i] = (int32_t)(plan->order == ORDER_DESCENDING ? count - 1 - i : i);
    if (plan->order != ORDER_RANDOM)
        return;
    const struct random_site where = {.seed = draw};
    for (int64_t i = count - 1; i > 0; i--) {
        /* The modulo's bias is below 2^-40 for any count that occurs. */
        int64_t j = (int64_t)(philox_u64(&where, (uint64_t)i) % (uint64_t)(i + 1));
        int32_t swapped = sequence[i];
        sequence[i] = sequence[j];
        sequence[j] = swapped;
    }
}
