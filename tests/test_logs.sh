#!/bin/bash
# test_logs.sh - rematch-report on logs, as it is called.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
logs=tests/logs

report() { "$bin/rematch-report" "$@" -o "$scratch/report"; }
says() { grep -qF -- "$1" "$scratch/report/report.md" || { cat "$scratch/report/report.md"; return 1; }; }

check "two logs" report --baseline $logs/megatron_r07_none.log --candidate full=$logs/megatron_r07.log
check "the report has its pages" [ -s "$scratch/report/report.html" ]
check "it says what differs" says "full and megatron\\_r07\\_none.log differ in recompute\\_granularity: full against None."
check "a compressed log is the same log" report --baseline $logs/nanogpt.log --candidate zst=$logs/nanogpt.log.zst
check "and IDENTICAL" says "loss IDENTICAL (at the printed precision of 5 digits)"
check "a run of a file" report --baseline $logs/wandb.csv#b --candidate "$logs/wandb.csv#run - a"
check "several runs and none named" exits 2 report --baseline $logs/wandb.csv --candidate $logs/table.tsv
check "an unknown text" exits 1 report --baseline tests/logs/../test_logs.sh --candidate $logs/table.tsv
check "it says so" refuses "not recognised as a log or a record" report --baseline tests/test_logs.sh --candidate $logs/table.tsv
check "an unknown setting to allow" exits 2 report --allow nothing --baseline $logs/table.tsv --candidate $logs/table.tsv
check "a verdict to fail on" exits 3 report --fail-on IDENTICAL --baseline $logs/table.tsv --candidate b=$logs/table.tsv
lists() { "$bin/rematch-report" --logs | grep -q '^torchtitan'; }
check "what is recognised" lists

checks_end
