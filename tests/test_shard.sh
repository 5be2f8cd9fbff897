#!/bin/bash
# test_shard.sh - corpus.sh and rematch-shard: what becomes text, and what does not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
shard() { "$bin/rematch-shard" "$@"; }

text=$scratch/text
mkdir "$text"
echo one >"$text/a"
echo two >"$text/b"

# says PATTERN COMMAND...: the command works, and prints the pattern.
says() { "${@:2}" | tee "$scratch/said" | grep -qF -- "$1" || { cat "$scratch/said"; return 1; }; }

# ---- the shard is not its own text ----
check "a shard in its own folder" says "2 documents" shard -o "$text/tokens.shard" "$text"
cp "$text/tokens.shard" "$scratch/first"
echo "left by a killed writer" >"$text/tokens.shard.partial"
check "and again" says "2 documents" shard -o "$text/tokens.shard" "$text"
check "gives the same shard" cmp "$scratch/first" "$text/tokens.shard"
cp "$text/a" "$scratch/kept"
ln -s a "$text/link"
for output in a ./a link; do
    check "an input is not overwritten as $output" refuses "$text/$output" shard -o "$text/$output" "$text/a"
done
echo "$text/a" >"$scratch/list"
check "nor one of a list" refuses "$text/a" shard -o "$text/a" --list "$scratch/list"
check "nor the list" refuses "$scratch/list" shard -o "$scratch/list" --list "$scratch/list"
check "inputs are as they were" cmp "$text/a" "$scratch/kept"

# ---- names ----
echo three >"$scratch/-o"
dashed() { (cd "$scratch" && "$bin/rematch-shard" -o dashed.shard -- -o); }
check "a name that begins with - after --" says "1 documents" dashed
mkdir "$scratch/latin"
echo four >"$scratch/latin/"$'caf\xe9'
check "a name that is not UTF-8" refuses "latin/caf\\xe9'" shard -o "$scratch/latin.shard" "$scratch/latin"
check "leaves no shard" [ ! -e "$scratch/latin.shard" ]

# ---- outputs ----
check "an output that is a folder" refuses "$text" shard -o "$text" "$scratch/kept"
check "an output in no folder" refuses "make it" shard -o "$scratch/nowhere/x" "$scratch/kept"
full_output() { shard -o "$scratch/x.shard" "$scratch/kept" >/dev/full; }
check "a full standard output" exits 1 full_output

# ---- the corpus of a folder ----
code=$scratch/code
mkdir -p "$code/deep"
echo 'int a;' >"$code/a.c"
echo 'int a;' >"$code/deep/same.c"
echo 'int b;' >"$code/deep/b.c"
printf 'x\0y\n' >"$code/binary"
echo 'int c;' >"$code/"$'latin\xe9.c'
corpus() { data/corpus.sh "$@"; }
listed() { sort "$code/out/files.list" | diff - <(printf '%s\n' "$@"); }
for time in first second; do
    check "a corpus within its source, the $time time" corpus "$code/out" --source "$code"
    check "is the text in it, once" listed "$code/a.c" "$code/deep/b.c"
done
check "a list becomes a shard" says "2 documents" shard -o "$scratch/list.shard" --list "$code/out/files.list"
check "a corpus holds whole files up to its bytes" says "1 files, 7 bytes" corpus "$scratch/few" --source "$code" --bytes 13
check "a corpus of nothing" refuses "$code/none" corpus "$scratch/few" --source "$code/none"
check "a corpus without a folder" exits 2 corpus

checks_end
