#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stages/report/content.h"
#include "stages/report/page.h"
#include "stages/report/words.h"

enum { LIBRARY_LIMIT = 4 << 20 };

/* ---- what the page's script draws ---- */

/* The first metric of a run beyond `step`; NULL: none. */
static const struct metric *metric_beyond(const struct run *run, int64_t step)
{
    int64_t low = 0, high = run->metrics;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (run->metric[middle].step <= step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->metrics ? &run->metric[low] : NULL;
}

/* The first step of any run beyond `step`; INT64_MAX: none. */
static int64_t step_beyond(const struct report *r, int64_t step)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < r->runs; i++) {
        const struct metric *m = metric_beyond(&r->run[i], step);
        next = m && m->step < next ? m->step : next;
    }
    return next;
}

/* Rows [step, loss of each measured run]; null where a run has no such step, or its loss is not finite. */
static json_t *loss_rows(const struct report *r)
{
    json_t *rows = json_array();
    for (int64_t step = -1; (step = step_beyond(r, step)) < INT64_MAX;) {
        json_t *row = json_array();
        json_array_append_new(row, json_integer(step));
        for (int i = 0; i < r->runs; i++) {
            const struct metric *m = metric_beyond(&r->run[i], step - 1);
            if (r->run[i].state == RUN_MEASURED)
                json_array_append_new(row, m && m->step == step ? json_number(m->loss) : json_null());
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

/* One object per measured plain point: what it cost and how far it is from the baseline. */
static json_t *layer_points(const struct report *r)
{
    json_t *points = json_array();
    for (int i = 0; i < r->runs; i++) {
        const struct run *run = &r->run[i];
        if (run->state != RUN_MEASURED || !run_is_plain(r, run))
            continue;
        char target[WORDS];
        const struct judgement *gap = &run->against_baseline.metric[METRIC_HELD_OUT].pair;
        bool compared = run->against_baseline.other >= 0;
        json_t *point =
            json_pack("{s:s, s:i, s:I, s:o, s:o, s:o}", "target", words_target(target, run), "layers",
                      run->point.recompute.num_layers, "activation_bytes", (json_int_t)run->result.activation_bytes,
                      "gap", json_number(compared ? gap->gap : 0), "low", json_number(compared ? gap->low : 0), "high",
                      json_number(compared ? gap->high : 0));
        if (!r->stable)
            json_object_set_new(point, "tokens_per_s", json_number(run->usage.tokens_per_s));
        json_array_append_new(points, point);
    }
    return points;
}

static json_t *chart_data(const struct report *r)
{
    json_t *names = json_array(), *paired = json_array();
    int baseline = 0;
    int64_t window[2] = {0, 0};
    for (int i = 0; i < r->runs; i++) {
        if (r->run[i].state != RUN_MEASURED)
            continue;
        if (i == r->baseline)
            baseline = (int)json_array_size(names);
        json_array_append_new(names, json_string(r->run[i].name));
        json_array_append_new(paired, json_boolean(r->run[i].point.seed == r->run[r->baseline].point.seed));
        const struct judgement *loss = &r->run[i].against_baseline.metric[METRIC_LOSS].pair;
        if (r->run[i].against_baseline.other >= 0 && loss->last > window[1]) {
            window[0] = loss->first;
            window[1] = loss->last;
        }
    }
    return json_pack("{s:o, s:o, s:i, s:f, s:[I, I], s:o, s:o}", "names", names, "paired", paired, "baseline", baseline,
                     "margin", r->run[r->baseline].point.verdict.margin, "window", (json_int_t)window[0],
                     (json_int_t)window[1], "loss", loss_rows(r), "layers", layer_points(r));
}

/* JSON inside a script element: no '<' can close it, and JSON_ENSURE_ASCII keeps line separators out. */
static status print_data(FILE *out, const struct report *r)
{
    json_t *data = chart_data(r);
    char *text =
        data ? json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(data);
    if (!text)
        return FAIL(ERR_MEMORY, "no memory for the curves of the report");
    for (const char *c = text; *c; c++)
        if (*c == '<')
            fputs("\\u003c", out);
        else
            fputc(*c, out);
    free(text);
    return OK;
}

/* ---- the page ---- */

static status read_library(char **text, const char *folder, const char *file, const char *closing)
{
    char path[LAYOUT_PATH];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (!file_exists(path))
        return FAIL(ERR_IO,
                    "'%s' is not there, and the report's curves need it: apt-get install libjs-dygraphs, or set "
                    "REMATCH_DYGRAPHS to the folder that holds it",
                    path);
    TRY(file_read(path, LIBRARY_LIMIT, text, &size));
    if (!strcasestr(*text, closing))
        return OK;
    free(*text);
    *text = NULL;
    return FAIL(ERR_INPUT, "'%s' holds '%s' and cannot stand inside a page: install Debian's libjs-dygraphs", path,
                closing);
}

/* Fills one {{slot}} of the page. */
static status print_slot(FILE *out, const char *slot, size_t length, const struct report *r, const char *css,
                         const char *js)
{
    if (!strncmp(slot, "title", length))
        html_escape(out, r->study);
    else if (!strncmp(slot, "dygraph.css", length))
        fputs(css, out);
    else if (!strncmp(slot, "dygraph.js", length))
        fputs(js, out);
    else if (!strncmp(slot, "data", length))
        return print_data(out, r);
    else {
        struct document d = {.out = out, .markup = HTML};
        content_write(&d, r);
    }
    return OK;
}

status report_html(FILE *out, const struct report *r, const char *library)
{
    status st = OK;
    char *css = NULL, *js = NULL;
    TRY_DONE(read_library(&css, library, "dygraph.min.css", "</style"));
    TRY_DONE(read_library(&js, library, "dygraph.min.js", "</script"));
    const char *rest = page_html, *open;
    while ((open = strstr(rest, "{{"))) {
        const char *close = strstr(open, "}}");
        fwrite(rest, 1, (size_t)(open - rest), out);
        TRY_DONE(print_slot(out, open + 2, (size_t)(close - open - 2), r, css, js));
        rest = close + 2;
    }
    fputs(rest, out);
done:
    free(css);
    free(js);
    return st;
}
