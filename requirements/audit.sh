#!/usr/bin/env bash
# Known faults of the versions in this folder, and of PyTorch's: `make audit`. Exit code 1 if there are some, 2 if the
# database cannot be asked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pins() {
    sed -nE 's/^([A-Za-z0-9._-]+==[^ ;\\]+).*/\1/p' requirements/*.txt
}

asked=$(mktemp)
trap 'rm -f "$asked"' EXIT
pins | sort -u >"$asked"
status=0
found=$(.venv-tools/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement "$asked") || status=$?
[ -z "$found" ] || printf '%s\n' "$found"
if [ $status != 0 ] && [ -z "$found" ]; then
    printf '%s\n' "make audit: nothing is known of these versions: the database of faults could not be asked, or lacks some, as said above" \
        "  fix: run it where the network reaches that database" >&2
    exit 2
fi
exit $status
