/* small_record.h - records of runs as small as a record can be, made for tests: every tensor has `rows` x COLS
 * elements 1, 2, 3, ... A recipe says what is planted. Failures end the test.
 */
#ifndef REMATCH_TESTS_SMALL_RECORD_H
#define REMATCH_TESTS_SMALL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { ROWS = 2, COLS = 4, STEPS = 8, DUMPED = 3, SEQUENCES = 4, LAYERS = 2 };

struct recipe {
    int hidden, rows;
    const char *flipped[2]; /* tensors of the dump whose element 5 is one ULP larger */
    const char *flipped_final, *stranger;
    bool rebuilt; /* leaves recompute.* tensors and a certificate with one mismatch */
    int64_t loss_step;
    double loss, held_out; /* replaces the loss of loss_step; is added to sequence 1 */
    uint64_t seed;
};

/* Nothing planted: 32 hidden, ROWS rows, seed 7. */
extern const struct recipe plain;

/* Writes the record under `name` of the temporary folder; its path is borrowed as temporary_path says. */
const char *record_of(const char *name, const struct recipe *r);

#endif
