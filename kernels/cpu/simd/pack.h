/* pack.h - operands of the register tiles: binary32, on the stack or in the workspace, read with unit stride.
 *
 *   column panel   PANEL columns wide, one line per k:   panel[k * width + column]   width 16 or 32
 *   row strip      a few rows, one line per k:           strip[k * step + row]
 * Lines are zero behind the last element, so that tiles need no special case for what is not there.
 */
#ifndef REMATCH_KERNELS_CPU_SIMD_PACK_H
#define REMATCH_KERNELS_CPU_SIMD_PACK_H

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

enum { PANEL = 2 * LANES };

/* A rectangle of a BF16 or F32 view. */
struct part {
    const struct view *of;
    int64_t row, rows, col, cols;
};

/* to[r * step + c] = part(r, c), zero for c in [cols, width). */
void NAME(pack)(float *to, int64_t step, int64_t width, const struct part *from);

/* to[c * step + r] = part(r, c), zero for r in [rows, width). */
void NAME(pack_transposed)(float *to, int64_t step, int64_t width, const struct part *from);

/* Width of the panel that starts at a column when `left` columns are left. */
static inline int panel_width(int64_t left) { return left > LANES ? PANEL : LANES; }

/* `cols` rounded up to what its panels hold. */
static inline int64_t panel_columns(int64_t cols) { return (cols + LANES - 1) / LANES * LANES; }

/* All columns of the part as consecutive column panels, its rows being k. */
void NAME(pack_panels)(float *to, const struct part *from);

#endif
