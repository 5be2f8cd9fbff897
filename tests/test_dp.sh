#!/bin/bash
# test_dp.sh - data parallelism: 1, 2 and 4 ranks give the same bits, also through a kill and a stop; and however one rank
# fails, all of them end, at once, with one message.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
# shellcheck source=pipelines/mpi.sh
. pipelines/mpi.sh
export OMP_NUM_THREADS=1 REMATCH_BIN=$bin

# study DP: the tiny study on so many ranks, with an arithmetic replicate of what recomputes.
study() {
    sed -e "s/dp: 1/dp: $1/" -e 's/global_batch_size: 4/global_batch_size: 8/' -e 's/reduction_groups: 2/reduction_groups: 4/' \
        -e 's/^replicates: .*//' -e 's/num_layers: \[0, 2, 4\]/num_layers: 2, replicates: {arithmetic: 1}/' \
        tests/studies/tiny.yaml
}
record() { echo "$scratch/d$1/records/$2.rematch.tar.zst"; }

# ranks N COMMAND...: the command on N ranks; none of them may hang.
ranks() {
    mpi_launcher "$1"
    shift
    timeout 120 "${mpi[@]}" "$@"
}
# point DP NAME [OPTION...]: that point of the study for so many ranks, on as many.
point() {
    local dp=$1 name=$2 program=sweep
    shift 2
    [ "$name" != h800-r0 ] || program=baseline
    ranks "$dp" "$bin/rematch-$program" --run "$scratch/d$dp" --point "$name" "$@"
}
# begin DP RUN [STEPS]: a study for so many ranks in a folder of its own, planned and with its text.
begin() {
    mkdir -p "$scratch/$2/shards" && study "$1" | sed "s/steps: 12/steps: ${3:-12}/" >"$scratch/$2.yaml" &&
        "$bin/rematch-plan" "$scratch/$2.yaml" -o "$scratch/$2" &&
        "$bin/rematch-shard" -o "$scratch/$2/shards/tokens.shard" kernels
}
# says_once CODES TEXT COMMAND...: the exit status is one of CODES, and one line of a trainer says why, with the text.
says_once() {
    local codes=$1 text=$2 right=true
    shift 2
    exits "$codes" "$@" >"$scratch/said" 2>&1 || right=false
    cat "$scratch/said"
    [ "$(grep -c '^rematch-' "$scratch/said")" -eq 1 ] && grep -qF -- "$text" "$scratch/said" && $right
}

# ---- the same bits ----
# same_bits DP NAME [MEMBERS]: the point has the bits of one rank, but for the configuration, which says how many there are.
same_bits() {
    local members
    members=$(differing "$(record 1 "$2")" "$(record "$1" "$2")")
    echo "different: $members"
    [ "$members" = "${3:-config.json}" ]
}
# same_findings DP NAME: sums over differing values are rounded in another order; counts and first mismatch are the same.
same_findings() {
    same_bits "$1" "$2" "certificate.bin config.json" && tr -d ' \n' <"$scratch/diff.json" |
        grep -qE '"certificate":\{"a":(\{"compared":[1-9].*"mismatched":[1-9][0-9]*\}),"b":\1\}'
}

for dp in 1 4; do
    check "a study for $dp ranks" begin "$dp" "d$dp"
    for name in h800-r0 l40s-r2 l40s-r2-a1 l40s-r2-rng-redrawn; do check "$name on $dp ranks" point "$dp" "$name"; done
done
study 2 >"$scratch/d2.yaml"
check "study.sh runs it on 2 ranks" pipelines/study.sh "$scratch/d2.yaml" -o "$scratch/d2"
for dp in 2 4; do
    for name in h800-r0 l40s-r2 l40s-r2-a1; do check "$name has the same bits on $dp ranks" same_bits "$dp" "$name"; done
    check "l40s-r2-rng-redrawn finds the same on $dp ranks" same_findings "$dp" l40s-r2-rng-redrawn
done
drawn() { [[ $(differing "$(record 2 l40s-r2)" "$(record 2 l40s-r2-a1)") == *metrics.jsonl* ]]; }
check "orders drawn per call are other orders" drawn
certified() { grep -q '0 of 832 tensors mismatched' "$scratch/d2/report/report.md"; }
check "the report counts the tensors of both ranks" certified

# ---- a fault on one rank ----
fault=l40s-r2-rng-redrawn-rank=1
fault_on_1() { says_once 3 "$1" point 2 l40s-r2 --fault rng-redrawn:rank=1; }
check "a fault on rank 1 stops both ranks, and is named" \
    fault_on_1 'first in step 5, rank 1, layer 0, op attention_dropout (accused: recompute)'
check "and again, without running" fault_on_1 "'$fault' ended after step 5"
reports_rank() {
    "$bin/rematch-report" --baseline "$(record 2 l40s-r2)" --candidate "$(record 2 "$fault")" -o "$scratch/report" &&
        grep -q 'first mismatch: step 5, rank 1, layer 0, attention' "$scratch/report/report.md"
}
check "the report names the rank" reports_rank
check "a rank that there is not" says_once 2 "for rank 2, and there are 2" point 2 l40s-r2 --fault rng-redrawn:rank=2

# ---- kills and stops; steps enough to be met on their way ----
check "a longer study" begin 1 calm 60
check "undisturbed, on one rank" "$bin/rematch-baseline" --run "$scratch/calm" --point h800-r0
check "the same for 2 ranks" begin 2 rough 60
rough=("$bin/rematch-baseline" --run "$scratch/rough" --point h800-r0)
checkpoints() { compgen -G "$scratch/rough/work/h800-r0/checkpoint-*[0-9]"; }
process_of() { # MPIRUN RANK
    local child children
    mapfile -t -d ' ' children < <(cat /proc/"$1"/task/*/children)
    for child in "${children[@]}"; do
        ! tr '\0' '\n' <"/proc/$child/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" || echo "$child"
    done
}
# interrupted SIGNAL RANK: a checkpoint further, that rank (or mpirun) gets the signal; the exit status of the run.
interrupted() {
    local before pid code=0
    before=$(checkpoints)
    mpi_launcher 2
    "${mpi[@]}" "${rough[@]}" &
    pid=$!
    while [ -z "$(checkpoints)" ] || [ "$(checkpoints)" = "$before" ]; do
        kill -0 "$pid" || return 1
        sleep 0.02
    done
    kill "-$1" "$(if [ "$2" = mpirun ]; then echo "$pid"; else process_of "$pid" "$2"; fi)"
    wait "$pid" || code=$?
    return "$code"
}
check "rank 1 is killed" exits 137 interrupted KILL 1
check "rank 0 is killed" exits 137 interrupted KILL 0
check "both are asked to stop" says_once 75 "the same command continues" interrupted USR1 mpirun
check "the same command continues" ranks 2 "${rough[@]}"
undisturbed() { [ "$(differing "$scratch"/{calm,rough}/records/h800-r0.rematch.tar.zst)" = config.json ]; }
check "to the bits of the undisturbed run" undisturbed

# ---- what cannot begin, or fails on one rank ----
r3() { ranks "$1" "$bin/rematch-sweep" --run "$scratch/d2" --point l40s-r2 --recompute-num-layers 3; }
r4() { ranks "$1" "$bin/rematch-sweep" --run "$scratch/d2" --point l40s-r2 --recompute-num-layers 4; }
check "too few ranks" says_once 2 "runs on 2 ranks (dp 2 of target l40s), not on the 1 started: use mpirun -n 2" r3 1
check "too many ranks" says_once 2 "not on the 3 started" r3 3
# Rank 1 finds another run folder than rank 0.
mkdir -p "$scratch/other/shards"
cp "$scratch/d2/points.jsonl" "$scratch/other"
apart() {
    # shellcheck disable=SC2016 # expanded on the rank
    ranks 2 bash -c 'run=$2/d2; [ "$OMPI_COMM_WORLD_RANK" = 0 ] || run=$2/other
        exec "$1" --run "$run" --point l40s-r2 --recompute-num-layers 3' _ "$bin/rematch-sweep" "$scratch"
}
check "a text that is not on rank 1" says_once 1 "rank 1: '$scratch/other/shards/tokens.shard'" apart
head -c 5000 "$scratch/d2/shards/tokens.shard" >"$scratch/other/shards/tokens.shard"
check "a text that is damaged on rank 1" says_once 1 "rank 1: " apart
check "another text" "$bin/rematch-shard" -o "$scratch/other/shards/tokens.shard" model
check "on rank 1 is refused" says_once 1 "rank 1 was started with another point, text or device" apart
check "nothing was begun" [ ! -e "$scratch/d2/work/l40s-r3" ]
mkdir -p "$scratch/d2/work/l40s-r3/dump-6.safetensors"
check "a file that rank 0 cannot write, in the middle of a step" says_once 1 dump-6.safetensors r3 2
rmdir "$scratch/d2/work/l40s-r3/dump-6.safetensors"
check "and that it can" r3 2
mv "$(record 2 h800-r0)" "$scratch/away"
check "no record to branch from" says_once 1 "run rematch-baseline first" r4 2
sed 's/preset: tiny/preset: code-3b/; s/80GiB/9TiB/' "$scratch/d2.yaml" >"$scratch/big.yaml"
check "a study that two ranks of this machine have no memory for" "$bin/rematch-plan" "$scratch/big.yaml" -o "$scratch/big"
check "is not begun" says_once 1 " for 2: run it where the memory is" \
    ranks 2 "$bin/rematch-baseline" --run "$scratch/big" --point h800-r0
sed 's/cp: 1/cp: 2/' "$scratch/d2.yaml" >"$scratch/cp.yaml"
check "a study with context parallelism" "$bin/rematch-plan" "$scratch/cp.yaml" -o "$scratch/cp"
check "is not trained" says_once 2 "cp 2" ranks 4 "$bin/rematch-baseline" --run "$scratch/cp" --point h800-r0

checks_end
