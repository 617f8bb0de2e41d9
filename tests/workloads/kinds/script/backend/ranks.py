"""Ranks of a script on this machine, each with a loopback address of its own, and the servers of a scheme."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from testbed.execution.launched import rank_environment
from testbed.topologies.build import build
from testbed.workloads import kinds
from testbed.workloads.job import Compute, Peer, Replay, WorkerJob
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.rank_job import VARIABLE, RankJob
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build as build_forest
from tests import ports

PATIENCE_S = 300
PLAIN = "plain"
"""Library of ranks that know nothing of testbed, and whose group is PyTorch's own."""
THREADS = "OMP_NUM_THREADS"
FORKED = Path(__file__).with_name("forked.py")


def address(node: int) -> str:
    """One that no other process's tests use, for ranks listen at ports that are given."""
    number = os.getpid()
    return f"127.{1 + number % 250}.{number // 250 % 256}.{node + 1}"


_ports = ports.blocks(50)


class Ranks:
    """A scheme on a network, without the network.

    Args:
        topology, scheme: expressions.
        check: every so-many-th sum is compared with Gloo's.
    """

    def __init__(self, folder: Path, topology: str, scheme: str, check: int = 0, timeout_s: float = 60.0) -> None:
        self.folder, self.check, self.timeout_s, self.library = folder, check, timeout_s, ""
        self.chunk_bytes: int = 16_384
        self.network = build(topology, rate_bps=10**9, delay_s=0.0)
        forest = build_forest(scheme, self.network, [1])
        assert isinstance(forest, Forest)
        self.plan = scripted(forest)
        kinds.save(self.plan, folder / "plan.npz")
        self.master = next(_ports)  # where PyTorch's store listens, at all addresses
        self.base = self.master + 1

    @property
    def world(self) -> int:
        return len(self.plan.workers)

    def peers(self, node: int) -> tuple[Peer, ...]:
        return tuple(
            Peer(other, address(node), address(other), self.base + min(node, other))
            for other in neighbours(self.plan, node)
        )

    def start(self, script: Path, *arguments: str) -> list[subprocess.Popen[str]]:
        """Ranks, and then servers."""
        words = [sys.executable, str(script), *arguments]
        ranks = [_started(words, {**os.environ, **self.environment(rank)}) for rank in range(self.world)]
        return [*ranks, *self.servers()]

    def fork(self, script: Path, *arguments: str) -> list[tuple[int, str]]:
        """The exit status of each rank, and what it said. All are forks of a process that has imported PyTorch. Servers
        end as they should."""
        return fork([self], script, *arguments)

    def samples(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def environment(self, rank: int) -> dict[str, str]:
        """What a rank's has that is its own; the file that it names is written."""
        node = self.plan.workers[rank]
        job = RankJob(
            node=node,
            name=self.plan.nodes[node],
            rank=rank,
            world=self.world,
            kind="script",
            plan=str(self.folder / "plan.npz"),
            peers=self.peers(node),
            addresses=tuple(map(address, self.plan.workers)),
            chunk_bytes=self.chunk_bytes,
            congestion_control="reno",
            start_timeout_s=self.timeout_s,
            timeout_s=self.timeout_s,
            samples=str(self.samples(self.plan.nodes[node])),
            check=self.check,
            library=self.library,
        )
        path = self.folder / f"{job.name}.json"
        path.write_text(job.text())
        meeting = {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(self.master)}
        told = {} if self.library == PLAIN else {VARIABLE: str(path)}
        return {**rank_environment(rank, self.world, address(0)), **told, **meeting}

    def servers(self) -> list[subprocess.Popen[str]]:
        serving = {node for node in range(len(self.plan.nodes)) if self.peers(node)} - set(self.plan.workers)
        return [self._server(node) for node in sorted(serving)]

    def _server(self, node: int) -> subprocess.Popen[str]:
        name = self.plan.nodes[node]
        job = WorkerJob(
            node=node,
            name=name,
            rank=None,
            world=self.world,
            forest=str(self.folder / "plan.npz"),
            peers=self.peers(node),
            training=Replay(0, 0, ()),
            compute=Compute(mode="none"),
            overlap="none",
            buckets=(),
            chunk_bytes=self.chunk_bytes,
            congestion_control="reno",
            start_timeout_s=self.timeout_s,
            timeout_s=self.timeout_s,
            samples=str(self.samples(name)),
        )
        path = self.folder / f"{name}.json"
        job.save(path)
        return _started([sys.executable, "-m", "testbed.workloads.worker", str(path)], dict(os.environ))


def fork(several: Sequence[Ranks], script: Path, *arguments: str, imports: str = "") -> list[tuple[int, str]]:
    """Run a script in the ranks of several jobs, as :meth:`Ranks.fork` does for one; modules that it ``imports`` are
    imported once for all."""
    environments = [each.environment(rank) for each in several for rank in range(each.world)]
    folder = several[0].folder
    logs = [folder / f"{number}.log" for number in range(len(environments))]
    path = folder / "ranks.json"
    pairs = zip(environments, logs, strict=True)
    path.write_text(json.dumps([{"environment": own, "log": str(log)} for own, log in pairs]))
    servers = [server for each in several for server in each.servers()]
    statuses = _with_pytorch(imports, environments[0].get(THREADS, "")).ended([str(path), str(script), *arguments])
    finished(servers)
    return [(status, log.read_text()) for status, log in zip(statuses, logs, strict=True)]


class Forked:
    """A process that has imported PyTorch, and these modules, for the ranks that it forks."""

    def __init__(self, imports: str, threads: str) -> None:
        own = {THREADS: threads} if threads else {}
        self._process = subprocess.Popen(
            [sys.executable, str(FORKED)],
            env={**os.environ, **own, "TESTBED_TEST_IMPORTS": imports},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ended(self, words: Sequence[str]) -> list[int]:
        """The exit status of each rank."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(words), file=self._process.stdin, flush=True)
        assert select.select([self._process.stdout], [], [], PATIENCE_S)[0], "ranks have not ended"
        line = self._process.stdout.readline()
        assert line, "the process that forks ranks has ended"
        statuses: list[int] = json.loads(line)
        return statuses


_with_pytorch = cache(Forked)
"""One for each set of modules: it ends with this process."""


def _started(words: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finished(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What each said, when all have ended well."""
    said = [one.communicate(timeout=PATIENCE_S)[0] for one in processes]
    for one, text in zip(processes, said, strict=True):
        assert one.returncode == 0, text
    return said
