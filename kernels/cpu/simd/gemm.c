/* Matrix product. The k axis goes in blocks, the columns in passes: of one block and pass the team packs B into panels
 * and shares them; then a thread packs a strip of A at a time and multiplies it with the panels of its columns. A chunk's
 * sum leaves the registers only between blocks, into `partial`, and returns to them: so blocks change no bits. */
#include <omp.h>

#include "kernels/cpu/simd/product.h"

/* Elements of k in a block: a strip of them stays in L2 with a panel. Bytes of panels in a pass: so many that packing a
 * strip anew for each pass costs little; they stream from L3 where L2 is smaller. Lines that a thread packs at a time. */
enum { BLOCK_LINES = 4096, PASS_BYTES = 1 << 22, PACK_LINES = 256 };

struct gemm {
    int64_t m, n, k;
    /* Pieces of k in the order in which they are summed: the plan's chunks, or the blocks of its only chunk, whose sum
     * goes on from one to the next. */
    int64_t piece, pieces;
    bool goes_on;
    int32_t *sequence;
    int64_t block_pieces, blocks; /* pieces of a block; blocks */
    int64_t pass_panels;
    const struct view *a, *b, *c;
    bool a_transposed, b_transposed, accumulate;
    enum plan_rounding rounding;
    float *panels, *strips; /* of a block and pass; of a block, for each thread */
    float *partial;         /* (m, n in whole vectors); only where there are several blocks */
};

/* First and one past the last of what a thread works on. */
struct range {
    int64_t begin, end;
};

static struct range share(int64_t count, int parts, int which)
{
    return (struct range){count * which / parts, count * (which + 1) / parts};
}

static int64_t at_least_1(int64_t count) { return count < 1 ? 1 : count; }

static int64_t panels_of(const struct gemm *g) { return (g->n + PANEL - 1) / PANEL; }

/* Elements of B that a panel of a block has, and of A that a strip has, each piece in panels of its own. */
static int64_t panel_size(const struct gemm *g) { return g->block_pieces * g->piece * PANEL; }
static int64_t strip_size(const struct gemm *g) { return g->block_pieces * panel_elements(LANES, g->piece); }

static size_t lay_out(struct gemm *g, const struct plan *plan, int threads, void *base)
{
    struct carving c = {base, 0};
    g->m = plan->dims[0];
    g->n = plan->dims[1];
    g->k = plan->dims[2];
    g->goes_on = plan_chunks(plan) == 1;
    g->piece = !g->goes_on ? plan->chunk : g->k < BLOCK_LINES ? g->k : BLOCK_LINES;
    g->pieces = (g->k + g->piece - 1) / g->piece;
    g->block_pieces = at_least_1(BLOCK_LINES / g->piece);
    if (g->block_pieces > g->pieces)
        g->block_pieces = g->pieces;
    g->blocks = (g->pieces + g->block_pieces - 1) / g->block_pieces;
    g->pass_panels = at_least_1(PASS_BYTES / ((int64_t)sizeof(float) * panel_size(g)));
    if (g->pass_panels < threads)
        g->pass_panels = threads;
    if (g->pass_panels > panels_of(g))
        g->pass_panels = panels_of(g);
    g->sequence = carve(&c, g->pieces, sizeof *g->sequence);
    g->panels = carve(&c, g->pass_panels * panel_size(g), sizeof *g->panels);
    g->strips = carve(&c, threads * strip_size(g), sizeof *g->strips);
    g->partial = carve(&c, g->blocks > 1 ? g->m * vector_columns(g->n) : 0, sizeof *g->partial);
    return c.used;
}

size_t NAME(gemm_workspace)(const struct device *d, const struct plan *plan)
{
    struct gemm g;
    return lay_out(&g, plan, d->threads, NULL);
}

/* Lines of k: `count` from `first`, the i-th piece of the sequence. */
struct lines {
    int64_t first, count;
};

static struct lines piece_lines(const struct gemm *g, int64_t i)
{
    const int64_t first = g->sequence[i] * g->piece, left = g->k - first;
    return (struct lines){first, left < g->piece ? left : g->piece};
}

static struct range block_range(const struct gemm *g, int64_t block)
{
    const int64_t begin = block * g->block_pieces, end = begin + g->block_pieces;
    return (struct range){begin, end < g->pieces ? end : g->pieces};
}

/* Some lines of the panel that starts at `column`. */
static void pack_b(const struct gemm *g, float *to, int64_t column, struct lines k)
{
    const int64_t left = g->n - column, width = panel_width(left), cols = left < width ? left : width;
    if (g->b_transposed) {
        const struct part from = {g->b, column, cols, k.first, k.count};
        NAME(pack_transposed)(to, width, width, &from);
    } else {
        const struct part from = {g->b, k.first, k.count, column, cols};
        NAME(pack)(to, width, width, &from);
    }
}

/* The panels of a pass: the team shares them, each piece in cuts of PACK_LINES. */
static void pack_pass(const struct gemm *g, int64_t block, struct range panels)
{
    const struct range pieces = block_range(g, block);
    const int64_t cuts = (g->piece + PACK_LINES - 1) / PACK_LINES, each = (pieces.end - pieces.begin) * cuts;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < (panels.end - panels.begin) * each; i++) {
        const int64_t panel = i / each, piece = i % each / cuts, skipped = i % cuts * PACK_LINES;
        const int64_t column = (panels.begin + panel) * PANEL;
        struct lines k = piece_lines(g, pieces.begin + piece);
        if (skipped >= k.count)
            continue;
        k.first += skipped;
        k.count = k.count - skipped < PACK_LINES ? k.count - skipped : PACK_LINES;
        pack_b(g, g->panels + panel * panel_size(g) + (piece * g->piece + skipped) * panel_width(g->n - column), column,
               k);
    }
}

static void pack_a(const struct gemm *g, float *strip, int64_t block, int64_t row, int64_t rows)
{
    const struct range pieces = block_range(g, block);
    for (int64_t i = pieces.begin; i < pieces.end; i++) {
        const struct lines k = piece_lines(g, i);
        if (g->a_transposed) {
            /* 16 wide where there are as many, even if fewer are used: whole vectors pack faster. */
            const struct part from = {g->a, k.first, k.count, row, lanes(g->m - row)};
            NAME(pack)(strip + (i - pieces.begin) * g->piece * LANES, LANES, LANES, &from);
        } else {
            const struct part from = {g->a, row, rows, k.first, k.count};
            NAME(pack_panels)(strip + (i - pieces.begin) * panel_elements(rows, g->piece), &from);
        }
    }
}

/* Where the sums of a block of C are: its rows and columns, in memory of any row length. */
struct sums {
    float *at;
    int64_t step, rows;
    int width;
};

/* Adds the pieces of a block of k to `to`, or starts it. `begun`: it holds what is to be added to. */
static void sum_pieces(const struct gemm *g, const float *strip, const float *panel, int64_t block,
                       const struct sums *to, bool begun)
{
    const struct range pieces = block_range(g, block);
    for (int64_t i = pieces.begin; i < pieces.end; i++) {
        const int64_t before = (i - pieces.begin) * g->piece;
        const struct product p = {
            .rows = to->rows,
            .k = piece_lines(g, i).count,
            .width = to->width,
            .a = strip + (g->a_transposed ? before * LANES : (i - pieces.begin) * panel_elements(to->rows, g->piece)),
            .a_step = g->a_transposed ? LANES : to->rows * PANEL,
            .a_by_rows = !g->a_transposed,
            .b = panel + before * to->width,
            .b_step = to->width,
            .c = to->at,
            .c_step = to->step,
            .resume = g->goes_on && i > 0,
            .add = !(g->goes_on && i > 0) && (begun || i > pieces.begin),
            .rounding = g->rounding,
        };
        NAME(product)(&p);
    }
}

/* C = sums, or += where a sum that went on over several blocks is complete. */
static void finish_block(const struct gemm *g, const struct sums *from, int64_t row, int64_t column, bool add)
{
    for (int64_t i = 0; i < from->rows; i++) {
        void *to = view_at(g->c, row + i, column);
        for (int64_t j = 0; j < from->width && column + j < g->n; j += LANES) {
            const int count = lanes(g->n - column - j);
            const vf sum = vf_load(from->at + i * from->step + j);
            put_result(to, g->c->type, j, count, add ? vf_add(vf_get(to, g->c->type, j, count), sum) : sum,
                       g->rounding);
        }
    }
}

/* What one block of k adds to a block of C: in place where C is binary32 and as wide as a panel, else beside it. */
static void multiply_block(const struct gemm *g, const float *strip, const float *panel, int64_t block, int64_t row,
                           int64_t rows, int64_t column)
{
    const int64_t left = g->n - column;
    const bool several = g->blocks > 1, later = several && g->goes_on;
    struct sums sums = {.rows = rows, .width = panel_width(left)};
    float local[STRIP * PANEL];
    if (several) {
        sums.step = vector_columns(g->n);
        sums.at = g->partial + row * sums.step + column;
    } else if (g->c->type == F32 && left >= sums.width) {
        sums.step = g->c->stride;
        sums.at = view_at(g->c, row, column);
        sum_pieces(g, strip, panel, block, &sums, g->accumulate);
        return;
    } else {
        sums.step = sums.width;
        sums.at = local;
    }
    const bool begun = block > 0 || (g->accumulate && !later);
    if (block == 0 && begun) {
        const struct part old = {g->c, row, rows, column, left < sums.width ? left : sums.width};
        NAME(pack)(sums.at, sums.step, sums.width, &old);
    }
    sum_pieces(g, strip, panel, block, &sums, begun);
    if (block == g->blocks - 1)
        finish_block(g, &sums, row, column, g->accumulate && later);
}

/* Of `threads`, how many share the rows (the others share the panels): what leaves the least to the busiest thread. */
static int row_shares(const struct gemm *g, int threads)
{
    int best = 1;
    int64_t least = INT64_MAX;
    for (int by_rows = threads; by_rows >= 1; by_rows--) {
        if (threads % by_rows)
            continue;
        const int64_t by_panels = threads / by_rows;
        const int64_t work = (g->m + by_rows - 1) / by_rows * ((g->pass_panels + by_panels - 1) / by_panels);
        if (work < least) {
            least = work;
            best = by_rows;
        }
    }
    return best;
}

/* A thread's rows x panels of one pass; `pass` counts from the first panel of the pass. */
static void multiply_share(const struct gemm *g, int64_t block, struct range rows, struct range panels, int64_t pass,
                           float *strip)
{
    const int64_t strips = (rows.end - rows.begin + STRIP - 1) / STRIP;
    for (int64_t i = 0; i < strips && panels.begin < panels.end; i++) {
        const struct range part = share(rows.end - rows.begin, (int)strips, (int)i);
        const int64_t row = rows.begin + part.begin, count = part.end - part.begin;
        pack_a(g, strip, block, row, count);
        for (int64_t p = panels.begin; p < panels.end; p++)
            multiply_block(g, strip, g->panels + p * panel_size(g), block, row, count, (pass + p) * PANEL);
    }
}

static void multiply(const struct gemm *g, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        const int team = omp_get_num_threads(), self = omp_get_thread_num(), by_rows = row_shares(g, team);
        const struct range rows = share(g->m, by_rows, self % by_rows);
        for (int64_t block = 0; block < g->blocks; block++)
            for (int64_t first = 0; first < panels_of(g); first += g->pass_panels) {
                const int64_t last = first + g->pass_panels, end = last < panels_of(g) ? last : panels_of(g);
                if (block > 0 || first > 0) {
#pragma omp barrier /* the panels are still in use */
                }
                pack_pass(g, block, (struct range){first, end});
                multiply_share(g, block, rows, share(end - first, team / by_rows, self / by_rows), first,
                               g->strips + self * strip_size(g));
            }
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
        .rounding = plan->rounding,
    };
    lay_out(&g, plan, d->threads, d->workspace);
    if (g.goes_on)
        for (int64_t i = 0; i < g.pieces; i++)
            g.sequence[i] = (int32_t)i;
    else
        plan_sequence(plan, draw, g.pieces, g.sequence);
    multiply(&g, cpu_threads(d, g.m * g.n * g.k / 16));
    return OK;
}
