"""Cache of what was measured of this machine: ``$XDG_CACHE_HOME/testbed/capacity.json`` of the user, by machine.

A home directory may be on several machines, and a machine may get another kernel, fewer cores or a quota: what was
measured counts for the same machine only. The steps are kept, not what follows from them, so that a better model can
use them. The file is the user's alone (0600); one that belongs to somebody else, or is damaged, counts as nothing
measured, and says so.
"""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.bounded_json import parse_json
from testbed.base.errors import OutputError
from testbed.base.processor import cpu_model
from testbed.capacity.model import Capacity, NothingCarriedError, Step, fitted
from testbed.files.writing import named_errors, write_bytes
from testbed.machine.cgroups import limits

FILE = Path("testbed") / "capacity.json"
SCHEMA = 3
LARGEST_BYTES = 1 << 20
"""The most bytes of the file. A machine's steps take 10 KiB."""
MOST_MACHINES = 32
MOST_STEPS = 1000
GRADIENTS, MOST_GRADIENTS = "gradients_s", 256
MACHINE_ID = Path("/etc/machine-id")
Machine = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """Knowledge of this machine: its capacity and when it was measured, or, if a file could not be used, why."""

    capacity: Capacity | None = None
    measured: str = ""
    trouble: str = ""


def place() -> Path:
    """Path of the file, by the XDG Base Directory Specification: a path there that is not absolute is ignored."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / FILE


def machine() -> Machine:
    """Facts that tell this machine from others, and from itself with other cores, another quota or another kernel."""
    identity = ""
    with suppress(OSError):
        identity = MACHINE_ID.read_text().strip()
    return {
        "cpu": cpu_model(),
        "cores": limits().cores,
        "kernel": platform.release(),
        "machine": identity or socket.gethostname(),
    }


def known(path: Path | None = None, of: Machine | None = None) -> Known:
    """Read what was measured on this machine."""
    path, of = path or place(), of or machine()
    try:
        found = [entry for entry in _read(path) if entry.get("machine") == of and "steps" in entry]
    except FileNotFoundError:
        return Known()
    except OSError as error:
        return Known(trouble=f"{path} cannot be read: {(error.strerror or str(error)).lower()}")
    except ValueError as error:
        return Known(trouble=f"{path} is not used: {error}")
    try:
        return Known(_capacity(found[-1]), str(found[-1]["measured"])) if found else Known()
    except (KeyError, TypeError, ValueError, NothingCarriedError):
        return Known(trouble=f"{path} is not used: it is damaged")


def keep(steps: Sequence[Step], measured: str, path: Path | None = None, of: Machine | None = None) -> Path:
    """Keep this machine's steps in place of earlier ones, beside those of other machines; return the file's path.

    Raises:
        OutputError, DiskFullError: it cannot be written.
    """
    path = path or place()
    _keep({"measured": measured, "steps": [step.as_json() for step in steps]}, path, of or machine())
    return path


def gradient_times_s(path: Path | None = None, of: Machine | None = None) -> dict[str, float]:
    """Read the processor time of gradients on this machine (s), by a name of what is computed; empty if the file cannot
    be used."""
    path, of = path or place(), of or machine()
    try:
        times_s = [entry.get(GRADIENTS) for entry in _read(path) if entry.get("machine") == of]
    except (OSError, ValueError):
        return {}
    told = times_s[-1] if times_s else None
    return {name: float(time_s) for name, time_s in told.items() if _is_time(time_s)} if isinstance(told, dict) else {}


def keep_gradient_times_s(
    times_s: Mapping[str, float], path: Path | None = None, of: Machine | None = None
) -> dict[str, float]:
    """Keep times of gradients on this machine (s) besides those that are known; returns all of them.

    Raises:
        OutputError, DiskFullError: they cannot be written.
    """
    path, of = path or place(), of or machine()
    known = {name: time_s for name, time_s in gradient_times_s(path, of).items() if name not in times_s}
    _keep({GRADIENTS: {**dict([*known.items()][len(times_s) - MOST_GRADIENTS :]), **times_s}}, path, of)
    return known | dict(times_s)


def _is_time(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def _keep(measured: Machine, path: Path, of: Machine) -> None:
    """Write what was measured of a machine in place of the same of earlier days, beside the rest.

    Raises:
        OutputError, DiskFullError: it cannot be written.
    """
    try:
        entries = _read(path)
    except (OSError, ValueError):
        entries = []  # what cannot be used is replaced
    own = [entry for entry in entries if entry.get("machine") == of]
    others = [entry for entry in entries if entry.get("machine") != of]
    entry = {**(own[-1] if own else {}), "machine": of, **measured}
    with named_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.parent.stat().st_uid
    if owner != os.geteuid():  # who could read or change what is written there
        raise OutputError(f"{path.parent} belongs to user {owner}", fix="set XDG_CACHE_HOME to a directory of your own")
    kept = {"schema": SCHEMA, "machines": [*others[1 - MOST_MACHINES :], entry]}
    write_bytes(path, (json.dumps(kept, indent=1, allow_nan=False) + "\n").encode(), mode=0o600)


def _read(path: Path) -> list[dict[str, Any]]:
    """The entries of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not ours to believe; the message says why.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO would wait for a writer
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no file")
        if about.st_uid != os.geteuid():
            raise ValueError(f"it belongs to user {about.st_uid}")
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError("it is too large")
    try:
        found = parse_json(content)
        entries = found["machines"] if found["schema"] == SCHEMA else []
    except (ValueError, KeyError, TypeError):
        raise ValueError("it is damaged") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("it is damaged")
    return entries


def _capacity(entry: dict[str, Any]) -> Capacity:
    steps = entry["steps"]
    if not isinstance(steps, list) or len(steps) > MOST_STEPS:
        raise ValueError("no steps of a ladder")
    return fitted([Step.from_json(step) for step in steps])
