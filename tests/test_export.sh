#!/bin/bash
# test_export.sh - a record's weights out into a Hugging Face folder, and a study that starts from one.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
export REMATCH_BIN=$bin OMP_NUM_THREADS=2

export_record() { "$bin/rematch-export" "$@"; }
record() { echo "$scratch/$1/records/$2.rematch.tar.zst"; }

# ---- out ----
mkdir -p "$scratch/first/shards"
check "plan" "$bin/rematch-plan" tests/studies/tiny.yaml -o "$scratch/first"
check "shard" "$bin/rematch-shard" -o "$scratch/first/shards/tokens.shard" kernels
check "the baseline trains" "$bin/rematch-baseline" --run "$scratch/first" --point h800-r0
out=$scratch/models/first
check "its weights are exported" export_record "$(record first h800-r0)" -o "$out"
check "as a folder of two files" [ "$(ls "$out")" = $'config.json\nmodel.safetensors' ]
check "of a Llama" grep -q '"model_type": "llama"' "$out/config.json"
check "in the run's storage" grep -q '"torch_dtype": "bfloat16"' "$out/config.json"
check "that says what Hugging Face asks for" grep -aq '"format":"pt"' "$out/model.safetensors"
check "a folder that is there is refused" refuses "$out" export_record "$(record first h800-r0)" -o "$out"
check "a record that is not there is refused" refuses nowhere export_record nowhere -o "$scratch/models/none"
"$bin/rematch-diff" "$(record first h800-r0)" "$(record first h800-r0)" -o "$scratch/d.rematch.tar" >"$scratch/log"
check "a record without weights is refused" refuses d.rematch.tar export_record "$scratch/d.rematch.tar" -o "$scratch/models/none"
check "and leaves nothing behind" [ "$(ls "$scratch/models")" = first ]
check "one record at a time" exits 2 export_record a b -o c
check "a record without a folder" exits 2 export_record a

# ---- in: at a learning rate of 0 a study ends with the weights that it began with ----
sed -e "s|^model: .*|model: {checkpoint: $out, hidden_dropout: 0.1}|" -e 's/lr: 1e-3, min_lr: 1e-4/lr: 0/' \
    -e 's/^study: .*/study: second/' -e 's/arithmetic: 1, seed: 0/arithmetic: 0, seed: 1/' \
    -e 's/^.*fault: .*/  - {target: h800, recompute_num_layers: 2, start: scratch}/' tests/studies/tiny.yaml >"$scratch/still.yaml"
check "a study starts from the folder" pipelines/study.sh "$scratch/still.yaml" -o "$scratch/second"
for point in h800-r0 l40s-r4 h800-r2-scratch h800-r0-s1; do
    check "$point is exported" export_record "$(record second "$point")" -o "$scratch/models/$point"
    check "$point has the weights that it began with" cmp "$out/model.safetensors" "$scratch/models/$point/model.safetensors"
done
check "and the model is the same" cmp "$out/config.json" "$scratch/models/h800-r0/config.json"
sed 's/lr: 0,/lr: 1e-3,/' "$scratch/still.yaml" >"$scratch/moving.yaml"
check "the report is made" [ -s "$scratch/second/report/report.html" ]

# ---- what a study may say beside a checkpoint, and what it must not ----
plan() { "$bin/rematch-plan" "$scratch/$1.yaml" -o "$scratch/${2-bad}"; }
# bad_model NAME MODEL MESSAGE
bad_model() {
    sed "s|^model: .*|model: {$2}|" "$scratch/still.yaml" >"$scratch/$1.yaml"
    check "plan refuses: $1" refuses "$1.yaml:4: $3" plan "$1"
}
bad_model neither "hidden_dropout: 0.1" "model: give a preset, or the checkpoint to start from"
bad_model preset_too "preset: tiny, checkpoint: $out" "preset: the checkpoint says it"
bad_model another_shape "checkpoint: $out, layers: 2" "layers: the checkpoint says it"
bad_model absent "checkpoint: $scratch/models/none" "'$scratch/models/none/config.json': cannot open"

# ---- a checkpoint that changes ----
check "planned" plan moving third
mkdir -p "$scratch/third/shards"
cp "$scratch/second/shards/tokens.shard" "$scratch/third/shards/"
sed -i 's/"rope_theta": 10000.0/"rope_theta": 20000.0/' "$out/config.json"
check "another checkpoint is not trained from" refuses "'$out': is another checkpoint" \
    "$bin/rematch-baseline" --run "$scratch/third" --point h800-r0
check "and not planned over records" refuses "$scratch/second/points.jsonl:1" plan still second
sed -i 's/"rope_theta": 20000.0/"rope_theta": 10000.0/' "$out/config.json"
check "the old one is" "$bin/rematch-baseline" --run "$scratch/third" --point h800-r0
check "and moves" export_record "$(record third h800-r0)" -o "$scratch/models/third"
check "away from where it began" exits 1 cmp "$out/model.safetensors" "$scratch/models/third/model.safetensors"
rm -r "$out"
check "a branch needs the trunk's record alone" "$bin/rematch-sweep" --run "$scratch/third" --point l40s-r2

checks_end
