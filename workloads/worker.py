"""One worker of one trial: files in, files out.

Usage: ``python -m workloads.worker JOB.json``

Reads a job (:mod:`workloads.job`), meets its neighbours in band, measures its links, trains, and writes JSON lines to
the job's samples file: ``hello``, a ``probe`` a NIC, ``begin``, an ``iteration`` each, then ``done`` or ``error``.
Times are ``time.monotonic()`` in seconds, one clock for all processes of a machine. So any lab can start it, anywhere.
In a trial that survives deaths, the loss of a neighbour leads to another job (:mod:`workloads.failover`), not to an
error.

A sample is written after the iteration has ended, and Python's collector is off while iterations run, so that
neither falls into a measured window.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from testbed.base.errors import NeighbourError, TestbedError, TrialTimeoutError
from workloads import asynchronous, failover
from workloads.compute import Accelerator, Computed
from workloads.job import Job, Replay, Training
from workloads.meter import TASKS, Meter
from workloads.probe import measure
from workloads.replay import Checked, Player, Updates, Values
from workloads.sync import chunks, codec, synchroniser
from workloads.sync.engine import Engine
from workloads.sync.forest import Forest
from workloads.sync.parameter_server import Client, Server
from workloads.sync.synchroniser import Synchroniser
from workloads.sync.tcp_info import Sent
from workloads.vitals import Report, Vitals, together

if TYPE_CHECKING:
    from workloads.training import Replica  # whose module imports torch, for which only a worker that trains has a use


def main(argv: list[str]) -> int:
    """Run the job whose file is ``argv[0]``; returns 0, or 1 after an error that the samples and the log tell."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a process that forked us may have had other plans
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a neighbour that is gone is an error to tell, not to die of
    try:
        job = Job.load(Path(argv[0]))
        with Path(job.samples).open("w", buffering=1) as samples:
            try:
                run(job, samples)
            except Exception as error:
                write(samples, "error", **_said(error))
                raise
    except TestbedError as error:  # its text says all; where it came from says nothing to a user
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _said(error: Exception) -> dict[str, object]:
    if isinstance(error, TestbedError):
        return {"error": error.problem, "fix": error.fix, "elsewhere": isinstance(error, NeighbourError)}
    return {"error": f"{type(error).__name__}: {error}", "fix": None, "elsewhere": False}


def write(samples: TextIO, kind: str, **fields: object) -> None:
    """Append one line."""
    samples.write(json.dumps({"kind": kind, **fields}) + "\n")


@dataclass
class _Progress:
    """What a process keeps from one job to the next.

    ``sent_bytes`` is None where a library does not say; ``sums`` are a profile's; ``device`` is None where nothing is
    trained. ``own`` and ``summed`` are sketches by iteration, of this worker's gradients and, of rank 0, of their sums
    (:mod:`workloads.sketch`). ``updates`` are those that an asynchronous server has applied, as the fields of each.
    """

    completed: int = 0
    met: bool = False
    begun: bool = False
    replica: Replica | None = None
    device: str | None = None
    meter: Meter | None = None
    sent_bytes: int | None = 0
    sent: dict[int, Sent] | None = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    sums: Checked = field(default_factory=Checked)
    own: dict[int, list[float]] = field(default_factory=dict)
    summed: dict[int, list[float]] = field(default_factory=dict)
    updates: list[tuple[int, int, int]] | None = None


def run(job: Job, samples: TextIO) -> None:
    """Do the job.

    Raises:
        SpecError: the job names an unknown model or data set.
        WorkerError, TrialTimeoutError: a neighbour is gone or silent, and the trial cannot go on without it.
        PrivilegeError: the kernel refuses the congestion control.
    """
    progress = _Progress()
    while True:
        try:
            _take_part(job, progress, samples)
            break
        except (NeighbourError, TrialTimeoutError) as error:
            job = failover.rejoin(job, progress.completed, error)
    if progress.meter:
        progress.meter.close()
    _done(_result(job, progress), progress, samples)


def _take_part(job: Job, progress: _Progress, samples: TextIO) -> None:
    """Meet the others and do what is left, until all have done it."""
    forest = codec.load(Path(job.forest))
    source = None if job.rank is None else _source(job, job.rank, forest, progress)
    if source is not None and not isinstance(source, Values):
        failover.catch_up(job, source, progress.completed, forest.nodes)
    progress.completed = job.failover.first if job.failover else 0
    if failover.is_over(job):
        _save(job, progress)
        return
    with _synchroniser(job, forest, source) as engine:
        vitals = Vitals(job.watched)
        try:
            _meet(job, progress, engine, samples)
            progress.meter = progress.meter or Meter()  # before the thread of the vitals, whose waits are not ours
            progress.meter.halted_s = vitals.halted_s
            with _collector_off(), vitals:
                if isinstance(engine, Server):
                    engine.barrier(job.timeout_s)
                    engine.serve(job.silence_s)
                    progress.updates = [astuple(update) for update in engine.ledger.order]
                elif source is None:
                    _pass_on(job, engine, progress)
                elif isinstance(source, Values):
                    _replay(job, source, engine, samples, progress)
                else:
                    _train(job, source, engine, samples, progress)
            _save(job, progress)
            if job.failover:
                engine.barrier(job.silence_s)  # whoever has ended can give no weights to those who have not
        finally:
            progress.reports += [vitals.report()] if vitals.entered else []
            progress.sent_bytes = _sum(progress.sent_bytes, engine.wire_bytes)
            progress.sent = _merged(progress.sent, engine.sent)


def _synchroniser(job: Job, forest: Forest, source: Replica | Values | None) -> Synchroniser:
    """Meet the other processes."""
    if forest.asynchronous is not None:
        return asynchronous.join(job, forest, source)
    table = chunks.cut(forest, job.buckets[-1][1], job.buckets, job.chunk_bytes)
    gradient = None if source is None else source.gradient
    return synchroniser.connect(job, forest, table, gradient, failover.called_off(job))


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _merged(before: dict[int, Sent] | None, now: dict[int, Sent] | None) -> dict[int, Sent] | None:
    """What was sent to each neighbour in all generations."""
    if before is None or now is None:
        return None
    return {node: before.get(node, Sent()) + now.get(node, Sent()) for node in {*before, *now}}


def _source(job: Job, rank: int, forest: Forest, progress: _Progress) -> Replica | Values:
    """Where this worker's gradients are from."""
    work = job.training
    if isinstance(work, Replay) and forest.asynchronous is not None:
        return Updates(job.buckets[-1][1], work.seed, rank, job.world)
    if not isinstance(work, Training):
        return Values(job.buckets[-1][1], work.seed, rank, job.world, work.tolerance)
    if progress.replica is None:
        from workloads import accelerated, training

        training.use_one_thread()
        device = accelerated.device_for(job.compute, rank)
        progress.replica = accelerated.replica_on(device, work, job.buckets)
        progress.device = accelerated.name(device)
    progress.replica.shift = job.failover.shift if job.failover else 0
    return progress.replica


def _meet(job: Job, progress: _Progress, engine: Synchroniser, samples: TextIO) -> None:
    """Say who this is, when it first meets others; and in the first generation measure the links."""
    first = job.failover is None or job.failover.generation == 0
    engine.barrier(job.start_timeout_s if first else job.silence_s)  # a connection is there before it is accepted
    if not progress.met:
        _hello(job, engine, progress.device, samples)
        progress.met = True
    if first:
        _probe(job, engine, samples)


def _hello(job: Job, engine: Synchroniser, device: str | None, samples: TextIO) -> None:
    """Say who this is, with the congestion control that connections really have, and what it trains on."""
    write(
        samples,
        "hello",
        rank=job.rank,
        node=job.node,
        name=job.name,
        congestion_control=engine.congestion_control or job.congestion_control,
        device=device,
        time=time.monotonic(),
    )


def _probe(job: Job, engine: Synchroniser, samples: TextIO) -> None:
    """Measure this host's links while everyone does; begins and ends with a barrier."""
    for one in measure(job.probes, lambda: engine.barrier(job.timeout_s)):
        write(samples, "probe", node=job.node, **asdict(one))


class _Release:
    """Hands complete buckets to the engine, and notes when the last one of an iteration was ready."""

    def __init__(self, job: Job, engine: Synchroniser, progress: _Progress) -> None:
        self._engine, self._last = engine, len(job.buckets) - 1
        assert progress.meter
        self.meter = progress.meter
        if not self.meter.counts_waits and not progress.begun:
            print(f"{job.name}: this kernel does not count run-queue waits in {TASKS}; wait_s is null", flush=True)
        self.ready = self.meter.now()

    def __call__(self, bucket: int) -> None:
        if bucket == self._last:
            self.ready = self.meter.now()
        self._engine.start(bucket)
        if bucket < self._last:
            self._engine.poll(0)


def _train(job: Job, replica: Replica, engine: Synchroniser, samples: TextIO, progress: _Progress) -> None:
    """The iterations of a worker that trains."""
    assert job.rank is not None
    release = _Release(job, engine, progress)
    layered, once = job.overlap == "layer", job.compute.mode == "none"
    sketches = _Sketches(job, replica, progress, wanted=not isinstance(engine, Client))
    accelerator = Accelerator(replica, job.compute, job.rank, job.world, layered, release, engine.poll)
    engine.barrier(job.timeout_s)
    _begin(progress, samples)
    sum_s = None
    for i in _iterations(job, engine, progress):
        start_s = time.monotonic()
        if not once:
            sketches.look_at_sum()
        computed = accelerator.run(i, start_s, sum_s)
        sum_s = engine.wait(job.silence_s)
        used = release.meter.now().since(release.ready)
        sketches.synchronised(i)
        if isinstance(engine, Client):
            replica.put()
        elif not once:
            replica.step(job.world)
        progress.completed = i + 1
        _sample(job, samples, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used, engine)
    sketches.look_at_sum()
    if once:
        replica.step(job.world)  # so that the weights tell whether the last sum was right


class _Sketches:
    """Keeps those of a worker's gradients and, on rank 0, of the sums that became of them."""

    def __init__(self, job: Job, replica: Replica, progress: _Progress, *, wanted: bool) -> None:
        from workloads.sketch import Sketch  # which imports torch

        self._progress, self._sums = progress, job.rank == 0
        self._last: int | None = None
        replica.sketch = self._sketch = Sketch(replica.gradient, replica.buckets) if wanted else None

    def synchronised(self, iteration: int) -> None:
        """The gradient holds the sum of this iteration's."""
        self._last = iteration
        if self._sketch:
            self._progress.own[iteration] = self._sketch.values()

    def look_at_sum(self) -> None:
        """Sketch the last sum, before the gradient is overwritten."""
        if self._sketch and self._sums and self._last is not None:
            self._progress.summed[self._last] = self._sketch.whole()


def _iterations(job: Job, engine: Synchroniser, progress: _Progress) -> Iterator[int]:
    """The iterations that this worker does: all that are left, or, where a server gives them out, those it gives."""
    if isinstance(engine, Client):
        return itertools.takewhile(lambda _: engine.goes_on, itertools.count(progress.completed))
    return iter(range(progress.completed, job.training.iterations))


def _begin(progress: _Progress, samples: TextIO) -> None:
    """The first iteration begins."""
    if not progress.begun:
        write(samples, "begin", time=time.monotonic())
        progress.begun = True


def _replay(job: Job, values: Values, engine: Synchroniser, samples: TextIO, progress: _Progress) -> None:
    """The iterations of a worker that plays a profile back."""
    assert isinstance(job.training, Replay)
    release = _Release(job, engine, progress)
    player = Player(job.training, job.compute, values, release, progress.sums)
    wait = time.sleep if job.overlap == "none" else engine.poll
    last = job.training.iterations - 1
    engine.barrier(job.timeout_s)
    _begin(progress, samples)
    for i in _iterations(job, engine, progress):
        start_s = player.start_s()
        computed = player.run(i, start_s, wait)
        if job.overlap == "both" and i < last:
            assert isinstance(engine, Engine)  # the harness lets no library have this
            player.forward(i + 1, engine, job.silence_s)
        sum_s = engine.wait(job.silence_s)
        used = release.meter.now().since(release.ready)
        progress.completed = i + 1
        _sample(job, samples, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used, engine)
    player.check(progress.completed - 1)


def _save(job: Job, progress: _Progress) -> None:
    """Rank 0 saves the weights."""
    if progress.replica is not None:
        progress.replica.fetch()
    if job.weights is not None and progress.replica is not None:
        np.save(job.weights, progress.replica.weights)


def _result(job: Job, progress: _Progress) -> dict[str, object]:
    """What the ``done`` line says of the weights, of the sums, or of a server's updates."""
    if job.rank is None:
        return {} if progress.updates is None else {"updates": progress.updates}
    if progress.replica is None:
        return {"wrong": [[i, count] for i, count in progress.sums.wrong.items()], "checked": progress.sums.count}
    return {
        "weights_sha256": hashlib.sha256(progress.replica.weights.data).hexdigest(),
        "own": list(progress.own.items()),
        "summed": list(progress.summed.items()),
    }


def _sample(
    job: Job,
    samples: TextIO,
    i: int,
    moments: tuple[float, float, float, float],
    computed: Computed,
    used: tuple[float, float | None, float | None],
    engine: Synchroniser,
) -> None:
    """Write an iteration's line: when it started, had its gradient, had the sum and ended, and what it ``used`` between
    gradient and sum (CPU time, run-queue wait, and for how long it stood still); of an asynchronous scheme also which
    update it was."""
    named = dict(zip(("start", "ready", "sum", "end"), moments, strict=True))
    cpu_s, wait_s, halted_s = used
    rest = {**asdict(computed), "cpu_s": cpu_s, "wait_s": wait_s, "sync_halted_s": halted_s}
    rest |= engine.seen if isinstance(engine, Client) else {}
    write(samples, "iteration", i=i, rank=job.rank, node=job.node, **named, **rest)


def _pass_on(job: Job, engine: Synchroniser, progress: _Progress) -> None:
    """The iterations of a node that adds and forwards without a gradient of its own."""
    engine.barrier(job.timeout_s)
    for i in range(progress.completed, job.training.iterations):
        for bucket in range(len(job.buckets)):
            engine.start(bucket)
        engine.wait(job.silence_s)
        progress.completed = i + 1


def _done(result: dict[str, object], progress: _Progress, samples: TextIO) -> None:
    """The end, with what became of the process meanwhile."""
    write(
        samples,
        "done",
        **result,
        wire_bytes=progress.sent_bytes,
        sent=None if progress.sent is None else {node: asdict(one) for node, one in progress.sent.items()},
        **asdict(together(progress.reports)),
        max_rss_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


@contextmanager
def _collector_off() -> Iterator[None]:
    """Collect garbage now rather than in the middle of an iteration."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
