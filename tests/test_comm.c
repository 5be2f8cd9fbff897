/* Collectives. Alone this runs in a world of one; test_comm.sh starts it on several ranks.
 *
 *   test_comm [N | refused | parted | cut]   how this world ends: one rank fails while the others are in collective N
 *                                            (default 0); a wrong argument; ranks in different ones; MPI fails on rank 0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/comm.h"
#include "tests/suite.h"

static struct comm *comm;

/* Values for which (a + b) + c differs from a + (b + c): only the promised order gives the expected bits. */
static float part(int array, int64_t i)
{
    static const float mixed[] = {1e8f, 1.0f, -1e8f, 0.3f, 7e7f, -0.1f, 3.3f};
    return mixed[(array * 3 + (int)(i % 5)) % 7] * (1.0f + (float)(i % 11));
}

START_TEST(sum_follows_the_order_of_arrays_and_ranks)
{
    enum { ARRAYS = 2, N = 70001 }; /* more than a piece */
    int rank = comm_rank(comm), size = comm_size(comm);
    struct view x[ARRAYS];
    for (int a = 0; a < ARRAYS; a++) {
        x[a] = view_of(malloc(N * sizeof(float)), F32, 1, N);
        for (int64_t i = 0; i < N; i++)
            ((float *)x[a].data)[i] = part(rank * ARRAYS + a, i);
    }
    ck_ok(comm_sum_in_order(comm, x, ARRAYS));
    for (int64_t i = 0; i < N; i++) {
        float expected = part(0, i);
        for (int a = 1; a < size * ARRAYS; a++)
            expected += part(a, i);
        ck_assert_msg(((float *)x[0].data)[i] == expected, "element %lld", (long long)i);
    }
    for (int a = 0; a < ARRAYS; a++)
        free(x[a].data);
}
END_TEST

START_TEST(values_reach_every_rank)
{
    int rank = comm_rank(comm), size = comm_size(comm), *all = calloc((size_t)size, sizeof *all), word = 41 + rank;
    ck_ok(comm_gather(comm, &word, sizeof word, all));
    for (int r = 0; r < size; r++)
        ck_assert_int_eq(all[r], 41 + r);
    free(all);
    ck_ok(comm_broadcast(comm, &word, sizeof word));
    ck_assert_int_eq(word, 41);
    bool flag = rank == size - 1;
    ck_ok(comm_any(comm, &flag));
    ck_assert(flag);
    flag = false;
    ck_ok(comm_any(comm, &flag));
    ck_assert(!flag);
}
END_TEST

START_TEST(ring_passes_to_the_next_rank)
{
    int rank = comm_rank(comm), size = comm_size(comm), out = 7 * rank, in = -1;
    ck_ok(comm_exchange(comm, &out, (rank + 1) % size, &in, (rank + size - 1) % size, sizeof out));
    ck_assert_int_eq(in, 7 * ((rank + size - 1) % size));
}
END_TEST

START_TEST(first_rank_that_differs_is_found)
{
    int rank = comm_rank(comm), size = comm_size(comm), other = 0;
    ck_ok(comm_same(comm, "alike", 5, &other));
    ck_assert_int_eq(other, -1);
    ck_ok(comm_same(comm, rank ? "alien" : "alike", 5, &other));
    ck_assert_int_eq(other, size > 1 ? 1 : -1);
    ck_ok(comm_same(comm, rank == size - 1 && rank ? "alien" : "alike", 5, &other));
    ck_assert_int_eq(other, size > 1 ? size - 1 : -1);
}
END_TEST

/* Rank r has 1000 r bytes, so rank 0 none. */
START_TEST(bytes_of_any_number_go_to_rank_0_and_back)
{
    int rank = comm_rank(comm), size = comm_size(comm);
    struct comm_bytes mine = {malloc(1000 * (size_t)rank + 1), 1000 * (size_t)rank}, back;
    struct comm_bytes *parts = calloc((size_t)size, sizeof *parts);
    memset(mine.data, 'a' + rank, mine.size);
    ck_ok(comm_collect(comm, &mine, parts));
    for (int r = 0; r < size; r++)
        ck_assert_uint_eq(parts[r].size, rank == 0 ? 1000 * (size_t)r : 0);
    for (int r = 1; rank == 0 && r < size; r++)
        ck_assert(((char *)parts[r].data)[0] == 'a' + r && ((char *)parts[r].data)[1000 * r - 1] == 'a' + r);
    ck_ok(comm_deal(comm, parts, &back));
    ck_assert_uint_eq(back.size, mine.size);
    ck_assert_mem_eq(back.data, mine.data, mine.size);
    free(mine.data);
    free(back.data);
    comm_bytes_free(parts, size);
}
END_TEST

START_TEST(ranks_of_this_machine_are_counted) { ck_assert_int_eq(comm_neighbours(comm), comm_size(comm)); }
END_TEST

/* ---- how a world ends ---- */

static const char *ending = "0";

static status in_agree(void) { return comm_agree(comm, OK); }

static status in_broadcast(void)
{
    int word = 0;
    return comm_broadcast(comm, &word, sizeof word);
}

static status in_sum(void)
{
    float value = 1;
    struct view x = view_of(&value, F32, 1, 1);
    return comm_sum_in_order(comm, &x, 1);
}

static status in_gather(void)
{
    int word = 0, all[16];
    return comm_gather(comm, &word, sizeof word, all);
}

static status in_same(void)
{
    int other;
    return comm_same(comm, "x", 1, &other);
}

static status in_any(void)
{
    bool flag = false;
    return comm_any(comm, &flag);
}

static status in_collect(void)
{
    struct comm_bytes parts[16] = {0};
    return comm_collect(comm, &(const struct comm_bytes){"x", 1}, parts);
}

static status in_deal(void)
{
    struct comm_bytes parts[16] = {0}, mine;
    return comm_deal(comm, parts, &mine);
}

static status in_exchange(void)
{
    char out = 0, in;
    return comm_exchange(comm, &out, 0, &in, 0, 1);
}

static status (*const in_collective[])(void) = {in_agree, in_broadcast, in_sum,  in_gather,  in_same,
                                                in_any,   in_collect,   in_deal, in_exchange};

/* The highest ranks fail; the lowest of them speaks for all, and wherever the others are, they hear it. */
START_TEST(failure_of_a_rank_reaches_the_others_in_any_collective)
{
    int rank = comm_rank(comm), lowest = comm_size(comm) / 2, n = atoi(ending); /* of 3 ranks two fail */
    char text[48];
    ck_ok(comm_agree(comm, OK));
    if (rank >= lowest)
        ck_assert_int_eq(comm_agree(comm, FAIL(ERR_IO, "disk %d is full", rank)), ERR_IO);
    else
        ck_assert_int_eq(in_collective[n](), ERR_IO);
    snprintf(text, sizeof text, rank == lowest ? "disk %d is full" : "rank %d: disk %d is full", lowest, lowest);
    ck_assert_str_eq(status_text(), text);
    for (int i = 0; i < COUNT(in_collective); i++)
        ck_assert_int_eq(in_collective[i](), ERR_IO);
    ck_assert_str_eq(status_text(), text);
    ck_assert(comm_speaks(comm) == (rank == 0));
}
END_TEST

START_TEST(sum_refuses_other_types)
{
    double value = 1;
    struct view x = view_of(&value, F64, 1, 1);
    ck_assert_int_eq(comm_sum_in_order(comm, &x, 1), ERR_ARGUMENT);
    ck_said("1 x 1 F64");
}
END_TEST

START_TEST(ranks_in_different_collectives_are_told)
{
    ck_assert_int_eq(comm_rank(comm) == 0 ? in_any() : in_gather(), ERR_COMM);
    ck_said("one is at comm_gather, another at comm_any");
}
END_TEST

/* Rank 0 cannot tell the others, which wait for it until comm_close ends them. */
START_TEST(rank_that_mpi_fails_on_ends_all)
{
    char out = 0, in;
    ck_assert_int_eq(comm_exchange(comm, &out, comm_rank(comm) ? 0 : -77, &in, 0, 1), ERR_COMM);
    ck_assert(comm_speaks(comm));
}
END_TEST

int main(int argc, char **argv)
{
    if (comm_open(&comm, &argc, &argv) != OK)
        return EXIT_FAILURE;
    if (argc > 1)
        ending = argv[1];
    const struct suite_test tests[] = {
        {sum_follows_the_order_of_arrays_and_ranks, 1},
        {values_reach_every_rank, 1},
        {first_rank_that_differs_is_found, 1},
        {bytes_of_any_number_go_to_rank_0_and_back, 1},
        {ranks_of_this_machine_are_counted, 1},
        {ring_passes_to_the_next_rank, 1},
        {!strcmp(ending, "refused")  ? sum_refuses_other_types
         : !strcmp(ending, "parted") ? ranks_in_different_collectives_are_told
         : !strcmp(ending, "cut")    ? rank_that_mpi_fails_on_ends_all
                                     : failure_of_a_rank_reaches_the_others_in_any_collective,
         1},
    };
    /* MPI does not survive a fork. */
    const int failed = suite_run_with("comm", tests, COUNT(tests), &(const struct suite_options){.one_process = true});
    comm_close(comm);
    return failed;
}
