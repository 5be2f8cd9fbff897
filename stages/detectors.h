/* detectors.h - differences that a log explains and a training need not: a factor or an offset that stays the same.
 *
 * A value summed over ranks instead of averaged, a side effect that a recompute runs twice, bits for nats: such a
 * candidate is the baseline once the factor or offset is taken out. So that is the test: over *all* compared steps, the
 * candidate without it has a 90 % interval (verdict.h) inside +-tolerance around the baseline. Noise enters through the
 * interval; the tolerance is the pair's own margin and half a unit of the last printed digit of both values. `exact`: it
 * has the baseline's bits at every step.
 * An offset without a name is taken from the first eighth of the steps, and must hold over the rest; it is only looked for
 * where it lies outside the tolerance and the baseline moved by more than ten times the tolerance, so that an offset could
 * be told from anything else.
 * It is a likeness, not a cause: the verdict stays, and says what it looks like and where to look.
 */
#ifndef REMATCH_STAGES_DETECTORS_H
#define REMATCH_STAGES_DETECTORS_H

#include "stages/verdict.h"

enum likeness_kind { LIKENESS_NONE, LIKENESS_FACTOR, LIKENESS_OFFSET };

struct likeness {
    enum likeness_kind kind;
    double value; /* candidate = value x baseline, or baseline + value */
    bool exact;
    double low, high; /* interval of what is left */
    char text[320];   /* "looks like: ..., check ..."; "" for none */
};

/* `accumulation`: micro-batches that a rank sums in a step, at least 1. Series without a finite value everywhere are like
 * nothing. ERR_MEMORY. */
status likeness_find(struct likeness *out, const struct paired_series *series, enum gap_kind kind, int accumulation,
                     double margin);

#endif
