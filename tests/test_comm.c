/* Collectives. Alone this runs in a world of one; test_comm.sh starts it on several ranks. */
#include <stdio.h>
#include <stdlib.h>

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

START_TEST(sum_refuses_other_types)
{
    double value = 1;
    struct view x = view_of(&value, F64, 1, 1);
    ck_assert_int_eq(comm_sum_in_order(comm, &x, 1), ERR_ARGUMENT);
}
END_TEST

START_TEST(error_of_the_lowest_rank_reaches_all)
{
    int rank = comm_rank(comm), lowest = comm_size(comm) / 2; /* of 3 ranks two fail */
    ck_ok(comm_agree(comm, OK));
    status mine = rank >= lowest ? FAIL(ERR_INPUT, "file %d is damaged", rank) : OK;
    ck_assert_int_eq(comm_agree(comm, mine), ERR_INPUT);
    char text[32];
    snprintf(text, sizeof text, "file %d is damaged", lowest);
    ck_said(text);
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
    double sum = rank + 0.5;
    ck_ok(comm_sum_double(comm, &sum));
    ck_assert_double_eq(sum, size * (size - 1) / 2 + 0.5 * size);
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

int main(int argc, char **argv)
{
    if (comm_open(&comm, &argc, &argv) != OK)
        return EXIT_FAILURE;
    const struct suite_test tests[] = {
        {sum_follows_the_order_of_arrays_and_ranks, 1},
        {sum_refuses_other_types, 1},
        {error_of_the_lowest_rank_reaches_all, 1},
        {values_reach_every_rank, 1},
        {ring_passes_to_the_next_rank, 1},
    };
    /* MPI does not survive a fork. */
    const int failed = suite_run_with("comm", tests, COUNT(tests), &(const struct suite_options){.one_process = true});
    comm_close(comm);
    return failed;
}
