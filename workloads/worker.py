"""One worker of one trial: files in, files out.

Usage: ``python -P -m testbed.workloads.worker JOB.json``

A process with parts in several jobs does each in a thread of its own. A job may also be a measurement before a trial
(:data:`MEASURES`).

Reads a job (:mod:`testbed.workloads.job`), meets its neighbours in band, measures its links, trains, and writes JSON
lines to the job's samples file: ``hello``, a ``probe`` a NIC, ``begin``, an ``iteration`` each, then ``done`` or
``error``. Times are ``time.monotonic()`` in seconds, one clock for all processes of a machine. So any lab can start it,
anywhere. In a trial that survives deaths, the loss of a neighbour leads to another job
(:mod:`testbed.workloads.failover`), not to an error.

A sample is written after the iteration has ended, and Python's collector is off while iterations run, so that
neither falls into a measured window.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

from testbed.base.errors import NeighbourError, TestbedError, TrialTimeoutError
from testbed.workloads import failover, kinds, tasks
from testbed.workloads.bursts import probing
from testbed.workloads.bursts.probe import measure
from testbed.workloads.job import WorkerJob
from testbed.workloads.locality import echo
from testbed.workloads.process.meter import Meter
from testbed.workloads.process.vitals import Report, Vitals, together
from testbed.workloads.sync.session import Session
from testbed.workloads.sync.tcp_info import Sent
from testbed.workloads.tasks.base import Notes, Participant, write

MEASURES: Mapping[str, Callable[[dict[str, Any]], None]] = {"bursts": probing.main, "echo": echo.main}
"""Function that does the job that a file's JSON tells, by what the job measures."""
_COLLECTOR, _iterating = Lock(), list[None]()
"""Lock of the collector's state, and an entry for each part whose iterations run."""


def main(argv: list[str]) -> int:
    """Run the job whose file is ``argv[0]``; return 0, or 1 after an error that the samples and the log tell."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a process that forked us may have had other plans
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a neighbour that is gone is an error to tell, not to die of
    parts: list[Callable[[], None]] = []
    if failed := _status(lambda: parts.extend(_parts(Path(argv[0])))):
        return failed
    if len(parts) == 1:
        return _status(parts[0])
    with ThreadPoolExecutor(len(parts)) as threads:  # a part may fail for want of its job's workers: the others go on
        return min(threads.map(_status, parts))


def _parts(path: Path) -> Iterator[Callable[[], None]]:
    """Load what the process does: a measurement, or its part in each job."""
    raw = json.loads(path.read_text())
    if measures := raw.get("measures"):
        yield partial(MEASURES[measures], raw)
        return
    job = WorkerJob.read(raw)
    for one in (job, *(WorkerJob.load(Path(other)) for other in job.also)):
        yield partial(_do, one)


def _do(job: WorkerJob) -> None:
    """Do a part, and tell in its samples if that fails."""
    with Path(job.samples).open("a" if job.restarts else "w", buffering=1) as samples:
        try:
            run(job, samples)
        except Exception as error:
            write(samples, "error", **_said(error))
            raise


def _status(act: Callable[[], object]) -> int:
    """Return 0, or 1 after an error, which the log tells."""
    try:
        act()
    except Exception as error:
        if isinstance(error, TestbedError):  # its text says all; where it came from says nothing to a user
            print(f"error: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        # A frame may refer to the error, and the error to all frames. Parts in other jobs go on without a collector.
        traceback.clear_frames(error.__traceback__)
        return 1
    return 0


def prepare(*, torch: bool) -> None:
    """Import what jobs need, so that processes that are forked from this one need not; ``torch`` is for training."""
    gc.disable()  # almost all that imports make stays, and looking through it takes a tenth of their time
    for name in kinds.BUILT_IN:
        kinds.named(name).prepare()
    for name, (_, uses_torch) in tasks.BUILT_IN.items():
        if torch or not uses_torch:
            tasks.module(name)
    if torch:
        from testbed.workloads.learning import training

        training.warm_up()
    gc.enable()


def expect(jobs: Iterable[Path]) -> None:
    """Make once what processes that are forked for these jobs would else make each. Errors in a job are left to the
    job's own process, which reports them."""
    works = []
    for path in jobs:
        with suppress(OSError, ValueError, LookupError, TypeError):
            works.append(WorkerJob.load(path).training)
    with suppress(TestbedError):
        tasks.expect(works)


def _said(error: Exception) -> dict[str, object]:
    if isinstance(error, TestbedError):
        return {"error": error.problem, "fix": error.fix, "elsewhere": isinstance(error, NeighbourError)}
    return {"error": f"{type(error).__name__}: {error}", "fix": None, "elsewhere": False}


@dataclass
class _Progress:
    """State that a process keeps from one job to the next.

    ``sent_bytes`` is None where a library does not say, ``part`` where the node has no gradient of its own; ``said`` is
    what sessions tell besides.
    """

    notes: Notes
    met: bool = False
    part: Participant | None = None
    sent_bytes: int | None = 0
    sent: dict[int, Sent] | None = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)


def run(job: WorkerJob, samples: TextIO) -> None:
    """Do the job.

    Raises:
        SpecError: the job names an unknown model or data set.
        WorkerError, TrialTimeoutError: a neighbour is gone or silent, and the trial cannot go on without it.
        PrivilegeError: the kernel refuses the congestion control.
    """
    progress = _Progress(Notes(samples))
    while True:
        try:
            _take_part(job, progress)
            break
        except (NeighbourError, TrialTimeoutError) as error:
            job = failover.rejoin(job, progress.notes.completed, error)
    if progress.notes.meter:
        progress.notes.meter.close()
    _done(progress)


def _take_part(job: WorkerJob, progress: _Progress) -> None:
    """Meet the others and do what is left, until all have done it."""
    plan, notes = kinds.load(Path(job.forest)), progress.notes
    kind = kinds.of(plan)
    if job.rank is not None and progress.part is None:
        progress.part = tasks.take_part(job, job.rank, kind)
    part = progress.part
    if part is not None:
        part.join(job, notes.completed, plan.nodes)
    notes.completed = job.failover.first if job.failover else 0
    if failover.is_over(job):
        _save(job, part)
        return
    with kind.join(job, plan, part, failover.called_off(job)) as session:
        session.tells(partial(write, notes.samples, "journal"))
        vitals = Vitals(job.watched)
        try:
            _meet(job, progress, session)
            notes.meter = notes.meter or Meter()  # before the thread of the vitals, whose waits are not ours
            notes.meter.halted_s = vitals.halted_s
            if part is None:  # others still measure their links, which says nothing of the training
                session.barrier(job.timeout_s)
            with _collector_off(), vitals:
                if part is None:
                    for done in session.serve(
                        len(job.buckets), notes.completed, job.training.iterations, job.silence_s
                    ):
                        notes.completed = done
                else:
                    part.go(job, session, notes)
            progress.said |= part.keeper(job).said() if part else {}
            _save(job, part)
            if job.failover:
                session.barrier(job.silence_s)  # a worker that has ended can give no weights to those that lack them
        finally:
            progress.reports += [vitals.report()] if vitals.entered else []
            progress.sent_bytes = _sum(progress.sent_bytes, session.wire_bytes)
            progress.sent = _merged(progress.sent, session.sent)
            progress.said |= session.said()


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _merged(before: dict[int, Sent] | None, now: dict[int, Sent] | None) -> dict[int, Sent] | None:
    """Add up what was sent to each neighbour in all generations."""
    if before is None or now is None:
        return None
    return {node: before.get(node, Sent()) + now.get(node, Sent()) for node in {*before, *now}}


def _meet(job: WorkerJob, progress: _Progress, session: Session) -> None:
    """Send hello when it first meets others; and in the first generation measure the links."""
    first = job.failover is None or job.failover.generation == 0
    session.barrier(job.start_timeout_s if first else job.silence_s)  # a connection is there before it is accepted
    samples = progress.notes.samples
    if not progress.met:
        _hello(job, session, progress.part.device if progress.part else None, samples)
        progress.met = True
    if first:
        for one in measure(job.probes, lambda: session.barrier(job.timeout_s)):
            write(samples, "probe", node=job.node, **asdict(one))


def _hello(job: WorkerJob, session: Session, device: str | None, samples: TextIO) -> None:
    """Write hello, with the congestion control that connections really have, and the device that it trains on."""
    write(
        samples,
        "hello",
        rank=job.rank,
        node=job.node,
        name=job.name,
        congestion_control=session.congestion_control or job.congestion_control,
        device=device,
        mover=session.mover,
        time=time.monotonic(),
    )


def _save(job: WorkerJob, part: Participant | None) -> None:
    if part is not None:
        part.save(job)


def _done(progress: _Progress) -> None:
    """Write the last line, with the process's vital signs."""
    write(
        progress.notes.samples,
        "done",
        **(progress.part.result() if progress.part else {}),
        **progress.said,
        wire_bytes=progress.sent_bytes,
        sent=None if progress.sent is None else {node: asdict(one) for node, one in progress.sent.items()},
        **asdict(together(progress.reports)),
        max_rss_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


@contextmanager
def _collector_off() -> Iterator[None]:
    """Collect garbage now rather than in the middle of an iteration, of this part or of another one of the process."""
    gc.collect()
    with _COLLECTOR:
        _iterating.append(None)
        gc.disable()
    try:
        yield
    finally:
        with _COLLECTOR:
            _iterating.pop()
            if not _iterating:
                gc.enable()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
