/* Which members a record may have: the one table. */
#include <string.h>

#include "data/record_format.h"

#define MANIFEST_MOST ((uint64_t)16 << 20)
#define TEXT_MOST ((uint64_t)1 << 30)
#define TENSORS_MOST ((uint64_t)1 << 40)

/* In a pattern '#' stands for a decimal number without leading zeros: a step or a rank. */
static const struct {
    const char *pattern;
    uint64_t limit;
} members[] = {
    {RECORD_MANIFEST, MANIFEST_MOST},
    /* a run */
    {"config.json", TEXT_MOST},
    {"environment.json", TEXT_MOST},
    {"plans.json", TEXT_MOST},
    {"result.json", TEXT_MOST},
    {"usage.json", TEXT_MOST},
    {"result.json", TEXT_MOST},
    {"usage.json", TEXT_MOST},
    {"metrics.jsonl", TEXT_MOST},
    {"evaluations.jsonl", TEXT_MOST},
    {"timing.jsonl", TEXT_MOST},
    {"audits.jsonl", TEXT_MOST},
    {"certificate.bin", TENSORS_MOST},
    {"dump-#.safetensors", TENSORS_MOST},
    {"start.safetensors", TENSORS_MOST},
    {"branch.safetensors", TENSORS_MOST},
    {"final.safetensors", TENSORS_MOST},
    /* a difference */
    {"diff.json", TEXT_MOST},
    {"differences.jsonl", TEXT_MOST},
    {"certificate-#.bin", TENSORS_MOST},
};

/* Past a number of at most 12 digits, or NULL. */
static const char *skip_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits < 1 || digits > 12 || (*text == '0' && digits > 1) ? NULL : text + digits;
}

static bool matches(const char *pattern, const char *name)
{
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            if (!(name = skip_number(name)))
                return false;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return !*name;
}

uint64_t record_member_limit(const char *name)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (matches(members[i].pattern, name))
            return members[i].limit;
    return 0;
}

const char *record_archive_error(struct archive *archive)
{
    const char *text = archive_error_string(archive);
    return text ? text : "unknown error";
}
