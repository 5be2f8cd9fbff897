#!/bin/bash
# study.sh - a whole study on this machine: the stages in order.
#
#   study.sh STUDY.yaml [-o runs/NAME]
#
# Every stage skips what is finished and continues what was interrupted, so the same command resumes a study. A point
# trains on the ranks of its target. One whose certificate fails ends with exit status 3: the others still run, the
# report is made, and study.sh exits 3.
set -euo pipefail

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=pipelines/mpi.sh
. "$here/mpi.sh"

help() {
    cat <<'HELP'
usage: study.sh STUDY.yaml [-o runs/NAME]

Runs a whole study on this machine: plan, corpus, shard, baseline, sweep, differences, report. The same command continues
one that was stopped.

  -o FOLDER   the run's folder; default: runs/ and the study file's name without .yaml
  --help      this text

Environment: REMATCH_BIN (folder of the programs), OMP_NUM_THREADS (threads of a rank).
Exit status: 0 done, 1 failed, 2 wrong use or study, 3 a certificate failed, 75 stopped: the same command continues.
HELP
}

fail() {
    echo "study.sh: $1" >&2
    exit 1
}

usage() {
    echo "study.sh: $1; 'study.sh --help' says more" >&2
    exit 2
}

study='' run=''
while [ $# -gt 0 ]; do
    case $1 in
    -o) [ $# -ge 2 ] || usage "-o needs a folder"; run=$2; shift 2 ;;
    --help) help; exit 0 ;;
    -*) usage "unknown option '$1'" ;;
    *) [ -z "$study" ] || usage "one study file, not '$study' and '$1'"; study=$1; shift ;;
    esac
done
[ -n "$study" ] || usage "which study file?"
[ -r "$study" ] || usage "cannot read '$study'"
run=${run:-runs/$(basename "$study" .yaml)}
case $run in -*) run=./$run ;; esac # not an option of the commands that get it
command -v mpirun >/dev/null || fail "mpirun is not installed: run 'make deps', or put an Open MPI on PATH"

# The executables: where REMATCH_BIN says, and nowhere else; or built here; or beside an installed share/rematch.
folders=("$here/../build/cpu/bin" "$here/../../../bin")
[ -z "${REMATCH_BIN-}" ] || folders=("$REMATCH_BIN")
bin=''
for folder in "${folders[@]}"; do
    [ -n "$bin" ] || [ ! -x "$folder/rematch-plan" ] || bin=$(cd "$folder" && pwd)
done
[ -n "$bin" ] || fail "no rematch-plan in ${folders[0]}: run 'make', or set REMATCH_BIN to the folder of the programs"

# Stages run in the background of `wait` and in a session of their own: a signal to this script, Ctrl-C or a terminal that
# goes away is passed on once, as the one that lets the stage end in order.
child='' gentle=TERM
# shellcheck disable=SC2317 # reached through the trap
stop() {
    trap 'kill -TERM "$child" 2>/dev/null' INT TERM
    trap '' HUP # a shell and the kernel both send it
    [ -z "$child" ] || { kill -"$gentle" "$child" 2>/dev/null && wait "$child"; } || true
    echo "study.sh: stopped; the same command continues" >&2 || true # the terminal may be gone
    exit 75
}
trap stop INT TERM HUP

run_stage() {
    local code=0
    setsid "$@" </dev/null & # mpirun would read the list of points
    child=$!
    wait "$child" || code=$?
    child=''
    return "$code"
}

started=$SECONDS
stage() { printf '== %-8s %4d s  %s\n' "$1" $((SECONDS - started)) "$2"; }

record() { echo "$run/records/$1.rematch.tar.zst"; }

# The record of point $1 against that of point $2, unless it is there and newer than both.
difference() {
    local a b d
    a=$(record "$2") b=$(record "$1") d=$run/diffs/$1--$2.rematch.tar.zst
    [ -e "$a" ] && [ -e "$b" ] || return 0
    [ "$d" -nt "$a" ] && [ "$d" -nt "$b" ] && return 0
    stage diff "$1 against $2"
    run_stage "$bin/rematch-diff" "$a" "$b" -o "$d" >/dev/null # the same command prints its tables
}

stage plan "$study"
run_stage "$bin/rematch-plan" "$study" -o "$run"
mkdir -p "$run/shards" "$run/records" "$run/diffs"

# The points, one a line, the baseline first: name, role, ranks, fits, against, against_baseline, data source, cp; "-"
# where there is none.
points=$("$bin/rematch-plan" --list "$run")
split=$(awk -F'\t' '$8 != 1 {print $1 " (cp " $8 ")"; exit}' <<<"$points")
[ -z "$split" ] || fail "$run/study.yaml: point $split: this version only plans context parallelism; set cp: 1"
source=$(awk -F'\t' '$2 == "baseline" {print $7}' <<<"$points")
text=(-- "$source")
if [ "$source" = corpus ]; then
    stage corpus "$run/corpus"
    run_stage "$here/../data/corpus.sh" "$run/corpus"
    text=(--list "$run/corpus/files.list")
fi
stage shard "$source"
run_stage "$bin/rematch-shard" -o "$run/shards/tokens.shard" "${text[@]}"

verdict=0
while IFS=$'\t' read -r name role ranks fits _; do
    program=rematch-sweep
    [ "$role" != baseline ] || program=rematch-baseline
    if [ "$fits" != true ]; then
        [ "$role" != baseline ] || fail "the baseline '$name' does not fit its target"
        stage sweep "$name does not fit its target's memory: skipped"
        continue
    fi
    stage "${program#rematch-}" "$name"
    code=0
    mpi_launcher "$ranks"
    gentle=USR1
    run_stage "${mpi[@]}" "$bin/$program" --run "$run" --point "$name" || code=$?
    gentle=TERM
    case $code in
    0) ;;
    3) verdict=3 ;;
    *)
        [ "$code" -lt 128 ] || fail "'$name': it, or a rank of it, was killed by signal $((code - 128)); the same command continues"
        exit "$code"
        ;;
    esac
done <<<"$points"

while IFS=$'\t' read -r name _ _ _ against against_baseline _; do
    [ "$against" = - ] || difference "$name" "$against"
    [ "$against_baseline" = - ] || [ "$against_baseline" = "$against" ] || difference "$name" "$against_baseline"
done <<<"$points"

stage report "$run/report"
run_stage "$bin/rematch-report" --run "$run" -o "$run/report" >/dev/null

stage finished "$study"
echo "$run/report/report.html"
exit "$verdict"
