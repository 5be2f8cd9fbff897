/* TensorBoard's event files: TFRecords of protocol buffers, of which a few fields matter.
 *
 *   record   u64 length, u32 masked CRC-32C of the length, bytes, u32 masked CRC-32C of the bytes
 *   Event    1 wall_time f64, 2 step i64, 5 summary, 7 session_log
 *   Summary  1 value (repeated): 1 tag, 2 simple_value f32, 8 tensor
 *   Tensor   1 dtype (1: f32, 2: f64), 4 tensor_content, 5 float_val, 6 double_val
 * Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, .../framework/summary.proto.
 */
#include "stages/logs/readers.h"

#include <inttypes.h>
#include <math.h>

enum { RECORD_MOST = 1 << 28, HEADER = 12, TRAILER = 4 };

/* ---- CRC-32C ---- */

static uint32_t crc_table[256];

static void fill_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        crc_table[i] = crc;
    }
}

static uint32_t masked_crc(const char *bytes, size_t size)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++)
        crc = crc_table[(crc ^ (uint8_t)bytes[i]) & 255] ^ crc >> 8;
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint64_t little_endian(const char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(uint8_t)at[i] << 8 * i;
    return value;
}

/* ---- records ---- */

enum record_end { RECORD_FINE, RECORD_CUT, RECORD_DAMAGED };

static enum record_end next_record(struct text *rest, struct text *record)
{
    if (rest->size < HEADER)
        return RECORD_CUT;
    uint64_t size = little_endian(rest->at, 8);
    if (masked_crc(rest->at, 8) != little_endian(rest->at + 8, 4) || size > RECORD_MOST)
        return RECORD_DAMAGED;
    if (rest->size < HEADER + size + TRAILER)
        return RECORD_CUT;
    *record = (struct text){rest->at + HEADER, (size_t)size};
    if (masked_crc(record->at, record->size) != little_endian(record->at + size, 4))
        return RECORD_DAMAGED;
    *rest = text_from(*rest, record->at + size + TRAILER);
    return RECORD_FINE;
}

/* ---- protocol buffers ---- */

struct field {
    uint64_t number, value; /* value: of varints and fixed ones */
    struct text bytes;      /* of length-delimited ones */
};

static bool varint(struct text *rest, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && rest->size; shift += 7) {
        uint8_t byte = (uint8_t)*rest->at;
        *out |= (uint64_t)(byte & 127) << shift;
        *rest = text_from(*rest, rest->at + 1);
        if (!(byte & 128))
            return true;
    }
    return false;
}

/* False at the end, and where the message is none. */
static bool next_field(struct text *rest, struct field *f)
{
    uint64_t key, size = 0;
    if (!varint(rest, &key))
        return false;
    *f = (struct field){.number = key >> 3, .bytes = {rest->at, 0}};
    switch (key & 7) {
    case 0:
        return varint(rest, &f->value);
    case 1:
        size = 8;
        break;
    case 2:
        if (!varint(rest, &size))
            return false;
        break;
    case 5:
        size = 4;
        break;
    default:
        return false;
    }
    if (size > rest->size)
        return false;
    f->bytes = (struct text){rest->at, (size_t)size};
    if ((key & 7) != 2)
        f->value = little_endian(rest->at, (int)size);
    *rest = text_from(*rest, rest->at + size);
    return true;
}

static double as_float(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A single precision value stands for all that rounds to it. */
static struct log_point single(double value)
{
    float magnitude = fabsf((float)value);
    return (struct log_point){.value = value,
                              .half_unit = isfinite(value) ? (nextafterf(magnitude, INFINITY) - magnitude) / 2.0 : 0};
}

/* A tensor of one element. */
static bool read_tensor(struct text message, struct log_point *out)
{
    struct field f;
    uint64_t type = 0;
    bool found = false;
    while (next_field(&message, &f)) {
        if (f.number == 1)
            type = f.value;
        size_t size = type == 1 ? 4 : 8;
        bool values = f.number == 4 || (f.number == 5 && type == 1) || (f.number == 6 && type == 2);
        if (!values || (type != 1 && type != 2) || (f.bytes.size != size && f.bytes.size))
            continue;
        uint64_t bits = f.bytes.size ? little_endian(f.bytes.at, (int)size) : f.value;
        *out = type == 1 ? single(as_float(bits)) : (struct log_point){.value = as_double(bits)};
        found = true;
    }
    return found;
}

/* ---- events ---- */

static status take_value(struct builder *b, struct text message)
{
    struct field f;
    struct text tag = {message.at, 0};
    struct log_point value;
    bool found = false;
    while (next_field(&message, &f)) {
        if (f.number == 1)
            tag = f.bytes;
        else if (f.number == 2 && f.bytes.size == 4) {
            value = single(as_float(f.value));
            found = true;
        } else if (f.number == 8)
            found = read_tensor(f.bytes, &value);
    }
    if (!found || !tag.size)
        return OK;
    const struct log_name *name = name_find(tag);
    return build_value(b, tag, name->role, value);
}

static status take_event(struct builder *b, struct text message)
{
    struct field f;
    struct text summary = {message.at, 0};
    int64_t step = 0;
    while (next_field(&message, &f)) {
        if (f.number == 2)
            step = (int64_t)f.value;
        else if (f.number == 5)
            summary = f.bytes;
    }
    if (!summary.size || step < 0)
        return OK;
    TRY(build_step(b, step));
    while (next_field(&summary, &f))
        if (f.number == 1 && f.bytes.size)
            TRY(take_value(b, f.bytes));
    return OK;
}

static int64_t count_events(const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    struct text rest = s->text, record;
    fill_crc_table();
    return next_record(&rest, &record) == RECORD_FINE ? INT32_MAX : 0;
}

static status read_events(struct builder *b, const struct log_reader *reader, const struct log_source *s)
{
    (void)reader;
    struct text rest = s->text, record;
    int64_t number = 0;
    enum record_end end = RECORD_FINE;
    fill_crc_table();
    b->separate_series = true;
    for (; rest.size && (end = next_record(&rest, &record)) == RECORD_FINE; number++)
        TRY(take_event(b, record));
    if (end == RECORD_DAMAGED)
        return FAIL(ERR_INPUT,
                    "'%s': record %" PRId64 " does not have its checksum; the file is damaged: copy it again", s->path,
                    number + 1);
    if (rest.size && b->current >= 0)
        TRY(build_note(b, "the file ends within record %" PRId64 ", which is left out: its writer was stopped",
                       number + 1));
    return OK;
}

static const struct log_reader readers[] = {{"TensorBoard events", "1 and 2",
                                             "a real file; values that stand in tensors are not verified", count_events,
                                             read_events, NULL, NULL, false, false}};
const struct log_family family_events = {readers, 1};
