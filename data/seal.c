#include "data/seal.h"

#include <string.h>

static const char opening[] = "\"seal\":\"";
enum { DIGITS = sizeof SEAL_BLANK - 1 };

ptrdiff_t seal_place(const char *text, size_t size)
{
    const char *found = memmem(text, size, opening, sizeof opening - 1);
    if (!found)
        return -1;
    ptrdiff_t place = found - text + (ptrdiff_t)sizeof opening - 1;
    return size - (size_t)place > DIGITS && text[place + DIGITS] == '"' ? place : -1;
}

void seal_update(XXH3_state_t *state, const char *text, size_t size)
{
    size_t place = (size_t)seal_place(text, size);
    XXH3_128bits_update(state, text, place);
    XXH3_128bits_update(state, SEAL_BLANK, DIGITS);
    XXH3_128bits_update(state, text + place + DIGITS, size - place - DIGITS);
}

static void digits_of(const XXH3_state_t *state, char digits[33])
{
    struct xxh3 hash;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(hash.byte, canonical.digest, sizeof hash.byte);
    xxh3_hex(&hash, digits);
}

void seal_set(const XXH3_state_t *state, char *text, size_t size)
{
    char digits[33];
    digits_of(state, digits);
    memcpy(text + seal_place(text, size), digits, DIGITS);
}

bool seal_holds(const XXH3_state_t *state, const char *text, size_t size)
{
    char digits[33];
    digits_of(state, digits);
    return !memcmp(text + seal_place(text, size), digits, DIGITS);
}

static status state_of_text(XXH3_state_t **out, const char *text, size_t size)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return FAIL(ERR_MEMORY, "no memory for a hash state");
    XXH3_128bits_reset(state);
    seal_update(state, text, size);
    *out = state;
    return OK;
}

status seal_text(char *text, size_t size)
{
    XXH3_state_t *state = NULL;
    TRY(state_of_text(&state, text, size));
    seal_set(state, text, size);
    XXH3_freeState(state);
    return OK;
}

status seal_text_holds(bool *holds, const char *text, size_t size)
{
    XXH3_state_t *state = NULL;
    *holds = false;
    if (seal_place(text, size) < 0)
        return OK;
    TRY(state_of_text(&state, text, size));
    *holds = seal_holds(state, text, size);
    XXH3_freeState(state);
    return OK;
}
