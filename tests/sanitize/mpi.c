/* Leak checks of sanitized builds, through MPI's profiling interface: what MPI allocates while it starts is not ours, and
 * leaks are looked for before MPI_Finalize unloads components, after which no suppression could name their memory. */
#include <mpi.h>
#include <sanitizer/lsan_interface.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    __lsan_disable();
    int code = PMPI_Init_thread(argc, argv, required, provided);
    __lsan_enable();
    return code;
}

int MPI_Finalize(void)
{
    __lsan_do_leak_check();
    return PMPI_Finalize();
}
