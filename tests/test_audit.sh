#!/bin/bash
# test_audit.sh - audits of whole runs: the run does not notice them, they are the same on any number of ranks and through
# a kill and a stop, and the report tells noise from a gain.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh
export OMP_NUM_THREADS=1

# study DP AUDIT: the tiny study on so many ranks, with these audits, and rebuilds that are cut toward zero.
study() {
    sed -e "s/dp: 1/dp: $1/" -e "s/^audit: .*/audit: {$2}/" -e 's/global_batch_size: 4/global_batch_size: 8/' \
        -e 's/reduction_groups: 2/reduction_groups: 4/' -e 's/^replicates: .*//' tests/studies/tiny.yaml
    echo "  - {target: l40s, recompute_num_layers: 3, arithmetic: {recompute: to-zero}, certificate: {on_mismatch: continue}}"
}
# begin RUN DP AUDIT: that study in a folder of its own, planned and with its text.
begin() {
    mkdir -p "$scratch/$1/shards" && study "$2" "$3" >"$scratch/$1.yaml" &&
        "$bin/rematch-plan" "$scratch/$1.yaml" -o "$scratch/$1" &&
        "$bin/rematch-shard" -o "$scratch/$1/shards/tokens.shard" kernels
}
# point RUN DP NAME [OPTION...]: that point on so many ranks.
point() {
    local run=$1 name=$3 program=sweep
    mpi_launcher "$2"
    shift 3
    [ "$name" != h800-r0 ] || program=baseline
    timeout 120 "${mpi[@]}" "$bin/rematch-$program" --run "$scratch/$run" --point "$name" "$@"
}
record() { echo "$scratch/$1/records/$2.rematch.tar.zst"; }
# differs_in MEMBERS A B
differs_in() {
    local members
    members=$(differing "$2" "$3")
    echo "different: $members"
    [ "$members" = "$1" ]
}
audits() { tar -xOf "$(record "$1" "$2")" audits.jsonl; }

biased=l40s-r3-to-zero-recompute
names=(h800-r0 l40s-r2 "$biased")
for run in "plain 1 every: 0" "one 1 every: 2, frozen: 16" "two 2 every: 2, frozen: 16"; do
    read -r name dp audit <<<"$run"
    check "a study, $name" begin "$name" "$dp" "$audit"
    for p in "${names[@]}"; do check "$p, $name" point "$name" "$dp" "$p"; done
done

# ---- the run does not notice, and ranks do not matter ----
check "what stores everything takes no audits" differs_in "config.json" "$(record plain h800-r0)" "$(record one h800-r0)"
for p in "${names[@]:1}"; do
    check "$p is the same with audits" differs_in "audits.jsonl config.json" "$(record plain "$p")" "$(record one "$p")"
    check "$p, a line for each audit" [ "$(audits one "$p" | wc -l)" -eq 20 ]
    check "$p, at frozen weights first" [ "$(audits one "$p" | head -16 | grep -c '^{"step":\([5-9]\|1[0-9]\|20\),"frozen":true,')" -eq 16 ]
    check "$p, controls proven" [ "$(audits one "$p" | grep -c '"expected":\([1-9][0-9]*\),"compared":\1,"mismatched":0}')" -eq 20 ]
done
same_audits() { cmp <(audits one "$1") <(audits two "$1"); }
for p in "${names[@]:1}"; do check "2 ranks give the audits of one: $p" same_audits "$p"; done

# ---- kills and stops ----
check "a study to interrupt" begin rough 1 "every: 2, frozen: 16"
cp -r "$scratch/one/records" "$scratch/rough/records"
rm "$(record rough "$biased")"
live=$scratch/rough/work/$biased
# interrupted SIGNAL FILE: the signal, once the live folder has such a file with a byte in it; the exit status of the run.
interrupted() {
    local pid code=0
    "$bin/rematch-sweep" --run "$scratch/rough" --point "$biased" &
    pid=$!
    until compgen -G "$live/$2" >/dev/null && [ -s "$(compgen -G "$live/$2" | head -1)" ]; do
        kill -0 "$pid" || return 1
        sleep 0.01
    done
    kill "-$1" "$pid"
    wait "$pid" || code=$?
    return "$code"
}
check "stopped among the audits at frozen weights" exits 75 interrupted USR1 audits.jsonl
check "it leaves no checkpoint" [ -z "$(compgen -G "$live/checkpoint-*")" ]
check "killed among them" exits 137 interrupted KILL audits.jsonl
check "killed behind a checkpoint" exits 137 interrupted KILL "checkpoint-*[0-9]/commit.json"
check "the same command continues" point rough 1 "$biased"
check "to the bits of the undisturbed run" differs_in "" "$(record one "$biased")" "$(record rough "$biased")"

# ---- by hand ----
check "audits of a point that was planned without" point plain 1 l40s-r2 --audit 3
check "have a record of their own" [ "$(audits plain l40s-r2-audit3 | wc -l)" -eq 3 ]
check "whose run is the same" differs_in "audits.jsonl config.json" "$(record plain l40s-r2)" "$(record plain l40s-r2-audit3)"
check "where nothing is recomputed there is nothing to audit" refuses "--audit 3" point plain 1 l40s-r0 --audit 3
check "too many" refuses "1024" point plain 1 l40s-r2 --audit 1025

# ---- the report ----
check "the report" "$bin/rematch-report" --run "$scratch/one" -o "$scratch/report"
exact='The gradient of l40s-r2 equals the one without recompute in all its elements: 16 audits at the weights of step 4.'
check "exact recompute is called so" grep -qF "$exact" "$scratch/report/report.md"
gain="What recompute adds to the gradient in $biased is no mere noise (bias and gain; 16 audits at the weights of step 4)"
check "and cutting toward zero both a bias and a gain" grep -qF "$gain" "$scratch/report/report.md"
tabled() { grep -q "^|$biased, frozen|0|0\.[0-9]* %|" "$scratch/report/report.md" && grep -q "<td>$biased, frozen" "$scratch/report/report.html"; }
check "layer by layer" tabled
json() { tr -d ' \n' <"$scratch/report/report.json" | grep -qE "$1"; }
check "and in JSON" json '"audits":\{"frozen":\{"audits":16,"conclusion":"biasandgain","constant":\{"adjusted_p":[0-9.e-]+,'
check "runs without audits have none" json '"audits":null'

checks_end
