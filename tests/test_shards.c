/* Shards and the loader: bytes come back, splits are Megatron's, the order is a permutation of (seed, n) alone. */
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "data/shards.h"
#include "tests/suite.h"
#include "tests/temporary.h"

static const char *const texts[] = {"int x;\n", "\xff\0bytes", "a", "longer text of a document\n"};
static const size_t sizes[] = {7, 7, 1, 26};
static const char *const names[] = {"a.c", "sub/b.bin", "c", "\xc3\xa4.py"};

static const char *write_shard(const char *file)
{
    const char *path = temporary_path(file);
    struct shard_writer *w;
    ck_ok(shard_create(&w, path, "byte", 256));
    for (int i = 0; i < 4; i++)
        ck_ok(shard_add_document(w, names[i], texts[i], sizes[i]));
    ck_ok(shard_seal(w));
    return path;
}

START_TEST(shard_round_trip_gives_documents_back)
{
    struct shard *s;
    int32_t tokens[64];
    uint64_t start = 0;
    ck_ok(shard_open(&s, write_shard("round.shard")));
    ck_assert_uint_eq(shard_documents(s), 4);
    ck_assert_uint_eq(shard_tokens(s), 7 + 7 + 1 + 26 + 4 * 2);
    ck_assert_int_eq(shard_vocab(s), 256);
    ck_assert_str_eq(shard_tokenizer(s), "byte");
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_str_eq(shard_document_name(s, i), names[i]);
        ck_assert_uint_eq(shard_document_start(s, i), start);
        shard_copy(s, start, sizes[i] + 2, tokens);
        for (size_t k = 0; k < sizes[i]; k++)
            ck_assert_int_eq(tokens[k], (unsigned char)texts[i][k]);
        ck_assert_int_eq(tokens[sizes[i]], '\n');
        ck_assert_int_eq(tokens[sizes[i] + 1], '\n');
        start += sizes[i] + 2;
    }
    ck_assert_uint_eq(shard_document_start(s, 4), shard_tokens(s));
    shard_close(s);
    shard_close(NULL);
}
END_TEST

START_TEST(shard_hash_depends_on_content_alone)
{
    struct shard *a, *b, *c;
    char hex_a[33], hex_b[33], hex_c[33];
    struct shard_writer *w;
    const char *other = temporary_path("other.shard");
    ck_ok(shard_create(&w, other, "byte", 256));
    ck_ok(shard_add_document(w, "renamed.c", texts[0], sizes[0]));
    ck_ok(shard_seal(w));
    ck_ok(shard_open(&a, write_shard("ha.shard")));
    ck_ok(shard_open(&b, write_shard("hb.shard")));
    ck_ok(shard_open(&c, other));
    shard_hash(a, hex_a);
    shard_hash(b, hex_b);
    shard_hash(c, hex_c);
    ck_assert_str_eq(hex_a, hex_b);
    ck_assert_str_ne(hex_a, hex_c);
    shard_close(a);
    shard_close(b);
    shard_close(c);
}
END_TEST

START_TEST(shard_impossible_requests_refused)
{
    struct shard_writer *w;
    struct shard *s;
    const char *path = temporary_path("none.shard");
    ck_assert_int_eq(shard_create(&w, path, "bpe", 256), ERR_USAGE);
    ck_said("bpe");
    ck_assert_int_eq(shard_create(&w, path, "byte", 257), ERR_USAGE);
    ck_ok(shard_create(&w, path, "byte", 256));
    ck_assert_int_eq(shard_add_document(w, "empty.c", "", 0), ERR_INPUT);
    ck_assert_int_eq(shard_add_document(w, "", "x", 1), ERR_INPUT);
    ck_assert_int_eq(shard_add_document(w, "caf\xe9\n.c", "x", 1), ERR_INPUT);
    ck_said("'caf\\xe9\\x0a.c': the name is not UTF-8");
    ck_assert_int_eq(shard_seal(w), ERR_INPUT);
    ck_assert(!file_exists(path));
    ck_assert_int_eq(shard_open(&s, path), ERR_IO);
}
END_TEST

START_TEST(shard_damage_named_by_section)
{
    /* 192 bytes of header, 49 tokens filled up to 56, a table of 5 entries of 16 bytes, the names. */
    static const struct {
        size_t at;
        const char *says;
    } damage[] = {{0, "not a token shard"}, {8, "version"},          {24, "header"},
                  {176, "header"},          {192 + 3, "tokens"},     {192 + 49, "behind them"},
                  {192 + 56 + 8, "table"},  {192 + 56 + 81, "names"}};
    char *whole;
    size_t size;
    struct shard *s;
    const char *path = write_shard("damage.shard");
    ck_ok(file_read(path, 1 << 20, &whole, &size));
    for (int i = 0; i < COUNT(damage); i++) {
        whole[damage[i].at] ^= 4;
        ck_ok(file_write(path, whole, size));
        ck_assert_int_eq(shard_open(&s, path), ERR_INPUT);
        ck_said(damage[i].says);
        whole[damage[i].at] ^= 4;
    }
    free(whole);
}
END_TEST

/* ---- splits ---- */

/* Expected: [round(b * n) for b in the running sums of the normalised weights], in Python 3. */
START_TEST(split_bookends_equal_megatron)
{
    static const struct {
        int weights[3];
        uint64_t documents, bookend[4];
    } cases[] = {
        {{969, 30, 1}, 1000, {0, 969, 999, 1000}},
        {{969, 30, 1}, 100, {0, 97, 100, 100}},
        {{969, 30, 1}, 7, {0, 7, 7, 7}},
        {{1, 1, 2}, 10, {0, 2, 5, 10}}, /* 2.5 rounds to 2 */
        {{1, 1, 2}, 14, {0, 4, 7, 14}}, /* 3.5 rounds to 4 */
        {{1, 0, 1}, 5, {0, 2, 2, 5}},   /* an empty middle */
        {{100, 0, 0}, 3, {0, 3, 3, 3}},
        {{1, 1, 1}, 10, {0, 3, 7, 10}},
    };
    for (int c = 0; c < COUNT(cases); c++)
        for (int which = SPLIT_TRAIN; which <= SPLIT_TEST; which++) {
            uint64_t first, last;
            split_documents(cases[c].weights, cases[c].documents, which, &first, &last);
            ck_assert_uint_eq(first, cases[c].bookend[which]);
            ck_assert_uint_eq(last, cases[c].bookend[which + 1]);
        }
}
END_TEST

/* ---- the loader ---- */

enum { DOCUMENTS = 20, DOCUMENT = 1000, SEQUENCE = 16 };

/* Token t of the corpus is told by its place, so that windows can be recognised. */
static struct shard *numbered_shard(const char *file)
{
    struct shard_writer *w;
    struct shard *s;
    const char *path = temporary_path(file);
    ck_ok(shard_create(&w, path, "byte", 256));
    for (int d = 0; d < DOCUMENTS; d++) {
        char text[DOCUMENT - 2], name[16];
        for (int i = 0; i < DOCUMENT - 2; i++)
            text[i] = (char)((d * DOCUMENT + i) * 2654435761u >> 23);
        snprintf(name, sizeof name, "%d", d);
        ck_ok(shard_add_document(w, name, text, sizeof text));
    }
    ck_ok(shard_seal(w));
    ck_ok(shard_open(&s, path));
    return s;
}

static uint64_t window_of(const struct loader *l, uint64_t n)
{
    int32_t got[SEQUENCE + 1], expected[SEQUENCE + 1];
    loader_sequence(l, n, got);
    for (uint64_t w = 0; w < l->windows; w++) {
        shard_copy(l->shard, l->first_token + w * SEQUENCE, SEQUENCE + 1, expected);
        if (!memcmp(got, expected, sizeof got))
            return w;
    }
    ck_abort_msg("sequence %llu is no window", (unsigned long long)n);
}

START_TEST(loader_each_epoch_is_a_permutation)
{
    struct loader l;
    struct shard *s = numbered_shard("epochs.shard");
    const int weights[3] = {8, 1, 1};
    ck_ok(loader_open(&l, s, weights, SPLIT_TRAIN, SEQUENCE, 1234));
    ck_assert_uint_eq(l.windows, (16 * DOCUMENT - 1) / SEQUENCE);
    uint64_t *order = malloc(3 * l.windows * sizeof *order);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool *seen = calloc(l.windows, sizeof *seen);
        for (uint64_t i = 0; i < l.windows; i++) {
            uint64_t w = order[epoch * l.windows + i] = window_of(&l, epoch * l.windows + i);
            ck_assert(!seen[w]);
            seen[w] = true;
        }
        free(seen);
    }
    ck_assert(memcmp(order, order + l.windows, l.windows * sizeof *order));
    ck_assert(memcmp(order + l.windows, order + 2 * l.windows, l.windows * sizeof *order));
    free(order);
    shard_close(s);
}
END_TEST

START_TEST(loader_order_depends_on_seed_and_n_alone)
{
    struct loader a, b, other;
    struct shard *s = numbered_shard("order.shard");
    const int weights[3] = {8, 1, 1};
    int same = 0;
    ck_ok(loader_open(&a, s, weights, SPLIT_TRAIN, SEQUENCE, 7));
    ck_ok(loader_open(&b, s, weights, SPLIT_TRAIN, SEQUENCE, 7));
    ck_ok(loader_open(&other, s, weights, SPLIT_TRAIN, SEQUENCE, 8));
    /* Asked in opposite orders: there is no state to be in. */
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t n = 99 - i;
        ck_assert_uint_eq(window_of(&a, n), window_of(&b, n));
        same += window_of(&a, i) == window_of(&other, i);
    }
    ck_assert_int_lt(same, 5); /* of 100 draws from 999 windows: 0.1 are expected to meet */
    shard_close(s);
}
END_TEST

START_TEST(loader_held_out_is_in_order_and_inside_its_split)
{
    struct loader l;
    struct shard *s = numbered_shard("held.shard");
    const int weights[3] = {8, 1, 1};
    int32_t got[SEQUENCE + 1], expected[SEQUENCE + 1];
    ck_ok(loader_open(&l, s, weights, SPLIT_VALID, SEQUENCE, 7));
    ck_assert_uint_eq(l.first_token, 16 * DOCUMENT);
    ck_assert_uint_eq(l.windows, (2 * DOCUMENT - 1) / SEQUENCE);
    for (uint64_t n = 0; n < 2 * l.windows; n++) {
        loader_sequence(&l, n, got);
        shard_copy(s, 16 * DOCUMENT + n % l.windows * SEQUENCE, SEQUENCE + 1, expected);
        ck_assert_mem_eq(got, expected, sizeof got);
    }
    shard_close(s);
}
END_TEST

START_TEST(loader_split_shorter_than_a_window_refused)
{
    struct loader l;
    struct shard *s = numbered_shard("short.shard");
    const int tight[3] = {18, 1, 1}, none[3] = {1, 1, 0};
    ck_ok(loader_open(&l, s, tight, SPLIT_TEST, DOCUMENT - 1, 7));
    ck_assert_uint_eq(l.windows, 1);
    ck_assert_int_eq(loader_open(&l, s, tight, SPLIT_TEST, DOCUMENT, 7), ERR_USAGE);
    ck_said("has 1000 tokens, a window needs 1001");
    ck_assert_int_eq(loader_open(&l, s, none, SPLIT_TEST, 1, 7), ERR_USAGE);
    shard_close(s);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {shard_round_trip_gives_documents_back, 1},
        {shard_hash_depends_on_content_alone, 1},
        {shard_impossible_requests_refused, 1},
        {shard_damage_named_by_section, 1},
        {split_bookends_equal_megatron, 1},
        {loader_each_epoch_is_a_permutation, 1},
        {loader_order_depends_on_seed_and_n_alone, 1},
        {loader_held_out_is_in_order_and_inside_its_split, 1},
        {loader_split_shorter_than_a_window_refused, 1},
    };
    return suite_run("shards", tests, COUNT(tests));
}
