"""All-reduces side by side: several schemes, ours and libraries', turn by turn in the same processes of the same lab.

Every worker opens all contenders once; then each sums in turn, round after round, from the same barrier, and every sum
is checked. The time of one all-reduce is GST: from the moment the last worker is ready to the moment the last worker
has the sum. All use the same congestion control. The first round is warm-up. A contender is a scheme's expression, in
chunks of ``CHUNK_BYTES``, a workload's default up to 200 Mbit/s, or of as many as follow an ``@``: ``ring@524288``.

Places: ``loopback`` (all workers on one host of a lab), ``unshaped`` and ``shaped`` (a host each on ``star(hosts=N)``;
links as fast as the machine moves packets, or of ``RATE_BPS``).
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import ending
import numpy as np

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Completed
from testbed.topologies.addressing import plan
from testbed.topologies.build import build as build_topology
from testbed.trial.network import shaper
from testbed.workloads import kinds
from testbed.workloads.job import Compute, Meeting, Peer, Training, WorkerJob
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Participant

RATE_BPS = 200_000_000
CHUNK_BYTES = 128 * 2**10
CONGESTION_CONTROL = "reno"
PORT, GLOO_PORT = 10_000, 9_500
LIMIT_S = 240.0
WAIT_S = 60.0

Times = dict[str, list[float]]
"""By contender, the GST (s) of each round."""


def measure(place: str, hosts: int, size_bytes: float, contenders: Sequence[str], rounds: int) -> Times:
    """GST of each contender (an expression such as ``ring`` or ``openmpi(algorithm=ring)``) in each round."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"place": place, "floats": int(size_bytes) // 4, "contenders": list(contenders), "rounds": rounds}
        _run_members(place, hosts, Path(folder), config)
        ranks = [json.loads((Path(folder) / f"times.{rank}").read_text()) for rank in range(hosts)]
    found = {}
    for name in contenders:
        latest = np.array([rank[name] for rank in ranks]).max(axis=0)  # [round][ready, sum] of the last rank
        found[name] = (latest[:, 1] - latest[:, 0]).tolist()
    return found


def compare(
    place: str, hosts: int, size_bytes: float, ours: Sequence[str], theirs: str, rounds: int, target: float | None
) -> bool:
    """Measure, and print a row about the fastest of ours; whether its ratio to theirs is at most ``target``."""
    times = measure(place, hosts, size_bytes, [*ours, theirs], rounds)
    best = min(ours, key=lambda name: statistics.median(times[name]))
    ratio = statistics.median(times[best]) / statistics.median(times[theirs])
    print(
        f"{rate(place):10} N={hosts} {size_bytes / 1e6:5.1f} MB   {best:23} {milliseconds(times[best]):>9}   "
        f"{theirs:23} {milliseconds(times[theirs]):>9}   ratio {ratio:.4f}"
        + (f" (target {target:.2f} or less)" if target else " (no target)          ")
        + (f"   bound {bound_s('ring', hosts, size_bytes) * 1e3:.1f} ms" if place == "shaped" else ""),
        flush=True,
    )
    return target is None or ratio <= target


def bound_s(scheme: str, hosts: int, size_bytes: float) -> float:
    """The least GST that shaped links allow."""
    topology = build_topology(f"star(hosts={hosts})", rate_bps=RATE_BPS)
    return cost(build(scheme, topology, []), topology, size_bytes).bound_s(shaper(LinkSettings(), topology))


def milliseconds(times: Sequence[float]) -> str:
    """``1849.2 ms``, the median."""
    return f"{statistics.median(times) * 1e3:.1f} ms"


def rate(place: str) -> str:
    """Where it was measured, for a reader."""
    return f"{RATE_BPS // 10**6} Mbit/s" if place == "shaped" else place


def _run_members(place: str, hosts: int, folder: Path, config: dict[str, object]) -> None:
    """Start every rank at its place in a lab and wait for all."""
    on_loopback = place == "loopback"
    topology = build_topology(f"star(hosts={1 if on_loopback else hosts})", rate_bps=RATE_BPS)
    addresses = plan(topology)
    config["addresses"] = [
        f"127.0.0.{rank + 1}" if on_loopback else addresses.host[rank, 0][0] for rank in range(hosts)
    ]
    everyone = [(src, dst) for src in topology.hosts for dst in topology.hosts if src != dst]
    done: dict[int, Completed] = {}
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(shaped=place == "shaped", congestion_control=CONGESTION_CONTROL), everyone)
        (folder / "agent").write_text(f'#!/bin/sh\nexec {shlex.join(lab.agent())} "$@"\n')
        (folder / "agent").chmod(0o755)
        (folder / "config").write_text(json.dumps(config))

        def go(rank: int) -> None:
            command = [sys.executable, __file__, str(folder), str(rank)]
            done[rank] = lab.execute(0 if on_loopback else rank, command, LIMIT_S)

        threads = [threading.Thread(target=go, args=(rank,)) for rank in range(hosts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for rank in range(hosts):
        if rank not in done:
            sys.exit(f"rank {rank} did not run in {place}")
        ending.with_command(f"rank {rank} in {place}", done[rank])


def member(folder: Path, rank: int) -> None:
    """One worker; writes [ready, sum] of each contender's rounds, in seconds."""
    import torch

    torch.set_num_threads(1)
    config = json.loads((folder / "config").read_text())
    addresses, names = config["addresses"], config["contenders"]
    topology = build_topology(f"star(hosts={len(addresses)})", rate_bps=RATE_BPS)
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    with ExitStack() as stack:

        def opened(number: int, contender: str, gradient: np.ndarray) -> Session:
            scheme, _, chunk_bytes = contender.partition("@")
            forest = build(scheme, topology, [])
            job = _job(folder, rank, addresses, forest, PORT + 1000 * number)
            job = replace(job, buckets=((0, len(gradient)),), chunk_bytes=int(chunk_bytes or CHUNK_BYTES))
            part = cast("Participant", SimpleNamespace(gradient=gradient))  # a session needs no more of it
            return stack.enter_context(kinds.of(forest).join(job, forest, part, lambda: None))

        control = opened(0, "ring", np.zeros(len(addresses), np.float32))
        gradient = np.empty(config["floats"], np.float32)
        sides = {name: opened(i + 1, name, gradient) for i, name in enumerate(names)}
        for _ in range(config["rounds"] + 1):
            for name, side in sides.items():
                times[name].append(_one(control, side, gradient, rank, len(addresses)))
        control.barrier(WAIT_S)
    (folder / f"times.{rank}").write_text(json.dumps({name: rows[1:] for name, rows in times.items()}))


def _job(folder: Path, rank: int, addresses: Sequence[str], forest: Forest, port: int) -> WorkerJob:
    """As much of a job as a session needs."""
    local = "127.0.0.1" if addresses[0].startswith("127.") else addresses[rank]
    return WorkerJob(
        node=rank,
        name=f"h{rank}",
        rank=rank,
        world=len(addresses),
        forest="",
        peers=tuple(Peer(p, addresses[rank], addresses[p], port + min(p, rank)) for p in neighbours(forest, rank)),
        training=Training("", "", 0, 0, 0.0, 0.0, 0),
        compute=Compute("none"),
        overlap="none",
        buckets=((0, 1),),
        chunk_bytes=CHUNK_BYTES,
        congestion_control=CONGESTION_CONTROL,
        start_timeout_s=WAIT_S,
        timeout_s=WAIT_S,
        samples=str(folder / "samples"),
        meeting=Meeting(
            tuple(f"h{r}" for r in range(len(addresses))), local, addresses[0], GLOO_PORT, str(folder / "agent")
        ),
    )


def _one(control: Session, side: Session, values: np.ndarray, rank: int, world: int) -> list[float]:
    """[ready, sum] of one all-reduce of rank + 1 everywhere."""
    values[:] = rank + 1
    control.barrier(WAIT_S)
    ready = time.monotonic()
    side.start(0)
    complete = side.wait(WAIT_S)
    side.barrier(WAIT_S)  # what MPI still has to send leaves only within MPI's own calls
    if not (values == world * (world + 1) // 2).all():
        raise AssertionError(f"rank {rank} has a wrong sum")
    return [ready, complete]


if __name__ == "__main__":
    member(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # libraries' threads have nothing left to do
