/* The digest of digest.h, 8 words at a time. A row's key and a word's key are mixed apart and joined by xor, so the words'
 * keys are made once per strip of columns and used for all rows. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* Words of a strip: its keys, and a row of it rounded to another type, fit on the stack and in L1. */
enum { STRIP_WORDS = 512, STRIP_BYTES = STRIP_WORDS * 8 };

struct strip {
    int64_t first_word, words, bytes; /* of one row; the last word may be short */
    uint64_t key[STRIP_WORDS], rotated[STRIP_WORDS];
};

static void open_strip(struct strip *s, int64_t first_byte, int64_t row_bytes)
{
    const int64_t left = row_bytes - first_byte;
    s->first_word = first_byte / 8;
    s->bytes = left < STRIP_BYTES ? left : STRIP_BYTES;
    s->words = (s->bytes + 7) / 8;
    for (int64_t j = 0; j < s->words; j++) {
        s->key[j] = digest_word_key(s->first_word + j);
        s->rotated[j] = digest_rotl(s->key[j], 17);
    }
}

/* Two running sums per lane of the digest: products, and words. */
struct sums {
    vu product[2], word[2];
};

static inline void add_words(struct sums *t, vu word, vu key, vu rotated_key)
{
    const vu x = vu_xor(word, key), y = vu_xor(word, rotated_key);
    t->product[0] = vu_add(t->product[0], vu_mul_low(x, vu_high(x)));
    t->product[1] = vu_add(t->product[1], vu_mul_low(y, vu_high(y)));
    t->word[0] = vu_add(t->word[0], word);
    t->word[1] = vu_add(t->word[1], vu_rotl32(word));
}

/* Its first `bytes` bytes, the rest zero. Copies of fixed length: one of any length is a call. */
static uint64_t short_word(const unsigned char *at, int64_t bytes)
{
    uint64_t word = 0;
    uint32_t four;
    uint16_t two;
    if (bytes == 8) {
        memcpy(&word, at, 8);
    } else if (bytes == 4) {
        memcpy(&four, at, 4);
        word = four;
    } else {
        for (int64_t i = 0; i < bytes; i += 2) {
            memcpy(&two, at + i, 2);
            word |= (uint64_t)two << 8 * i;
        }
    }
    return word;
}

static void add_row(struct digest *out, struct sums *t, const struct strip *s, const unsigned char *bytes,
                    uint64_t row_key)
{
    const vu key = vu_set(row_key), rotated = vu_set(digest_rotl(row_key, 17));
    const int64_t whole = s->bytes / 64 * 8;
    for (int64_t j = 0; j < whole; j += WORD_LANES)
        add_words(t, vu_load(bytes + j * 8), vu_xor(vu_load(s->key + j), key),
                  vu_xor(vu_load(s->rotated + j), rotated));
    for (int64_t j = whole; j < s->words; j++) {
        const int64_t left = s->bytes - j * 8;
        digest_add_word(out, short_word(bytes + j * 8, left < 8 ? left : 8), row_key ^ s->key[j]);
    }
}

static void close_sums(struct digest *out, const struct sums *t)
{
    for (int lane = 0; lane < 2; lane++) {
        uint64_t each[WORD_LANES];
        vu_store(each, vu_add(t->product[lane], t->word[lane]));
        for (int i = 0; i < WORD_LANES; i++)
            out->lane[lane] += each[i];
    }
}

/* The strip of a row, as bytes of type `as`: in place, or rounded into `rounded`. */
static const unsigned char *strip_bytes(const struct view *x, enum dtype as, int64_t row, const struct strip *s,
                                        unsigned char *rounded)
{
    const int64_t element = (int64_t)dtype_bytes(as), first = s->first_word * 8 / element, count = s->bytes / element;
    const void *from = view_at(x, row, first);
    if (x->type == as)
        return from;
    for (int64_t c = 0; c < count; c += LANES)
        vf_put(rounded, as, c, lanes(count - c), vf_get(from, x->type, c, lanes(count - c)));
    return rounded;
}

static void add_tile(struct digest *out, const struct view *x, enum dtype as, const int64_t *row_id, int64_t tile,
                     const struct strip *s)
{
    const int64_t first = tile * DIGEST_TILE_ROWS, left = x->rows - first;
    const int64_t end = first + (left < DIGEST_TILE_ROWS ? left : DIGEST_TILE_ROWS);
    const vu zero = vu_set(0);
    struct sums t = {{zero, zero}, {zero, zero}};
    unsigned char rounded[STRIP_BYTES];
    for (int64_t row = first; row < end; row++)
        add_row(out, &t, s, strip_bytes(x, as, row, s, rounded), digest_row_key(row_id[row]));
    close_sums(out, &t);
}

status NAME(cpu_digest)(struct device *d, struct digest *tiles, const struct view *x, enum dtype as,
                        const int64_t *row_id)
{
    TRY(check_digest(x, as));
    if (x->type != as)
        TRY(CPU_CHECK_STORAGE("digest", x, &(struct view){.type = as}));
    const int64_t count = digest_tiles(x->rows), row_bytes = x->cols * (int64_t)dtype_bytes(as);
    memset(tiles, 0, (size_t)count * sizeof *tiles);
    for (int64_t byte = 0; byte < row_bytes; byte += STRIP_BYTES) {
        struct strip s;
        open_strip(&s, byte, row_bytes);
#pragma omp parallel for num_threads(cpu_threads(d, x->rows *s.bytes / 8)) schedule(static)
        for (int64_t tile = 0; tile < count; tile++)
            add_tile(&tiles[tile], x, as, row_id, tile, &s);
    }
    return OK;
}
