#include "kernels/comm.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct comm {
    MPI_Comm world;
    int rank, size;
};

enum { TEXT_BYTES = 1024, LARGEST_MESSAGE = 1 << 30 };

static status comm_status(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return OK;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return FAIL(ERR_COMM, "%s: %s", call, text);
}

#define MPI_TRY(call) TRY(comm_status((call), #call))

status comm_open(struct comm **out, int *argc, char ***argv)
{
    *out = NULL;
    /* FUNNELED: OpenMP threads compute, only the main thread communicates. */
    int provided;
    MPI_TRY(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
    MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    struct comm *c = calloc(1, sizeof *c);
    if (!c)
        return FAIL(ERR_MEMORY, "no memory for a communicator");
    c->world = MPI_COMM_WORLD;
    *out = c;
    MPI_TRY(MPI_Comm_rank(c->world, &c->rank));
    MPI_TRY(MPI_Comm_size(c->world, &c->size));
    return OK;
}

void comm_close(struct comm *c)
{
    if (!c)
        return;
    MPI_Finalize();
    free(c);
}

int comm_rank(const struct comm *c) { return c->rank; }
int comm_size(const struct comm *c) { return c->size; }

status comm_agree(struct comm *c, status mine)
{
    /* The lowest failing rank speaks for all; `size` means that none failed. */
    int failed = mine == OK ? c->size : c->rank, lowest;
    MPI_TRY(MPI_Allreduce(&failed, &lowest, 1, MPI_INT, MPI_MIN, c->world));
    if (lowest == c->size)
        return OK;
    struct {
        int code;
        char text[TEXT_BYTES];
    } word = {(int)mine, ""};
    if (c->rank == lowest)
        strncpy(word.text, status_text(), TEXT_BYTES - 1);
    MPI_TRY(MPI_Bcast(&word, (int)sizeof word, MPI_BYTE, lowest, c->world));
    if (c->rank == lowest || c->size == 1)
        return mine;
    return FAIL((status)word.code, "rank %d: %s", lowest, word.text);
}

status comm_broadcast(struct comm *c, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < LARGEST_MESSAGE ? bytes - done : LARGEST_MESSAGE;
        MPI_TRY(MPI_Bcast((char *)data + done, (int)part, MPI_BYTE, 0, c->world));
        done += part;
    }
    return OK;
}

/* The sum so far travels up the ranks, each adding its own arrays, and the last broadcasts: the order of addition is
 * that of the ranks, whatever MPI would have chosen. In pieces, so that ranks work on different pieces at a time. */
status comm_sum_in_order(struct comm *c, const struct view *x, int count)
{
    enum { PIECE = 1 << 16 };
    for (int i = 0; i < count; i++)
        if (x[i].type != F32 || x[i].rows != 1 || x[i].cols != x[0].cols)
            return FAIL(ERR_ARGUMENT, "comm_sum_in_order takes rows of %lld F32, not %lld x %lld %s",
                        (long long)x[0].cols, (long long)x[i].rows, (long long)x[i].cols, dtype_name(x[i].type));
    float *sum = malloc(PIECE * sizeof *sum), *total = x[0].data;
    if (!sum)
        return FAIL(ERR_MEMORY, "no memory for a piece of a sum");
    status st = OK;
    for (int64_t first = 0; first < x[0].cols; first += PIECE) {
        int length = (int)(x[0].cols - first < PIECE ? x[0].cols - first : PIECE), from = 0;
        if (c->rank > 0)
            TRY_DONE(
                comm_status(MPI_Recv(sum, length, MPI_FLOAT, c->rank - 1, 0, c->world, MPI_STATUS_IGNORE), "MPI_Recv"));
        else
            memcpy(sum, (const float *)x[from++].data + first, (size_t)length * sizeof *sum);
        for (; from < count; from++) {
            const float *part = (const float *)x[from].data + first;
            for (int i = 0; i < length; i++)
                sum[i] += part[i];
        }
        if (c->rank < c->size - 1)
            TRY_DONE(comm_status(MPI_Send(sum, length, MPI_FLOAT, c->rank + 1, 0, c->world), "MPI_Send"));
        else
            memcpy(total + first, sum, (size_t)length * sizeof *sum);
    }
    for (int64_t first = 0; c->size > 1 && first < x[0].cols; first += LARGEST_MESSAGE) {
        int64_t left = x[0].cols - first;
        TRY_DONE(comm_status(MPI_Bcast(total + first, (int)(left < LARGEST_MESSAGE ? left : LARGEST_MESSAGE), MPI_FLOAT,
                                       c->size - 1, c->world),
                             "MPI_Bcast"));
    }
done:
    free(sum);
    return st;
}

status comm_gather(struct comm *c, const void *mine, size_t bytes, void *all)
{
    if (bytes > LARGEST_MESSAGE)
        return FAIL(ERR_ARGUMENT, "comm_gather of %zu bytes a rank: at most %d", bytes, LARGEST_MESSAGE);
    MPI_TRY(MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, c->world));
    return OK;
}

status comm_sum_double(struct comm *c, double *x)
{
    double *all = malloc((size_t)c->size * sizeof *all);
    if (!all)
        return FAIL(ERR_MEMORY, "no memory for %d values", c->size);
    status st = OK;
    TRY_DONE(comm_gather(c, x, sizeof *x, all));
    *x = all[0];
    for (int i = 1; i < c->size; i++)
        *x += all[i];
done:
    free(all);
    return st;
}

status comm_any(struct comm *c, bool *flag)
{
    int mine = *flag, any;
    MPI_TRY(MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_LOR, c->world));
    *flag = any != 0;
    return OK;
}

status comm_exchange(struct comm *c, const void *out, int to, void *in, int from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        int part = (int)(bytes - done < LARGEST_MESSAGE ? bytes - done : LARGEST_MESSAGE);
        MPI_TRY(MPI_Sendrecv((const char *)out + done, part, MPI_BYTE, to, 1, (char *)in + done, part, MPI_BYTE, from,
                             1, c->world, MPI_STATUS_IGNORE));
        done += (size_t)part;
    }
    return OK;
}
