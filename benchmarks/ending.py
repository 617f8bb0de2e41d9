"""Why a benchmark ends before it has a result: each function says so on standard error, with exit code 1."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.lab.programs import Completed

SYSTEM_PATHS = ("/usr/sbin", "/sbin")


def without(programs: Mapping[str, str]) -> None:
    """End if a program is missing; ``programs`` has Debian's package of each."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PATHS])
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        packages = " ".join(sorted({programs[program] for program in missing}))
        sys.exit(f"this needs {', '.join(missing)}, not installed here\n  fix: sudo apt-get install {packages}")


def with_failed(records: Iterable[Mapping[str, Any]]) -> None:
    """End if a trial failed."""
    failed = [f"{record['id']} failed: {record['error']}" for record in records if record["status"] == "failed"]
    if failed:
        sys.exit("\n".join(failed))


def with_command(command: str, done: Completed) -> None:
    """End if a command in a lab failed."""
    if done.status:
        said = (done.stderr + done.stdout).strip() or "it said nothing"
        sys.exit(f"{command} ended with status {done.status}: {said}")
