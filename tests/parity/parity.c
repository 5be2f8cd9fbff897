/* parity.c - our side of the comparison with PyTorch: parity.py calls it, once for each case.
 *
 *   parity draw LIKE FOLDER STORAGE STD       weights drawn here for the shape of LIKE/config.json, exported to FOLDER
 *   parity pass FOLDER STORAGE PROFILE TOKENS RESULT
 *                                             a training pass of the imported FOLDER over one micro-batch, without dropout
 *
 * STORAGE is bf16 or fp32. TOKENS: safetensors with `token` and `target`, I32 (B,T). RESULT: safetensors with `logits`
 * F32 (B*T,V), `losses` F64 (B), sums over tokens in nats, and for each parameter the gradient of the mean loss under its
 * Hugging Face name, F32.
 */
#include <stdlib.h>
#include <string.h>

#include "model/decoder_internal.h"
#include "stages/command.h"
#include "stages/huggingface.h"

enum { SEED = 20 };

static status storage_of(enum dtype *out, const char *word)
{
    *out = !strcmp(word, "fp32") ? F32 : BF16;
    return *out == F32 || !strcmp(word, "bf16") ? OK : FAIL(ERR_USAGE, "'%s': expected bf16 or fp32", word);
}

static status open_decoder(struct decoder **out, const struct model_shape *shape, enum dtype storage,
                           const char *profile, int64_t sequences)
{
    struct decoder_options o = {
        .backend = "cpu",
        .shape = *shape,
        .storage = storage,
        .micro_batch = sequences,
        .sequences_per_group = sequences,
        .global_batch = sequences,
        .groups = 1,
        .seed = SEED,
    };
    TRY(arithmetic_find(&o.arithmetic, profile));
    TRY(fault_parse(&o.fault, NULL));
    TRY(recompute_parse(&o.recompute, NULL, NULL, -1, NULL, NULL));
    return decoder_open(out, &o);
}

static status draw(char **argument)
{
    enum dtype storage;
    double std;
    struct huggingface like;
    struct decoder *decoder = NULL;
    struct tensor_list list = {0};
    status st = OK;
    TRY(storage_of(&storage, argument[2]));
    TRY(command_real(&std, argument[3], "STD", 1e-6, 0.9));
    TRY(huggingface_open(&like, argument[0]));
    like.shape.init_std = (float)std;
    TRY_DONE(open_decoder(&decoder, &like.shape, storage, "exact", 1));
    TRY_DONE(decoder_initialise(decoder));
    struct view weight = decoder_state(decoder).weight;
    TRY_DONE(state_list(&list, &like.shape, "", &weight));
    TRY_DONE(huggingface_write(argument[1], &like.shape, &list));
done:
    tensor_list_free(&list);
    decoder_close(decoder);
    huggingface_close(&like);
    return st;
}

static status write_result(const char *path, struct decoder *d, double *losses)
{
    struct tensor_list list = {0};
    struct named_tensor *place;
    status st = OK;
    TRY_DONE(state_list(&list, &d->options.shape, "", &d->group[0]));
    TRY_DONE(tensor_list_add(&list, &place));
    *place = (struct named_tensor){.name = "logits", .view = d->logits};
    TRY_DONE(tensor_list_add(&list, &place));
    *place = (struct named_tensor){.name = "losses", .vector = true};
    place->view = view_of(losses, F64, 1, d->options.micro_batch);
    TRY_DONE(safetensors_write(path, list.at, list.count, NULL));
done:
    tensor_list_free(&list);
    return st;
}

/* One step's forward and backward over all of `tokens`. */
static status run_pass(struct decoder *d, const struct safetensors *tokens, const char *result)
{
    double *losses = calloc((size_t)d->options.micro_batch, sizeof *losses);
    const struct batch batch = {.token = safetensors_find(tokens, "token")->view.data,
                                .target = safetensors_find(tokens, "target")->view.data};
    status st = losses ? OK : FAIL(ERR_MEMORY, "no memory for the losses");
    TRY_DONE(st);
    if (d->logits.rows != decoder_rows(d))
        TRY_DONE(FAIL(ERR_USAGE, "%lld rows of logits at once, and %lld tokens: use fewer", (long long)d->logits.rows,
                      (long long)decoder_rows(d)));
    TRY_DONE(decoder_begin_step(d, 1, false));
    TRY_DONE(decoder_train(d, &batch, losses));
    TRY_DONE(write_result(result, d, losses));
done:
    free(losses);
    return st;
}

static status pass(char **argument)
{
    enum dtype storage;
    struct huggingface h;
    struct safetensors *tokens = NULL;
    struct decoder *decoder = NULL;
    const struct named_tensor *token;
    status st = OK;
    TRY(storage_of(&storage, argument[1]));
    TRY(huggingface_open(&h, argument[0]));
    TRY_DONE(safetensors_open(&tokens, argument[3]));
    token = safetensors_find(tokens, "token");
    if (!token || !safetensors_find(tokens, "target"))
        TRY_DONE(FAIL(ERR_INPUT, "'%s': expected token and target", argument[3]));
    h.shape.sequence = (int)token->view.cols;
    TRY_DONE(open_decoder(&decoder, &h.shape, storage, argument[2], token->view.rows));
    TRY_DONE(huggingface_load(decoder, &h.shape, argument[0], h.hash));
    TRY_DONE(run_pass(decoder, tokens, argument[4]));
done:
    decoder_close(decoder);
    safetensors_close(tokens);
    huggingface_close(&h);
    return st;
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "draw"))
        return command_exit(draw(argv + 2));
    if (argc == 7 && !strcmp(argv[1], "pass"))
        return command_exit(pass(argv + 2));
    return command_exit(
        FAIL(ERR_USAGE, "expected draw LIKE FOLDER STORAGE STD, or pass FOLDER STORAGE PROFILE TOKENS RESULT"));
}
