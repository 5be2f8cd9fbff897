/* pack.h - operands of the register tiles: binary32, on the stack or in the workspace, read with unit stride.
 *
 *   lines    one line per k, 16 or 32 wide:                        lines[k * width + column]
 *   panels   a matrix as it lies, cut into 32 columns at a time:   panels[c / 32 * rows * 32 + r * 32 + c % 32]
 * Lines and panels are zero behind the last element, so that tiles need no special case for what is not there.
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

/* Width of the lines that start at a column when `left` columns are left. */
static inline int panel_width(int64_t left) { return left > LANES ? PANEL : LANES; }

/* `cols` rounded up to whole vectors. */
static inline int64_t vector_columns(int64_t cols) { return (cols + LANES - 1) / LANES * LANES; }

/* Elements that the panels of rows x cols hold. */
static inline int64_t panel_elements(int64_t rows, int64_t cols) { return rows * ((cols + PANEL - 1) / PANEL * PANEL); }

/* The part as panels: B of a product whose k are its rows, or A of one whose k are its columns. */
void NAME(pack_panels)(float *to, const struct part *from);

#endif
