#include "kernels/plan.h"

#include <string.h>

#include "kernels/philox.h"

static const struct arithmetic profiles[] = {
    {"exact", ORDER_ASCENDING, 0, 128, false},
    {"h800-sim", ORDER_ASCENDING, 128, 128, true},
    {"l40s-sim", ORDER_DESCENDING, 32, 64, true},
    {"random", ORDER_RANDOM, 16, 128, false},
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

struct arithmetic arithmetic_randomised(const struct arithmetic *base)
{
    struct arithmetic how = *base;
    how.order = ORDER_RANDOM;
    if (how.gemm_chunk == 0 || how.gemm_chunk > 16)
        how.gemm_chunk = 16;
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
