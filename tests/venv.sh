#!/bin/bash
# venv.sh - prints the path of a Python with packages that tests compare with; makes it first where it is missing. The only
# place that installs Python packages.
#
#   venv.sh              torch, transformers, safetensors and numpy, in build/venv: 0.6 GB to fetch and a minute
#   venv.sh statistics   scipy, statsmodels and arch, in build/venv-statistics: 0.1 GB
#
# Torch only for the CPU: PyPI's torch for x86-64 is linked with CUDA's libraries, gigabytes that a CPU never calls. Libraries of
# their names, whose functions all answer cudaErrorInsufficientDriver, let it load without them.
# Fails with a line on stderr that says why; what pip said is in build/venv.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
'') wanted='torch==2.15.0 transformers==5.24.0 safetensors numpy' ;;
statistics) wanted='scipy==1.17.1 statsmodels==0.15.0 arch==8.0.0' ;;
*) echo "venv.sh: unknown argument '$1': expected nothing or statistics" >&2; exit 2 ;;
esac
venv=$PWD/build/venv${1+-$1}
log=$venv.log python=$venv/bin/python

fail() {
    echo "venv.sh: $1" >&2
    exit 1
}

install() { "$python" -m pip install --no-cache-dir --disable-pip-version-check --progress-bar off "$@" >>"$log" 2>&1; }

# What torch needs to run, without CUDA and its compiler.
torch_needs() {
    "$python" - <<'PYTHON'
from importlib.metadata import requires
for need in requires("torch"):
    if not need.startswith(("nvidia", "cuda", "triton")) and "extra ==" not in need:
        print(need)
PYTHON
}

cuda_stand_ins() {
    local library
    cd "$venv"/lib/python*/site-packages/torch/lib
    nm -D --undefined-only ./*.so | awk '$2 ~ /^(__)?(cu|nv|nccl)/ {sub(/@.*/, "", $2); print $2}' | sort -u |
        sed 's/.*/int &(void); int &(void) { return 35; }/' |
        gcc -shared -fPIC -w -x c - -Wl,-soname,libnocuda.so -o libnocuda.so
    for library in $(objdump -p ./*.so | awk '$1 == "NEEDED" && $2 ~ /^lib(cu|nv|nccl)/ {print $2}' | sort -u); do
        gcc -shared -x c /dev/null -x none -Wl,--no-as-needed ./libnocuda.so -Wl,-rpath,"\$ORIGIN" \
            -Wl,-soname,"$library" -o "$library"
    done
}

finish_torch() {
    local needs
    mapfile -t needs < <(torch_needs)
    install "${needs[@]}" || fail "pip cannot install what torch needs (${needs[*]}), see $log"
    (cuda_stand_ins) >>"$log" 2>&1 || fail "torch cannot be rid of CUDA, see $log"
    "$python" -c 'import numpy, safetensors, torch, transformers; torch.ones(1, requires_grad=True).sum().backward()' \
        >>"$log" 2>&1 || fail "the installed packages cannot be imported, see $log"
}

make_venv() {
    local word
    rm -rf "$venv"
    : >"$log"
    python3 -c 'import ensurepip, venv' 2>>"$log" || pipelines/deps.sh --python >>"$log" 2>&1 ||
        fail "python3 has no venv and it cannot be installed, see $log"
    python3 -m venv "$venv" >>"$log" 2>&1 || fail "python3 -m venv failed, see $log"
    for word in $wanted; do
        case $word in
        torch*) install --no-deps "$word" ;;
        *) install "$word" ;;
        esac || fail "pip cannot install $word, see $log"
    done
    case $wanted in torch*) finish_torch ;; esac
    echo "$wanted" >"$venv/complete"
}

mkdir -p build
exec 9>"$venv.lock"
flock 9
[ "$(cat "$venv/complete" 2>/dev/null)" = "$wanted" ] || make_venv
echo "$python"
