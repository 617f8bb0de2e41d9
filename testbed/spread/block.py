"""Tasks of a machine that an experiment is spread over.

An engine's worker calls :func:`answer`, :func:`following` and :func:`end`. A block of trials runs in a process of its
own, which is an experiment as any other. It ends with its worker: the kernel kills it when the thread ends that started
it. It also ends when nobody has asked for its trials for a while, for then whoever sent it is gone.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from testbed.base import interrupt
from testbed.base.errors import TestbedError, as_json
from testbed.base.exits import INTERRUPTED, OK, TRIAL_FAILED, code_for
from testbed.base.processor import cpu_model
from testbed.base.python import PACKAGE, module_command
from testbed.capacity.cache import Known, known
from testbed.files.foreign import UnfitError, read_bytes, read_tail
from testbed.lab.choice import place_of
from testbed.machine import exclusive
from testbed.machine.cgroups import limits
from testbed.run_directory.layout import files_of
from testbed.run_directory.stored import source_of
from testbed.spread.bundle import FILES, LARGEST_BYTES, RUN, pack, unpack
from testbed.workloads.process.lifeline import end_with

LOOK_S = 0.1
"""Seconds between two looks for trials that have ended."""
ASKED_S = 1.0
"""The most seconds that a worker is busy with one question."""
LEASE_S = 30.0
"""Seconds after which a block ends of which nobody has asked."""
OUT, SAID = "out", "said"
"""In an attempt's folder: the block's own run directory, and what its process said."""
MOST_SAID = 4000


def answer(lab: str) -> dict[str, Any]:
    """Say what this machine is, and whether it can have a lab. All is plain data, which any version can read."""
    told: dict[str, Any] = {
        "version": version("testbed"),
        "digest": digest(),
        "python": platform.python_version(),
        "host": platform.node(),
        "cores": limits().cores,
        "cpu": cpu_model(),
        "kernel": platform.release(),
        "error": None,
    }
    try:
        place_of(lab).check()
    except TestbedError as error:
        told["error"] = as_json(error)
    return told


def capacity() -> Known:
    """Say what this machine is known to carry."""
    return known()


@cache
def digest() -> str:
    """Digest of testbed's code."""
    found = hashlib.sha256()
    paths = (Path(folder, name) for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names)
    for path in sorted(path for path in paths if path.suffix in (".py", ".c")):
        found.update(f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Order:
    """Order to run a block: the spec with its files (:func:`testbed.spread.bundle.of_experiment`), the first trials of
    the cells to run, and whether whoever orders holds this machine."""

    packed: bytes
    ids: Sequence[str]
    shares_machine: bool


class Attempt:
    """A block that runs here, in a process that a thread of its own starts and waits for."""

    def __init__(self, order: Order) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="block-"))
        self._known: dict[str, int] = {}
        self._code: int | None = None
        self.is_wanted = True
        self.asked_s = time.monotonic()
        (self.folder / FILES).mkdir()
        unpack(order.packed, self.folder)
        (self.folder / "ids").write_text("\n".join(order.ids))
        self._thread = threading.Thread(target=self._run, args=(order.shares_machine,), daemon=True)
        self._thread.start()

    def _run(self, shares_machine: bool) -> None:
        words = module_command(__name__, str(self.folder), str(os.getpid()), "shared" if shares_machine else "alone")
        with (self.folder / SAID).open("wb") as said:
            process = subprocess.Popen(
                words, cwd=self.folder / FILES, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        while process.poll() is None and self.is_wanted and time.monotonic() - self.asked_s < LEASE_S:
            time.sleep(LOOK_S)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(interrupt.ENDING_S)
            process.kill()
        self._code = process.wait()
        if time.monotonic() - self.asked_s >= LEASE_S:
            shutil.rmtree(self.folder, ignore_errors=True)

    def following(self) -> dict[str, Any]:
        """Wait a moment for trials that have ended since the last call."""
        end_s = time.monotonic() + ASKED_S
        while True:
            self.asked_s = time.monotonic()
            code = self._code  # before the look, so that none is missed
            trials = [self._packed(trial) for trial in self._ended()]
            if trials or code is not None or self.asked_s > end_s:
                break
            time.sleep(LOOK_S)
        if code is None:
            return {"trials": trials}
        run = self.folder / OUT
        told: dict[str, Any] = {"trials": trials, "code": code}
        if code in (OK, TRIAL_FAILED):
            told["environment"] = pack({"env.json": read_bytes(run / "env.json", below=run)})
        else:
            told["said"] = read_tail(self.folder / SAID, MOST_SAID).decode(errors="replace")
        return told

    def _ended(self) -> list[str]:
        """Names of trials whose records are new, or were changed since they were measured again."""
        found = []
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.folder / OUT / "trials"):
                name, _, ending = entry.name.rpartition(".")
                changed = entry.stat(follow_symlinks=False).st_mtime_ns
                if ending == "json" and not name.startswith(".") and self._known.get(name) != changed:
                    self._known[name] = changed
                    found.append(name)
        return sorted(found)

    def _packed(self, trial: str) -> bytes:
        run = self.folder / OUT
        return pack({name: read_bytes(run / name, LARGEST_BYTES, run) for name in files_of(run, trial)})

    def end(self) -> None:
        """End the process, if it has not ended; its lab is taken down."""
        self.is_wanted = False
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)


_attempts: dict[str, Attempt] = {}


def following(name: str, order: Order | None = None) -> dict[str, Any]:
    """Say what has become of the attempt ``name`` since the last call; with an ``order``, begin it first."""
    try:
        if order is not None:
            _attempts[name] = Attempt(order)
        if name not in _attempts:
            return {"trials": [], "code": -1, "said": "the worker was started again"}
        return _attempts[name].following()
    except (UnfitError, OSError) as error:
        return {"trials": [], "code": -1, "said": str(error)}


def end(name: str) -> None:
    """End an attempt; one that is not known here has ended."""
    if attempt := _attempts.pop(name, None):
        attempt.end()


def main(folder: Path, parent: int, shares_machine: bool) -> int:
    """Run the block whose order is in a folder; return the exit code. The current directory is that of its files."""
    if not end_with(parent):
        return INTERRUPTED
    from rich.console import Console  # a worker needs none of these, and would take a second for them

    from testbed.experiment.progress import Lines
    from testbed.experiment.run import Experiment

    interrupt.raise_once()
    (exclusive.share if shares_machine else lambda: exclusive.hold(lambda: print("waits for another run")))()
    ids = (folder / "ids").read_text().split("\n")
    try:
        with Experiment.new(source_of(folder / RUN), folder / OUT, only=lambda _: ids) as experiment:
            done = experiment.go(lambda left: Lines(left, Console(stderr=True)))
    except TestbedError as error:
        print(f"error: {error}", flush=True)
        return code_for(error) if code_for(error) != TRIAL_FAILED else INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    return TRIAL_FAILED if done.failed else OK


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "shared"))
