/* Matrix product: every element of C is one sum over k. */
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* Element (row, col) of x, or of its transpose. */
static double load(const struct view *x, bool transposed, int64_t row, int64_t col)
{
    return transposed ? element_load(x, col, row) : element_load(x, row, col);
}

status reference_gemm(struct device *d, const struct plan *plan, uint64_t draw, const struct view *c,
                      const struct view *a, const struct view *b, bool accumulate)
{
    (void)d, (void)draw;
    TRY(check_gemm(plan, c, a, b, accumulate));
    const int64_t m = plan->dims[0], n = plan->dims[1], k = plan->dims[2];
    const bool a_transposed = plan->op == PLAN_GEMM_TN, b_transposed = plan->op == PLAN_GEMM_NT;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = accumulate ? element_load(c, i, j) : 0;
            for (int64_t p = 0; p < k; p++)
                sum += load(a, a_transposed, i, p) * load(b, b_transposed, p, j);
            element_store(c, i, j, sum);
        }
    return OK;
}
