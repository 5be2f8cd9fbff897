# shellcheck shell=bash
# checks.sh - sourced by the shell tests: a folder of their own, counted checks, and the question whether two records are
# identical. A test ends with `checks_end`.

passed=0 failed=0
bin=$(realpath "${REMATCH_BIN:-build/cpu/bin}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# check NAME COMMAND...: one check, passed when the command succeeds; shows what a failing one printed.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/check.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        sed 's/^/    /' "$scratch/check.log"
    fi
}

# exits CODES COMMAND...: the command's exit status is one of CODES ("1 2").
exits() {
    local code=0 codes=$1
    shift
    "$@" || code=$?
    [[ " $codes " == *" $code "* ]] || { echo "exit status $code, expected one of: $codes"; return 1; }
}

# refuses FILE COMMAND...: exit status 1 or 2, and a message on stderr that names the file.
refuses() {
    local file=$1
    shift
    exits "1 2" "$@" >/dev/null 2>"$scratch/refusal" || { cat "$scratch/refusal"; return 1; }
    cat "$scratch/refusal"
    grep -qF -- "$file" "$scratch/refusal" || { echo "the message does not name '$file'"; return 1; }
}

# identical A B: all members of two records but the measured ones have the same bytes.
identical() {
    local members
    "$bin/rematch-diff" "$1" "$2" -o "$scratch/identical.rematch.tar" --json >"$scratch/identical.json" || return 1
    members=$(sed -n '/"members": {/,/}/p' "$scratch/identical.json")
    grep -q '"final.safetensors": "equal"' <<<"$members" || { echo "$members"; return 1; }
    ! grep -E '"(differs|only_a|only_b)"' <<<"$members"
}

# differing A B: the members of two records that differ, measured ones aside, in a line; leaves diff.json.
differing() {
    "$bin/rematch-diff" "$1" "$2" -o "$scratch/diff.rematch.tar" --json >"$scratch/diff.json" &&
        sed -n '/"members": {/,/}/s/^ *"\(.*\)": "\(differs\|only_a\|only_b\)",*$/\1/p' "$scratch/diff.json" | xargs
}

checks_end() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
