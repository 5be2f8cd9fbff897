#!/bin/bash
# test_comm.sh - the collectives on several ranks, and how each of them ends when a rank fails: all ranks end, at once.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=tests/checks.sh
. tests/checks.sh
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh
export OMP_NUM_THREADS=1

# comm RANKS ENDING: test_comm on so many ranks; 124 when they hang.
comm() {
    mpi_launcher "$1"
    timeout 60 "${mpi[@]}" "$bin/../tests/test_comm" "$2"
}

check "2 ranks" comm 2 0
for collective in 0 1 2 3 4 5 6 7 8; do
    check "3 ranks, two of which fail while the other is in collective $collective" comm 3 "$collective"
done
check "a wrong argument" comm 3 refused
check "ranks in different collectives" comm 3 parted
cut_off() { comm 3 cut; [ $? -eq 1 ]; }
check "a rank on which MPI fails ends the others" cut_off

checks_end
