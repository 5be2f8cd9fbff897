/* comm.h - the collectives: what ranks say to each other, in a fixed order of reduction.
 *
 * One rank per process. A NULL `struct comm *` never occurs: a single process is a world of one.
 * Errors: every collective begins by asking whether any rank has failed. A rank that fails anywhere relays its error up
 * to comm_agree, with which a program ends; wherever the others are by then, their next collective gives them that
 * error, and from then on all collectives do. So no rank is left hanging, and nobody has to agree in between. The same
 * question tells when ranks are at different collectives: ERR_COMM, as with MPI's own text when MPI fails.
 */
#ifndef REMATCH_KERNELS_COMM_H
#define REMATCH_KERNELS_COMM_H

#include "kernels/status.h"
#include "kernels/tensor.h"

struct comm;

/* Starts MPI (its errors returned, not fatal). */
status comm_open(struct comm **out, int *argc, char ***argv);
void comm_close(struct comm *c); /* NULL-safe; ends all ranks where MPI has failed on this one */

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
int comm_neighbours(const struct comm *c); /* ranks of this machine, this one included */

/* Whether this rank tells people what the ranks agreed on: rank 0, and one that MPI has cut off from it. */
bool comm_speaks(const struct comm *c);

/* The same code on every rank: OK if all are OK, else that of the lowest failing rank, its text given to all ("rank 1:
 * ..." on the others). */
status comm_agree(struct comm *c, status mine);

/* bytes of `data` from rank 0 to all. */
status comm_broadcast(struct comm *c, void *data, size_t bytes);

/* x[0] = ((x[0] + x[1]) + ...) of rank 0, + x[0], ... of rank 1, ...: every (1,N) f32 array of every rank in order, on
 * every rank, whatever the transport. So the sum does not depend on how the arrays are spread over ranks. */
status comm_sum_in_order(struct comm *c, const struct view *x, int count);

/* all (size * bytes) = every rank's `mine`, in rank order, on every rank. */
status comm_gather(struct comm *c, const void *mine, size_t bytes, void *all);

/* *other = the lowest rank whose `mine` differs from rank 0's, on every rank; -1: there is none. */
status comm_same(struct comm *c, const void *mine, size_t bytes, int *other);

/* *flag = any rank's flag. */
status comm_any(struct comm *c, bool *flag);

/* Bytes whose number only their rank knows; `data` is malloc'ed. comm_bytes_free releases an array of them. */
struct comm_bytes {
    void *data;
    size_t size;
};
void comm_bytes_free(struct comm_bytes *parts, int count);

/* parts (size, zeroed) = every rank's `mine`, in rank order, on rank 0; elsewhere parts stays empty. */
status comm_collect(struct comm *c, const struct comm_bytes *mine, struct comm_bytes *parts);
/* The way back: *mine = what rank 0 has in parts (size) for this rank. */
status comm_deal(struct comm *c, const struct comm_bytes *parts, struct comm_bytes *mine);

/* Sends `out` to rank `to` and receives `in` from rank `from`, as the ring of context parallelism does. */
status comm_exchange(struct comm *c, const void *out, int to, void *in, int from, size_t bytes);

#endif
