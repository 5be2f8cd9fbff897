#include "tests/verdict/calibration.h"

#include <math.h>

double share(int count, int whole) { return whole ? (double)count / whole : NAN; }

static double scatter(int whole, double level) { return 3 * sqrt(level * (1 - level) / whole); }

bool at_most(int count, int whole, double level)
{
    return !whole || share(count, whole) <= level + scatter(whole, level);
}

bool at_least(int count, int whole, double level)
{
    return !whole || share(count, whole) >= level - scatter(whole, level);
}

void table_begin(struct calibration *c, const char *title, const char *explanation, const char *columns)
{
    fprintf(c->out, "\n## %s\n\n%s\n\n%s\n|", title, explanation, columns);
    for (const char *at = columns + 1; *at; at++)
        if (*at == '|')
            fputs("---|", c->out);
    fputs("\n", c->out);
}

void table_percent(struct calibration *c, int count, int whole)
{
    if (whole)
        fprintf(c->out, " %.2f %% |", 100 * share(count, whole));
    else
        fputs(" - |", c->out);
}

void table_row(struct calibration *c, bool holds)
{
    fprintf(c->out, " %s |\n", holds ? "yes" : "**no**");
    fflush(c->out);
    c->rows++;
    c->failed += !holds;
}
