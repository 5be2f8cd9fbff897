#!/bin/bash
# test_trainer.sh - the trainers by hand: points made by options, and what must not be mixed or sealed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
export OMP_NUM_THREADS=1

run=$scratch/run
record() { echo "$run/records/$1.rematch.tar.zst"; }
sweep() { "$bin/rematch-sweep" --run "$run" "$@"; }
baseline() { "$bin/rematch-baseline" --run "$run" --point h800-r0 "$@"; }

mkdir -p "$run/shards"
cat tests/studies/tiny.yaml - >"$scratch/study.yaml" <<'END'
  - {target: l40s, recompute_num_layers: 2, storage: fp32}
  - {target: l40s, recompute_num_layers: 2, arithmetic: {recompute: truncating}, certificate: {on_mismatch: continue}}
END
check "plan" "$bin/rematch-plan" "$scratch/study.yaml" -o "$run"
check "shard" "$bin/rematch-shard" -o "$run/shards/tokens.shard" kernels

# ---- what is refused before it begins ----
check "an unknown device is refused" refuses quantum baseline --device quantum
check "a point needs the baseline's record" refuses h800-r0 sweep --point l40s-r2
check "the baseline is no point of a sweep" refuses h800-r0 sweep --point h800-r0

# ---- what a run wrote must still be there when it is sealed ----
live=$run/work/h800-r0
# Kills the baseline behind its branch at step 4; the plain loops are slow enough to be met there.
interrupt() {
    "$bin/rematch-baseline" --run "$run" --point h800-r0 --device reference >"$scratch/log" 2>&1 &
    local pid=$!
    until compgen -G "$live/checkpoint-[68]" >/dev/null || ! kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    [ -e "$live/branch.safetensors" ]
}
check "the baseline is interrupted behind its branch" interrupt
check "another device does not continue it" refuses checkpoint baseline
mv "$live/branch.safetensors" "$scratch/branch"
check "a branch that is gone is not sealed over" refuses branch.safetensors baseline --device reference
check "and nothing is sealed" [ ! -e "$(record h800-r0)" ]
head -c 1000 "$scratch/branch" >"$live/branch.safetensors"
check "a damaged branch is not sealed" refuses branch.safetensors baseline --device reference
cp "$scratch/branch" "$live/branch.safetensors"
check "with the whole one it is" baseline --device reference
rm "$(record h800-r0)"
check "the baseline runs on the CPU table" baseline

# ---- points made by options ----
check "a number of layers alone is full, block" sweep --point l40s-r0 --recompute-num-layers 3
check "and has the name that a study gives it" [ -e "$(record l40s-r3)" ]
check "precision changes the rest of the policy not" sweep --point l40s-r2 --recompute-precision fp32
check "and its name says so" [ -e "$(record l40s-r2-fp32)" ]
check "a mismatch stops a point with 3" exits 3 sweep --point l40s-r2 --fault rng-redrawn:layers=1
check "again without running" exits 3 sweep --point l40s-r2 --fault rng-redrawn:layers=1
check "unless it may continue" sweep --point l40s-r2 --fault rng-redrawn:layers=0 --on-mismatch continue
check "a fault that cannot act is refused" refuses "layer from 3 to 3" sweep --point l40s-r2 --fault rng-redrawn:layers=3

# ---- points that turn the dial ----
check "a run in FP32 branches from a trunk in BF16" sweep --point l40s-r2-fp32-storage
check "and has an r0 of its own" sweep --point l40s-r0-fp32-storage
check "a recompute truncates where its forward does not" sweep --point l40s-r2-truncating-recompute
# reports POINT PATTERN: the point in report.json holds the pattern.
reports() {
    "$bin/rematch-report" --run "$run" -o "$scratch/report" &&
        tr -d ' \n' <"$scratch/report/report.json" | sed 's/{"activation_bytes"/\n&/g' |
        grep "\"name\":\"$1\"" | grep -qE "$2"
}
check "one report has both storages" reports l40s-r2-fp32-storage '"against":.*"point":"l40s-r0-fp32-storage"'
check "and certifies FP32" reports l40s-r2-fp32-storage '"proof":"bit-exact".*"storage":"fp32"'
check "and not the truncating recompute" reports l40s-r2-truncating-recompute \
    '"recompute":"truncating".*"accused":"recompute".*"proof":"mismatch"'

# ---- one study, one text ----
check "another text" "$bin/rematch-shard" -o "$run/shards/tokens.shard" model
check "is not trained on" refuses tokens.shard sweep --point l40s-r4
check "nor from scratch" refuses tokens.shard sweep --point l40s-r4 --start scratch

checks_end
