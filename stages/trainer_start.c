#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stages/huggingface.h"
#include "stages/layout.h"
#include "stages/state.h"
#include "stages/trainer_internal.h"

const char *const trainer_series_name[SERIES] = {"metrics.jsonl", "evaluations.jsonl", "timing.jsonl"};

static status check_point(const struct trainer_request *request)
{
    const struct point *p = request->point;
    if (p->target.dp != 1 || p->target.cp != 1)
        return FAIL(ERR_USAGE, "point '%s' wants dp %d x cp %d: this version trains on one rank; set dp: 1, cp: 1",
                    p->name, p->target.dp, p->target.cp);
    if (comm_size(request->comm) != 1)
        return FAIL(ERR_USAGE, "point '%s' runs on 1 rank and %d were started: use mpirun -n 1", p->name,
                    comm_size(request->comm));
    if (!p->fits)
        return FAIL(ERR_USAGE,
                    "point '%s' needs %" PRIu64 " bytes and target %s has %" PRIu64
                    ": recompute more layers or use a smaller micro-batch",
                    p->name, p->planned_bytes, p->target.name, p->target.memory_bytes);
    uint64_t here = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (p->planned_bytes > here)
        return FAIL(ERR_MEMORY,
                    "point '%s' needs %" PRIu64 " bytes and this machine has %" PRIu64
                    ": run it where the memory is, or recompute more layers",
                    p->name, p->planned_bytes, here);
    return OK;
}

static status open_data(struct trainer *t)
{
    const struct point *p = t->point;
    char path[LAYOUT_PATH];
    TRY(shard_open(&t->shard, layout_file(path, t->request->run, LAYOUT_SHARD)));
    shard_hash(t->shard, t->shard_hash);
    if (shard_vocab(t->shard) > p->model.vocab)
        return FAIL(ERR_INPUT, "%s: its vocabulary of %d does not fit the model's %d", path, shard_vocab(t->shard),
                    p->model.vocab);
    int sequence = p->training.sequence_length, global = p->training.global_batch_size;
    TRY(loader_open(&t->train, t->shard, p->data.split, SPLIT_TRAIN, sequence, p->seed));
    TRY(loader_open(&t->valid, t->shard, p->data.split, SPLIT_VALID, sequence, p->seed));
    t->held_out = p->evaluate.batches * global;
    if ((uint64_t)t->held_out > t->valid.windows)
        return FAIL(ERR_USAGE,
                    "evaluate.batches %d: %d held-out sequences of %d tokens are wanted and the validation split has "
                    "%" PRIu64 "; use fewer batches or a larger share in data.split",
                    p->evaluate.batches, t->held_out, sequence, t->valid.windows);
    return OK;
}

static status open_decoder(struct trainer *t)
{
    const struct point *p = t->point;
    struct decoder_options options = {
        .backend = t->request->device,
        .shape = p->model,
        .storage = p->training.storage,
        .micro_batch = p->training.micro_batch_size,
        .sequences_per_group = p->training.global_batch_size / p->training.reduction_groups,
        .global_batch = p->training.global_batch_size,
        .groups = p->training.reduction_groups / p->target.dp,
        .rank = comm_rank(t->request->comm),
        .recompute = p->recompute,
        .random_forward = p->random_forward,
        .random_recompute = p->random_recompute,
        .seed = p->seed,
        .draw_seed = p->arithmetic_seed,
        .fault = p->fault,
        .certificate = t->certificate,
    };
    TRY(arithmetic_find(&options.arithmetic, p->target.profile));
    return decoder_open(&t->decoder, &options);
}

static status make_configuration(struct trainer *t)
{
    json_t *object = point_to_json(t->point);
    if (!object || json_object_set_new(object, "shard", json_string(t->shard_hash)) ||
        json_object_set_new(object, "device", json_string(t->request->device)))
        return FAIL(ERR_MEMORY, "no memory for the configuration of '%s'", t->point->name);
    t->configuration = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(object);
    return t->configuration ? OK : FAIL(ERR_MEMORY, "no memory for the configuration of '%s'", t->point->name);
}

/* ---- where a run begins ---- */

static status begin_from_branch(struct trainer *t, struct record *baseline)
{
    char name[LAYOUT_PATH + 32];
    struct safetensors *file = NULL;
    const void *bytes;
    size_t size;
    snprintf(name, sizeof name, "%s: branch.safetensors", record_path(baseline));
    TRY(record_read(baseline, "branch.safetensors", &bytes, &size));
    TRY(safetensors_parse(&file, name, bytes, size));
    status st = state_load(t->decoder, &t->point->model, file, name, &t->step);
    safetensors_close(file);
    TRY(st);
    if (t->step != t->point->training.branch_at)
        return FAIL(ERR_INPUT, "%s: holds step %" PRId64 ", and the point branches at %" PRId64, name, t->step,
                    t->point->training.branch_at);
    return OK;
}

/* The baseline's record: there for a branch, and made from the text that this point will read. */
static status open_baseline(struct trainer *t, struct record **out)
{
    char path[LAYOUT_PATH], shard[33];
    int64_t steps;
    *out = NULL;
    if (t->point->baseline)
        return OK;
    layout_record(path, t->request->run, t->request->baseline->name);
    if (!file_exists(path))
        return t->point->scratch ? OK
                                 : FAIL(ERR_INPUT,
                                        "%s: point '%s' branches from it and it is not there: run rematch-baseline "
                                        "first",
                                        path, t->point->name);
    TRY(record_open(out, path));
    TRY(trainer_read_result(*out, &steps, shard));
    if (strcmp(shard, t->shard_hash))
        return FAIL(ERR_INPUT,
                    "%s/" LAYOUT_SHARD
                    ": holds another text (hash %s) than the baseline was trained on (%s): a study has "
                    "one text; put the old one back, or plan a new study",
                    t->request->run, t->shard_hash, shard);
    return OK;
}

static status begin_from_scratch(struct trainer *t)
{
    const struct point *p = t->point;
    if (*p->checkpoint.path)
        TRY(huggingface_load(t->decoder, &p->model, p->checkpoint.path, p->checkpoint.hash));
    else
        TRY(decoder_initialise(t->decoder));
    if (!p->baseline)
        return OK;
    return state_write(live_path(t->live, "start.safetensors"), t->decoder, &p->model, STATE_WEIGHTS | STATE_MASTER, 0);
}

static status read_certificate(struct trainer *t, const char *folder)
{
    char path[LAYOUT_PATH], *bytes;
    size_t size;
    layout_certificate_part(path, folder, comm_rank(t->request->comm));
    TRY(file_read(path, (size_t)1 << 32, &bytes, &size));
    status st = certificate_read(&t->certificate, path, bytes, size);
    free(bytes);
    return st;
}

static status load_checkpoint(struct trainer *t, const char *folder, int64_t step)
{
    char path[LAYOUT_PATH];
    struct safetensors *file = NULL;
    status st = OK;
    layout_state_part(path, folder, comm_rank(t->request->comm));
    TRY_DONE(safetensors_open(&file, path));
    TRY_DONE(state_load(t->decoder, &t->point->model, file, path, &t->step));
    if (t->step != step)
        st = FAIL(ERR_INPUT, "%s: holds step %" PRId64 " and its commit says %" PRId64 ": remove the folder", path,
                  t->step, step);
done:
    safetensors_close(file);
    return st;
}

static status begin(struct trainer *t, struct record *baseline)
{
    struct live_offset offsets[SERIES];
    const char *folder = NULL;
    int64_t step;
    for (int i = 0; i < SERIES; i++)
        snprintf(offsets[i].file, sizeof offsets[i].file, "%s", trainer_series_name[i]);
    TRY(live_checkpoint_find(t->live, t->configuration, &step, &folder, offsets, SERIES));
    if (live_note(t->live))
        printf("%s: %s\n", t->point->name, live_note(t->live));
    bool expects = t->point->recompute.precision == F32 && t->point->training.storage == BF16;
    if (step)
        TRY(read_certificate(t, folder));
    else
        TRY(certificate_new(&t->certificate, t->point->model.layers, expects));
    TRY(open_decoder(t));
    if (step)
        TRY(load_checkpoint(t, folder, step));
    else if (t->point->scratch)
        TRY(begin_from_scratch(t));
    else
        TRY(begin_from_branch(t, baseline));
    t->first_step = t->point->scratch ? 1 : t->point->training.branch_at + 1;
    for (int i = 0; i < SERIES; i++)
        TRY(jsonl_open(&t->series[i], live_path(t->live, trainer_series_name[i]), offsets[i].offset));
    return OK;
}

status trainer_start(struct trainer *t, const struct trainer_request *request)
{
    char path[LAYOUT_PATH];
    *t = (struct trainer){.request = request, .point = request->point};
    TRY(check_point(request));
    TRY(open_data(t));
    TRY(make_configuration(t));
    struct record *baseline;
    status st = open_baseline(t, &baseline);
    if (st == OK)
        st = live_open(&t->live, layout_work(path, request->run, request->point->name));
    if (st == OK)
        st = begin(t, baseline);
    record_close(baseline);
    return st;
}

void trainer_release(struct trainer *t)
{
    for (int i = 0; i < SERIES; i++)
        jsonl_close(t->series[i]);
    live_close(t->live);
    decoder_close(t->decoder);
    certificate_free(t->certificate);
    shard_close(t->shard);
    free(t->configuration);
}
