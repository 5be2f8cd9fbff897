/* JSON and Python's dicts, walked without being kept: jansson knows neither NaN nor Python's quotes, and a double does
 * not say how many digits were printed. */
#include "stages/logs/readers.h"

struct walk {
    const char *at, *end;
    tree_take *scalar, *closed;
    void *self;
    status failed;
    int depth;
    struct text key[TREE_DEEPEST];
    int64_t index[TREE_DEEPEST];
};

static bool walk_value(struct walk *w);

static void skip_blanks(struct walk *w)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\n' || *w->at == '\r'))
        w->at++;
}

/* The next byte that is no blank is `c`; it is then behind us. */
static bool accept(struct walk *w, char c)
{
    skip_blanks(w);
    bool there = w->at < w->end && *w->at == c;
    w->at += there;
    return there;
}

static bool walk_string(struct walk *w, struct text *out)
{
    char quote = *w->at;
    const char *start = ++w->at;
    while (w->at < w->end && *w->at != quote && *w->at != '\n') {
        if (*w->at == '\\' && w->at + 1 < w->end)
            w->at++;
        w->at++;
    }
    if (w->at >= w->end || *w->at != quote)
        return false;
    *out = (struct text){start, (size_t)(w->at - start)};
    w->at++;
    return true;
}

static bool at_string(const struct walk *w) { return w->at < w->end && (*w->at == '"' || *w->at == '\''); }

static bool tell(struct walk *w, tree_take *take, struct text value, bool quoted)
{
    struct tree_scalar s = {w->depth, w->key, w->index, value, quoted};
    if (take)
        w->failed = take(w->self, &s);
    return w->failed == OK;
}

static bool walk_scalar(struct walk *w)
{
    struct text value;
    if (at_string(w))
        return walk_string(w, &value) && tell(w, w->scalar, value, true);
    const char *start = w->at;
    while (w->at < w->end && !strchr(",]} \t\r\n:{[\"'", *w->at))
        w->at++;
    value = (struct text){start, (size_t)(w->at - start)};
    struct log_point number;
    bool known = text_is_number(value, &number) || text_is(value, "null") || text_is(value, "None") ||
                 text_is(value, "true") || text_is(value, "false") || text_is(value, "True") || text_is(value, "False");
    return known && tell(w, w->scalar, value, false);
}

/* One member, whose key or number stands at the deepest level. */
static bool walk_member(struct walk *w, struct text key, int64_t index)
{
    if (w->depth == TREE_DEEPEST)
        return false;
    w->key[w->depth] = key;
    w->index[w->depth] = index;
    w->depth++;
    bool fine = walk_value(w);
    w->depth--;
    return fine;
}

static bool walk_object(struct walk *w)
{
    struct text key;
    for (bool more = !accept(w, '}'); more; more = !accept(w, '}')) {
        skip_blanks(w);
        if (!at_string(w) || !walk_string(w, &key) || !accept(w, ':') || !walk_member(w, key, -1))
            return false;
        bool comma = accept(w, ',');
        skip_blanks(w);
        if (!comma && (w->at == w->end || *w->at != '}'))
            return false;
    }
    return tell(w, w->closed, (struct text){w->at, 0}, false);
}

static bool walk_array(struct walk *w)
{
    if (accept(w, ']'))
        return true;
    for (int64_t index = 0;; index++) {
        if (!walk_member(w, (struct text){w->at, 0}, index))
            return false;
        if (accept(w, ']'))
            return true;
        if (!accept(w, ','))
            return false;
    }
}

static bool walk_value(struct walk *w)
{
    if (accept(w, '{'))
        return walk_object(w);
    if (accept(w, '['))
        return walk_array(w);
    return w->at < w->end && walk_scalar(w);
}

bool tree_walk(struct text text, tree_take *scalar, tree_take *closed, void *self, const char **end, status *failed)
{
    struct walk w = {.at = text.at, .end = text.at + text.size, .scalar = scalar, .closed = closed, .self = self};
    bool fine = walk_value(&w);
    *end = w.at;
    *failed = w.failed;
    return fine;
}
