#include "tests/bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 512 };

struct peer {
    const char *command;
    pid_t child;
    FILE *to, *from;
    char answer[LINE];
};

struct peer_work {
    struct peer *peer;
    int number;
    char text[LINE];
};

static void close_peer(void *self)
{
    struct peer *p = self;
    if (p->to)
        fclose(p->to);
    if (p->from)
        fclose(p->from);
    if (p->child > 0)
        waitpid(p->child, NULL, 0);
}

static void become(const char *command, int in, int out, int threads)
{
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
    setenv("OMP_NUM_THREADS", count, 1);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static status start(struct peer *p, int threads)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        return FAIL(ERR_IO, "cannot make a pipe to '%s': %s", p->command, strerror(errno));
    p->child = fork();
    if (p->child == 0)
        become(p->command, to[0], from[1], threads);
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    if (p->child < 0 || !p->to || !p->from)
        return FAIL(ERR_IO, "cannot start '%s': %s", p->command, strerror(errno));
    return OK;
}

status peer_open(struct bench *b, struct peer **out, const char *command)
{
    *out = NULL;
    if (!command)
        return OK;
    struct peer *p = *out = bench_new(b, sizeof *p);
    p->command = command;
    bench_own(b, p, close_peer);
    return start(p, b->threads);
}

static status answer(struct peer *p, const char *question)
{
    fputs(question, p->to);
    fflush(p->to);
    if (!fgets(p->answer, LINE, p->from))
        return FAIL(ERR_IO, "'%s' ended when it was asked '%.*s': run it by hand to see why", p->command,
                    (int)strcspn(question, "\n"), question);
    p->answer[strcspn(p->answer, "\n")] = 0;
    return OK;
}

static status timed(void *self, int repeats, struct sample *s)
{
    const struct peer_work *w = self;
    char question[LINE];
    snprintf(question, sizeof question, "run %d %d\n", w->number, repeats);
    TRY(answer(w->peer, question));
    if (sscanf(w->peer->answer, "%lf %lf", &s->wall_s, &s->cpu_s) != 2 || s->wall_s <= 0)
        return FAIL(ERR_INPUT, "'%s' answered '%s', expected two numbers of seconds", w->peer->command,
                    w->peer->answer);
    return OK;
}

status peer_add(struct bench *b, struct peer *p, const char *name, const char *words, double flops,
                const struct figure **out, const char **text)
{
    *out = NULL;
    *text = "";
    if (!p)
        return OK;
    char question[LINE];
    int length;
    struct peer_work *w = bench_new(b, sizeof *w);
    snprintf(question, sizeof question, "add %s\n", words);
    TRY(answer(p, question));
    if (sscanf(p->answer, "%d %n", &w->number, &length) != 1) {
        fprintf(stderr, "bench: '%s': %s: %s\n", p->command, words, p->answer);
        return OK;
    }
    w->peer = p;
    strcpy(w->text, p->answer + length);
    *text = w->text;
    struct figure figure = {.timed = timed, .self = w, .flops = flops};
    snprintf(figure.name, sizeof figure.name, "%s", name);
    return bench_add(b, &figure, out);
}
