/* The two ends of the model: token embedding, and cross-entropy over the vocabulary. */
#include <math.h>

#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

status reference_embedding_forward(struct device *d, const struct view *y, const struct view *table,
                                   const int32_t *token)
{
    (void)d;
    TRY(check_embedding_forward(y, table, token));
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c++)
            element_store(y, r, c, element_load(table, token[r], c));
    return OK;
}

status reference_embedding_backward(struct device *d, const struct view *d_table, const struct view *dy,
                                    const int32_t *token)
{
    (void)d;
    TRY(check_embedding_backward(d_table, dy, token));
    for (int64_t r = 0; r < dy->rows; r++)
        for (int64_t c = 0; c < dy->cols; c++)
            element_store(d_table, token[r], c, element_load(d_table, token[r], c) + element_load(dy, r, c));
    return OK;
}

/* lse = log sum_j exp(l_j)     loss = lse - l_target     dl_j = scale (exp(l_j - lse) - [j = target]) */
status reference_cross_entropy(struct device *d, const struct view *loss, int32_t *predicted,
                               const struct view *d_logits, const struct view *logits, const int32_t *target,
                               float scale)
{
    (void)d;
    TRY(check_cross_entropy(loss, d_logits, logits, target));
    for (int64_t r = 0; r < logits->rows; r++) {
        int64_t best = 0;
        for (int64_t c = 1; c < logits->cols; c++)
            if (element_load(logits, r, c) > element_load(logits, r, best))
                best = c;
        const double largest = element_load(logits, r, best);
        double total = 0;
        for (int64_t c = 0; c < logits->cols; c++)
            total += exp(element_load(logits, r, c) - largest);
        const double lse = largest + log(total);
        element_store(loss, r, 0, lse - element_load(logits, r, target[r]));
        if (predicted)
            predicted[r] = (int32_t)best;
        for (int64_t c = 0; d_logits && c < logits->cols; c++)
            element_store(d_logits, r, c, scale * (exp(element_load(logits, r, c) - lse) - (c == target[r])));
    }
    return OK;
}
