#include "stages/logs/readers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "data/jsonl.h"

/* ---- slices ---- */

bool text_is(struct text t, const char *s) { return t.size == strlen(s) && !memcmp(t.at, s, t.size); }

bool text_starts(struct text t, const char *s)
{
    size_t size = strlen(s);
    return t.size >= size && !memcmp(t.at, s, size);
}

bool text_ends(struct text t, const char *s)
{
    size_t size = strlen(s);
    return t.size >= size && !memcmp(t.at + t.size - size, s, size);
}

const char *text_find(struct text t, const char *s) { return t.size ? memmem(t.at, t.size, s, strlen(s)) : NULL; }

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct text text_trim(struct text t)
{
    while (t.size && is_blank(*t.at)) {
        t.at++;
        t.size--;
    }
    while (t.size && is_blank(t.at[t.size - 1]))
        t.size--;
    return t;
}

void text_copy(char *out, size_t size, struct text t)
{
    size_t used = 0;
    for (size_t i = 0; i < t.size && used + 1 < size; i++)
        out[used++] = (unsigned char)t.at[i] < ' ' || t.at[i] == 127 ? '?' : t.at[i];
    out[used] = '\0';
    /* A log may be in any encoding, and a character may have been cut; JSON takes UTF-8 alone. */
    if (!json_is_utf8(out))
        for (char *c = out; *c; c++)
            *c = (unsigned char)*c < 128 ? *c : '?';
}

/* ---- numbers ---- */

static size_t digits(struct text t, size_t from)
{
    size_t i = from;
    while (i < t.size && isdigit((unsigned char)t.at[i]))
        i++;
    return i - from;
}

/* Length of "76,631" from `from`; 0 when commas do not stand before groups of three. */
static size_t grouped_digits(struct text t, size_t from)
{
    size_t i = from + digits(t, from);
    if (i - from > 3 || i == from)
        return 0;
    size_t first = i;
    while (i < t.size && t.at[i] == ',' && digits(t, i + 1) == 3)
        i += 4;
    return i > first ? i - from : 0;
}

static size_t word_number(struct text t, struct log_point *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"nan", NAN}, {"infinity", INFINITY}, {"inf", INFINITY}};
    size_t sign = t.size && (*t.at == '-' || *t.at == '+');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i].word);
        if (t.size < sign + size || strncasecmp(t.at + sign, words[i].word, size) ||
            (t.size > sign + size && isalnum((unsigned char)t.at[sign + size])))
            continue;
        *out = (struct log_point){.value = *t.at == '-' ? -words[i].value : words[i].value};
        return sign + size;
    }
    return 0;
}

enum { NUMBER_LONGEST = 64 };

static double half_of_place(int64_t place) { return 0.5 * pow(10, (double)place); }

size_t text_number(struct text t, bool thousands, struct log_point *out)
{
    char copy[NUMBER_LONGEST];
    size_t sign = t.size && (*t.at == '-' || *t.at == '+'), used = 0;
    size_t grouped = thousands ? grouped_digits(t, sign) : 0;
    size_t i = sign + (grouped ? grouped : digits(t, sign)), whole = i - sign, decimals = 0;
    int64_t exponent = 0;
    if (i < t.size && t.at[i] == '.') {
        decimals = digits(t, i + 1);
        i += whole || decimals ? 1 + decimals : 0;
    }
    if (!whole && !decimals)
        return word_number(t, out);
    if (i < t.size && (t.at[i] == 'e' || t.at[i] == 'E')) {
        size_t at = i + 1 + (i + 1 < t.size && (t.at[i + 1] == '-' || t.at[i + 1] == '+')), count = digits(t, at);
        if (count && count <= 4) {
            exponent = strtol(t.at + i + 1, NULL, 10);
            i = at + count;
        }
    }
    /* "0x10", "1.2.3", "10ms" without a blank may be anything but this number. */
    if (i >= NUMBER_LONGEST ||
        (i < t.size && (t.at[i] == 'x' || t.at[i] == '.') && i + 1 < t.size && isalnum((unsigned char)t.at[i + 1])))
        return 0;
    for (size_t k = 0; k < i; k++)
        if (t.at[k] != ',')
            copy[used++] = t.at[k];
    copy[used] = '\0';
    *out = (struct log_point){.value = strtod(copy, NULL)};
    if (isfinite(out->value)) /* 1e999 has no last place */
        out->half_unit = half_of_place(exponent - (int64_t)decimals);
    return i;
}

bool text_is_number(struct text t, struct log_point *out) { return t.size && text_number(t, false, out) == t.size; }

bool text_is_integer(struct text t, int64_t *out)
{
    struct log_point p;
    /* Steps are written by some as 12.0; beyond 2^53 a double has holes. */
    if (!text_is_number(t, &p) || p.value != floor(p.value) || fabs(p.value) > 9e15)
        return false;
    *out = (int64_t)p.value;
    return true;
}

int log_digits(const struct log_point *p)
{
    if (!isfinite(p->value))
        return 0;
    if (p->half_unit <= 0)
        return 17;
    double shown = log10(fabs(p->value) / (2 * p->half_unit));
    int count = shown < 0 ? 1 : (int)floor(shown + 1e-9) + 1;
    return count > 17 ? 17 : count;
}

/* ---- lines ---- */

bool line_next(struct line *line, struct text *rest)
{
    if (!rest->size)
        return false;
    size_t size = 0;
    const char *newline = memchr(rest->at, '\n', rest->size);
    size_t most = newline ? (size_t)(newline - rest->at) : rest->size;
    const char *back = memchr(rest->at, '\r', most);
    /* A \r right before the newline belongs to it; any other ends a line of its own. */
    size = back && back + 1 != newline ? (size_t)(back - rest->at) : most;
    line->text = (struct text){rest->at, size};
    if (line->text.size && line->text.at[line->text.size - 1] == '\r')
        line->text.size--;
    bool whole = size == most;
    line->number += whole;
    size += size < rest->size;
    *rest = (struct text){rest->at + size, rest->size - size};
    return true;
}

/* Length of an escape sequence at the beginning of `t`, "\033[31m"; 0: none. */
static size_t escape_length(struct text t)
{
    if (t.size < 2 || t.at[0] != '\033' || t.at[1] != '[')
        return 0;
    size_t i = 2;
    while (i < t.size && !isalpha((unsigned char)t.at[i]))
        i++;
    return i < t.size ? i + 1 : 0;
}

static struct text without_colours(struct text line, char buffer[LINE_LONGEST])
{
    if (line.size > LINE_LONGEST || !memchr(line.at, '\033', line.size))
        return line;
    size_t used = 0;
    for (size_t i = 0; i < line.size;) {
        size_t escape = escape_length(text_from(line, line.at + i));
        if (!escape)
            buffer[used++] = line.at[i++];
        i += escape;
    }
    return (struct text){buffer, used};
}

/* "[default3]:" and "[rank0]:" of torchrun, "3: " of srun -l; behind them the line goes on unchanged. */
static size_t rank_prefix(struct text t, struct text *tag)
{
    size_t i = 0, number;
    while (i < t.size && t.at[i] == ' ')
        i++;
    struct text rest = text_from(t, t.at + i);
    if (text_starts(rest, "[default") || text_starts(rest, "[rank")) {
        const char *close = memchr(rest.at, ']', rest.size < 24 ? rest.size : 24);
        if (!close || close + 1 == rest.at + rest.size || close[1] != ':')
            return 0;
        *tag = (struct text){rest.at + 1, (size_t)(close - rest.at) - 1};
        return i + (size_t)(close - rest.at) + 2;
    }
    number = digits(rest, 0);
    /* A clock's "12:34" is no rank. */
    if (!number || number > 6 || number + 1 >= rest.size || rest.at[number] != ':' || rest.at[number + 1] != ' ')
        return 0;
    *tag = (struct text){rest.at, number};
    return i + number + 2;
}

struct text line_strip(struct text line, struct text *tag, char buffer[LINE_LONGEST])
{
    line = without_colours(line, buffer);
    *tag = (struct text){line.at, 0};
    size_t prefix = rank_prefix(line, tag);
    return text_from(line, line.at + prefix);
}
