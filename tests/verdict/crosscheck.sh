#!/bin/bash
# crosscheck.sh - the statistics against other implementations: crosscheck.py with the Python of tests/venv.sh.
#
#   tests/verdict/crosscheck.sh BUILD-FOLDER
#
# Where the Python packages cannot be had it says "SKIP crosscheck: <why>" and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=${1:?which build folder?}
log=$build/crosscheck.log

if ! python=$(tests/venv.sh statistics 2>"$log"); then
    echo "SKIP crosscheck: $(tail -n 1 "$log")"
    exit 0
fi
"$python" tests/verdict/crosscheck.py "$build/tests/verdict/figures"
