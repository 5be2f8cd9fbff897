/* Matrix product. B is packed into column panels once and shared; a thread packs a strip of A at a time and multiplies
 * it with the panels of its columns, k being whole in both: so a chunk's sum never leaves the registers. The strip and
 * the panel of one step stay in L1 and L2 up to a k of some thousands. */
#include <omp.h>

#include "kernels/cpu/simd/product.h"

/* Bytes of panels that one pass over the rows uses: so many that packing a strip anew for each pass costs little. They
 * stream from L3 where L2 is smaller. */
enum { PASS_BYTES = 1 << 22, PACK_LINES = 256 };

struct gemm {
    int64_t m, n, k, chunk, chunks;
    const struct view *a, *b, *c;
    bool a_transposed, b_transposed, accumulate;
    int32_t *sequence;
    float *panels, *strips;
};

/* First and one past the last of what a thread works on. */
struct range {
    int64_t begin, end;
};

static struct range share(int64_t count, int parts, int which)
{
    return (struct range){count * which / parts, count * (which + 1) / parts};
}

/* A strip holds A as it lies: lines of a transposed one, else the panels of each chunk. */
static int64_t strip_elements(const struct gemm *g) { return g->chunks * panel_elements(LANES, g->chunk); }

static size_t lay_out(struct gemm *g, const struct plan *plan, int threads, void *base)
{
    struct carving c = {base, 0};
    g->m = plan->dims[0];
    g->n = plan->dims[1];
    g->k = plan->dims[2];
    g->chunks = plan_chunks(plan);
    g->chunk = g->chunks == 1 ? g->k : plan->chunk;
    g->sequence = carve(&c, g->chunks, sizeof *g->sequence);
    g->panels = carve(&c, g->k * vector_columns(g->n), sizeof *g->panels);
    g->strips = carve(&c, threads * strip_elements(g), sizeof *g->strips);
    return c.used;
}

size_t NAME(gemm_workspace)(const struct device *d, const struct plan *plan)
{
    struct gemm g;
    return lay_out(&g, plan, d->threads, NULL);
}

/* Lines [first, first + lines) of the panel that starts at `column`. */
static void pack_b(const struct gemm *g, int64_t column, int64_t first, int64_t lines)
{
    const int64_t left = g->n - column, width = panel_width(left), cols = left < width ? left : width;
    float *to = g->panels + column * g->k + first * width;
    if (g->b_transposed) {
        const struct part from = {g->b, column, cols, first, lines};
        NAME(pack_transposed)(to, width, width, &from);
    } else {
        const struct part from = {g->b, first, lines, column, cols};
        NAME(pack)(to, width, width, &from);
    }
}

static void pack_panels(const struct gemm *g)
{
    const int64_t panels = (g->n + PANEL - 1) / PANEL, pieces = (g->k + PACK_LINES - 1) / PACK_LINES;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < panels * pieces; i++) {
        const int64_t first = i % pieces * PACK_LINES, left = g->k - first;
        pack_b(g, i / pieces * PANEL, first, left < PACK_LINES ? left : PACK_LINES);
    }
}

static void pack_a(const struct gemm *g, float *strip, int64_t row, int64_t rows)
{
    if (g->a_transposed) {
        /* 16 wide where there are as many, even if fewer are used: whole vectors pack faster. */
        const struct part from = {g->a, 0, g->k, row, lanes(g->m - row)};
        NAME(pack)(strip, LANES, LANES, &from);
        return;
    }
    for (int64_t i = 0; i < g->chunks; i++) {
        const int64_t first = i * g->chunk, left = g->k - first;
        const struct part from = {g->a, row, rows, first, left < g->chunk ? left : g->chunk};
        NAME(pack_panels)(strip + i * panel_elements(rows, g->chunk), &from);
    }
}

/* Adds the chunk sums of one block to `to`, in the plan's sequence. */
static void sum_chunks(const struct gemm *g, const float *strip, int64_t rows, const float *panel, int width, float *to,
                       int64_t step, bool add)
{
    for (int64_t i = 0; i < g->chunks; i++) {
        const int64_t first = g->sequence[i] * g->chunk, left = g->k - first;
        const struct product block = {
            .rows = rows,
            .k = left < g->chunk ? left : g->chunk,
            .width = width,
            .a = strip + (g->a_transposed ? first * LANES : g->sequence[i] * panel_elements(rows, g->chunk)),
            .a_step = g->a_transposed ? LANES : rows * PANEL,
            .a_by_rows = !g->a_transposed,
            .b = panel + first * width,
            .b_step = width,
            .c = to,
            .c_step = step,
            .add = add || i > 0,
        };
        NAME(product)(&block);
    }
}

/* A block of C: in place where it is binary32 and as wide as a panel, else beside it and rounded at the end. */
static void multiply_block(const struct gemm *g, const float *strip, int64_t row, int64_t rows, int64_t column)
{
    const int64_t left = g->n - column;
    const int width = panel_width(left);
    const float *panel = g->panels + column * g->k;
    if (g->c->type == F32 && left >= width) {
        sum_chunks(g, strip, rows, panel, width, view_at(g->c, row, column), g->c->stride, g->accumulate);
        return;
    }
    float block[STRIP * PANEL];
    const int64_t cols = left < width ? left : width;
    if (g->accumulate) {
        const struct part old = {g->c, row, rows, column, cols};
        NAME(pack)(block, width, width, &old);
    }
    sum_chunks(g, strip, rows, panel, width, block, width, g->accumulate);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += LANES)
            vf_put(view_at(g->c, row + i, column), g->c->type, j, lanes(cols - j), vf_load(block + i * width + j));
}

/* Rows x panels of C, in passes over some panels at a time. */
static void multiply_share(const struct gemm *g, struct range rows, struct range panels, float *strip)
{
    const int64_t fitting = PASS_BYTES / ((int64_t)sizeof(float) * PANEL * g->k), step = fitting < 1 ? 1 : fitting;
    const int64_t strips = (rows.end - rows.begin + STRIP - 1) / STRIP;
    for (int64_t first = panels.begin; first < panels.end; first += step) {
        const int64_t last = first + step < panels.end ? first + step : panels.end;
        for (int64_t i = 0; i < strips; i++) {
            const struct range part = share(rows.end - rows.begin, (int)strips, (int)i);
            pack_a(g, strip, rows.begin + part.begin, part.end - part.begin);
            for (int64_t p = first; p < last; p++)
                multiply_block(g, strip, rows.begin + part.begin, part.end - part.begin, p * PANEL);
        }
    }
}

/* Of `threads`, how many share the rows (the others share the panels): what leaves the least to the busiest thread. */
static int row_shares(const struct gemm *g, int threads)
{
    const int64_t panels = (g->n + PANEL - 1) / PANEL;
    int best = 1;
    int64_t least = INT64_MAX;
    for (int by_rows = threads; by_rows >= 1; by_rows--) {
        if (threads % by_rows)
            continue;
        const int64_t by_panels = threads / by_rows;
        const int64_t work = (g->m + by_rows - 1) / by_rows * ((panels + by_panels - 1) / by_panels);
        if (work < least) {
            least = work;
            best = by_rows;
        }
    }
    return best;
}

static void multiply(const struct gemm *g, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        const int team = omp_get_num_threads(), self = omp_get_thread_num(), by_rows = row_shares(g, team);
        pack_panels(g);
        const struct range rows = share(g->m, by_rows, self % by_rows);
        const struct range panels = share((g->n + PANEL - 1) / PANEL, team / by_rows, self / by_rows);
        multiply_share(g, rows, panels, g->strips + self * strip_elements(g));
    }
}

status NAME(cpu_gemm)(struct device *d, const struct plan *plan, uint64_t draw, const struct view *c,
                      const struct view *a, const struct view *b, bool accumulate)
{
    TRY(check_gemm(plan, c, a, b, accumulate));
    TRY(CPU_CHECK_STORAGE("gemm", a, b, c));
    struct gemm g = {
        .a = a,
        .b = b,
        .c = c,
        .a_transposed = plan->op == PLAN_GEMM_TN,
        .b_transposed = plan->op == PLAN_GEMM_NT,
        .accumulate = accumulate,
    };
    lay_out(&g, plan, d->threads, d->workspace);
    plan_sequence(plan, draw, g.chunks, g.sequence);
    multiply(&g, cpu_threads(d, g.m * g.n * g.k / 16));
    return OK;
}
