#!/bin/bash
# corpus.sh - real source code that this machine has already: no network, the same files in the same order every time.
#
#   corpus.sh OUT_FOLDER [--bytes N] [--source auto|python|c|DIR]
#
# Writes OUT_FOLDER/files.list (a path a line, for rematch-shard --list) and OUT_FOLDER/manifest.tsv (path, bytes,
# sha256, package, version). The order is that of the sha256 of the contents: shuffled, so that the parts of a split are
# alike. Equal files come together in it, and all but the first are left out: no text is both trained on and held out.
set -euo pipefail
export LC_ALL=C.UTF-8

usage="usage: corpus.sh OUT_FOLDER [--bytes N] [--source auto|python|c|DIR]"
out=
bytes=$((4 << 20))
source=auto

fail() {
    printf 'corpus.sh: %s\n' "$2" >&2
    exit "$1"
}

while (($#)); do
    case $1 in
    --bytes)
        bytes=${2-}
        shift
        ;;
    --source)
        source=${2-}
        shift
        ;;
    --help)
        printf '%s\n' "$usage"
        exit 0
        ;;
    -*) fail 2 "unknown option '$1'; $usage" ;;
    *)
        [[ -z $out ]] || fail 2 "two output folders, '$out' and '$1'; $usage"
        out=$1
        ;;
    esac
    shift || fail 2 "the last option lacks its value; $usage"
done
[[ -n $out ]] || fail 2 "no output folder; $usage"
[[ $bytes =~ ^[1-9][0-9]{0,14}$ ]] || fail 2 "--bytes '$bytes': expected a whole number of bytes, at least 1"
[[ $source =~ ^(auto|python|c)$ || -d $source ]] || fail 2 "--source '$source': expected auto, python, c or a folder"

# candidates PATTERN FOLDER...: "bytes<TAB>path" of the files below the folders that exist. Names with control characters
# would break the lines of a list, those that are not UTF-8 a record. What this script writes is no source.
candidates() {
    local pattern=$1 folder
    for folder in "${@:2}"; do
        [[ ! -d $folder ]] ||
            find "$folder" -samefile "$out" -prune -o -type f -name "$pattern" -size +0 ! -name '*[[:cntrl:]]*' ! -path '*/test/*' \
                ! -path '*/tests/*' ! -path '*/dist-packages/*' ! -path '*/site-packages/*' -printf '%s\t%p\n'
    done | { grep -ax '.*' || [[ $? == 1 ]]; }
}

python_library() { candidates '*.py' /usr/lib/python3.*/; }

c_headers() { candidates '*.h' /usr/include/ /usr/lib/gcc/*/*/include/; }

collect() {
    case $source in
    python) python_library ;;
    c) c_headers ;;
    auto) python_library | grep . || c_headers ;;
    *) candidates '*' "$source" ;;
    esac
}

# Of the paths on stdin, those of text: no line that is not UTF-8, no NUL. grep ends with 1 when it selects nothing.
only_text() {
    xargs -r -d '\n' sh -c 'grep -aLxv ".*" -- "$@" || [ $? = 1 ]' sh |
        xargs -r -d '\n' sh -c 'grep -aLP "\x00" -- "$@" || [ $? = 1 ]' sh
}

# "path<TAB>package<TAB>version" of what is on stdin, as far as dpkg knows; one call each.
packages() {
    command -v dpkg-query >/dev/null || return 0
    { xargs -r -d '\n' dpkg-query --search -- 2>/dev/null || true; } |
        sed -n 's/^\([^,]*\): \(\/.*\)$/\2\t\1/p' >"$work/owners"
    # shellcheck disable=SC2016 # dpkg-query expands these, not the shell
    local format='${binary:Package}\t${Package}\t${Version}\n'
    cut -f2 "$work/owners" | sort -u | xargs -r dpkg-query --show --showformat "$format" |
        awk -F'\t' 'NR == FNR { version[$1] = version[$2] = $3; next } { print $0 "\t" version[$2] }' \
            - "$work/owners"
}

[[ $source != -* ]] || source=./$source # not an option of find
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

collect >"$work/found"
[[ -s $work/found ]] ||
    fail 1 "source '$source': no source code found; apt-get install libpython3-stdlib, or name a folder: --source DIR"

cut -f2 "$work/found" | only_text | xargs -r -d '\n' sha256sum -- |
    sed 's/^\([0-9a-f]*\)  /\1\t/' | LC_ALL=C sort >"$work/hashed"

# Whole files in order of hash until one does not fit. Filling the rest with smaller ones would make the end of the
# list, which is the held-out part, unlike its beginning.
awk -F'\t' -v OFS='\t' -v most="$bytes" '
    NR == FNR { size[$2] = $1; next }
    $1 == last || full { next }
    { last = $1 }
    sum + size[$2] > most { full = sum > 0; next }
    { print $2, size[$2], $1; sum += size[$2] }' "$work/found" "$work/hashed" >"$work/chosen"
[[ -s $work/chosen ]] || fail 1 "source '$source': no text file of at most $bytes bytes found; raise --bytes"

cut -f1 "$work/chosen" >"$work/files.list"
packages <"$work/files.list" >"$work/packages"
awk -F'\t' -v OFS='\t' '
    BEGIN { print "path", "bytes", "sha256", "package", "version" }
    FILENAME == ARGV[1] { package[$1] = $2; version[$1] = $3; next }
    { print $0, package[$1], version[$1] }' "$work/packages" "$work/chosen" >"$work/manifest.tsv"

# The list last: whoever finds it finds both.
for file in manifest.tsv files.list; do
    cp "$work/$file" "$out/$file.partial"
    mv "$out/$file.partial" "$out/$file"
done
awk -F'\t' -v out="$out" 'NR > 1 { files++; sum += $2 } END { printf "%s: %d files, %d bytes\n", out, files, sum }' \
    "$out/manifest.tsv"
