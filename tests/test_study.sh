#!/bin/bash
# test_study.sh - a small study from end to end: the same bits for any number of threads, what the certificates say,
# finished work left alone, damaged inputs refused.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
export REMATCH_BIN=$bin

study=tests/studies/tiny.yaml
run_study() { OMP_NUM_THREADS=$1 pipelines/study.sh "${3:-$study}" -o "$scratch/$2"; }
record() { echo "$scratch/$1/records/$2.rematch.tar.zst"; }
stable_report() { "$bin/rematch-report" --run "$scratch/$1" -o "$scratch/$1/stable" --stable; }

# ---- threads ----
for threads in 1 2 3; do
    check "study runs with $threads threads" run_study "$threads" "t$threads"
done
check "report is one HTML file" grep -q '</html>' "$scratch/t1/report/report.html"
no_work_left() { [ -z "$(ls -A "$scratch/t1/work" 2>/dev/null)" ]; }
check "no live folder is left" no_work_left

names=$("$bin/rematch-plan" --list "$scratch/t1" | cut -f 1)
check "points are named as planned" \
    [ "$(sort <<<"$names" | xargs)" = "h800-r0 h800-r0-a1 l40s-r0 l40s-r2 l40s-r2-rng-redrawn l40s-r4" ]
for name in $names; do
    check "$name is identical with 2 threads" identical "$(record t1 "$name")" "$(record t2 "$name")"
    check "$name is identical with 3 threads" identical "$(record t1 "$name")" "$(record t3 "$name")"
done
for threads in 1 2 3; do check "stable report with $threads threads" stable_report "t$threads"; done
check "stable report is the same with 2 threads" cmp "$scratch/t1/stable/report.json" "$scratch/t2/stable/report.json"
check "stable report is the same with 3 threads" cmp "$scratch/t1/stable/report.json" "$scratch/t3/stable/report.json"
check "differences are the same with 2 threads" diff -r "$scratch/t1/diffs" "$scratch/t2/diffs"
check "differences are the same with 3 threads" diff -r "$scratch/t1/diffs" "$scratch/t3/diffs"

# ---- what recomputing did ----
# says POINT PATTERN: diff.json of the point against l40s-r0 holds the pattern.
says() {
    "$bin/rematch-diff" "$(record t1 l40s-r0)" "$(record t1 "$1")" -o "$scratch/says.rematch.tar" --json |
        tr -d ' \n' >"$scratch/says.json"
    grep -qE "$2" "$scratch/says.json" || { cat "$scratch/says.json"; return 1; }
}
for point in l40s-r2 l40s-r4; do
    check "$point has the weights of l40s-r0" says "$point" '"final.safetensors":"equal"'
    check "$point compared tensors, none mismatched" says "$point" '"compared":[1-9][0-9]*,[^}]*"mismatched":0'
done
check "redrawn dropout is seen at its first step, in dropout, the recompute accused" says l40s-r2-rng-redrawn \
    '"first":\{"accused":"recompute",[^}]*"op":"[a-z_]*dropout",[^}]*"step":5,'
check "redrawn dropout changes the weights" says l40s-r2-rng-redrawn '"final.safetensors":"differs"'

sed 's/on_mismatch: continue/on_mismatch: stop/' "$study" >"$scratch/stop.yaml"
check "a mismatch that stops its point gives 3" exits 3 run_study 2 stop "$scratch/stop.yaml"
check "and the report is made all the same" [ -s "$scratch/stop/report/report.html" ]

# ---- stopping ----
# Begins a study and stops it by SIGTERM while the point l40s-r0 trains.
stopped_study() {
    local code=0 pid
    OMP_NUM_THREADS=1 pipelines/study.sh "$study" -o "$scratch/stopped" &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        [ ! -d "$scratch/stopped/work/l40s-r0" ] || break
        sleep 0.02
    done
    kill "$pid"
    wait "$pid" || code=$?
    return "$code"
}
check "a stopped study gives 75" exits 75 stopped_study
check "and the same command continues it" run_study 1 stopped
for name in l40s-r0 l40s-r4; do
    check "$name is identical after the stop" identical "$(record t1 "$name")" "$(record stopped "$name")"
done

# ---- finished work ----
stamps() { find "$scratch/t1/records" "$scratch/t1/diffs" -type f -printf '%p %T@ %i\n' | sort; }
before=$(stamps)
check "a finished study runs again" run_study 2 t1
check "and leaves its records alone" [ "$before" = "$(stamps)" ]

# ---- damaged inputs ----
truncated() { head -c $(($(stat -c %s "$1") / 2)) "$1"; }
flipped() { # the lowest bit of the middle byte
    local half byte
    half=$(($(stat -c %s "$1") / 2))
    byte=$(od -An -tu1 -j "$half" -N 1 "$1")
    head -c "$half" "$1"
    printf '%b' "$(printf '\\x%02x' $((byte ^ 1)))"
    tail -c +$((half + 2)) "$1"
}
foreign() { cat "$study"; }

hurt=$scratch/hurt
# hurts FILE COMMAND...: the command refuses the file (of a copy of the study) in each damaged form, and then it is whole.
hurts() {
    local file=$1 damage
    shift
    for damage in truncated flipped foreign; do
        "$damage" "$file" >"$scratch/damaged"
        cp "$file" "$scratch/whole"
        cp "$scratch/damaged" "$file"
        check "$(basename "$1") refuses a $damage $(basename "$file")" refuses "$(basename "$file")" "$@"
        cp "$scratch/whole" "$file"
    done
}
cp -r "$scratch/t1" "$hurt"
rm "$(record hurt h800-r0)" "$(record hurt l40s-r2)"
hurts "$hurt/shards/tokens.shard" "$bin/rematch-baseline" --run "$hurt" --point h800-r0
hurts "$hurt/points.jsonl" "$bin/rematch-baseline" --run "$hurt" --point h800-r0
cp "$(record t1 h800-r0)" "$(record hurt h800-r0)"
hurts "$(record hurt h800-r0)" "$bin/rematch-sweep" --run "$hurt" --point l40s-r2
hurts "$hurt/shards/tokens.shard" "$bin/rematch-sweep" --run "$hurt" --point l40s-r2
cp "$(record t1 l40s-r2)" "$(record hurt l40s-r2)"
hurts "$(record hurt l40s-r2)" "$bin/rematch-diff" "$(record hurt l40s-r0)" "$(record hurt l40s-r2)" -o "$scratch/d.rematch.tar"
hurts "$(record hurt l40s-r2)" "$bin/rematch-report" --run "$hurt" -o "$hurt/report"

check "shard refuses a missing input" refuses nowhere "$bin/rematch-shard" -o "$scratch/x.shard" "$scratch/nowhere"
: >"$scratch/empty"
check "shard refuses an empty input" refuses x.shard "$bin/rematch-shard" -o "$scratch/x.shard" "$scratch/empty"
# bad_study NAME SED-EXPRESSION: the planner refuses the study so edited.
bad_study() {
    sed "$2" "$study" >"$scratch/$1.yaml"
    check "plan refuses a study: $1" refuses "$1.yaml" "$bin/rematch-plan" "$scratch/$1.yaml" -o "$scratch/bad"
}
bad_study unknown_key 's/^seed:/sead:/'
bad_study half_number 's/^seed: 1234/seed: 12x4/'
bad_study wrong_type 's/^baseline: h800/baseline: [h800]/'
bad_study truncated '/^targets:/,99d'
bad_study not_yaml 's/^model: {/model: {{/'
bad_study unknown_target 's/target: l40s/target: l41s/'
check "plan refuses a study that is not there" refuses none.yaml "$bin/rematch-plan" "$scratch/none.yaml" -o "$scratch/bad"
check "no plan was written" [ ! -e "$scratch/bad/points.jsonl" ]
check "an unknown point is a usage error that names it" refuses l40s-r99 "$bin/rematch-sweep" --run "$scratch/t1" --point l40s-r99

checks_end
