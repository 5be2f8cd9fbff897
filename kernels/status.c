#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[2048];
static _Thread_local char origin[128];

void status_record(const char *file, int line, const char *format, ...)
{
    /* The arguments may point into `text` itself (a caller adding context), so it is printed aside first. */
    char fresh[sizeof text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fresh, sizeof fresh, format, arguments);
    va_end(arguments);
    /* A name from a foreign file may hold anything; a terminal must not obey it. */
    for (char *c = fresh; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    memcpy(text, fresh, sizeof text);
    snprintf(origin, sizeof origin, "%s:%d", file, line);
}

const char *status_text(void) { return text; }

const char *status_origin(void) { return origin; }

int status_exit_code(status code)
{
    switch (code) {
    case OK:
        return 0;
    case ERR_USAGE:
        return 2;
    case ERR_RESULT:
        return 3;
    case ERR_STOPPED:
        return 75;
    default:
        return 1;
    }
}
