"""One worker of one trial: files in, files out.

Usage: ``python -m workloads.worker JOB.json``

Reads a job (:mod:`workloads.job`), meets its neighbours in band, measures its links, trains, and writes JSON lines to
the job's samples file: ``hello``, a ``probe`` a NIC, ``begin``, an ``iteration`` each, then ``done`` or ``error``.
Times are ``time.monotonic()`` in seconds, one clock for all processes of a machine. So any lab can start it, anywhere.

A sample is written after the iteration has ended, and Python's collector is off while iterations run, so that
neither falls into a measured window.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from testbed.errors import NeighbourError, TestbedError
from workloads.compute import Accelerator, Computed
from workloads.job import Job, Replay, Training
from workloads.meter import TASKS, Meter
from workloads.probe import measure
from workloads.replay import Player, Values
from workloads.sync import chunks, codec, synchroniser
from workloads.sync.engine import Engine
from workloads.sync.synchroniser import Synchroniser
from workloads.training import Replica


def main(argv: list[str]) -> int:
    """Run the job whose file is ``argv[0]``; returns 0, or 1 after an error that the samples and the log tell."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a process that forked us may have had other plans
        signal.signal(number, signal.SIG_DFL)
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


def run(job: Job, samples: TextIO) -> None:
    """Do the job.

    Raises:
        SpecError: the job names an unknown model or data set.
        WorkerError, TrialTimeoutError: a neighbour is gone or silent.
        PrivilegeError: the kernel refuses the congestion control.
    """
    torch.set_num_threads(1)
    forest = codec.load(Path(job.forest))
    table = chunks.cut(forest, job.buckets[-1][1], job.buckets, job.chunk_bytes)
    source = None if job.rank is None else _source(job, job.rank)
    with synchroniser.connect(job, forest, table, None if source is None else source.gradient) as engine:
        _hello(job, engine, samples)
        _probe(job, engine, samples)
        started_s = time.process_time()
        with _collector_off():
            if source is None:
                _pass_on(job, engine)
                result: dict[str, object] = {}
            elif isinstance(source, Replica):
                result = _train(job, source, engine, samples)
            else:
                result = _replay(job, source, engine, samples)
        _done(result, engine, samples, cpu_s=time.process_time() - started_s)


def _source(job: Job, rank: int) -> Replica | Values:
    """Where this worker's gradients are from."""
    work = job.training
    if isinstance(work, Training):
        return Replica(work, job.buckets)
    return Values(job.buckets[-1][1], work.seed, rank, job.world, work.tolerance)


def _hello(job: Job, engine: Synchroniser, samples: TextIO) -> None:
    """Say who this is, with the congestion control that connections really have."""
    write(
        samples,
        "hello",
        rank=job.rank,
        node=job.node,
        name=job.name,
        pid=os.getpid(),
        congestion_control=engine.congestion_control or job.congestion_control,
        time=time.monotonic(),
    )


def _probe(job: Job, engine: Synchroniser, samples: TextIO) -> None:
    """Measure this host's links while everyone does; begins and ends with a barrier."""
    for one in measure(job.probes, lambda: engine.barrier(job.timeout_s)):
        write(samples, "probe", node=job.node, **asdict(one))


class _Release:
    """Hands complete buckets to the engine, and notes when the last one of an iteration was ready."""

    def __init__(self, job: Job, engine: Synchroniser) -> None:
        self._engine, self._last = engine, len(job.buckets) - 1
        self.meter = Meter()
        if not self.meter.counts_waits:
            print(f"{job.name}: this kernel does not count run-queue waits in {TASKS}; wait_s is null", flush=True)
        self.ready = self.meter.now()

    def __call__(self, bucket: int) -> None:
        if bucket == self._last:
            self.ready = self.meter.now()
        self._engine.start(bucket)
        if bucket < self._last:
            self._engine.poll(0)


def _train(job: Job, replica: Replica, engine: Synchroniser, samples: TextIO) -> dict[str, object]:
    """All iterations of a worker that trains; returns what its ``done`` line says of the weights."""
    assert job.rank is not None
    release = _Release(job, engine)
    layered = job.overlap == "layer"
    accelerator = Accelerator(replica, job.compute, job.rank, job.world, layered, release, engine.poll)
    engine.barrier(job.timeout_s)
    write(samples, "begin", time=time.monotonic())
    for i in range(job.training.iterations):
        start_s = time.monotonic()
        computed = accelerator.run(i, start_s)
        sum_s = engine.wait(job.timeout_s)
        used = release.meter.now().since(release.ready)
        if job.compute.mode != "none":
            replica.step(job.world)
        _sample(job, samples, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used)
    if job.compute.mode == "none":
        replica.step(job.world)  # so that the weights tell whether the last sum was right
    release.meter.close()
    if job.weights is not None:
        np.save(job.weights, replica.weights)
    return {"weights_sha256": hashlib.sha256(replica.weights.data).hexdigest()}


def _replay(job: Job, values: Values, engine: Synchroniser, samples: TextIO) -> dict[str, object]:
    """All iterations of a worker that plays a profile back; returns what its ``done`` line says of the sums."""
    assert isinstance(job.training, Replay)
    release = _Release(job, engine)
    player = Player(job.training, job.compute, values, release)
    wait = time.sleep if job.overlap == "none" else engine.poll
    last = job.training.iterations - 1
    engine.barrier(job.timeout_s)
    write(samples, "begin", time=time.monotonic())
    for i in range(last + 1):
        start_s = player.start_s()
        computed = player.run(i, start_s, wait)
        if job.overlap == "both" and i < last:
            assert isinstance(engine, Engine)  # the harness lets no library have this
            player.forward(i + 1, engine, job.timeout_s)
        sum_s = engine.wait(job.timeout_s)
        used = release.meter.now().since(release.ready)
        _sample(job, samples, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used)
    player.check(last)
    release.meter.close()
    return {"wrong": [[i, count] for i, count in player.wrong.items()]}


def _sample(
    job: Job,
    samples: TextIO,
    i: int,
    moments: tuple[float, float, float, float],
    computed: Computed,
    used: tuple[float, float | None],
) -> None:
    """Write an iteration's line: when it started, had its gradient, had the sum and ended, and the CPU it ``used``
    (time, run-queue wait) in between."""
    named = dict(zip(("start", "ready", "sum", "end"), moments, strict=True))
    cpu_s, wait_s = used
    rest = {**asdict(computed), "cpu_s": cpu_s, "wait_s": wait_s}
    write(samples, "iteration", i=i, rank=job.rank, node=job.node, **named, **rest)


def _pass_on(job: Job, engine: Synchroniser) -> None:
    """All iterations of a node that adds and forwards without a gradient of its own."""
    engine.barrier(job.timeout_s)
    for _ in range(job.training.iterations):
        for bucket in range(len(job.buckets)):
            engine.start(bucket)
        engine.wait(job.timeout_s)


def _done(result: dict[str, object], engine: Synchroniser, samples: TextIO, cpu_s: float) -> None:
    """The end; ``cpu_s`` is what the iterations took of a core."""
    write(
        samples,
        "done",
        **result,
        wire_bytes=engine.wire_bytes,
        cpu_s=cpu_s,
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
