/* comm.h - the collectives: what ranks say to each other, in a fixed order of reduction.
 *
 * One rank per process. A NULL `struct comm *` never occurs: a single process is a world of one.
 * Errors: ERR_COMM with MPI's own text. Ranks agree on errors before the next collective (comm_agree), so that none is
 * left hanging.
 */
#ifndef REMATCH_KERNELS_COMM_H
#define REMATCH_KERNELS_COMM_H

#include "kernels/status.h"
#include "kernels/tensor.h"

struct comm;

/* Starts MPI (its errors returned, not fatal). */
status comm_open(struct comm **out, int *argc, char ***argv);
void comm_close(struct comm *c);

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);

/* The same code on every rank: OK if all are OK, else that of the lowest failing rank, its text given to all. */
status comm_agree(struct comm *c, status mine);

/* bytes of `data` from rank 0 to all. */
status comm_broadcast(struct comm *c, void *data, size_t bytes);

/* x[0] = ((x[0] + x[1]) + ...) of rank 0, + x[0], ... of rank 1, ...: every (1,N) f32 array of every rank in order, on
 * every rank, whatever the transport. So the sum does not depend on how the arrays are spread over ranks. */
status comm_sum_in_order(struct comm *c, const struct view *x, int count);

/* *x = sum over ranks in rank order. */
status comm_sum_double(struct comm *c, double *x);

/* all (size * bytes) = every rank's `mine`, in rank order, on every rank. */
status comm_gather(struct comm *c, const void *mine, size_t bytes, void *all);

/* *flag = any rank's flag. */
status comm_any(struct comm *c, bool *flag);

/* Sends `out` to rank `to` and receives `in` from rank `from`, as the ring of context parallelism does. */
status comm_exchange(struct comm *c, const void *out, int to, void *in, int from, size_t bytes);

#endif
