#!/bin/bash
# The collectives on 2 and 3 ranks.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh

passed=0 failed=0
for ranks in 2 3; do
    mpi_launcher "$ranks"
    if said=$("${mpi[@]}" "${REMATCH_BIN:?}/../tests/test_comm" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$said"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
