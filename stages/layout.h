/* layout.h - where things lie in runs/S. Paths are printed into the caller's buffer of LAYOUT_PATH bytes. */
#ifndef REMATCH_STAGES_LAYOUT_H
#define REMATCH_STAGES_LAYOUT_H

#include <inttypes.h>
#include <stdio.h>

#include "data/record.h"

enum { LAYOUT_PATH = 4096 };

#define LAYOUT_POINTS "points.jsonl"
#define LAYOUT_SHARD "shards/tokens.shard"

static inline const char *layout_file(char path[LAYOUT_PATH], const char *run, const char *file)
{
    snprintf(path, LAYOUT_PATH, "%s/%s", run, file);
    return path;
}

static inline const char *layout_record(char path[LAYOUT_PATH], const char *run, const char *point)
{
    snprintf(path, LAYOUT_PATH, "%s/records/%s" RECORD_SUFFIX, run, point);
    return path;
}

/* The difference record of `point` against `other`. */
static inline const char *layout_diff(char path[LAYOUT_PATH], const char *run, const char *point, const char *other)
{
    snprintf(path, LAYOUT_PATH, "%s/diffs/%s--%s" RECORD_SUFFIX, run, point, other);
    return path;
}

static inline const char *layout_work(char path[LAYOUT_PATH], const char *run, const char *point)
{
    snprintf(path, LAYOUT_PATH, "%s/work/%s", run, point);
    return path;
}

/* What a checkpoint holds: "FOLDER/state.safetensors", which all ranks have alike, and of each rank what it has seen,
 * "FOLDER/certificate-0.bin". */
static inline const char *layout_state(char path[LAYOUT_PATH], const char *folder)
{
    snprintf(path, LAYOUT_PATH, "%s/state.safetensors", folder);
    return path;
}

static inline const char *layout_certificate_part(char path[LAYOUT_PATH], const char *folder, int rank)
{
    snprintf(path, LAYOUT_PATH, "%s/certificate-%d.bin", folder, rank);
    return path;
}

/* The member that holds the tensors of a step. */
enum { LAYOUT_MEMBER = 64 };
static inline const char *layout_dump(char member[LAYOUT_MEMBER], int64_t step)
{
    snprintf(member, LAYOUT_MEMBER, "dump-%" PRId64 ".safetensors", step);
    return member;
}

#endif
