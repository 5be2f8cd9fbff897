#!/bin/bash
# parity.sh - the decoder against PyTorch: parity.py with the Python of tests/venv.sh, and with a record's exported weights.
#
#   tests/parity/parity.sh BUILD-FOLDER
#
# Where the Python packages cannot be had it says "SKIP parity: <why>" and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh

build=${1:?which build folder?}
work=$(realpath "$build")/parity
rm -rf "$work"
mkdir -p "$work/run/shards"

if ! python=$(tests/venv.sh 2>"$work/venv.log"); then
    echo "SKIP parity: $(tail -n 1 "$work/venv.log")"
    exit 0
fi

bin=$build/bin
{
    "$bin/rematch-plan" tests/studies/tiny.yaml -o "$work/run"
    "$bin/rematch-shard" -o "$work/run/shards/tokens.shard" kernels
    "$bin/rematch-baseline" --run "$work/run" --point h800-r0
    "$bin/rematch-export" "$work/run/records/h800-r0.rematch.tar.zst" -o "$work/record"
} >"$work/log"
"$python" tests/parity/parity.py "$build/tests/parity/parity" "$work/cases" "$work/record"
