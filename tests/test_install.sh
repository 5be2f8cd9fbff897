#!/bin/bash
# test_install.sh - what `make install` leaves works from its place, and `deps.sh` asks for what is missing and no more.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/checks.sh
. tests/checks.sh
here=$PWD prefix=$scratch/stage/usr

# ---- make install ----
flags=(PREFIX=/usr "DESTDIR=$scratch/stage")
[[ $bin != *sanitize* ]] || flags+=(SANITIZE=1)
[[ $bin != *debug* ]] || flags+=(DEBUG=1)
check "make install" env -u MAKEFLAGS -u MAKELEVEL make "${flags[@]}" install
for program in shard plan baseline sweep diff report export; do
    installed=$prefix/bin/rematch-$program
    check "$program --version" "$installed" --version
    check "$program --help" "$installed" --help
    check "$program refuses an unknown option" exits 2 "$installed" --no-such-option
done

# A study that the planner refuses shows that the pipeline found the planner.
echo 'study: 1' >"$scratch/bad.yaml"
installed_study() { (cd "$scratch" && env -u REMATCH_BIN "$prefix/share/rematch/pipelines/study.sh" "$@"); }
check "installed study.sh finds the programs" refuses 'rematch-plan: ' installed_study bad.yaml
check "study.sh refuses a missing study" exits 2 installed_study nowhere.yaml
check "study.sh refuses two studies" exits 2 installed_study bad.yaml bad.yaml
for study in pipelines/studies/*.yaml; do
    check "$study is installed" cmp "$study" "$prefix/share/rematch/$study"
done

# ---- deps.sh, with stand-ins for the system's tools ----
mkdir "$scratch/tools" "$scratch/apt"
for tool in bash cat awk grep env id; do ln -s "$(command -v "$tool")" "$scratch/tools/$tool"; done
cat >"$scratch/apt/dpkg-query" <<'STAND_IN'
#!/bin/bash
for package in "${@:3}"; do [ "$package" = check ] || echo "$package installed"; done
exit 1
STAND_IN
printf '#!/bin/bash\necho "$@" >>"%s"\n' "$scratch/apt.log" >"$scratch/apt/apt-get"
printf '#!/bin/bash\n"$@"\n' >"$scratch/apt/sudo"
chmod +x "$scratch"/apt/*

without_apt() { PATH=$scratch/tools REMATCH_DEPS='' "$here/pipelines/deps.sh"; }
with_apt() { PATH=$scratch/apt:$scratch/tools REMATCH_DEPS='' "$here/pipelines/deps.sh" "$@"; }
lists_packages() { [[ $(without_apt 2>/dev/null) == *$'\nlibopenmpi-dev '* ]]; }
check "deps.sh without apt prints the list" lists_packages
check "deps.sh without apt fails with a remedy" refuses REMATCH_DEPS=present without_apt
check "deps.sh takes the remedy" env PATH="$scratch/tools" REMATCH_DEPS=present "$here/pipelines/deps.sh"
check "deps.sh installs" with_apt
check "deps.sh asks only for what is missing" grep -qE 'install .* check$' "$scratch/apt.log"
check "deps.sh refuses an unknown argument" exits 2 with_apt --all

checks_end
