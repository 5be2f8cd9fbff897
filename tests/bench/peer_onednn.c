/* peer_onednn - oneDNN's f32 matmul primitive, for the products of gemm.c. See peer.h for what it is asked.
 *
 *   add nt|nn|tn M N K    operands as in kernels/plan.h, rows packed
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(dnnl_status_t st, const char *what)
{
    if (st == dnnl_success)
        return;
    fprintf(stderr, "peer_onednn: %s: oneDNN says %d\n", what, (int)st);
    exit(EXIT_FAILURE);
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

struct matmul {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t operand[3];
};

/* A matrix of rows x cols, or the transpose of a packed one of cols x rows, filled with small numbers. */
static dnnl_memory_desc_t describe(int64_t rows, int64_t cols, bool transposed)
{
    dnnl_memory_desc_t desc;
    const dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : cols, transposed ? rows : 1};
    check(dnnl_memory_desc_init_by_strides(&desc, 2, dims, dnnl_f32, strides), "a matrix");
    return desc;
}

static dnnl_memory_t allocate(const dnnl_memory_desc_t *desc)
{
    dnnl_memory_t memory;
    void *data;
    check(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_ALLOCATE), "memory");
    check(dnnl_memory_get_data_handle(memory, &data), "memory");
    for (int64_t i = 0; i < desc->dims[0] * desc->dims[1]; i++)
        ((float *)data)[i] = (float)(i * 7 % 31 - 15) / 16;
    return memory;
}

static void make(struct matmul *x, const char *kind, int64_t m, int64_t n, int64_t k)
{
    const dnnl_memory_desc_t a = describe(m, k, !strcmp(kind, "tn")), b = describe(k, n, !strcmp(kind, "nt")),
                             c = describe(m, n, false);
    dnnl_matmul_desc_t product;
    dnnl_primitive_desc_t described;
    check(dnnl_matmul_desc_init(&product, &a, &b, NULL, &c), "a product");
    check(dnnl_primitive_desc_create(&described, &product, NULL, engine, NULL), "a product");
    check(dnnl_primitive_create(&x->primitive, described), "a product");
    dnnl_primitive_desc_destroy(described);
    x->operand[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, allocate(&a)};
    x->operand[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, allocate(&b)};
    x->operand[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, allocate(&c)};
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(const struct matmul *x, int repeats)
{
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < repeats; i++) {
        check(dnnl_primitive_execute(x->primitive, stream, 3, x->operand), "a product");
        check(dnnl_stream_wait(stream), "a product");
    }
    printf("%.9g %.9g\n", (seconds(CLOCK_MONOTONIC) - wall) / repeats,
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / repeats);
}

int main(void)
{
    enum { MOST = 256 };
    static struct matmul all[MOST];
    int count = 0, number, repeats;
    long long m, n, k;
    char line[256], kind[3];
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "add %2s %lld %lld %lld", kind, &m, &n, &k) == 4 && count < MOST) {
            make(&all[count], kind, m, n, k);
            printf("%d oneDNN %d.%d f32 matmul\n", count++, DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
        } else if (sscanf(line, "run %d %d", &number, &repeats) == 2 && number < count && repeats > 0) {
            run(&all[number], repeats);
        } else {
            printf("none this peer does not know it\n");
        }
        fflush(stdout);
    }
    return 0;
}
