/* little_endian.h - integers in files: little-endian whatever the machine, at any alignment. */
#ifndef REMATCH_DATA_LITTLE_ENDIAN_H
#define REMATCH_DATA_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t le32_get(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t le64_get(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static inline void le32_put(void *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void le64_put(void *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

#endif
