/* peer.h - what we are measured against: programs that do the same work another way, and take part in every round.
 *
 * A peer reads a line and answers with a line:
 *   add WORDS...          ->  "NUMBER TEXT": the work that the words describe is ready under a number; the text says how
 *                             it is done. Or "none REASON".
 *   run NUMBER REPEATS    ->  "WALL CPU": seconds of one run
 * It ends when its input does.
 */
#ifndef REMATCH_TESTS_BENCH_PEER_H
#define REMATCH_TESTS_BENCH_PEER_H

#include "tests/bench/bench.h"

struct peer;

/* Starts it, with as many OpenMP threads as the bench has; it ends with the bench. Without a command *out is NULL. */
status peer_open(struct bench *b, struct peer **out, const char *command);

/* Adds the peer's work as a figure `name` of so many flop; *out is NULL where it cannot do it, or `p` is NULL. `text` is
 * what it says of itself, borrowed until bench_close. */
status peer_add(struct bench *b, struct peer *p, const char *name, const char *words, double flops,
                const struct figure **out, const char **text);

#endif
