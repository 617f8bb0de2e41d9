"""Tasks of a machine that an experiment is spread over.

An engine's worker calls :func:`answer`, :func:`prepare`, :func:`following` and :func:`end`. Blocks of trials run in a
process of their own, each an experiment as any other. The process ends with its worker: the kernel kills it when the
thread ends that started it. It also ends when nobody has asked for a while, for then whoever sent blocks is gone.

A second process costs time, most of it for imports. So a worker imports little, its process begins to import before it
has an order, and the next blocks of the same experiment run in it, too, with what it has opened: the lab, and the
process that computes references.
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
from typing import TYPE_CHECKING, Any

from testbed.base import interrupt
from testbed.base.errors import TestbedError, as_json
from testbed.base.exits import INTERRUPTED, OK, TRIAL_FAILED
from testbed.base.processor import cpu_model
from testbed.base.python import PACKAGE, module_command
from testbed.files.foreign import UnfitError, read_bytes
from testbed.lab.choice import place_of
from testbed.machine.cgroups import limits
from testbed.run_directory.layout import files_of
from testbed.spread.bundle import FILES, IDS, LARGEST_BYTES, OUT, pack, unpack
from testbed.workloads.process.lifeline import end_with

if TYPE_CHECKING:
    from testbed.capacity.cache import Known

LOOK_S = 0.1
"""Seconds between two looks for trials that have ended."""
ASKED_S = 1.0
"""The most seconds that a worker is busy with one question."""
LEASE_S = 30.0
"""Seconds after which a process of blocks ends of which nobody has asked."""
ENDED = "ended"
"""File in a block's folder: its exit code, once it has ended."""
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
    from testbed.capacity.cache import known  # here, for it loads NumPy

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


class Process:
    """A process that runs blocks of one experiment, one after the other, as they are ordered. A thread of its own
    starts it and waits for its end."""

    def __init__(self) -> None:
        self.asked_s = time.monotonic()
        self.code: int | None = None
        self._packed: bytes | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="blocks-"))
        self._is_wanted = True
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed at its end
        self._ordered, self._order = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def fits(self, packed: bytes) -> bool:
        """Whether it can run a block of an experiment that was packed so."""
        return self.code is None and self._packed in (None, packed)

    def begin(self, order: Order, folder: Path) -> None:
        """Have it run a block, whose files go into a folder.

        Raises:
            UnfitError: what was sent is no archive of files. OSError: the process has ended, or there is no room.
        """
        self.asked_s = time.monotonic()
        if self._packed is None:
            (self._folder / FILES).mkdir()
            unpack(order.packed, self._folder)
            self._packed = order.packed
        (folder / IDS).write_text("\n".join(order.ids))
        os.write(self._order, f"{'shared' if order.shares_machine else 'alone'} {folder}\n".encode())

    def said(self) -> str:
        """The end of what it has said."""
        size_bytes = os.fstat(self._said.fileno()).st_size
        return os.pread(self._said.fileno(), MOST_SAID, max(0, size_bytes - MOST_SAID)).decode(errors="replace")

    def end(self) -> None:
        """End it, if it has not ended; its lab is taken down."""
        self._is_wanted = False
        self._thread.join()
        self._close()

    def _close(self) -> None:
        if not self._said.closed:
            os.close(self._order)
            self._said.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        words = module_command(__name__, str(os.getpid()), str(self._folder))
        process = subprocess.Popen(words, cwd="/", stdin=self._ordered, stdout=self._said, stderr=self._said)
        os.close(self._ordered)
        while process.poll() is None and self._is_wanted and time.monotonic() - self.asked_s < LEASE_S:
            time.sleep(LOOK_S)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(interrupt.ENDING_S)
            process.kill()
        self.code = process.wait()
        if self._is_wanted and time.monotonic() - self.asked_s >= LEASE_S:
            _forget(self)
            self._close()


_idle: list[Process] = []
"""The process that has no block, if there is one."""


def prepare() -> None:
    """Start the process of the next block, unless there is one."""
    if not _idle:
        _idle.append(Process())


def _process(packed: bytes) -> Process:
    while _idle:
        process = _idle.pop()
        if process.fits(packed):
            return process
        process.end()
    return Process()


class Attempt:
    """A block that runs here."""

    def __init__(self, order: Order) -> None:
        """Begin it. Raises UnfitError, OSError: as :meth:`Process.begin`."""
        self.folder = Path(tempfile.mkdtemp(prefix="block-"))
        self._known: dict[str, int] = {}
        self.process = _process(order.packed)
        try:
            self.process.begin(order, self.folder)
        except BaseException:
            self.end(more=False)
            raise

    @property
    def _code(self) -> int | None:
        """Exit code, once the block has ended."""
        ended = self.process.code  # before the look, so that a process that ended with its block counts as it says
        with suppress(FileNotFoundError):
            return int((self.folder / ENDED).read_text())
        return ended

    def following(self) -> dict[str, Any]:
        """Wait a moment for trials that have ended since the last call."""
        end_s = time.monotonic() + ASKED_S
        while True:
            self.process.asked_s = now_s = time.monotonic()
            code = self._code  # before the look, so that none is missed
            trials = [self._packed(trial) for trial in self._ended()]
            if trials or code is not None or now_s > end_s:
                break
            time.sleep(LOOK_S)
        if code is None:
            return {"trials": trials}
        run = self.folder / OUT
        told: dict[str, Any] = {"trials": trials, "code": code}
        if code in (OK, TRIAL_FAILED):
            told["environment"] = pack({"env.json": read_bytes(run / "env.json", below=run)})
        else:
            told["said"] = self.process.said()
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

    def end(self, *, more: bool) -> None:
        """End the process, unless the block has ended as it should and ``more`` are likely to come."""
        if more and self._code in (OK, TRIAL_FAILED):
            self.process.asked_s = time.monotonic()
            _idle.append(self.process)
        else:
            self.process.end()
        shutil.rmtree(self.folder, ignore_errors=True)


_attempts: dict[str, Attempt] = {}


def _forget(process: Process) -> None:
    """Forget a process that has ended because nobody asked, and its block."""
    with suppress(ValueError):
        _idle.remove(process)
    for name, attempt in list(_attempts.items()):
        if attempt.process is process:
            shutil.rmtree(attempt.folder, ignore_errors=True)
            _attempts.pop(name, None)


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


def end(name: str, more: bool = False) -> None:
    """End an attempt; one that is not known here has ended. ``more`` says whether others are likely to come."""
    if attempt := _attempts.pop(name, None):
        attempt.end(more=more)


def main(parent: int, folder: Path) -> int:
    """Run blocks of the experiment in a folder, each as a line of the standard input tells: whether whoever started
    this process holds the machine, and the block's own folder. Return the exit code."""
    if not end_with(parent):
        return INTERRUPTED
    orders = os.fdopen(os.dup(0))  # what runs here does not inherit it
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    from testbed.spread.running import Blocks  # a worker needs nothing of it, and would take a second for it

    with Blocks(folder) as blocks:
        try:
            for line in orders:
                held, _, name = line.rstrip("\n").partition(" ")
                code = blocks.run(Path(name), shares_machine=held == "shared")
                told = Path(name, f".{ENDED}")
                told.write_text(str(code))
                told.rename(told.with_name(ENDED))
                if code not in (OK, TRIAL_FAILED):
                    return code
        except KeyboardInterrupt:  # between two blocks
            return INTERRUPTED
    return OK


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
