#!/bin/bash
# test_pipeline.sh - study.sh before and around the training: how it is called, what it refuses, how it stops.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
here=$PWD study=$PWD/tests/studies/tiny.yaml
export REMATCH_BIN=$bin

# Runs begin here, and what is refused leaves it empty.
mkdir "$scratch/place"
study_sh() { (cd "$scratch/place" && "$here/pipelines/study.sh" "$@"); }
nothing_made() { [ -z "$(ls -A "$scratch/place")" ] || { find "$scratch/place"; return 1; }; }

# ---- how it is called ----
helps() { study_sh --help | grep -q '^usage: study.sh'; }
check "--help" helps
check "no study" exits 2 study_sh
mkdir "$scratch/tools"
for tool in bash cat dirname readlink basename nproc; do ln -s "$(command -v "$tool")" "$scratch/tools/$tool"; done
without_mpirun() { (PATH=$scratch/tools study_sh "$study"); }
check "without mpirun: a remedy" refuses "make deps" without_mpirun
other_programs() { REMATCH_BIN=$scratch study_sh "$study"; }
check "programs that are not where REMATCH_BIN says" refuses "no rematch-plan in $scratch" other_programs
ln -s "$here/pipelines/study.sh" "$scratch/link"
echo 'study: 1' >"$scratch/bad.yaml"
linked() { (cd "$scratch/place" && "$scratch/link" "$scratch/bad.yaml"); }
check "started through a link" refuses "rematch-plan: " linked
check "nothing is left by what was refused" nothing_made

# ---- what it refuses before training ----
sed 's/name: l40s\(.*\)cp: 1/name: l40s\1cp: 2/' "$study" >"$scratch/split.yaml"
split() { study_sh "$scratch/split.yaml" -o "$scratch/split"; }
check "context parallelism" refuses "l40s-r0 (cp 2): this version only plans context parallelism" split
check "before anything is trained" [ ! -e "$scratch/split/work" ]
sed 's/source: kernels/source: ./' "$study" >"$scratch/inside.yaml"
check "a source that holds the run" refuses "data.source '.'" study_sh "$scratch/inside.yaml"
check "and nothing is left" nothing_made

# ---- how it stops: a trainer that says which signal it got ----
mkdir "$scratch/bin"
for program in plan shard; do ln -s "$bin/rematch-$program" "$scratch/bin"; done
cat >"$scratch/bin/rematch-baseline" <<'TRAINER'
#!/bin/bash
for signal in TERM HUP USR1; do trap "echo $signal >'$SIGNALLED'; exit 75" "$signal"; done
echo ready >"$SIGNALLED"
for ((i = 0; i < 1000; i++)); do sleep 0.02; done
TRAINER
chmod +x "$scratch/bin/rematch-baseline"

# stopped SIGNAL: study.sh gets it while the trainer runs; its exit status.
stopped() {
    local code=0 pid
    export SIGNALLED=$scratch/signalled
    rm -f "$SIGNALLED"
    # Under nohup a shell could not take SIGHUP back.
    REMATCH_BIN=$scratch/bin env --default-signal=HUP pipelines/study.sh "$study" -o "$scratch/stopped" &
    pid=$!
    for ((i = 0; i < 1000; i++)); do
        [ ! -s "$SIGNALLED" ] || break
        sleep 0.02
    done
    kill "-$1" "$pid"
    wait "$pid" || code=$?
    return "$code"
}
for signal in TERM HUP; do
    check "$signal stops a study" exits 75 stopped "$signal"
    check "and its trainer is asked to end in order" grep -qx USR1 "$scratch/signalled"
done

checks_end
