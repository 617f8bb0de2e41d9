"""Our ring against Gloo's ring (torch.distributed), in the same processes of the same place, turn by turn.

    python benchmarks/ring_vs_gloo.py                             # every place and size; about four minutes
    python benchmarks/ring_vs_gloo.py --place shaped --hosts 9

Places: ``loopback`` (all workers on one host of a lab), ``unshaped`` and ``shaped`` (a host each on ``star(hosts=N)``;
links as fast as the machine moves packets, or 200 Mbit/s). The time of one all-reduce is GST: from the
moment the last worker is ready to the moment the last worker has the sum. Both use the same congestion control and
start from the same barrier, and every sum is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from topologies.addressing import plan
from topologies.build import build as build_topology
from workloads.job import Peer
from workloads.sync.chunks import cut
from workloads.sync.cost import cost, goodput
from workloads.sync.engine import Engine
from workloads.sync.flows import neighbours
from workloads.sync.forest import Forest
from workloads.sync.schemes import build
from workloads.sync.transport import connect

RATE_BPS = 200_000_000
CHUNK_BYTES = 128 * 2**10
SIZES_BYTES = {2: [25e6], 4: [25e6], 8: [25e6], 9: [12.5e6, 25e6]}
TARGETS = {"loopback": 1.0, "unshaped": 1.0, "shaped": 1.02}
ROUNDS = {"loopback": 41, "unshaped": 41, "shaped": 5}
PORT, GLOO_PORT = 10_000, 9_500
LIMIT_S = 150.0
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")

Times = list[list[float]]


def member(config: dict[str, object], rank: int, floats: Sequence[int], rounds: int, addresses: Sequence[str]) -> None:
    """One worker: both all-reduces in turn, for each size; writes [ready, sum] of each, in seconds."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    CONGESTION_CONTROL.write_text("reno")  # of this namespace only; Gloo cannot choose its own
    forest = build("ring", build_topology(f"star(hosts={len(addresses)})", rate_bps=RATE_BPS), [])
    os.environ["GLOO_SOCKET_IFNAME"] = str(config["interface"])
    store = f"tcp://{addresses[0]}:{GLOO_PORT}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=len(addresses))
    times: dict[str, list[Times]] = {"ours": [], "gloo": []}
    for number, count in enumerate(floats):
        gradient = np.empty(count, np.float32)
        tensor = torch.empty(count)
        engine = open_engine(rank, forest, gradient, addresses, PORT + 1000 * number)

        def ours(engine: Engine = engine) -> float:
            engine.start(0)
            return engine.wait(LIMIT_S)

        def gloo(tensor: torch.Tensor = tensor) -> float:
            dist.all_reduce(tensor)
            return time.monotonic()

        ours_times, gloo_times = [], []
        for _ in range(rounds + 1):  # the first is warm-up
            ours_times.append(one(engine, ours, gradient, rank, len(addresses)))
            gloo_times.append(one(engine, gloo, tensor.numpy(), rank, len(addresses)))
        engine.barrier(LIMIT_S)
        engine.close()
        times["ours"].append(ours_times[1:])
        times["gloo"].append(gloo_times[1:])
    dist.destroy_process_group()
    Path(f"{config['out']}.{rank}").write_text(json.dumps(times))


def open_engine(rank: int, forest: Forest, gradient: np.ndarray, addresses: Sequence[str], port: int) -> Engine:
    peers = [Peer(p, addresses[rank], addresses[p], port + min(p, rank)) for p in neighbours(forest, rank)]
    sockets = connect(rank, peers, "reno", LIMIT_S)
    return Engine(rank, forest, cut(forest, len(gradient), [(0, len(gradient))], CHUNK_BYTES), sockets, gradient)


def one(engine: Engine, reduce: Callable[[], float], values: np.ndarray, rank: int, world: int) -> list[float]:
    """[ready, sum] of one all-reduce of rank + 1 everywhere."""
    values[:] = rank + 1
    engine.barrier(LIMIT_S)
    ready = time.monotonic()
    complete = reduce()
    if not (values == world * (world + 1) // 2).all():
        raise AssertionError(f"rank {rank} has a wrong sum")
    return [ready, complete]


def run_members(place: str, hosts: int, config: dict[str, object]) -> None:
    """Start every rank at its place in a lab and wait for all."""
    on_loopback = place == "loopback"
    topology = build_topology(f"star(hosts={1 if on_loopback else hosts})", rate_bps=RATE_BPS)
    addresses = plan(topology)
    config["interface"] = "lo" if on_loopback else "eth0"
    config["addresses"] = [
        f"127.0.0.{rank + 1}" if on_loopback else addresses.host[rank, 0][0] for rank in range(hosts)
    ]
    path = Path(f"{config['out']}.json")
    path.write_text(json.dumps(config))
    everyone = [(src, dst) for src in topology.hosts for dst in topology.hosts if src != dst]
    failed: list[int] = []
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(shaped=place == "shaped"), everyone)

        def go(rank: int) -> None:
            command = [sys.executable, __file__, "--member", str(path), "--rank", str(rank)]
            done = lab.execute(0 if on_loopback else rank, command, LIMIT_S)
            if done.status:
                failed.append(rank)
                sys.stderr.write(done.stderr)

        threads = [threading.Thread(target=go, args=(rank,)) for rank in range(hosts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        sys.exit(f"ranks {sorted(failed)} failed in {place}")


def compare(place: str, hosts: int) -> bool:
    """Measure and print a row a size; whether the targets were reached."""
    sizes = [int(size) // 4 for size in SIZES_BYTES[hosts]]
    with tempfile.TemporaryDirectory() as folder:
        config: dict[str, object] = {"out": f"{folder}/times", "floats": sizes, "rounds": ROUNDS[place]}
        run_members(place, hosts, config)
        ranks = [json.loads(Path(f"{folder}/times.{rank}").read_text()) for rank in range(hosts)]
    reached = True
    for number, floats in enumerate(sizes):
        gst = {who: median_gst_s([rank[who][number] for rank in ranks]) for who in ("ours", "gloo")}
        ratio = gst["ours"] / gst["gloo"]
        reached = reached and ratio <= TARGETS[place]
        print(
            f"{place:9} N={hosts} {4 * floats / 1e6:5.1f} MB   ours {gst['ours'] * 1e3:7.1f} ms   "
            f"gloo {gst['gloo'] * 1e3:7.1f} ms   ratio {ratio:.3f} (target {TARGETS[place]:.2f} or less)"
            + (f"   bound {bound_s(hosts, 4 * floats) * 1e3:.1f} ms" if place == "shaped" else ""),
            flush=True,
        )
    return reached


def median_gst_s(times: list[Times]) -> float:
    """Median over the rounds of (last sum - last ready) over the ranks; ``times`` is [rank][round][ready, sum]."""
    latest = np.array(times).max(axis=0)
    return float(np.median(latest[:, 1] - latest[:, 0]))


def bound_s(hosts: int, gradient_bytes: int) -> float:
    topology = build_topology(f"star(hosts={hosts})", rate_bps=RATE_BPS)
    return cost(build("ring", topology, []), topology, gradient_bytes).bound_s(goodput(LinkSettings().mtu))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--place", choices=list(TARGETS), action="append")
    parser.add_argument("--hosts", type=int, choices=list(SIZES_BYTES), action="append")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.member:
        config = json.loads(Path(asked.member).read_text())
        member(config, asked.rank, config["floats"], config["rounds"], config["addresses"])
        return 0
    results = [compare(place, hosts) for place in asked.place or TARGETS for hosts in asked.hosts or SIZES_BYTES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
