#!/bin/bash
# run.sh - runs test programs, two at a time, and sums what they report.
#
#   tests/run.sh BUILD-FOLDER PROGRAM...
#
# A Check program reports "100%: Checks: N, Failures: F, Errors: E"; a script ends with "N passed, N failed". A line
# "SKIP <reason>" counts a check as skipped. A program that fails without a failed check, or reports nothing, is one
# failure. The last line is "N passed, N failed[, N skipped]"; the exit status is 1 when anything failed.
set -uo pipefail

build=${1:?which build folder?}
shift
# Two programs share two cores; a test of threads sets its own count.
export REMATCH_BIN=$build/bin OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-300}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
at_once=${TEST_JOBS:-2} limit_s=${TEST_LIMIT_S:-900}

logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

# Runs program $1, leaves its output and "<exit status> <seconds>" under the number $2.
run_one() {
    local from=$SECONDS code=0 child
    timeout "$limit_s" "$1" >"$logs/$2.out" 2>&1 &
    child=$!
    # shellcheck disable=SC2064 # this child
    trap "kill $child 2>/dev/null; exit" TERM
    wait "$child" || code=$?
    echo "$code $((SECONDS - from))" >"$logs/$2.end"
}

# Prints "<passed> <failed> <skipped>" of the program whose output is file $1 and exit status is $2.
count() {
    awk -v code="$2" '
        /^SKIP / { skipped++ }
        /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+$/ {
            gsub(/[^0-9 ]/, ""); passed += $2 - $3 - $4; failed += $3 + $4; reported = check = 1
        }
        { last = $0 }
        END {
            if (check)
                passed -= skipped
            else if (last ~ /^[0-9]+ passed, [0-9]+ failed/) {
                split(last, word, " "); passed = word[1]; failed = word[3]; reported = 1
            }
            if (!failed && (code != 0 || !reported))
                failed = 1
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

number=0
for program in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
    run_one "$program" "$number" &
    number=$((number + 1))
done
wait

passed=0 failed=0 skipped=0 number=0
for program in "$@"; do
    read -r code seconds <"$logs/$number.end"
    read -r p f s < <(count "$logs/$number.out" "$code")
    printf '%-6s %4d passed %2d failed %2d skipped %4d s  %s\n' \
        "$([ "$f" -eq 0 ] && echo ok || echo FAILED)" "$p" "$f" "$s" "$seconds" "$(basename "$program")"
    if [ "$f" -gt 0 ]; then
        [ "$code" -ne 124 ] || echo "stopped after $limit_s s"
        sed 's/^/    /' "$logs/$number.out"
        echo "    (exit status $code)"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) number=$((number + 1))
done
grep -h '^SKIP ' "$logs"/*.out
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
