/* seal.h - a hash that a JSON text carries about itself and about what comes with it.
 *
 * The text holds `"seal":"<32 hexadecimal digits>"` once. The seal is the XXH3-128 of all covered bytes, with zeros at
 * the place of these digits: every byte is covered, the text's own too, so a change anywhere shows. It guards against
 * accidents, not against forgers.
 *
 * Use: make the text with SEAL_BLANK, hash with seal_update, then seal_set; when reading seal_update, seal_holds.
 */
#ifndef REMATCH_DATA_SEAL_H
#define REMATCH_DATA_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <xxhash.h>

#include "data/file.h"

#define SEAL_BLANK "00000000000000000000000000000000"

/* Offset of the digits in the text, or -1. */
ptrdiff_t seal_place(const char *text, size_t size);

/* Feeds a text, zeros instead of the digits. The text must have a seal. */
void seal_update(XXH3_state_t *state, const char *text, size_t size);

/* Writes the state's hash over the digits; or says whether it stands there. */
void seal_set(const XXH3_state_t *state, char *text, size_t size);
bool seal_holds(const XXH3_state_t *state, const char *text, size_t size);

/* A text alone, nothing else covered. ERR_MEMORY. */
status seal_text(char *text, size_t size);
status seal_text_holds(bool *holds, const char *text, size_t size); /* false also without a seal */

#endif
