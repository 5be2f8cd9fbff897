# shellcheck shell=bash
# mpi.sh - how ranks are started on one machine; sourced by the pipelines.
#
#   mpi_launcher RANKS   sets the array `mpi`: what goes in front of the command; the ranks' exit status is relayed
#
# mpirun passes SIGUSR1 on: trainers write a checkpoint and end. SIGTERM leaves them a second for it, then it kills.

# Containers and fresh machines often have only root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks of one machine talk through shared memory; probing the network costs seconds at every start.
export OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader}
# A rank that waits for another gives its core to whoever wants it: beside busy neighbours steps are up to twice as fast.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
# A team that spins long at a barrier crawls beside a busy neighbour, one that sleeps at once is slow alone. Measured, a step at
# hidden 64 on two cores, alone and beside a process that burns one: 300 spins 275 and 520 ms, 1000 245 and 570, 3000 245 and
# 800, 5000 250 and 920.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
# mpirun gives ranks a terminal of its own: whether there is a real one only this shell knows.
if [ -t 1 ]; then export REMATCH_PROGRESS=terminal; else export REMATCH_PROGRESS=lines; fi

mpi_launcher() {
    local ranks=$1 cores
    cores=$(nproc)
    # Open MPI binds each rank, with all its threads, to one core unless told not to.
    # shellcheck disable=SC2034 # read by the caller
    mpi=(env "OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}"
        mpirun --quiet -n "$ranks" --bind-to none --oversubscribe)
}
