#!/usr/bin/env bash
# Installs what is missing, then does nothing until pyproject.toml, requirements/, this file or the C code changes.
#
#   ./setup.sh run     what `testbed run` needs: Python, the virtual environment, CPU PyTorch, iptables (for delays), a C
#                      compiler (for the engine's inner loop); and ping, for the first hour
#   ./setup.sh test    the same, and what the suite needs: pytest, ruff, mypy, Sphinx, tc, Open MPI, a headless browser,
#                      Docker's daemon, which is installed and not started: the suite starts one of its own,
#                      Ansible, an SSH server (not started) to rehearse bare metal with, and SimGrid for Debian's Python
#   ./setup.sh tools   uv and pip-audit in .venv-tools, for `make lock` and `make audit`
#   ./setup.sh oldest  the lowest versions that pyproject.toml allows, in .venv-oldest, for `make test-oldest`
#   ./setup.sh torch   the suite's packages with the PyTorch of TORCH_VERSION, in .venv-torch-VERSION, for `make test-torch`
#
# Python packages are those in requirements/, and pip checks the hash of each. It does not for
#   - PyTorch: each index has another build of the same version. With TORCH_SHA256 it does.
#   - `oldest` and `torch`: no lock file has those versions.
#   - Debian's packages: apt checks their signatures.
#
# TORCH_INDEX=URL     where pip finds a CPU build of PyTorch, when its usual places have none
# TORCH_SHA256=HEX    the hash that PyTorch's wheel must have; `pip hash FILE` tells that of a file
# TORCH_ANY=1         take whatever build pip finds, CUDA's gigabytes included
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

what=${1:-run}
venv=.venv
packages=()
programs=(cc:gcc g++:g++ gencat:libc6-dev iptables:iptables ping:iputils-ping)  # gencat comes with the C library's headers
case $what in
    run)  packages=("${programs[@]}") ;;
    test) packages=("${programs[@]}" tc:iproute2 iperf3:iperf3 tcpdump:tcpdump mpirun:openmpi-bin chromium:chromium
          mnexec:mininet brctl:bridge-utils ifconfig:net-tools ethtool:ethtool dockerd:docker.io ssh:openssh-client sudo:sudo)
          # Where a service that is installed also starts with the machine, an SSH server is for its owner to install.
          [ -d /run/systemd/system ] || packages+=(sshd:openssh-server) ;;
    tools | oldest) venv=.venv-$what ;;
    torch) venv=.venv-torch-${TORCH_VERSION:?"a version of PyTorch, such as 2.14.1"} ;;
    *)    echo "setup.sh: '$what' is not 'run', 'test', 'tools', 'oldest' or 'torch'" >&2; exit 2 ;;
esac

say() { printf '%s\n' "$@" >&2; }
die() { say "$@"; exit 2; }

apt_install() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    say "installing with apt: $*"
    quietly "$@" 2>/dev/null && return
    apt-get update -qq >/dev/null  # a fresh machine has no package lists yet
    quietly "$@"
}

# Without starting what a package brings: Docker's daemon would change this machine's interfaces and firewall, and only the
# program of an SSH server is wanted.
quietly() {
    local policy=/usr/sbin/policy-rc.d status=0 ours=
    if [ ! -e $policy ]; then
        ours=yes
        trap "rm -f $policy" EXIT  # also if somebody ends this meanwhile
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null || status=$?
    if [ -n "$ours" ]; then
        rm -f $policy
        trap - EXIT
    fi
    if [ $status = 0 ] && [[ " $* " == *" docker.io "* ]] && [ -d /run/systemd/system ]; then
        systemctl disable --quiet docker.socket docker.service containerd.service || true  # nor at the next start
    fi
    return $status
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

need_python() {
    find_python >/dev/null || apt_install python3 python3-venv || true
    python=$(find_python) || die "testbed needs Python 3.11 or newer; python3 here is $(python3 --version 2>&1 || echo absent)" \
        "  fix: install it (Debian 12, Ubuntu 24.04 or newer: apt-get install python3 python3-venv) or set PYTHON=/path/to/python"
    "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv || true
    "$python" -c 'import ensurepip' 2>/dev/null ||
        die "$python cannot make virtual environments: ensurepip is missing" \
            "  fix: sudo apt-get install python3-venv"
}

need_tools() {
    local pair missing=()
    for pair in "${packages[@]}"; do
        command -v "${pair%%:*}" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null ||
            missing+=("${pair##*:}")
    done
    [ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" ||
        say "not installed: ${missing[*]}; what needs them will be refused or skipped, saying so" \
            "  fix: sudo apt-get install ${missing[*]}"
    # by itself, as not every Debian or Ubuntu has it
    [ "$what" != test ] || /usr/bin/python3 -P -c 'import simgrid' 2>/dev/null || apt_install python3-simgrid ||
        say "not installed: python3-simgrid; tests that compare the simulator with SimGrid are skipped, saying so"
}

# PyTorch's Linux builds on the default index bring several gigabytes of CUDA. Ask pip what it would take before taking it.
install_torch() {
    local wanted chosen
    case $what in
        oldest) wanted=torch==$(sed -nE 's/^ *"torch>=([^",]+).*/\1/p' pyproject.toml) ;;
        torch)  wanted=torch==$TORCH_VERSION ;;
        *)      wanted=$(cat requirements/torch.txt) ;;
    esac
    "$venv"/bin/python -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '${wanted#torch==}')" 2>/dev/null &&
        return
    local source=()
    [ -z "${TORCH_INDEX:-}" ] || source=(--index-url "$TORCH_INDEX")
    if [ -z "${TORCH_ANY:-}" ]; then
        chosen=$("$venv"/bin/pip install --quiet --dry-run --no-deps --ignore-installed --report - "${source[@]}" "$wanted" |
            "$venv"/bin/python -c '
import json, platform, sys
torch = json.load(sys.stdin)["install"][0]["metadata"]
cuda = any(need.startswith(("nvidia-", "cuda-")) for need in torch.get("requires_dist", []))
linux = platform.system() == "Linux"
print("cuda" if linux and cuda and "+cpu" not in torch["version"] else torch["version"])') ||
            die "pip finds no $wanted" "  fix: check the network and pip's settings, or set TORCH_INDEX to an index that has it"
        [ "$chosen" != cuda ] || die "pip would take the CUDA build of $wanted, several gigabytes that this project does not use" \
            "  fix: TORCH_INDEX=URL make ..., with the index that PyTorch's 'Get started' page names for Linux, pip, CPU;" \
            "       or TORCH_ANY=1 make ... to take the CUDA build all the same"
    fi
    say "installing $wanted (CPU)"
    [ -z "${TORCH_SHA256:-}" ] || wanted="$wanted --hash=sha256:$TORCH_SHA256"
    "$venv"/bin/pip install --quiet "$@" "${source[@]}" --requirement <(echo "$wanted")
}

# The packages of a lock file. What has no wheel is built with the setuptools that the first of these files names.
locked() {
    "$venv"/bin/pip install --quiet --no-build-isolation --require-hashes --requirement "requirements/$1.txt" "${@:2}"
}

# Testbed itself; all that it needs is there.
ourselves() {
    "$venv"/bin/pip install --quiet --no-deps --no-build-isolation --editable .
    "$venv"/bin/python -c 'import importlib.util as i, sys; sys.exit(i.find_spec("testbed.workloads.sync._mover") is None)' ||
        say "workloads/sync/mover.c was not compiled; the engine in Python does the same, with more processor time" \
            "  fix: sudo apt-get install gcc libc6-dev, then rm $venv/.testbed-* and set up again"
    "$venv"/bin/python -c 'import importlib.util as i, sys; sys.exit(i.find_spec("testbed.workloads.play._play") is None)' ||
        say "workloads/play/fluid.c and queues.c were not compiled; nothing can be simulated (the same fix)"
    "$venv"/bin/python -c 'import importlib.util as i, sys; sys.exit(i.find_spec("testbed.lab.netns.network._delay_line") is None)' ||
        say "delay_line.c was not compiled; links have no delay, jitter or loss where the kernel has no netem (the same fix)"
    watcher ||
        say "watcher.cpp was not compiled for this PyTorch; rows of scripts in an arm with scheme gloo are made in Python, which" \
            "makes their steps about 3 % longer" "  fix: sudo apt-get install g++, then rm $venv/.testbed-* and set up again"
}

# It is of one PyTorch, so each has a folder of its own: several environments share these sources.
watcher() {
    local torch folder library sources=workloads/kinds/script/backend
    { read -r torch; read -r folder; read -r library; } < <("$venv"/bin/python -c '
import importlib.util, sysconfig
from importlib.metadata import version
print(*importlib.util.find_spec("torch").submodule_search_locations)
print("torch_" + version("torch").partition("+")[0].replace(".", "_"))
print("_watcher" + sysconfig.get_config_var("EXT_SUFFIX"))')
    mkdir -p "$sources/$folder" && "${CXX:-g++}" -std=c++20 -O2 -fPIC -shared "$sources/watcher.cpp" -o "$sources/$folder/$library.new" \
        -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" -L"$torch/lib" -ltorch_cpu -lc10 &&
        mv "$sources/$folder/$library.new" "$sources/$folder/$library"
}

# The least version of each package that a run needs, and of those that the suite does.
least_versions() {
    sed -nE '/^ *"torch>=/d; /^dependencies/,/^\]/s/^ *"([a-z0-9-]+)>=([^",]+).*/\1==\2/p; s/^ *"((pytest|pytest-xdist|hypothesis|mpi4py|k-means-constrained))>=([^",]+).*/\1==\3/p' pyproject.toml
}

stamp=$venv/.testbed-$what
fingerprint=$(cat pyproject.toml requirements/*.txt setup.sh workloads/*/*.[ch] workloads/kinds/script/backend/*.cpp testbed/lab/netns/network/*.c | cksum; pwd)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ] && "$venv"/bin/python -c '' 2>/dev/null; then
    exit 0
fi

need_tools
need_python
if ! "$venv"/bin/python -m pip --version >/dev/null 2>&1; then
    say "making the virtual environment $venv"
    rm -rf "$venv"  # half made, or moved from elsewhere
    "$python" -m venv "$venv"
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
say "installing Python packages"
case $what in
    run)    locked run; install_torch --no-deps; ourselves ;;
    test)   locked run; locked test; locked decoders --no-deps; install_torch --no-deps; ourselves ;;
    tools)  locked tools ;;
    oldest) "$venv"/bin/pip install --quiet --requirement <(least_versions); install_torch; ourselves ;;
    torch)  locked run; locked test; install_torch; "$venv"/bin/pip install --quiet expecttest; ourselves ;;
esac
# Only now: an interrupted set-up starts again.
printf '%s' "$fingerprint" >"$stamp"
