"""One worker of one trial: files in, files out.

Usage: ``python -m workloads.worker JOB.json``

Reads a job (:mod:`workloads.job`), meets its neighbours in band, measures its links, trains, and writes JSON lines to
the job's samples file: ``hello``, a ``probe`` a NIC, an ``iteration`` each, then ``done`` or ``error``. Times are
``time.monotonic()`` in seconds, one clock for all processes of a machine. So any lab can start it, anywhere.

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

from testbed.errors import TestbedError
from workloads.compute import Accelerator
from workloads.job import Job
from workloads.meter import TASKS, Meter
from workloads.models import model
from workloads.probe import measure
from workloads.sync import chunks, codec, synchroniser
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


def _said(error: Exception) -> dict[str, str | None]:
    if isinstance(error, TestbedError):
        return {"error": error.problem, "fix": error.fix}
    return {"error": f"{type(error).__name__}: {error}", "fix": None}


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
    net = model(job.training.model)
    buckets = net.buckets() if job.overlap == "layer" else [(0, net.floats())]
    table = chunks.cut(forest, net.floats(), buckets, job.chunk_bytes)
    replica = None if job.rank is None else Replica(job.training)
    with synchroniser.connect(job, forest, table, None if replica is None else replica.gradient) as engine:
        _hello(job, engine, samples)
        _probe(job, engine, samples)
        started_s = time.process_time()
        with _collector_off():
            if replica is None:
                _pass_on(job, engine, len(buckets))
            else:
                _train(job, replica, engine, len(buckets), samples)
        _done(job, replica, engine, samples, cpu_s=time.process_time() - started_s)


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


def _train(job: Job, replica: Replica, engine: Synchroniser, buckets: int, samples: TextIO) -> None:
    """All iterations of one worker."""
    assert job.rank is not None
    meter = Meter()
    if not meter.counts_waits:
        print(f"{job.name}: this kernel does not count run-queue waits in {TASKS}; wait_s is null", flush=True)
    ready = meter.now()

    def release(bucket: int) -> None:
        nonlocal ready
        if bucket == buckets - 1:
            ready = meter.now()
        engine.start(bucket)
        if bucket < buckets - 1:
            engine.poll(0)

    layered = job.overlap == "layer"
    accelerator = Accelerator(replica, job.compute, job.rank, job.world, layered, release, engine.poll)
    engine.barrier(job.timeout_s)
    for i in range(job.training.iterations):
        start_s = time.monotonic()
        computed = accelerator.run(i, start_s)
        sum_s = engine.wait(job.timeout_s)
        cpu_s, wait_s = meter.now().since(ready)
        if job.compute.mode != "none":
            replica.step(job.world)
        end_s = time.monotonic()
        moments = {"start": start_s, "ready": ready.time_s, "sum": sum_s, "end": end_s}
        used = {"cpu_s": cpu_s, "wait_s": wait_s}
        write(samples, "iteration", i=i, rank=job.rank, node=job.node, **moments, **asdict(computed), **used)
    if job.compute.mode == "none":
        replica.step(job.world)  # so that the weights tell whether the last sum was right
    meter.close()


def _pass_on(job: Job, engine: Synchroniser, buckets: int) -> None:
    """All iterations of a node that adds and forwards without a gradient of its own."""
    engine.barrier(job.timeout_s)
    for _ in range(job.training.iterations):
        for bucket in range(buckets):
            engine.start(bucket)
        engine.wait(job.timeout_s)


def _done(job: Job, replica: Replica | None, engine: Synchroniser, samples: TextIO, cpu_s: float) -> None:
    """The end; ``cpu_s`` is what the iterations took of a core."""
    if replica is not None and job.weights is not None:
        np.save(job.weights, replica.weights)
    write(
        samples,
        "done",
        weights_sha256=None if replica is None else hashlib.sha256(replica.weights.data).hexdigest(),
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
