/* document.h - one text in two markups, so that markdown and HTML hold the same facts.
 *
 * All texts are escaped for the markup. A column title that begins with '>' aligns its column to the right.
 */
#ifndef REMATCH_STAGES_REPORT_DOCUMENT_H
#define REMATCH_STAGES_REPORT_DOCUMENT_H

#include <stdbool.h>
#include <stdio.h>

#include "stages/verdict.h"

enum markup { MARKDOWN, HTML };

struct document {
    FILE *out;
    enum markup markup;
    unsigned right_columns; /* of the open table, a bit each; at most 32 columns */
    int column;
};

#define DOCUMENT_TEXT(format_at) __attribute__((format(printf, format_at, format_at + 1)))

void document_heading(struct document *d, int level, const char *format, ...) DOCUMENT_TEXT(3);
void document_paragraph(struct document *d, const char *format, ...) DOCUMENT_TEXT(2);

void document_list(struct document *d);
void document_item(struct document *d, const char *format, ...) DOCUMENT_TEXT(2);
void document_list_end(struct document *d);

void document_table(struct document *d, const char *const *titles, int columns);
void document_row(struct document *d);
void document_cell(struct document *d, const char *format, ...) DOCUMENT_TEXT(2);
/* A cell with a short text under its own ("" for none). */
void document_cell_noted(struct document *d, const char *text, const char *under);
/* A cell with a verdict, its reason as a tooltip, and a short text under it ("" for none). `subdued` without the
 * verdict's colour, where it is no news that it is good or bad. */
void document_verdict(struct document *d, const struct judgement *j, bool subdued, const char *under);
void document_row_end(struct document *d);
void document_table_end(struct document *d);

/* Folded in HTML, a heading and a code block in markdown. */
void document_folded(struct document *d, const char *title, const char *code);

/* A place that the page's script draws into; nothing in markdown. */
void document_chart(struct document *d, const char *id, const char *title, const char *caption);

/* Escaped for HTML text and for double-quoted attributes. */
void html_escape(FILE *out, const char *text);

#endif
