#!/bin/bash
# deps.sh - the packages that Rematch is built and tested with; installs those that are missing.
#
#   deps.sh            what `make study` and `make check` need
#   deps.sh --lint     what `make lint` needs as well
#   deps.sh --bench    what `make bench` needs as well
#   deps.sh --python   what tests/venv.sh needs as well
#
# Without apt it prints the list. REMATCH_DEPS=present says that their counterparts are installed by other means.
set -euo pipefail

# Package, and what it is here for. The words `lint`, `bench` and `python` mark those that only --lint, --bench and
# --python ask for.
packages() {
    cat <<'LIST'
build-essential     compiler, libc, make
pkg-config          flags of the libraries below
libopenmpi-dev      MPI: ranks and collectives
openmpi-bin         mpirun
libarchive-dev      records: pax archives
zstd                records: looking into one by hand
libxxhash-dev       checksums and digests
libjansson-dev      JSON
libyaml-dev         study files
check               unit tests
libjs-dygraphs      curves in the report
libpython3-stdlib   real source code for the corpus
clang-format        lint
cppcheck            lint
shellcheck          lint
libdnnl-dev         bench (oneDNN, the peer of our GEMM)
python3-dev         bench (what PyTorch compiles includes its headers)
python3-venv        python
LIST
}

fail() {
    echo "deps.sh: $*" >&2
    exit 1
}

case "${1-}" in
'' | --lint | --bench | --python) ;;
*) echo "deps.sh: unknown argument '$1': expected nothing, --lint, --bench or --python" >&2; exit 2 ;;
esac
mapfile -t wanted < <(packages | awk -v only="${1-}" '$2 !~ /^(lint|bench|python)$/ || "--" $2 == only {print $1}')

[ "${REMATCH_DEPS-}" != present ] || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    packages
    fail "this system has no apt: install the counterparts of the packages above, then set REMATCH_DEPS=present"
fi

# dpkg-query exits 1 when it does not know one of the names; what it prints is still right.
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
    grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "no sudo: as root, run 'apt-get install ${missing[*]}'"
    as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }

echo "installing ${missing[*]}"
# Package lists may be absent or older than the archive: refresh them once, only when they do not serve.
if ! apt install -y --no-install-recommends "${missing[@]}" 2>/dev/null; then
    apt update || fail "'apt-get update' failed: check the network and /etc/apt/sources.list"
    apt install -y --no-install-recommends "${missing[@]}" || fail "'apt-get install ${missing[*]}' failed, see above"
fi
