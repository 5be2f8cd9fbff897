#include "stages/holm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_p(const void *a, const void *b)
{
    const struct evidence *x = *(struct evidence *const *)a, *y = *(struct evidence *const *)b;
    return (x->p > y->p) - (x->p < y->p);
}

status holm_adjust(struct evidence *const *test, int count)
{
    struct evidence **sorted = calloc((size_t)count + 1, sizeof(struct evidence *));
    if (!sorted)
        return FAIL(ERR_MEMORY, "no memory for %d tests", count);
    if (count > 0)
        memcpy(sorted, test, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_p);
    double largest = 0;
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, fmin((count - i) * sorted[i]->p, 1));
        sorted[i]->adjusted = largest;
        sorted[i]->tests = count;
    }
    free(sorted);
    return OK;
}
