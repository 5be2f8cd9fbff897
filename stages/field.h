/* field.h - the fields of a point, described once.
 *
 * One table says for each field its section, name, type, range and default. Study files (YAML) and points (JSON) are
 * read through it, and points are written through it, so the two formats cannot drift apart.
 */
#ifndef REMATCH_STAGES_FIELD_H
#define REMATCH_STAGES_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
    FIELD_INT,      /* int */
    FIELD_INT64,    /* int64_t */
    FIELD_UINT64,   /* uint64_t, at most FIELD_MOST */
    FIELD_BYTES,    /* uint64_t; "48GiB" in YAML, a number in JSON */
    FIELD_FLOAT,    /* float; a hex float in JSON */
    FIELD_DOUBLE,   /* double; a hex float in JSON */
    FIELD_BOOL,     /* bool */
    FIELD_TEXT,     /* char[size] */
    FIELD_NAME,     /* char[size], fit to be part of a file name (field_is_name) */
    FIELD_OPTIONAL, /* char[size]; "" is null in JSON */
    FIELD_JOINED,   /* char[size]; in YAML a text, or a list of texts that are joined with commas */
    FIELD_WORD,     /* int: index into `words`; the word "null" is JSON's null */
    FIELD_FLAG,     /* bool: index into two `words` */
    FIELD_SPLIT,    /* int[3], written as "969,30,1" */
    FIELD_MODULES,  /* unsigned, enum recompute_module or-ed; JSON only: "core_attn,mlp", null for none */
    FIELD_INTEGERS, /* int64_t[], at most size / 8 of them, their number an int at `count`; in YAML also a single one */
    FIELD_REALS,    /* double[], exactly size / 8 of them */
    FIELD_MAPPING,  /* YAML only: void *, a node that holds a mapping; the reader goes on from there */
    FIELD_SEQUENCE, /* YAML only: the same for a list */
    FIELD_REFUSED   /* YAML only: a key of Megatron-LM's that has no meaning here; `words` says why */
};

/* Integers up to here are exact in every JSON reader. */
#define FIELD_MOST 0x1p53

struct field {
    const char *section, *name;
    enum field_kind kind;
    size_t offset, size;
    double least, most;
    const char *words;    /* separated by spaces */
    const char *fallback; /* study files: what an absent key means; NULL: what the struct holds already */
    bool required;        /* study files: an absent key is an error */
    size_t count;         /* FIELD_INTEGERS: offset of their number */
};

#define FIELD_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define FIELD_RANGE(lowest, highest) .least = (lowest), .most = (highest)

/* Index of the first `length` bytes of `text` among `words`, -1 when it is none of them. */
int field_word(const char *words, const char *text, size_t length);

/* The word at `index`: *length bytes, not terminated. */
const char *field_word_at(const char *words, int index, int *length);

/* Letters, digits and . _ - + = with a letter or digit at both ends; no "--", which joins two names. */
bool field_is_name(const char *text);

/* "969,30,1": three whole numbers, not all 0. */
bool field_split(int out[3], const char *text);

/* The table of struct point: offsets are into it. */
extern const struct field point_fields[];
extern const int point_field_count;

#endif
