/* figures.c - what the library makes of small data that every language can write down: for crosscheck.py.
 *
 * Prints a name and a value a line. The series: x_i = 0.8 x_{i-1} + sin(i^2), i = 1..400, x_0 = 0; the runs and p-values
 * stand here and there alike.
 */
#include <math.h>
#include <stdio.h>

#include "stages/crosscheck.h"
#include "stages/holm.h"
#include "stages/onset.h"
#include "stages/presets.h"
#include "stages/sequential.h"
#include "stages/series.h"
#include "stages/student.h"

enum { STEPS = 400, SEQUENCES = 40 };

static void figure(const char *name, double value) { printf("%s %.17g\n", name, value); }

int main(void)
{
    static double x[STEPS], baseline[STEPS], candidate[STEPS];
    static int64_t step[STEPS];
    double last = 0;
    for (int i = 0; i < STEPS; i++) {
        x[i] = last = 0.8 * last + sin((double)(i + 1) * (i + 1));
        step[i] = i + 1;
        baseline[i] = 2 + exp(-i / 50.0);
        candidate[i] = baseline[i] + 0.002 * x[i] + (i < 250 ? 0 : 0.02);
    }
    double block = block_length(x, STEPS);
    figure("newey_west", newey_west_error(x, STEPS));
    figure("block_length", block);
    figure("bootstrap", block_bootstrap_error(x, STEPS, block));
    figure("slope", series_slope(x, STEPS));
    figure("quantile", student_quantile(0.975, 3.7));

    double a[] = {2.1000, 2.1004, 2.0998, 2.1002, 2.1010}, b[] = {2.1030, 2.1076, 2.1043};
    struct judgement j;
    struct policy_runs runs[2] = {{5, a, NULL}, {3, b, NULL}};
    verdict_policy(&j, &runs[0], &runs[1], 1, STEPS, 0.01);
    figure("welch_t", j.gap / j.error);
    figure("welch_dof", j.dof);
    figure("welch_inside", j.inside.p);
    figure("welch_outside", j.outside.p);
    figure("runs_needed", verdict_runs_needed(1e-4, 0.01));

    verdict_pair_sequences(&j, SEQUENCES, baseline, candidate, 0.0005);
    figure("paired_inside", j.inside.p);
    figure("paired_outside", j.outside.p);
    figure("paired_low", j.low);
    figure("paired_high", j.high);

    struct evidence test[] = {{0.01, 0, 0}, {0.04, 0, 0}, {0.03, 0, 0}, {0.005, 0, 0}, {0.6, 0, 0}}, *tests[5];
    for (int i = 0; i < 5; i++)
        tests[i] = &test[i];
    if (holm_adjust(tests, 5) != OK)
        return 1;
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "holm_%d", i);
        figure(name, test[i].adjusted);
    }

    figure("mixture", sequential_half(100, 400));
    struct onset onset;
    struct paired_series series = {STEPS, step, baseline, candidate, 0};
    if (onset_find(&onset, &series, GAP_DIFFERENCE) != OK)
        return 1;
    figure("cusum", onset.statistic);
    figure("onset", (double)onset.step);

    struct preset_result preset[PRESETS];
    if (presets_apply(preset, &(struct preset_runs){series, series, {0.5, 1}}) != OK)
        return 1;
    preset_rcp(&preset[PRESET_RCP], 5, a, 2, b);
    printf("xpu-gpu %s\nrcp %s\n", preset[PRESET_XPU_GPU].text, preset[PRESET_RCP].text);
    return 0;
}
