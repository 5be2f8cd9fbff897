#!/bin/bash
# test_kill.sh - kill -9 of every stage at random moments, then the same command: it continues, and what comes out is bit
# by bit what an undisturbed study gives. 20 kills; the moments come from a fixed seed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh
export OMP_NUM_THREADS=1
RANDOM=20
calm=$scratch/calm rough=$scratch/rough study=tests/studies/tiny.yaml point=l40s-r2
echo "seed 20"

# command STAGE RUN: sets the array `command`. Trainers run without mpirun, so that the process killed is theirs.
command_of() {
    local run=$2
    case $1 in
    shard) command=("$bin/rematch-shard" -o "$run/shards/tokens.shard" kernels) ;;
    plan) command=("$bin/rematch-plan" "$study" -o "$run") ;;
    baseline) command=("$bin/rematch-baseline" --run "$run" --point h800-r0) ;;
    stored) command=("$bin/rematch-sweep" --run "$run" --point l40s-r0) ;;
    sweep) command=("$bin/rematch-sweep" --run "$run" --point "$point") ;;
    diff)
        command=("$bin/rematch-diff" "$run/records/l40s-r0.rematch.tar.zst" "$run/records/$point.rematch.tar.zst"
            -o "$run/diffs/$point--l40s-r0.rematch.tar.zst") ;;
    report) command=("$bin/rematch-report" --run "$run" -o "$run/report" --stable) ;;
    esac
}

# What a stage leaves when it is done, relative to the run.
product() {
    case $1 in
    shard) echo shards/tokens.shard ;;
    plan) echo points.jsonl ;;
    baseline) echo records/h800-r0.rematch.tar.zst ;;
    stored) echo records/l40s-r0.rematch.tar.zst ;;
    sweep) echo "records/$point.rematch.tar.zst" ;;
    diff) echo "diffs/$point--l40s-r0.rematch.tar.zst" ;;
    report) echo report ;;
    esac
}

milliseconds() { date +%s%3N; }

# Kills the stage COUNT times within TIME ms of its start. One that finishes first begins anew, without its product.
kill_stage() {
    local stage=$1 count=$2 time=$3 killed=0 code pid
    command_of "$stage" "$rough"
    for ((try = 0; killed < count && try < 20 * count; try++)); do
        "${command[@]}" >"$scratch/stage.log" 2>&1 &
        pid=$!
        sleep "$(printf '%d.%03d' $((RANDOM % time / 1000)) $((RANDOM % time % 1000)))"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        code=$?
        case $code in
        137) killed=$((killed + 1)) ;;
        0) rm -rf "${rough:?}/$(product "$stage")" ;;
        *) cat "$scratch/stage.log"; echo "exit status $code"; return 1 ;;
        esac
    done
    [ "$killed" -eq "$count" ] || { echo "only $killed kills hit"; return 1; }
}

run_calm() { command_of "$1" "$calm" && "${command[@]}"; }
run_rough() { command_of "$1" "$rough" && "${command[@]}"; }

for run in "$calm" "$rough"; do mkdir -p "$run/shards" "$run/records" "$run/diffs"; done
for entry in shard:2 plan:2 baseline:6 stored:0 sweep:6 diff:2 report:2; do
    stage=${entry%:*} kills=${entry#*:}
    started=$(milliseconds)
    check "$stage runs undisturbed" run_calm "$stage"
    took=$(($(milliseconds) - started))
    [ "$kills" -eq 0 ] || check "$stage is killed $kills times" kill_stage "$stage" "$kills" $((took > 1 ? took : 2))
    check "$stage continues" run_rough "$stage"
    case $stage in
    shard | plan | diff) check "$stage gives the same bytes" cmp "$calm/$(product "$stage")" "$rough/$(product "$stage")" ;;
    report) check "report gives the same bytes" diff -r "$calm/report" "$rough/report" ;;
    *) check "$stage gives an identical record" identical "$calm/$(product "$stage")" "$rough/$(product "$stage")" ;;
    esac
done
no_work_left() { [ -z "$(ls -A "$rough/work" 2>/dev/null)" ]; }
check "no live folder is left" no_work_left

checks_end
