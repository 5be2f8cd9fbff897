/* Matrix product: every element of C is one sum over k, or one for each chunk of a truncating plan. */
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* Element (row, col) of x, or of its transpose. */
static double load(const struct view *x, bool transposed, int64_t row, int64_t col)
{
    return transposed ? element_load(x, col, row) : element_load(x, row, col);
}

static bool follows_chunks(const struct plan *plan)
{
    return plan->op != PLAN_ATTENTION && plan->rounding == ROUND_TRUNCATE;
}

size_t reference_sequence_bytes(const struct plan *plan)
{
    return follows_chunks(plan) ? (size_t)plan_chunks(plan) * sizeof(int32_t) : 0;
}

struct product {
    const struct plan *plan;
    const struct view *a, *b;
    const int32_t *sequence; /* of chunks, which join in binary32; NULL: k is one chunk */
};

/* start + row x column */
static double element(const struct product *p, int64_t i, int64_t j, double start)
{
    const int64_t k = p->plan->dims[2], chunks = p->sequence ? plan_chunks(p->plan) : 1;
    const int64_t length = chunks == 1 ? k : p->plan->chunk;
    struct sum sum = {.rounding = p->plan->rounding};
    double total = start;
    for (int64_t s = 0; s < chunks; s++) {
        const int64_t first = (p->sequence ? p->sequence[s] : 0) * length;
        for (int64_t x = first; x < first + length && x < k; x++)
            sum_add(&sum, load(p->a, p->plan->op == PLAN_GEMM_TN, i, x), load(p->b, p->plan->op == PLAN_GEMM_NT, x, j));
        total += sum_take(&sum);
        total = p->sequence ? (double)(float)total : total;
    }
    return total;
}

status reference_gemm(struct device *d, const struct plan *plan, uint64_t draw, const struct view *c,
                      const struct view *a, const struct view *b, bool accumulate)
{
    TRY(check_gemm(plan, c, a, b, accumulate));
    int32_t *sequence = follows_chunks(plan) ? d->workspace : NULL;
    if (sequence)
        plan_sequence(plan, draw, plan_chunks(plan), sequence);
    const struct product p = {plan, a, b, sequence};
    for (int64_t i = 0; i < plan->dims[0]; i++)
        for (int64_t j = 0; j < plan->dims[1]; j++)
            sum_store(c, i, j, element(&p, i, j, accumulate ? element_load(c, i, j) : 0), plan->rounding);
    return OK;
}
