#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "stages/layout.h"
#include "stages/scores.h"
#include "stages/state.h"
#include "stages/trainer_internal.h"

/* ---- members that are made here ---- */

static status add_json(struct record_writer *w, const char *member, json_t *object, bool measured)
{
    char *text = NULL;
    size_t size;
    status st = object ? json_text(&text, &size, object) : FAIL(ERR_MEMORY, "no memory for %s", member);
    json_decref(object);
    if (st == OK)
        st = record_add(w, member, text, size, measured);
    free(text);
    return st;
}

static void append_plan(void *self, const struct plan *plan)
{
    json_array_append_new(self, json_string(plan->identity));
}

static json_t *plans_json(struct trainer *t)
{
    json_t *plans = json_array();
    struct device *d = decoder_device(t->decoder);
    device_each_plan(d, append_plan, plans);
    return json_pack("{s:s,s:o}", "profile", t->point->target.profile, "plans", plans);
}

/* Steps of this point whose recompute was compared, by the rule and not by the notary's count. */
static int64_t certified_steps(const struct trainer *t)
{
    int64_t every = t->point->certificate.every;
    return every > 0 ? t->step / every - (t->first_step - 1) / every : 0;
}

static json_t *result_json(struct trainer *t)
{
    char digest[33];
    const struct xxh3 hash = state_digest(t->decoder);
    const struct memory_plan *memory = decoder_memory(t->decoder);
    const struct point_training *how = &t->point->training;
    int64_t expected = certified_steps(t) * (how->global_batch_size / how->micro_batch_size) *
                       recompute_compared_tensors(decoder_recompute(t->decoder));
    xxh3_hex(&hash, digest);
    return json_pack("{s:I,s:I,s:s,s:s,s:I,s:I,s:I}", "first_step", (json_int_t)t->first_step, "steps_done",
                     (json_int_t)t->step, "weights_digest", digest, "shard", t->shard_hash, "planned_activation_bytes",
                     (json_int_t)t->point->planned_activation_bytes, "activation_bytes",
                     (json_int_t)memory->activation_bytes, "expected_compared", (json_int_t)expected);
}

/* "VmHWM:   1234 kB" of /proc/self/status, in bytes; 0 when the system does not say. */
static int64_t process_bytes(const char *field)
{
    char line[256];
    int64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field)))
            kib = strtoll(line + strlen(field), NULL, 10);
    if (f)
        fclose(f);
    return kib * 1024;
}

/* The largest of all ranks: what a machine must have. */
static status measure_memory(struct trainer *t)
{
    struct comm *comm = t->request->comm;
    const int64_t mine[2] = {process_bytes("VmHWM:"), process_bytes("VmRSS:")};
    int64_t(*all)[2] = malloc((size_t)comm_size(comm) * sizeof *all);
    if (!all)
        return FAIL(ERR_MEMORY, "no memory for the usage of %d ranks", comm_size(comm));
    status st = comm_gather(comm, mine, sizeof mine, all);
    for (int r = 0; st == OK && r < comm_size(comm); r++) {
        t->peak_bytes = all[r][0] > t->peak_bytes ? all[r][0] : t->peak_bytes;
        t->resident_bytes = all[r][1] > t->resident_bytes ? all[r][1] : t->resident_bytes;
    }
    free(all);
    return st;
}

static json_t *usage_json(const struct trainer *t)
{
    return json_pack("{s:I,s:I,s:f,s:f}", "peak_bytes", (json_int_t)t->peak_bytes, "resident_bytes",
                     (json_int_t)t->resident_bytes, "seconds", t->seconds, "tokens_per_s", trainer_tokens_per_s(t));
}

static void cpu_name(char name[128])
{
    char line[256];
    snprintf(name, 128, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10)) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(name, 128, "%s", colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

static json_t *environment_json(struct trainer *t)
{
    struct utsname system;
    char cpu[128], when[32];
    time_t now = time(NULL);
    struct tm utc;
    cpu_name(cpu);
    uname(&system);
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const struct device *d = decoder_device(t->decoder);
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:I,s:s,s:s,s:s}", "host", system.nodename, "system", system.sysname,
                     "kernel", system.release, "cpu", cpu, "backend", d->ops->name, "threads", d->threads, "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "compiler", __VERSION__, "rematch", REMATCH_VERSION,
                     "finished", when);
}

static status add_config(struct trainer *t, struct record_writer *w)
{
    return add_json(w, "config.json", point_to_json(t->point), false);
}

static status add_certificate(struct trainer *t, struct record_writer *w)
{
    void *bytes;
    size_t size;
    TRY(certificate_write(t->certificate, &bytes, &size));
    status st = record_add(w, "certificate.bin", bytes, size, false);
    free(bytes);
    return st;
}

/* ---- members that lie in the live folder ---- */

static status add_series(struct trainer *t, struct record_writer *w, enum trainer_series which, bool measured)
{
    const char *member = trainer_series_name[which];
    return record_add_file(w, member, live_path(t->live, member), measured);
}

/* Tensors may have lain on the disk for days: the seal that they were written with is checked before they are sealed in. */
static status add_tensors(struct trainer *t, struct record_writer *w, const char *member)
{
    struct safetensors *file;
    const char *path = live_path(t->live, member);
    if (!file_exists(path))
        return FAIL(ERR_INPUT, "%s: was written by this run and is gone: remove the folder and run the point again",
                    path);
    TRY(safetensors_open(&file, path));
    safetensors_close(file);
    return record_add_file(w, member, path, false);
}

static status add_dumps(struct trainer *t, struct record_writer *w)
{
    for (int i = 0; i < t->point->dump_steps; i++) {
        int64_t step = t->point->dump_step[i];
        char member[LAYOUT_MEMBER];
        if (step >= t->first_step && step <= t->step)
            TRY(add_tensors(t, w, layout_dump(member, step)));
    }
    return OK;
}

/* The trunk keeps its first weights, and the state from which the points branch. */
static status add_trunk(struct trainer *t, struct record_writer *w)
{
    int64_t branch_at = t->point->training.branch_at;
    if (!t->point->baseline)
        return OK;
    TRY(add_tensors(t, w, "start.safetensors"));
    return branch_at && branch_at <= t->step ? add_tensors(t, w, "branch.safetensors") : OK;
}

static status add_members(struct trainer *t, struct record_writer *w)
{
    TRY(add_config(t, w));
    TRY(add_json(w, "environment.json", environment_json(t), true));
    TRY(add_json(w, "plans.json", plans_json(t), false));
    TRY(add_json(w, "result.json", result_json(t), false));
    TRY(add_json(w, "usage.json", usage_json(t), true));
    TRY(add_series(t, w, SERIES_METRICS, false));
    TRY(add_series(t, w, SERIES_EVALUATIONS, false));
    if (t->audit)
        TRY(add_series(t, w, SERIES_AUDITS, false));
    TRY(add_series(t, w, SERIES_TIMING, true));
    TRY(add_certificate(t, w));
    TRY(add_dumps(t, w));
    TRY(add_trunk(t, w));
    return add_tensors(t, w, "final.safetensors");
}

/* Rank 0's certificate becomes that of all ranks. */
static status merge_certificates(struct trainer *t)
{
    int ranks = comm_size(t->request->comm);
    struct comm_bytes *parts;
    struct certificate *part = NULL;
    status st = OK;
    TRY(trainer_collect(t, &parts));
    for (int rank = 1; t->live && rank < ranks; rank++) {
        TRY_DONE(certificate_read(&part, "certificate of another rank", parts[rank].data, parts[rank].size));
        TRY_DONE(certificate_merge(t->certificate, part));
        certificate_free(part);
        part = NULL;
    }
done:
    certificate_free(part);
    comm_bytes_free(parts, ranks);
    return st;
}

static status seal_record(struct trainer *t)
{
    struct record_writer *w = NULL;
    char path[LAYOUT_PATH], folder[LAYOUT_PATH];
    if (!t->live)
        return OK;
    for (int i = 0; i < SERIES; i++)
        TRY(jsonl_sync(t->series[i]));
    TRY(trainer_write_state(t, "final.safetensors", STATE_WEIGHTS | STATE_MASTER | STATE_MOMENTS));
    TRY(file_make_folder(layout_file(folder, t->request->run, "records")));
    TRY(record_create(&w, layout_record(path, t->request->run, t->point->name)));
    status st = add_members(t, w);
    if (st != OK) {
        record_abandon(w);
        return st;
    }
    TRY(record_seal(w));
    return live_finish(t->live);
}

status trainer_seal(struct trainer *t)
{
    const struct point *p = t->point;
    if (t->step == p->training.rule.steps)
        TRY(scores_downstream(t->decoder, t->request->comm, t->shard, p->data.split, p->training.micro_batch_size,
                              p->training.sequence_length, t->step, t->series[SERIES_EVALUATIONS]));
    TRY(merge_certificates(t));
    TRY(measure_memory(t));
    return seal_record(t);
}

/* ---- a record that is there already ---- */

static status same_configuration(struct record *record, const struct point *p, bool *same)
{
    const void *bytes;
    size_t size;
    TRY(record_read(record, "config.json", &bytes, &size));
    char *text;
    size_t length;
    json_t *object = point_to_json(p);
    status st = object ? json_text(&text, &length, object) : FAIL(ERR_MEMORY, "no memory for '%s'", p->name);
    json_decref(object);
    TRY(st);
    *same = length == size && !memcmp(text, bytes, size);
    free(text);
    return OK;
}

status trainer_read_result(struct record *record, int64_t *steps_done, char shard[33])
{
    const void *bytes;
    const char *hash, *where = record_path(record);
    size_t size;
    json_t *object = NULL;
    TRY(record_read(record, "result.json", &bytes, &size));
    TRY(json_object_parse(&object, bytes, size, where));
    status st = json_integer_read(steps_done, object, "steps_done", 0, where);
    if (st == OK)
        st = json_text_read(&hash, object, "shard", where);
    if (st == OK)
        snprintf(shard, 33, "%s", hash);
    json_decref(object);
    return st;
}

static status look_for_record(const struct trainer_request *request, bool *done)
{
    char path[LAYOUT_PATH], work[LAYOUT_PATH], shard[33];
    const struct point *p = request->point;
    struct record *record = NULL;
    int64_t steps = 0;
    bool same = false;
    layout_record(path, request->run, p->name);
    if (comm_rank(request->comm) != 0 || !file_exists(path))
        return OK;
    TRY(record_open(&record, path));
    status st = same_configuration(record, p, &same);
    if (st == OK)
        st = trainer_read_result(record, &steps, shard);
    record_close(record);
    TRY(st);
    if (!same)
        return FAIL(ERR_INPUT, "%s: holds a run of another configuration of '%s': move it away to run this one", path,
                    p->name);
    /* A kill between sealing and cleaning up leaves the folder. */
    TRY(file_remove_folder(layout_work(work, request->run, p->name)));
    *done = true;
    if (steps < p->training.rule.steps)
        return FAIL(ERR_RESULT, "'%s' ended after step %" PRId64 " because recompute was not bit-identical; see %s",
                    p->name, steps, path);
    printf("%s is finished\n", p->name);
    return OK;
}

status trainer_is_finished(const struct trainer_request *request, bool *done)
{
    *done = false;
    TRY(look_for_record(request, done));
    return comm_broadcast(request->comm, done, sizeof *done);
}
