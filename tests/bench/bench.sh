#!/bin/bash
# bench.sh - measures the CPU backend on this machine and writes the tables.
#
#   tests/bench/bench.sh BUILD-FOLDER        (make bench)
#
# A whole run rewrites the part of RESULTS.md between its marker lines; a part of one (ONLY=GROUP,..., ROUNDS=N or
# THREADS=N in the environment) is printed only. Raw rows: BUILD-FOLDER/bench/rows.jsonl. The peers take part where they
# are: oneDNN as peer_onednn, which make builds when it finds the headers; PyTorch where tests/venv.sh can make it a place.
# All models together take 10 GiB.
#
# Groups: peak gemm attention step recompute certificate head arithmetic profile files gpt2 torch
set -euo pipefail

build=${1:?which build folder?}
here=$(dirname "${BASH_SOURCE[0]}")
results=$here/RESULTS.md
# shellcheck source=pipelines/mpi.sh
. "$here/../../pipelines/mpi.sh" # how a team of threads waits, as in a study

field() { sed -n "s/^$1[[:space:]]*: *//p" | head -n 1; }

machine() {
    local cpu caches sets
    cpu=$(lscpu)
    caches="L1d $(field 'L1d cache' <<<"$cpu"), L2 $(field 'L2 cache' <<<"$cpu"), L3 $(field 'L3 cache' <<<"$cpu")"
    sets=$(grep -owE 'avx2|fma|avx512f|avx512_bf16|amx_bf16' <<<"$cpu" | sort -u | paste -sd' ' -)
    cat <<TABLE
| | |
|---|---|
| processor | $(field 'Model name' <<<"$cpu"), $(nproc) cores |
| caches | $caches |
| instruction sets | $sets; kernels on ${REMATCH_ISA:-the widest} |
| compiler | $(mpicc --version | head -n 1) |
| date, commit | $(date -u +%F), $(git -C "$here" describe --always --dirty 2>/dev/null || echo unknown) |
| rounds, threads | $rounds, $threads |
| load before | $(cut -d' ' -f1 /proc/loadavg) |
TABLE
}

# Puts file $1 between the marker lines of RESULTS.md.
rewrite() {
    local fresh=$results.partial
    awk -v tables="$1" '
        /^<!-- end of what make bench writes -->$/ { inside = 0; ended = 1 }
        !inside { print }
        /^<!-- make bench writes from here -->$/ {
            inside = 1
            while ((getline line < tables) > 0) print line
        }
        END { exit !ended }' "$results" >"$fresh" || {
        rm -f "$fresh"
        echo "bench.sh: $results has lost its marker lines: the tables are in $1" >&2
        exit 1
    }
    mv "$fresh" "$results"
}

rounds=${ROUNDS:-7} threads=${THREADS:-$(nproc)}
options=(--rounds "$rounds" --threads "$threads" --rows "$build/bench/rows.jsonl")
[ -z "${ONLY-}" ] || options+=(--only "$ONLY")
[ ! -x "$build/bench/peer_onednn" ] || options+=(--onednn "exec $build/bench/peer_onednn")
if [[ ",${ONLY:-torch}," == *,torch,* ]]; then
    python=$("$here/../venv.sh") || python=''
    [ -z "$python" ] || options+=(--torch "exec '$python' '$here/peer_torch.py'")
fi

tables=$build/bench/tables.md
{
    echo
    machine
    echo
} >"$tables"
"$build/bench/bench" "${options[@]}" >>"$tables"
cat "$tables"
[ -n "${ONLY-}${ROUNDS-}${THREADS-}" ] || rewrite "$tables"
