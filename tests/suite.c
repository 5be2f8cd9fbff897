#include "tests/suite.h"

#include <stdlib.h>

#include "tests/temporary.h"

enum { TIMEOUT_S = 120 }; /* with sanitizers, on a busy machine */

int suite_run_with(const char *name, const struct suite_test *tests, int count, const struct suite_options *options)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create(name);
    tcase_set_timeout(all, TIMEOUT_S);
    tcase_add_checked_fixture(all, options->before, options->after);
    for (int i = 0; i < count; i++)
        tcase_add_loop_test(all, tests[i].test, 0, tests[i].runs);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    if (options->one_process)
        srunner_set_fork_status(runner, CK_NOFORK);
    temporary_folder();
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    temporary_remove();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int suite_run(const char *name, const struct suite_test *tests, int count)
{
    return suite_run_with(name, tests, count, &(const struct suite_options){0});
}
