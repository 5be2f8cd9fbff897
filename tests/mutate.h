/* mutate.h - damage done to files, as a function of a number: a failure names the number and can be repeated. */
#ifndef REMATCH_TESTS_MUTATE_H
#define REMATCH_TESTS_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mutant {
    char *bytes;
    size_t size;
};

/* The original, which is not empty, with mutation `number` done to it: flipped bits, cut, bytes taken out, put in, moved,
 * or replaced by those of another format. An equal copy when the mutation happens to change nothing. malloc'ed. */
struct mutant mutated(const struct mutant *original, uint64_t number);
bool mutant_same(const struct mutant *a, const struct mutant *b);

#endif
