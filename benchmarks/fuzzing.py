"""Readers of inputs that were tampered with, each in a process of its own that is watched.

``fuzz_readers.py`` has those of files, ``fuzz_protocols.py`` those of connections. An input may be taken, or refused by
one of our named errors. Findings are anything else: another exception, the end of the process, an input that takes more
than 10 s, and one that takes more than 200 MB (of inputs above 6 MB, 32 times their size). Inputs follow from the seed,
so a finding can be repeated by its number; only conversations of workers are recorded anew each time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from testbed.base.columns import columns
from testbed.base.errors import TestbedError

HANG_S, SWELL_BYTES = 10.0, 200 * 2**20
SWELL_TIMES = 32
"""A large input may take so many times its own bytes: a table of samples may unpack to 16 times its file, and is copied
when it is sorted."""
ALLOWED = ("named errors", "accepted")
OUTCOMES = (*ALLOWED, "tracebacks", "hangs", "swellings")
BEGUN = "begun"
SHOWN = 3
"""Findings of a subject that are shown."""
FORK = multiprocessing.get_context("fork")
Take = Callable[[bytes], object]
Change = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Subject:
    """A reader: honest inputs, how they are changed, and ``begin``, which its process calls once to get the reader."""

    called: str
    honest: Sequence[bytes]
    change: Change
    begin: Callable[[], Take]
    room_bytes: int = 2 * SWELL_BYTES
    """It may reserve so much more, so that a reader that swells does not take the machine with it."""
    share: float = 1.0
    """Of the inputs that are asked for."""


@dataclass(frozen=True)
class Tally:
    """What became of a subject's inputs, and the first findings."""

    counts: dict[str, int]
    shown: list[str]

    @property
    def inputs(self) -> int:
        return sum(self.counts.values())

    @property
    def findings(self) -> int:
        return sum(count for name, count in self.counts.items() if name not in ALLOWED)


class Shared:
    """What a reader's process and the one that watches it both see: counts by outcome, and the input that is read."""

    def __init__(self) -> None:
        self._numbers = multiprocessing.RawArray("q", len(OUTCOMES) + 1)

    @property
    def at(self) -> int:
        return int(self._numbers[-1])

    def begin(self, at: int) -> None:
        """An input is read now."""
        self._numbers[-1] = at

    def add(self, outcome: str) -> None:
        """Count one."""
        self._numbers[OUTCOMES.index(outcome)] += 1

    def counts(self) -> dict[str, int]:
        return dict(zip(OUTCOMES, self._numbers, strict=False))


def fuzz(subject: Subject, inputs: int, seed: int) -> Tally:
    """Give a reader so many inputs, in as many processes as it ends."""
    shared, shown, first = Shared(), list[str](), 0
    while first < inputs:
        with tempfile.TemporaryDirectory(prefix="testbed-fuzz-") as folder:
            Path(folder).chmod(0o755)  # agents' requests are read as another user
            ours, theirs = FORK.Pipe(duplex=False)
            arguments = (subject, range(first, inputs), seed, theirs, shared, folder)
            child = FORK.Process(target=_child, args=arguments, daemon=True)
            child.start()
            theirs.close()
            shown += _watched(child, ours, shared, subject.called)
            ours.close()
        first = shared.at + 1
    return Tally(shared.counts(), shown[:SHOWN])


def _watched(child: multiprocessing.process.BaseProcess, said: Pipe, shared: Shared, called: str) -> list[str]:
    """Until the process has ended, or stands still, which ends it; what it said."""
    shown: list[str] = []
    if (first := said.recv()) != BEGUN:
        raise SystemExit(f"{called}: the reader does not begin\n{first}")
    last, since_s = -1, time.monotonic()
    with suppress(EOFError):
        while shared.at != last or time.monotonic() - since_s < HANG_S:
            if shared.at != last:
                last, since_s = shared.at, time.monotonic()
            if said.poll(0.05):
                shown.append(said.recv())
    child.join(1.0)
    if child.exitcode is None:
        shared.add("hangs")
        shown.append(f"input {shared.at} takes more than {HANG_S:g} s")
        child.kill()
    elif child.exitcode:
        shared.add("tracebacks")
        shown.append(f"input {shared.at} ends its process with {child.exitcode}")
    child.join()
    return shown


def _child(subject: Subject, numbers: range, seed: int, tell: Pipe, shared: Shared, folder: str) -> None:
    os.setsid()
    tempfile.tempdir = folder
    shared.begin(numbers.start)
    _silence()
    try:
        take = subject.begin()
        tell.send(BEGUN)
        _take_all(take, subject, numbers, seed, tell, shared)
    except BaseException:
        tell.send(traceback.format_exc()[-2000:])
        os._exit(1)
    os._exit(0)


def _take_all(take: Take, subject: Subject, numbers: range, seed: int, tell: Pipe, shared: Shared) -> None:
    """Until all are done, or the process has grown, so that what the next one takes would not be seen."""
    most_bytes = _reserved_bytes() + subject.room_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    begun_bytes, shown = _peak_bytes(), 0
    for number in numbers:
        shared.begin(number)
        rng = random.Random(f"{seed} {subject.called} {number}")
        content = subject.change(rng, rng.choice(subject.honest))
        before_bytes = _peak_bytes()
        outcome, why = _tried(take, content)
        grown_bytes = _peak_bytes() - before_bytes
        if grown_bytes > max(SWELL_BYTES, SWELL_TIMES * len(content)):
            outcome, why = "swellings", f"it took {grown_bytes >> 20} MiB"
        shared.add(outcome)
        if why and shown < SHOWN:
            shown += 1
            tell.send(f"input {number}: {why}")
        if _peak_bytes() - begun_bytes > SWELL_BYTES:
            return


def _silence() -> None:
    """For what readers, and processes that they start, print."""
    silent = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(silent, descriptor)


def _tried(take: Take, content: bytes) -> tuple[str, str]:
    try:
        take(content)
    except TestbedError:
        return "named errors", ""
    except MemoryError:
        return "swellings", traceback.format_exc()[-2000:]
    except BaseException:
        return "tracebacks", f"{content[:300]!r}\n{traceback.format_exc()[-2000:]}"
    return "accepted", ""


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reserved_bytes() -> int:
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])


def arguments(description: str | None) -> argparse.Namespace:
    """Of the command line, which is the same for all subjects."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="for each reader")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="readers whose names begin so; default: all")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def report(subjects: Iterable[Subject], asked: argparse.Namespace) -> None:
    """Fuzz, and print what became of it. Exits with code 1 if there are findings, or no reader has such a name."""
    tallies, rows, names = [], [], []
    for subject in subjects:
        names.append(subject.called)
        if asked.only and not any(subject.called.startswith(name) for name in asked.only):
            continue
        begun_s = time.monotonic()
        tally = fuzz(subject, max(1, round(asked.inputs * subject.share)), asked.seed)
        counts = [f"{tally.counts[name]:,}" for name in OUTCOMES]
        rows.append([subject.called, f"{tally.inputs:,}", *counts, f"{time.monotonic() - begun_s:.0f}"])
        tallies.append(tally)
        print("\n".join([*tally.shown, "  ".join(rows[-1])]), file=sys.stderr, flush=True)
    if not tallies:
        raise SystemExit(f"no reader's name begins with {' or '.join(asked.only)}; there are: {', '.join(names)}")
    findings = sum(tally.findings for tally in tallies)
    print(columns(["reader", "inputs", *OUTCOMES, "s"], rows))
    print(f"{sum(tally.inputs for tally in tallies):,} inputs, {findings:,} findings")
    raise SystemExit(1 if findings else 0)
