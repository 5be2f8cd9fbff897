/* Digest of a tensor, word by word as digest.h defines it. */
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/reference/reference.h"

/* Word j of a row: its elements from the low bits up, zeros behind the row's end. The low bytes of a word come first in
 * memory: files and digests of Rematch are those of little-endian machines. */
static uint64_t row_word(const struct view *x, int64_t row, int64_t j, enum dtype as)
{
    const int64_t per_word = 8 / (int64_t)dtype_bytes(as);
    uint64_t word = 0;
    for (int64_t i = 0; i < per_word && j * per_word + i < x->cols; i++)
        word |= element_bits(x, row, j * per_word + i, as) << (i * 64 / per_word);
    return word;
}

status reference_digest(struct device *d, struct digest *tiles, const struct view *x, enum dtype as,
                        const int64_t *row_id)
{
    (void)d;
    TRY(check_digest(x, as));
    const int64_t per_word = 8 / (int64_t)dtype_bytes(as), words = (x->cols + per_word - 1) / per_word;
    memset(tiles, 0, (size_t)digest_tiles(x->rows) * sizeof *tiles);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t j = 0; j < words; j++)
            digest_add_word(&tiles[r / DIGEST_TILE_ROWS], row_word(x, r, j, as),
                            digest_row_key(row_id[r]) ^ digest_word_key(j));
    return OK;
}
