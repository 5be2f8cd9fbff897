#include "stages/report/document.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- escaping ---- */

void html_escape(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
}

/* Markdown's own marks, and HTML, which it lets through. Lines are one paragraph or cell: a newline becomes a space. */
static void markdown_escape(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else {
            if (strchr("\\`*_{}[]|#", *text))
                fputc('\\', out);
            fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
        }
    }
}

static void print_text(struct document *d, const char *text)
{
    if (d->markup == HTML)
        html_escape(d->out, text);
    else
        markdown_escape(d->out, text);
}

/* What stands around a text, in each markup. */
struct around {
    const char *before[2], *after[2];
};

static void print_between(struct document *d, const struct around *around, const char *format, va_list arguments)
{
    char *text = NULL;
    fputs(around->before[d->markup], d->out);
    if (vasprintf(&text, format, arguments) >= 0)
        print_text(d, text);
    free(text);
    fputs(around->after[d->markup], d->out);
}

/* ---- blocks ---- */

void document_heading(struct document *d, int level, const char *format, ...)
{
    static const struct around levels[] = {
        {{"# ", "<h1>"}, {"\n\n", "</h1>\n"}},
        {{"## ", "<h2>"}, {"\n\n", "</h2>\n"}},
        {{"### ", "<h3>"}, {"\n\n", "</h3>\n"}},
    };
    va_list arguments;
    va_start(arguments, format);
    print_between(d, &levels[level - 1], format, arguments);
    va_end(arguments);
}

void document_paragraph(struct document *d, const char *format, ...)
{
    static const struct around paragraph = {{"", "<p>"}, {"\n\n", "</p>\n"}};
    va_list arguments;
    va_start(arguments, format);
    print_between(d, &paragraph, format, arguments);
    va_end(arguments);
}

void document_list(struct document *d) { fputs(d->markup == HTML ? "<ul>\n" : "", d->out); }

void document_item(struct document *d, const char *format, ...)
{
    static const struct around item = {{"- ", "<li>"}, {"\n", "</li>\n"}};
    va_list arguments;
    va_start(arguments, format);
    print_between(d, &item, format, arguments);
    va_end(arguments);
}

void document_list_end(struct document *d) { fputs(d->markup == HTML ? "</ul>\n" : "\n", d->out); }

/* ---- tables ---- */

void document_table(struct document *d, const char *const *titles, int columns)
{
    fputs(d->markup == HTML ? "<div class=\"scroll\"><table>\n<thead><tr>" : "|", d->out);
    d->right_columns = 0;
    for (int i = 0; i < columns; i++) {
        bool right = titles[i][0] == '>';
        d->right_columns |= (unsigned)right << i;
        if (d->markup == HTML)
            fprintf(d->out, "<th%s>", right ? " class=\"right\"" : "");
        print_text(d, titles[i] + right);
        fputs(d->markup == HTML ? "</th>" : "|", d->out);
    }
    fputs(d->markup == HTML ? "</tr></thead>\n<tbody>\n" : "\n|", d->out);
    for (int i = 0; d->markup == MARKDOWN && i < columns; i++)
        fputs(titles[i][0] == '>' ? "---:|" : "---|", d->out);
    fputs(d->markup == HTML ? "" : "\n", d->out);
}

void document_row(struct document *d)
{
    d->column = 0;
    fputs(d->markup == HTML ? "<tr>" : "|", d->out);
}

/* Begins the next cell in HTML, aligned as its column. */
static void open_cell(struct document *d)
{
    bool right = d->right_columns >> d->column++ & 1;
    if (d->markup == HTML)
        fputs(right ? "<td class=\"right\">" : "<td>", d->out);
}

void document_cell(struct document *d, const char *format, ...)
{
    static const struct around cell = {{"", ""}, {"|", "</td>"}};
    va_list arguments;
    open_cell(d);
    va_start(arguments, format);
    print_between(d, &cell, format, arguments);
    va_end(arguments);
}

/* Ends an open HTML cell. */
static void close_noted(struct document *d, const char *under)
{
    if (*under) {
        fputs("<br><small>", d->out);
        html_escape(d->out, under);
        fputs("</small>", d->out);
    }
    fputs("</td>", d->out);
}

void document_cell_noted(struct document *d, const char *text, const char *under)
{
    if (d->markup == MARKDOWN) {
        document_cell(d, *under ? "%s (%s)" : "%s%s", text, under);
        return;
    }
    open_cell(d);
    html_escape(d->out, text);
    close_noted(d, under);
}

void document_verdict(struct document *d, const struct judgement *j, bool subdued, const char *under)
{
    const char *name = verdict_name(j->verdict);
    if (d->markup == MARKDOWN) {
        document_cell(d, "%s%s%s", name, *under ? " " : "", under);
        return;
    }
    open_cell(d);
    fprintf(d->out, "<span class=\"verdict %s\" title=\"", subdued ? "subdued" : name);
    html_escape(d->out, j->reason);
    fprintf(d->out, "\">%s</span>", name);
    close_noted(d, under);
}

void document_row_end(struct document *d) { fputs(d->markup == HTML ? "</tr>\n" : "\n", d->out); }

void document_table_end(struct document *d) { fputs(d->markup == HTML ? "</tbody></table></div>\n" : "\n", d->out); }

/* ---- folded text, charts ---- */

void document_folded(struct document *d, const char *title, const char *code)
{
    if (d->markup == HTML) {
        fputs("<details><summary>", d->out);
        html_escape(d->out, title);
        fputs("</summary><pre>", d->out);
        html_escape(d->out, code);
        fputs("</pre></details>\n", d->out);
        return;
    }
    document_heading(d, 3, "%s", title);
    /* Indented, so that no run of backticks in it can end the block. */
    bool line_start = true;
    for (; *code; code++) {
        if (line_start)
            fputs("    ", d->out);
        fputc(*code, d->out);
        line_start = *code == '\n';
    }
    fputs("\n\n", d->out);
}

void document_chart(struct document *d, const char *id, const char *title, const char *caption)
{
    if (d->markup != HTML)
        return;
    fprintf(d->out, "<figure class=\"chart\" id=\"%s\"><h3>", id);
    html_escape(d->out, title);
    fputs("</h3><div class=\"legend\"></div><div class=\"plot\"></div><figcaption>", d->out);
    html_escape(d->out, caption);
    fputs("</figcaption></figure>\n", d->out);
}
