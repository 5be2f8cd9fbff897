#include "kernels/comm.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct comm {
    MPI_Comm world;
    int rank, size, neighbours;
    status agreed; /* what the ranks failed with together: nothing is exchanged after it */
    bool broken;   /* MPI itself failed here */
};

enum { TEXT_BYTES = 1024, LARGEST_MESSAGE = 1 << 30 };

static status comm_status(struct comm *c, int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return OK;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    c->broken = true;
    c->agreed = ERR_COMM;
    return FAIL(ERR_COMM, "%s: %s", call, text);
}

#define MPI_TRY(c, call) TRY(comm_status((c), (call), #call))

static status open_world(struct comm *c, int *argc, char ***argv)
{
    /* FUNNELED: OpenMP threads compute, only the main thread communicates. */
    int provided;
    MPI_Comm machine;
    c->world = MPI_COMM_WORLD;
    MPI_TRY(c, MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
    MPI_TRY(c, MPI_Comm_set_errhandler(c->world, MPI_ERRORS_RETURN));
    MPI_TRY(c, MPI_Comm_rank(c->world, &c->rank));
    MPI_TRY(c, MPI_Comm_size(c->world, &c->size));
    MPI_TRY(c, MPI_Comm_split_type(c->world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    MPI_TRY(c, MPI_Comm_size(machine, &c->neighbours));
    MPI_TRY(c, MPI_Comm_free(&machine));
    return OK;
}

status comm_open(struct comm **out, int *argc, char ***argv)
{
    *out = calloc(1, sizeof **out);
    return *out ? open_world(*out, argc, argv) : FAIL(ERR_MEMORY, "no memory for a communicator");
}

void comm_close(struct comm *c)
{
    if (!c)
        return;
    if (c->broken && c->size > 1)
        MPI_Abort(c->world, EXIT_FAILURE); /* the others may wait for this rank, and it cannot tell them */
    MPI_Finalize();
    free(c);
}

int comm_rank(const struct comm *c) { return c->rank; }
int comm_size(const struct comm *c) { return c->size; }
int comm_neighbours(const struct comm *c) { return c->neighbours; }
bool comm_speaks(const struct comm *c) { return c->rank == 0 || c->broken; }

/* ---- what every collective begins with ---- */

enum collective { AGREE, BROADCAST, SUM, GATHER, SAME, ANY, COLLECT, DEAL, EXCHANGE };
static const char *const collective_name[] = {"comm_agree",   "comm_broadcast", "comm_sum_in_order",
                                              "comm_gather",  "comm_same",      "comm_any",
                                              "comm_collect", "comm_deal",      "comm_exchange"};

/* The text of the lowest failing rank becomes everybody's. */
static status tell(struct comm *c, status mine, int lowest)
{
    struct {
        int code;
        char text[TEXT_BYTES];
    } word = {(int)mine, ""};
    if (c->rank == lowest)
        strncpy(word.text, status_text(), TEXT_BYTES - 1);
    MPI_TRY(c, MPI_Bcast(&word, (int)sizeof word, MPI_BYTE, lowest, c->world));
    c->agreed = (status)word.code;
    return c->rank == lowest ? mine : FAIL(c->agreed, "rank %d: %s", lowest, word.text);
}

/* Has any rank failed, and is everybody here? `mine` is what this rank brings along. */
static status enter(struct comm *c, enum collective which, status mine)
{
    if (c->agreed != OK)
        return c->agreed;
    /* The lowest failing rank speaks for all; `size` means that none failed. */
    const int word[3] = {mine == OK ? c->size : c->rank, (int)which, -(int)which};
    int lowest[3];
    MPI_TRY(c, MPI_Allreduce(word, lowest, 3, MPI_INT, MPI_MIN, c->world));
    if (lowest[0] < c->size)
        return tell(c, mine, lowest[0]);
    if (lowest[1] == -lowest[2])
        return OK;
    c->agreed = ERR_COMM;
    return FAIL(ERR_COMM, "the ranks have parted: one is at %s, another at %s; this is a bug of Rematch",
                collective_name[lowest[1]], collective_name[-lowest[2]]);
}

status comm_agree(struct comm *c, status mine) { return enter(c, AGREE, mine); }

/* ---- collectives ---- */

static status broadcast(struct comm *c, void *data, size_t bytes, int from)
{
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < LARGEST_MESSAGE ? bytes - done : LARGEST_MESSAGE;
        MPI_TRY(c, MPI_Bcast((char *)data + done, (int)part, MPI_BYTE, from, c->world));
        done += part;
    }
    return OK;
}

status comm_broadcast(struct comm *c, void *data, size_t bytes)
{
    TRY(enter(c, BROADCAST, OK));
    return broadcast(c, data, bytes, 0);
}

static status check_rows(const struct view *x, int count)
{
    for (int i = 0; i < count; i++)
        if (x[i].type != F32 || x[i].rows != 1 || x[i].cols != x[0].cols)
            return FAIL(ERR_ARGUMENT, "comm_sum_in_order takes rows of %lld F32, not %lld x %lld %s",
                        (long long)x[0].cols, (long long)x[i].rows, (long long)x[i].cols, dtype_name(x[i].type));
    return OK;
}

/* The sum so far travels up the ranks, each adding its own arrays, and the last broadcasts: the order of addition is
 * that of the ranks, whatever MPI would have chosen. In pieces, so that ranks work on different pieces at a time. */
status comm_sum_in_order(struct comm *c, const struct view *x, int count)
{
    enum { PIECE = 1 << 16 };
    float *sum = malloc(PIECE * sizeof *sum), *total = x[0].data;
    status st = sum ? check_rows(x, count) : FAIL(ERR_MEMORY, "no memory for a piece of a sum");
    TRY_DONE(enter(c, SUM, st));
    for (int64_t first = 0; first < x[0].cols; first += PIECE) {
        int length = (int)(x[0].cols - first < PIECE ? x[0].cols - first : PIECE), from = 0;
        if (c->rank > 0)
            TRY_DONE(comm_status(c, MPI_Recv(sum, length, MPI_FLOAT, c->rank - 1, 0, c->world, MPI_STATUS_IGNORE),
                                 "MPI_Recv"));
        else
            memcpy(sum, (const float *)x[from++].data + first, (size_t)length * sizeof *sum);
        for (; from < count; from++) {
            const float *part = (const float *)x[from].data + first;
            for (int i = 0; i < length; i++)
                sum[i] += part[i];
        }
        if (c->rank < c->size - 1)
            TRY_DONE(comm_status(c, MPI_Send(sum, length, MPI_FLOAT, c->rank + 1, 0, c->world), "MPI_Send"));
        else
            memcpy(total + first, sum, (size_t)length * sizeof *sum);
    }
    TRY_DONE(broadcast(c, total, (size_t)x[0].cols * sizeof *total, c->size - 1));
done:
    free(sum);
    return st;
}

static status gather(struct comm *c, const void *mine, size_t bytes, void *all)
{
    MPI_TRY(c, MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, c->world));
    return OK;
}

status comm_gather(struct comm *c, const void *mine, size_t bytes, void *all)
{
    TRY(enter(c, GATHER,
              bytes <= LARGEST_MESSAGE
                  ? OK
                  : FAIL(ERR_ARGUMENT, "comm_gather of %zu bytes a rank: at most %d", bytes, LARGEST_MESSAGE)));
    return gather(c, mine, bytes, all);
}

status comm_same(struct comm *c, const void *mine, size_t bytes, int *other)
{
    char *all = malloc((size_t)c->size * bytes);
    status st = all ? OK : FAIL(ERR_MEMORY, "no memory for %d x %zu bytes", c->size, bytes);
    TRY_DONE(enter(c, SAME, st));
    TRY_DONE(gather(c, mine, bytes, all));
    *other = -1;
    for (int r = c->size - 1; r > 0; r--)
        if (memcmp(all, all + (size_t)r * bytes, bytes))
            *other = r;
done:
    free(all);
    return st;
}

status comm_any(struct comm *c, bool *flag)
{
    int mine = *flag, any;
    TRY(enter(c, ANY, OK));
    MPI_TRY(c, MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_LOR, c->world));
    *flag = any != 0;
    return OK;
}

/* ---- bytes of any number ---- */

void comm_bytes_free(struct comm_bytes *parts, int count)
{
    for (int i = 0; parts && i < count; i++)
        free(parts[i].data);
    free(parts);
}

static status make_room(struct comm_bytes *b, uint64_t size)
{
    *b = (struct comm_bytes){malloc((size_t)size + 1), (size_t)size};
    return b->data ? OK : FAIL(ERR_MEMORY, "no memory for %zu bytes of another rank", b->size);
}

/* `out` of rank `from` into `in`, of the same size, of rank `to`. */
static status pass_on(struct comm *c, const struct comm_bytes *out, int from, const struct comm_bytes *in, int to)
{
    if (from == to && c->rank == from && out->size)
        memcpy(in->data, out->data, out->size);
    const size_t size = c->rank == from ? out->size : in->size;
    for (size_t done = 0; from != to && done < size; done += LARGEST_MESSAGE) {
        int part = (int)(size - done < LARGEST_MESSAGE ? size - done : LARGEST_MESSAGE);
        if (c->rank == from)
            MPI_TRY(c, MPI_Send((const char *)out->data + done, part, MPI_BYTE, to, 2, c->world));
        if (c->rank == to)
            MPI_TRY(c, MPI_Recv((char *)in->data + done, part, MPI_BYTE, from, 2, c->world, MPI_STATUS_IGNORE));
    }
    return OK;
}

status comm_collect(struct comm *c, const struct comm_bytes *mine, struct comm_bytes *parts)
{
    uint64_t own = mine->size, *sizes = calloc((size_t)c->size, sizeof *sizes);
    status st = sizes ? OK : FAIL(ERR_MEMORY, "no memory for %d sizes", c->size);
    TRY_DONE(enter(c, COLLECT, st));
    TRY_DONE(gather(c, &own, sizeof own, sizes));
    for (int r = 0; st == OK && c->rank == 0 && r < c->size; r++)
        st = make_room(&parts[r], sizes[r]);
    TRY_DONE(enter(c, COLLECT, st));
    for (int r = 0; r < c->size; r++)
        TRY_DONE(pass_on(c, mine, r, &parts[r], 0));
done:
    free(sizes);
    return st;
}

status comm_deal(struct comm *c, const struct comm_bytes *parts, struct comm_bytes *mine)
{
    uint64_t *sizes = calloc((size_t)c->size, sizeof *sizes);
    status st = sizes ? OK : FAIL(ERR_MEMORY, "no memory for %d sizes", c->size);
    TRY_DONE(enter(c, DEAL, st));
    for (int r = 0; c->rank == 0 && r < c->size; r++)
        sizes[r] = parts[r].size;
    TRY_DONE(broadcast(c, sizes, (size_t)c->size * sizeof *sizes, 0));
    TRY_DONE(enter(c, DEAL, make_room(mine, sizes[c->rank])));
    for (int r = 0; r < c->size; r++)
        TRY_DONE(pass_on(c, &parts[r], 0, mine, r));
done:
    free(sizes);
    return st;
}

/* ---- the ring ---- */

status comm_exchange(struct comm *c, const void *out, int to, void *in, int from, size_t bytes)
{
    TRY(enter(c, EXCHANGE, OK));
    for (size_t done = 0; done < bytes;) {
        int part = (int)(bytes - done < LARGEST_MESSAGE ? bytes - done : LARGEST_MESSAGE);
        MPI_TRY(c, MPI_Sendrecv((const char *)out + done, part, MPI_BYTE, to, 1, (char *)in + done, part, MPI_BYTE,
                                from, 1, c->world, MPI_STATUS_IGNORE));
        done += (size_t)part;
    }
    return OK;
}
