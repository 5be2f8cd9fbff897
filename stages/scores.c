#include "stages/scores.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for one micro-batch; zeroed is empty. */
struct room {
    int32_t *token, *target, *predicted, *window;
    double *loss;
};

static void room_free(struct room *r)
{
    free(r->token);
    free(r->target);
    free(r->predicted);
    free(r->window);
    free(r->loss);
}

static status room_make(struct room *r, int64_t batch, int sequence)
{
    size_t rows = (size_t)batch * (size_t)sequence;
    r->token = calloc(rows, sizeof *r->token);
    r->target = calloc(rows, sizeof *r->target);
    r->predicted = calloc(rows, sizeof *r->predicted);
    r->window = calloc((size_t)sequence + 1, sizeof *r->window);
    r->loss = calloc((size_t)batch, sizeof *r->loss);
    if (!r->token || !r->target || !r->predicted || !r->window || !r->loss)
        return FAIL(ERR_MEMORY, "no memory for an evaluation batch of %zu tokens", rows);
    return OK;
}

/* window (count + 1 tokens) becomes row `b`; what is missing to a whole sequence is token 0, and nobody reads it. */
static void room_put(struct room *r, int64_t b, int sequence, int count)
{
    for (int i = 0; i < sequence; i++) {
        r->token[b * sequence + i] = i < count ? r->window[i] : 0;
        r->target[b * sequence + i] = i < count ? r->window[i + 1] : 0;
    }
}

static status room_evaluate(struct room *r, struct decoder *decoder, bool predict)
{
    const struct batch batch = {.token = r->token, .target = r->target};
    return decoder_evaluate(decoder, &batch, r->loss, predict ? r->predicted : NULL);
}

/* Losses of the sequences first to first + count - 1; whole micro-batches of `batch`. */
static status evaluate_sequences(struct decoder *decoder, const struct loader *valid, int64_t batch, int64_t first,
                                 int64_t count, double *loss)
{
    struct room room = {0};
    status st = OK;
    TRY_DONE(room_make(&room, batch, valid->sequence));
    for (int64_t done = 0; done < count; done += batch) {
        for (int64_t b = 0; b < batch; b++) {
            loader_sequence(valid, (uint64_t)(first + done + b), room.window);
            room_put(&room, b, valid->sequence, valid->sequence);
        }
        TRY_DONE(room_evaluate(&room, decoder, false));
        for (int64_t b = 0; b < batch; b++)
            loss[done + b] = room.loss[b] / valid->sequence;
    }
done:
    room_free(&room);
    return st;
}

status scores_held_out(struct decoder *decoder, struct comm *comm, const struct loader *valid, int64_t batch,
                       int sequences, double *loss)
{
    int64_t share = sequences / comm_size(comm);
    double *mine = malloc((size_t)share * sizeof *mine + 1);
    if (!mine)
        return FAIL(ERR_MEMORY, "no memory for %lld held-out losses", (long long)share);
    status st = OK;
    TRY_DONE(evaluate_sequences(decoder, valid, batch, comm_rank(comm) * share, share, mine));
    TRY_DONE(comm_gather(comm, mine, (size_t)share * sizeof *mine, loss));
done:
    free(mine);
    return st;
}

/* ---- downstream ---- */

/* Lines span windows, so the state of the current line outlives one. */
struct line {
    bool open, right;
};

static void count_window(struct score *score, struct line *line, const int32_t *target, const int32_t *predicted,
                         int count)
{
    for (int i = 0; i < count; i++) {
        bool right = predicted[i] == target[i];
        score->tokens++;
        score->tokens_right += right;
        line->right = (line->open ? line->right : true) && right;
        line->open = target[i] != '\n';
        if (!line->open) {
            score->lines++;
            score->lines_right += line->right;
        }
    }
}

static status score_file(struct decoder *decoder, const struct shard *shard, uint64_t document, int64_t batch,
                         int sequence, struct room *room, struct score *score)
{
    uint64_t start = shard_document_start(shard, document), end = shard_document_start(shard, document + 1);
    struct line line = {false, true};
    for (int done = 0; start + 1 < end && done < SCORES_WINDOWS;) {
        int counts[SCORES_WINDOWS] = {0}, used = 0;
        for (; used < batch && done < SCORES_WINDOWS && start + 1 < end; used++, done++) {
            uint64_t left = end - start - 1;
            int count = left < (uint64_t)sequence ? (int)left : sequence;
            shard_copy(shard, start, (uint64_t)count + 1, room->window);
            room_put(room, used, sequence, count);
            counts[used] = count;
            start += (uint64_t)count;
        }
        TRY(room_evaluate(room, decoder, true));
        for (int b = 0; b < used; b++)
            count_window(score, &line, room->target + b * sequence, room->predicted + b * sequence, counts[b]);
    }
    return OK;
}

status scores_downstream(struct decoder *decoder, struct comm *comm, const struct shard *shard, const int split[3],
                         int64_t batch, int sequence, int64_t step, struct jsonl *into)
{
    uint64_t first, last;
    split_documents(split, shard_documents(shard), SPLIT_VALID, &first, &last);
    const int files = last - first > SCORES_FILES ? SCORES_FILES : (int)(last - first);
    const int ranks = comm_size(comm);
    struct score mine[SCORES_FILES] = {0}, (*all)[SCORES_FILES] = malloc((size_t)ranks * sizeof *all);
    struct room room = {0};
    status st = OK;
    if (!all)
        TRY_DONE(FAIL(ERR_MEMORY, "no memory for the scores of %d ranks", ranks));
    TRY_DONE(room_make(&room, batch, sequence));
    for (int i = comm_rank(comm); i < files; i += ranks) {
        mine[i].step = step;
        snprintf(mine[i].file, sizeof mine[i].file, "%s", shard_document_name(shard, first + (uint64_t)i));
        TRY_DONE(score_file(decoder, shard, first + (uint64_t)i, batch, sequence, &room, &mine[i]));
    }
    TRY_DONE(comm_gather(comm, mine, sizeof mine, all));
    for (int i = 0; i < files; i++)
        TRY_DONE(score_append(into, &all[i % ranks][i]));
done:
    free(all);
    room_free(&room);
    return st;
}
