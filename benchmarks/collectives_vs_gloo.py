"""Our ring under a script's collectives against PyTorch's own Gloo, in the same ranks, turn by turn, on loopback.

    python benchmarks/collectives_vs_gloo.py                         # all sizes and numbers of ranks; some minutes
    python benchmarks/collectives_vs_gloo.py --ranks 8 --bytes 4096

Ranks are processes with our backend as the default group and a group of Gloo's own beside it. A turn is a barrier and
then some allreduces in a row by one of them; the next turn is the other one's. A turn's time is from the moment the
last rank begins to the moment the last rank ends, by allreduce. The figure is the median of the ratios of turns that
follow each other. ``--step`` measures steps of a small GPT with DistributedDataParallel instead, with overlap and
without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.job import Peer
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.rank_job import VARIABLE, RankJob
from testbed.workloads.sync.chunk_size import CHUNK_BYTES
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from tests import ports

RANKS, SIZES_BYTES = (2, 4, 8), (4096, 25_000_000)
TARGETS = {4096: 1.5, 25_000_000: 1.0}
ROUNDS = {4096: 60, 25_000_000: 15}
IN_A_ROW = {4096: 20, 25_000_000: 1}
STEPS = 60
PATIENCE_S = 900
_ports = ports.blocks(50)
Times = dict[str, list[tuple[float, float, float]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, choices=RANKS, action="append")
    parser.add_argument("--bytes", type=int, choices=SIZES_BYTES, action="append")
    parser.add_argument("--scheme", default="ring")
    parser.add_argument("--step", action="store_true")
    asked = parser.parse_args()
    met = True
    for world in asked.ranks or RANKS:
        if asked.step:
            for overlap in (True, False):
                met &= row(f"step N={world} overlap {overlap}", asked.scheme, world, f"step:{overlap:d}", 1.0)
            continue
        for size in asked.bytes or SIZES_BYTES:
            met &= row(f"N={world} {size:,} B", asked.scheme, world, str(size), TARGETS[size])
    return 0 if met else 1


def row(what: str, scheme: str, world: int, work: str, target: float) -> bool:
    """Measure, and print a row; whether the target is met."""
    with tempfile.TemporaryDirectory() as folder:
        turns = measure(Path(folder), scheme, world, work)
    ratios = [ours / theirs for ours, theirs in zip(turns["ours"], turns["gloo"], strict=True)]
    ratio = statistics.median(ratios)
    ours, theirs = (statistics.median(turns[name]) * 1e3 for name in ("ours", "gloo"))
    cpu = {name: statistics.median(turns[f"{name}_cpu"]) * 1e3 for name in ("ours", "gloo")}
    print(
        f"{what:24} ours {ours:8.3f} ms  gloo {theirs:8.3f} ms  ratio {ratio:.3f} (target {target})   CPU of all: "
        f"ours {cpu['ours']:.3f} ms  gloo {cpu['gloo']:.3f} ms",
        flush=True,
    )
    return ratio <= target


def measure(folder: Path, scheme: str, world: int, work: str) -> dict[str, list[float]]:
    """Seconds of each turn, by who made it, and of the CPU of all ranks together."""
    network = build_topology(f"star(hosts={world})", rate_bps=10**9)
    forest = build(scheme, network, [1])
    assert isinstance(forest, Forest)
    kinds.save(scripted(forest), folder / "plan")
    master, me = free_port(), [sys.executable, __file__, "--rank-of", str(folder)]
    ranks = [start_rank(folder, forest, rank, master, [*me, str(rank), work]) for rank in range(world)]
    for one in ranks:
        if one.wait(PATIENCE_S):
            sys.exit(f"a rank ended with exit code {one.returncode}")
    told = [json.loads((folder / f"{rank}.times").read_text()) for rank in range(world)]
    found = {}
    for name in ("ours", "gloo"):
        turns = [*zip(*(one[name] for one in told), strict=True)]
        found[name] = [max(end for _, end, _ in turn) - max(start for start, _, _ in turn) for turn in turns]
        found[f"{name}_cpu"] = [sum(cpu for _, _, cpu in turn) for turn in turns]
    count = IN_A_ROW.get(int(work), 1) if work.isdecimal() else 1
    return {name: [turn / count for turn in turns] for name, turns in found.items()}


def free_port() -> int:
    """Where PyTorch's store can listen, which it does at all addresses. Ranks take some of the ports after it."""
    return next(_ports)


def _address(node: int) -> str:
    return f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 256}.{node + 1}"


def start_rank(
    folder: Path,
    forest: Forest,
    rank: int,
    master: int,
    command: Sequence[str],
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    is_ours: bool = True,
    is_heard: bool = False,
) -> subprocess.Popen[str]:
    """Start a command as a rank on loopback, with our backend or without; ``folder`` has the plan. One that
    ``is_heard`` writes to a pipe."""
    node, world = forest.workers[rank], len(forest.workers)
    peers = tuple(
        Peer(other, _address(node), _address(other), master + 1 + min(node, other))
        for other in neighbours(forest, node)
    )
    job = RankJob(
        node=node,
        name=forest.nodes[node],
        rank=rank,
        world=world,
        kind="script",
        plan=str(folder / "plan"),
        peers=peers,
        addresses=tuple(map(_address, forest.workers)),
        chunk_bytes=CHUNK_BYTES[-1],  # loopback is as fast as memory
        congestion_control="reno",
        start_timeout_s=60.0,
        timeout_s=120.0,
        samples=str(folder / f"{rank}.jsonl"),
    )
    (folder / f"{rank}.json").write_text(job.text())
    environment = {
        **os.environ,
        **{"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(master), "GLOO_SOCKET_IFNAME": "lo"},
        **({VARIABLE: str(folder / f"{rank}.json")} if is_ours else {}),
        **more,
    }
    out, errors = (subprocess.PIPE, subprocess.STDOUT) if is_heard else (None, None)
    return subprocess.Popen(command, env=environment, text=True, stdout=out, stderr=errors)


def member(folder: Path, rank: int, work: str) -> None:
    """One rank; writes [start, end, CPU time] of each turn."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore, ProcessGroupGloo, _get_default_store

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    store = PrefixStore("gloo beside", _get_default_store())
    world, kind = dist.get_world_size(), dist.ProcessGroup.BackendType.GLOO
    gloo = dist.ProcessGroup(store, rank, world)
    gloo._set_default_backend(kind)
    gloo._register_backend(torch.device("cpu"), kind, ProcessGroupGloo(store, rank, world, timedelta(seconds=120)))
    times = _steps(gloo, overlap=work.endswith("1")) if work.startswith("step") else _sums(gloo, int(work))
    (folder / f"{rank}.times").write_text(json.dumps(times))
    dist.destroy_process_group()


def _sums(gloo: Any, size: int) -> Times:
    import time

    import torch
    import torch.distributed as dist

    groups: dict[str, Any] = {"ours": dist.group.WORLD, "gloo": gloo}
    tensor = torch.ones(size // 4)
    times: Times = {name: [] for name in groups}
    for turn in range(ROUNDS[size] + 2):
        for name, group in groups.items():
            tensor.fill_(1.0)
            gloo.barrier().wait()
            start, cpu = time.monotonic(), time.process_time()
            for _ in range(IN_A_ROW[size]):
                group.allreduce([tensor], dist.AllreduceOptions()).wait()
            if turn >= 2:
                times[name].append((start, time.monotonic(), time.process_time() - cpu))
    return times


def _steps(gloo: Any, *, overlap: bool) -> Times:
    """Steps of a GPT of 10 MB; without overlap, one sum of all gradients after the backward pass."""
    import time

    import torch
    import torch.distributed as dist
    from torch import nn

    torch.manual_seed(0)
    width, depth, words = 256, 3, 512

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(width, words)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(self.body(self.embed(tokens)))
            return found

    models: dict[str, Any] = {}
    for name, group in (("ours", dist.group.WORLD), ("gloo", gloo)):
        model = Small()
        models[name] = nn.parallel.DistributedDataParallel(model, process_group=group) if overlap else model
    tokens = torch.randint(words, (4, 64))
    times: Times = {name: [] for name in models}
    for turn in range(STEPS + 2):
        for name, model in models.items():
            chosen: Any = dist.group.WORLD if name == "ours" else gloo
            gloo.barrier().wait()
            start, cpu = time.monotonic(), time.process_time()
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            model.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if not overlap:
                flat = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
                chosen.allreduce([flat], dist.AllreduceOptions()).wait()
            if turn >= 2:
                times[name].append((start, time.monotonic(), time.process_time() - cpu))
    return times


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank-of"]:
        member(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        sys.exit(0)
    sys.exit(main())
