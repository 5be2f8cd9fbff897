/* status.h - how every fallible function of Rematch reports failure.
 *
 * The origin of an error records file, line and a text; callers only relay the code. Nothing below stages/ prints or
 * exits. A text names the file, the value, what was expected and what to do.
 *
 * Memory: the text is thread-local and static; it stands until the next FAIL of the thread.
 * Use:    status f(void) { TRY(g()); if (bad) return FAIL(ERR_INPUT, "'%s': ...", path); return OK; }
 *         With something to release, TRY_DONE(g()) jumps to `done:`, and `st` holds the code.
 */
#ifndef REMATCH_KERNELS_STATUS_H
#define REMATCH_KERNELS_STATUS_H

typedef enum {
    OK = 0,
    ERR_ARGUMENT, /* a caller broke a precondition, or a shape does not fit: a bug of ours, or an impossible request */
    ERR_USAGE,    /* the command line or the study file is wrong: exit 2 */
    ERR_INPUT,    /* a file's content is wrong, truncated, foreign or damaged */
    ERR_IO,       /* the operating system refused */
    ERR_MEMORY,   /* no memory, or a plan that does not fit */
    ERR_DEVICE,   /* the backend failed */
    ERR_COMM,     /* MPI failed, or the ranks disagree */
    ERR_RESULT,   /* everything worked and the result says no: exit 3 */
    ERR_STOPPED   /* stopped on request after a checkpoint; resumable: exit 75 */
} status;

/* Records the text and is `code`, so that `return FAIL(...)` reads as one step, and the compiler sees which code. */
#define FAIL(code, ...) (status_record(__FILE__, __LINE__, __VA_ARGS__), (code))

#define TRY(call)                        \
    do {                                 \
        status status_of_call_ = (call); \
        if (status_of_call_ != OK)       \
            return status_of_call_;      \
    } while (0)

#define TRY_DONE(call) \
    do {               \
        st = (call);   \
        if (st != OK)  \
            goto done; \
    } while (0)

void status_record(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The text of the thread's last failure, "" if there was none; and where it was recorded ("file.c:12"). */
const char *status_text(void);
const char *status_origin(void);

/* 0 done, 1 failed, 2 usage, 3 result says no, 75 stopped on request and resumable. */
int status_exit_code(status code);

#endif
