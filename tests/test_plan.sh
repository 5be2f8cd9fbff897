#!/bin/bash
# test_plan.sh - rematch-plan: what it writes, that records protect the points they were made of, and how many layers
# it would recompute.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh

plan() { "$bin/rematch-plan" "$@"; }
run=$scratch/run
cp pipelines/studies/demo.yaml "$scratch/demo.yaml"

# ---- a study ----
check "the demo is planned" plan "$scratch/demo.yaml" -o "$run"
check "the study is kept beside its points" cmp "$scratch/demo.yaml" "$run/study.yaml"
check "a line for each point" [ "$(wc -l <"$run/points.jsonl")" -eq 8 ]
cp "$run/points.jsonl" "$scratch/first.jsonl"
check "planned again" plan "$scratch/demo.yaml" -o "$run"
check "planning again changes nothing" cmp "$scratch/first.jsonl" "$run/points.jsonl"

listed() { [ "$(plan --list "$run" | sed -n "$1p" | tr '\t' ' ')" = "$2" ] || { plan --list "$run"; return 1; }; }
check "the baseline is listed first" listed 1 "h800-r0 baseline 1 true - - corpus 1"
check "a replicate is compared with the baseline" listed 2 "h800-r0-a1 point 1 true h800-r0 h800-r0 corpus 1"
check "a target's r0 has no r0" listed 4 "l40s-r0 point 1 true - h800-r0 corpus 1"
check "a fault is compared with its target's r0" listed 8 "l40s-r24-rng-redrawn point 1 true l40s-r0 h800-r0 corpus 1"

sed -E 's/(name|target): l40s/\1: a-target-with-a-name-of-31-byte/' "$scratch/demo.yaml" >"$scratch/long.yaml"
aligned() {
    plan "$scratch/long.yaml" -o "$scratch/long" >"$scratch/table" && cat "$scratch/table" &&
        awk 'NR == 2 { at = index($0, "fits") } NR > 2 && substr($0, at, 3) != "yes" { exit 1 }' "$scratch/table"
}
check "columns stand below each other however long names are" aligned

json_points() { plan "$scratch/demo.yaml" -o "$run" --json | grep -c '"planned_activation_bytes"'; }
check "JSON holds every point" [ "$(json_points)" -eq 8 ]

# ---- a study that changes ----
sed 's/branch_at: 150/branch_at: 140/' "$scratch/demo.yaml" >"$scratch/other.yaml"
check "points without records may change" plan "$scratch/other.yaml" -o "$run"
check "and back" plan "$scratch/demo.yaml" -o "$run"
mkdir -p "$run/records"
check "an empty folder of records protects nothing" plan "$scratch/other.yaml" -o "$run"
check "and back again" plan "$scratch/demo.yaml" -o "$run"
touch "$run/records/h800-r0.rematch.tar.zst"
check "points with records may not change" refuses "$run/points.jsonl:1" plan "$scratch/other.yaml" -o "$run"
check "the refusal says what to do" grep -q "another folder with -o" "$scratch/refusal"
check "a refused plan leaves the points alone" cmp "$scratch/first.jsonl" "$run/points.jsonl"
check "a refused plan leaves the study alone" cmp "$scratch/demo.yaml" "$run/study.yaml"
head -n -2 "$scratch/demo.yaml" >"$scratch/fewer.yaml"
check "points with records may not go" refuses "$run/points.jsonl" plan "$scratch/fewer.yaml" -o "$run"
cp "$scratch/demo.yaml" "$scratch/more.yaml"
echo "  - {target: l40s, recompute_num_layers: 8}" >>"$scratch/more.yaml"
check "points may be added at the end" plan "$scratch/more.yaml" -o "$run"
check "added points leave the others as they were" cmp <(head -n 8 "$run/points.jsonl") "$scratch/first.jsonl"

# ---- refusals ----
check "a study that is not there" refuses "$scratch/absent.yaml" plan "$scratch/absent.yaml" -o "$run"
check "a run without points" refuses "$scratch/nowhere" plan --list "$scratch/nowhere"
sed 's/steps: 250/steps: 2e2/' "$scratch/demo.yaml" >"$scratch/wrong.yaml"
check "a wrong study, with its line" refuses "wrong.yaml:13: steps '2e2'" plan "$scratch/wrong.yaml" -o "$scratch/new"
mkdir -p "$scratch/text/made"
sed 's/^data: .*/data: {source: .}/' "$scratch/demo.yaml" >"$scratch/text/study.yaml"
inside() { (cd "$scratch/text" && "$bin/rematch-plan" study.yaml -o "$1"); }
check "a source that will hold the run" refuses "data.source '.' holds the run's folder 'deep/new'" inside deep/new
check "a source that holds the run" refuses "with -o" inside "$scratch/text/made"
check "a run outside of its source" inside ../outside
check "a refused source makes no folder" [ ! -e "$scratch/text/deep" ]
check "a refused study makes no folder" [ ! -e "$scratch/new" ]
check "no arguments" exits 2 plan
check "a study without -o" exits 2 plan "$scratch/demo.yaml"
check "--search is not there yet" exits 2 plan --search "$run"

# ---- how many layers ----
fit() { plan --fit --preset code-3b "$@"; }
recommends() { fit "${@:2}" | grep -qF -- "--recompute-granularity full --recompute-method block --recompute-num-layers $1"; }
check "48 GiB store everything when 4 x 2 ranks share" recommends 0 --memory 48GiB --dp 4 --cp 2
check "48 GiB recompute 13 layers without context parallelism" recommends 13 --memory 48GiB --dp 8
check "too little memory is an answer: exit 3" exits 3 fit --memory 8GiB --dp 8
check "half-parsed memory is refused" exits 2 fit --memory 48GiBs
check "a sequence that cp does not divide" exits 2 fit --memory 48GiB --cp 3
check "--fit needs a preset" exits 2 plan --fit --memory 48GiB
check "fit settings without --fit" exits 2 plan --memory 48GiB "$scratch/demo.yaml" -o "$run"
smallest() { fit --memory 48GiB --dp 8 --json | grep -q '"smallest": 13'; }
check "JSON says the same" smallest

checks_end
