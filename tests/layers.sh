#!/bin/bash
# layers.sh - the arrows between the rooms: who may include whom, and that only stages/ prints or exits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

broken=0
complain() {
    echo "$1" >&2
    broken=1
}

# Every quoted include of room $1 must match $2.
includes() {
    local room=$1 allowed=$2 line
    while IFS= read -r line; do
        [[ $line =~ \#[[:space:]]*include[[:space:]]*\"($allowed)\" ]] || complain "$line: $room/ may only include $allowed"
    done < <(grep -rnE --include='*.[ch]' --include='*.cu' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$room")
}

includes kernels 'kernels/[^"]*'
includes data 'data/[^"]*|kernels/(status|tensor)\.h'
includes model '(model|kernels)/[^"]*'
includes stages '(stages|model|kernels|data)/[^"]*'

# Comments may speak of printing, so they are taken out first (without expanding anything).
forbidden='(^|[^A-Za-z0-9_])((v?printf|puts|putchar|perror|exit|_exit|abort) *\(|stdout|stderr)'
for file in $(find kernels data model -name '*.[ch]' | sort); do
    if found=$(gcc -fpreprocessed -dD -E -P -x c "$file" 2>/dev/null | grep -E "$forbidden"); then
        complain "$file: prints or exits, below stages/: $found"
    fi
done

exit "$broken"
