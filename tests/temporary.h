/* temporary.h - one folder of its own for a test program, under TMPDIR (or /tmp).
 *
 * A helper that cannot do its work prints why and exits: a test without its folder has nothing to say.
 */
#ifndef REMATCH_TESTS_TEMPORARY_H
#define REMATCH_TESTS_TEMPORARY_H

#include <stddef.h>

/* The folder, made on first use: by suite_run, so that the tests of a program share it. */
const char *temporary_folder(void);

/* Path of `name` in the folder; borrowed until the eighth call from now. */
const char *temporary_path(const char *name);

/* From here on this process can write no file beyond `bytes`: a full disk, at a known place. */
void temporary_no_room(size_t bytes);

/* Removes the folder with everything in it (suite_run does). */
void temporary_remove(void);

#endif
