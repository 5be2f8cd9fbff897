#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stages/huggingface.h"
#include "stages/layout.h"
#include "stages/state.h"
#include "stages/trainer_internal.h"

const char *const trainer_series_name[SERIES] = {"metrics.jsonl", "evaluations.jsonl", "audits.jsonl", "timing.jsonl"};

static status check_ranks(const struct trainer_request *request)
{
    const struct point_target *target = &request->point->target;
    int ranks = target->dp * target->cp, started = comm_size(request->comm);
    if (target->cp != 1)
        return FAIL(ERR_USAGE,
                    "point '%s' wants context parallelism (cp %d), which this version only plans: set cp: 1 for target "
                    "%s",
                    request->point->name, target->cp, target->name);
    if (started != ranks)
        return FAIL(ERR_USAGE,
                    "point '%s' runs on %d rank%s (dp %d of target %s), not on the %d started: use mpirun -n %d, or "
                    "srun -n %d",
                    request->point->name, ranks, ranks == 1 ? "" : "s", target->dp, target->name, started, ranks,
                    ranks);
    return OK;
}

static status check_memory(const struct trainer_request *request)
{
    const struct point *p = request->point;
    if (!p->fits)
        return FAIL(ERR_USAGE,
                    "point '%s' needs %" PRIu64 " bytes and target %s has %" PRIu64
                    ": recompute more layers or use a smaller micro-batch",
                    p->name, p->planned_bytes, p->target.name, p->target.memory_bytes);
    uint64_t here = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int ranks = comm_neighbours(request->comm);
    if (p->planned_bytes > here / (uint64_t)ranks)
        return FAIL(ERR_MEMORY,
                    "point '%s' needs %" PRIu64 " bytes a rank and this machine has %" PRIu64
                    " for %d: run it where the memory is, or recompute more layers",
                    p->name, p->planned_bytes, here, ranks);
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
        .dial = p->dial,
        .draws = p->replicate[0] == 'a',
        .seed = p->seed,
        .draw_seed = p->arithmetic_seed,
        .fault = p->fault,
        .certificate = t->certificate,
        .audits = point_takes_audits(p),
    };
    TRY(arithmetic_find(&options.arithmetic, p->target.profile));
    if (options.audits)
        TRY(audit_new(&t->audit, &p->model, p->training.reduction_groups));
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

/* Every rank has read the plan and the text by itself. */
static status check_configuration(struct trainer *t)
{
    int other;
    const struct xxh3 hash = xxh3_of(t->configuration, strlen(t->configuration));
    TRY(comm_same(t->request->comm, &hash, sizeof hash, &other));
    if (other < 0)
        return OK;
    return FAIL(ERR_COMM,
                "'%s': rank %d was started with another point, text or device than rank 0: give all ranks one command "
                "line, and the same files in %s",
                t->point->name, other, t->request->run);
}

/* ---- where a run begins: rank 0 looks, and gives what it found to all ---- */

/* What rank 0 found; empty on the others. */
struct beginning {
    struct record *baseline;  /* NULL: none, or none needed */
    int64_t step;             /* of the checkpoint; 0: none */
    const char *folder;       /* borrowed from live */
    struct comm_bytes *parts; /* (ranks) the certificates in it; empty without one */
    struct live_offset offsets[SERIES];
};

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

static status load_checkpoint(struct trainer *t, const struct beginning *from)
{
    char path[LAYOUT_PATH];
    struct safetensors *file = NULL;
    status st = OK;
    layout_state(path, from->folder);
    TRY_DONE(safetensors_open(&file, path));
    TRY_DONE(state_load(t->decoder, &t->point->model, file, path, &t->step));
    if (t->step != from->step)
        st = FAIL(ERR_INPUT, "%s: holds step %" PRId64 " and its commit says %" PRId64 ": remove the folder", path,
                  t->step, from->step);
done:
    safetensors_close(file);
    return st;
}

/* Takes the live folder and looks for a checkpoint in it. */
static status look(struct trainer *t, struct beginning *from)
{
    char path[LAYOUT_PATH];
    if (comm_rank(t->request->comm) != 0)
        return OK;
    TRY(open_baseline(t, &from->baseline));
    TRY(live_open(&t->live, layout_work(path, t->request->run, t->point->name)));
    for (int i = 0; i < SERIES; i++)
        snprintf(from->offsets[i].file, sizeof from->offsets[i].file, "%s", trainer_series_name[i]);
    TRY(live_checkpoint_find(t->live, t->configuration, &from->step, &from->folder, from->offsets, SERIES));
    if (live_note(t->live))
        printf("%s: %s\n", t->point->name, live_note(t->live));
    for (int rank = 0; from->step && rank < comm_size(t->request->comm); rank++) {
        struct comm_bytes *part = &from->parts[rank];
        layout_certificate_part(path, from->folder, rank);
        TRY(file_read(path, (size_t)1 << 32, (char **)&part->data, &part->size));
    }
    return OK;
}

/* Each rank goes on with the certificate that it had at the checkpoint, or begins one. */
static status take_certificate(struct trainer *t, const struct beginning *from)
{
    const struct point *p = t->point;
    struct comm_bytes mine = {0};
    status st = OK;
    char name[64];
    snprintf(name, sizeof name, "checkpoint: certificate-%d.bin", comm_rank(t->request->comm));
    TRY_DONE(comm_deal(t->request->comm, from->parts, &mine));
    if (mine.size)
        TRY_DONE(certificate_read(&t->certificate, name, mine.data, mine.size));
    else
        TRY_DONE(certificate_new(&t->certificate, p->model.layers,
                                 p->recompute.precision == F32 && p->training.storage == BF16));
done:
    free(mine.data);
    return st;
}

static status load(struct trainer *t, const struct beginning *from)
{
    if (!t->live)
        return OK;
    if (from->step)
        TRY(load_checkpoint(t, from));
    else if (t->point->scratch)
        TRY(begin_from_scratch(t));
    else
        TRY(begin_from_branch(t, from->baseline));
    for (int i = 0; i < SERIES; i++)
        TRY(jsonl_open(&t->series[i], live_path(t->live, trainer_series_name[i]), from->offsets[i].offset));
    return OK;
}

static status begin(struct trainer *t)
{
    int ranks = comm_size(t->request->comm);
    struct beginning from = {.parts = calloc((size_t)ranks, sizeof *from.parts)};
    if (!from.parts)
        return FAIL(ERR_MEMORY, "no memory for the certificates of %d ranks", ranks);
    status st = OK;
    TRY_DONE(look(t, &from));
    TRY_DONE(take_certificate(t, &from));
    TRY_DONE(open_decoder(t));
    TRY_DONE(load(t, &from));
    TRY_DONE(state_broadcast(t->decoder, t->request->comm, &t->step));
    t->first_step = t->point->scratch ? 1 : t->point->training.branch_at + 1;
done:
    record_close(from.baseline);
    comm_bytes_free(from.parts, ranks);
    return st;
}

status trainer_start(struct trainer *t, const struct trainer_request *request)
{
    *t = (struct trainer){.request = request, .point = request->point};
    TRY(check_ranks(request));
    TRY(check_memory(request));
    TRY(open_data(t));
    TRY(make_configuration(t));
    TRY(check_configuration(t));
    return begin(t);
}

void trainer_release(struct trainer *t)
{
    for (int i = 0; i < SERIES; i++)
        jsonl_close(t->series[i]);
    live_close(t->live);
    decoder_close(t->decoder);
    audit_free(t->audit);
    certificate_free(t->certificate);
    shard_close(t->shard);
    free(t->configuration);
}
