"""From a trial to one job file for each process: who talks to whom at which address and port, and what it trains."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path

from testbed.base.process_names import file_name
from testbed.lab.base import Launch, LinkSettings
from testbed.trial.model import Network, Trial, link_settings
from topologies.addressing import Addresses, plan
from topologies.bursts import Burst
from topologies.model import Topology
from workloads import kinds
from workloads.arrivals import SETTLE
from workloads.failover import SAMPLES
from workloads.job import Compute, Failover, Job, Meeting, Peer, Probe, StepJitter, Task, Training
from workloads.sync.forest import Forest
from workloads.sync.schemes import survives

SYNC_PORT = 10_000
"""A connection's port is this plus the index of the node that opens it: below Linux's ephemeral range (32768)."""
PROBE_PORT = 9_000
"""A NIC listens for its burst at this plus its port number on the host."""
STATE_PORT = 9_600
"""Who gives weights to others, or takes them, after a node died, listens here."""
PROBE_S = 1.0
"""Long enough that a core taken away for a tick or two does not decide the rate, short beside a trial."""
LEAST_PROBE_BITS = 5_000_000
"""Of a burst over a slow link, which takes longer: its rate is taken in ten slices, and 42 packets are in each."""
INITIAL_WINDOW_BITS = 10 * 1448 * 8
"""What Linux sends before the first acknowledgement (RFC 6928)."""

PACE = 1.1
"""A burst whose way is slower than its NIC is sent this much faster than that way, which fills it. Unpaced, megabytes
would queue before the slow link, and behind them the acknowledgements of the burst that comes the other way."""


@dataclass(frozen=True)
class Files:
    """Where one trial's files are while it runs; ``logs`` stays, ``work`` goes.

    ``work`` is the harness's: processes on the nodes read there, and write each in its node's :meth:`own` folder. Where
    a node has several, they share that folder, and the names of their files tell them apart.
    """

    work: Path
    logs: Path
    homes: Mapping[str, str] = field(default_factory=dict)
    """By process, its node's name; one that is missing is its node's own, and has its name."""

    def home(self, process: str) -> str:
        """The name of the node on which a process runs."""
        return self.homes.get(process, process)

    def called(self, process: str) -> str:
        """What errors call a process: ``the worker on h3``, ``the process h3.daemon``."""
        return f"the worker on {process}" if self.home(process) == process else f"the process {process}"

    def own(self, process: str) -> Path:
        """The folder of the node on which a process runs, where it writes all that it writes."""
        return self.work / self.home(process)

    def _written(self, process: str, name: str) -> Path:
        """A file of that kind which a process writes."""
        return self.own(process) / (name if self.home(process) == process else f"{file_name(process)}.{name}")

    def make(self, topology: Topology) -> None:
        """Make the folders of processes, wherever there may be some, in ``work``, which is there."""
        for node in topology.nodes:
            if node.kind != "panel":
                self.own(node.name).mkdir(0o700)

    def job(self, process: str) -> Path:
        return self.work / f"{file_name(process)}.json"

    def samples(self, process: str) -> Path:
        return self._written(process, SAMPLES)

    def weights(self, process: str) -> Path:
        """The final weights, of rank 0."""
        return self._written(process, "weights.npy")

    def log(self, process: str) -> Path:
        return self.logs / f"{file_name(process)}.log"

    @property
    def prepared(self) -> Path:
        """The folder with the user's own model and data."""
        return self.work / "prepared"

    @property
    def agent(self) -> Path:
        """The program that runs a command on another host."""
        return self.work / "agent.sh"

    @property
    def forest(self) -> Path:
        return self.work / "forest.npz"

    def generation(self, number: int) -> Path:
        """The folder of one generation of a trial that survives deaths, see :mod:`testbed.recovery.failover`."""
        return self.work / f"generation-{number}"


def write(trial: Trial, files: Files, congestion_control: str, agent: Sequence[str] = ()) -> list[Launch]:
    """Write the forest and every process's job into ``files.work``; what the lab is to launch.

    ``agent`` is the lab's command that reaches another host; a library gets it as one program.
    """
    kinds.save(trial.network.forest, files.forest)
    files.generation(0).mkdir()
    if trial.own:
        trial.own.place(files.prepared)
    if agent:
        files.agent.write_text(f'#!/bin/sh\nexec {shlex.join(agent)} "$@"\n')
        files.agent.chmod(0o755)
    torch = trial.work.is_trained or trial.kind.uses_torch(trial.network.forest)
    launches = []
    for job in jobs(trial, files, congestion_control):
        path = files.job(job.name)
        job.save(path)
        launches.append(Launch(job.name, job.node, str(path), str(files.log(job.name)), torch=torch))
    return launches


def jobs(trial: Trial, files: Files, congestion_control: str) -> Iterator[Job]:
    """One job for each worker, then for each node that only passes chunks on."""
    topology, forest, kind = trial.network.topology, trial.network.forest, trial.kind
    addresses, port = plan(topology), kind.meeting_port(forest)
    bursts = probes(topology, addresses, link_settings(trial.spec))
    ranks = {name: rank for rank, name in zip(range(len(forest.workers)), trial.processes, strict=False)}
    measures = {node: name for name, node in reversed(trial.processes.items())}  # its links: the first of each node
    for name, node in trial.processes.items():
        yield Job(
            trial=trial.id,
            node=node,
            name=name,
            rank=ranks.get(name),
            world=len(forest.workers),
            forest=str(files.forest),
            peers=tuple(peer(addresses, node, other) for other in kind.neighbours(forest, node)),
            training=training(trial, files),
            compute=_compute(trial, ranks.get(name)),
            overlap=trial.work.overlap,
            buckets=trial.network.gradient.buckets,
            priority=trial.work.priority == "layer",
            chunk_bytes=trial.work.chunk_bytes,
            congestion_control=congestion_control,
            start_timeout_s=trial.spec.start_timeout_s,
            timeout_s=trial.spec.timeout_s,
            samples=str(files.samples(name)),
            weights=str(files.weights(name)) if ranks.get(name) == 0 else None,
            probes=bursts.get(node, ()) if measures[node] == name else (),
            failover=Failover(0, str(files.generation(0)), trial.spec.silence_s) if trial.survives else None,
            meeting=None if port is None else _meeting(forest, addresses, node, files, port),
            jitter=_jitter(trial, node) if name in ranks else None,
        )


def training(trial: Trial, files: Files) -> Task:
    """What each worker does, with the user's own model and data where they are while the trial runs."""
    task = trial.training
    if trial.own is None:
        return task
    assert isinstance(task, Training)  # the one task that has such
    return replace(task, own=trial.own.names(files.prepared), own_digest=trial.own.digest)


def _compute(trial: Trial, rank: int | None) -> Compute:
    """How long a worker's computing takes, its own slowdowns included."""
    slow = trial.stragglers
    if slow is None or rank is None:
        return trial.compute
    return replace(trial.compute, factor=tuple(slow.factor[rank]), extra_s=tuple(slow.extra_s[rank]))


def _jitter(trial: Trial, node: int) -> StepJitter | None:
    """Of several that a worker has, variances add up, as those of independent normal distributions do."""
    sigmas_s = [sigma_s[node] for sigma_s in trial.jitter if node in sigma_s]
    return StepJitter(math.hypot(*sigmas_s), (trial.spec.seed, node)) if sigmas_s else None


def _meeting(forest: Forest, addresses: Addresses, node: int, files: Files, port: int) -> Meeting:
    """Where ranks meet by themselves. Hosts have one NIC each, or the scheme would have been refused."""
    return Meeting(
        hosts=tuple(forest.nodes[worker] for worker in forest.workers),
        local=addresses.of(node, 0),
        first=addresses.of(forest.workers[0], 0),
        port=port,
        agent=str(files.agent),
    )


def peer(addresses: Addresses, node: int, other: int) -> Peer:
    """``node``'s side of its one connection with ``other``; the lower index opens it."""
    local, remote = addresses.flow(node, other)
    return Peer(node=other, local=local, remote=remote, port=SYNC_PORT + min(node, other))


def host_pairs(network: Network, background: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """(source, destination) of every flow of a trial, probes and ``background`` included: what the lab needs routes
    for."""
    everyone = _whoever_may_meet(network)
    wanted = {*network.kind.pairs(network.forest), *permutations(everyone, 2), *background}
    wanted |= {(burst.src, burst.dst) for burst in network.topology.bursts}
    return sorted(wanted | {(dst, src) for src, dst in wanted})


def _whoever_may_meet(network: Network) -> Sequence[int]:
    """Nodes any two of which may connect: where processes connect as they like, and in a scheme that goes on with
    another forest when a node dies."""
    topology = network.topology
    if survives(network.scheme_text):
        return [*topology.hosts, *(switch for switch in topology.switches if topology.nodes[switch].ina)]
    return network.kind.meet(network.forest)


def probes(topology: Topology, addresses: Addresses, settings: LinkSettings) -> dict[int, tuple[Probe, ...]]:
    """For each host, its NICs' part in :attr:`Topology.bursts`: where to send, and where to expect whose burst."""
    sends = {burst.src_link: burst for burst in topology.bursts}
    receives = {burst.dst_link ^ 1: burst for burst in topology.bursts}
    duration_s = burst_s(topology)
    found: dict[int, list[Probe]] = defaultdict(list)
    for link in sorted(sends.keys() & receives.keys()):
        out, back = sends[link], receives[link]
        local, remote = addresses.flow(out.src, out.dst)
        way_bps, nic_bps = out.rate_bps(topology), topology.links[link // 2].rate_bps
        found[out.src].append(
            Probe(
                local=local,
                remote=remote,
                source=addresses.flow(back.src, back.dst)[0],
                send_port=_probe_port(topology, out.dst_link ^ 1),
                listen_port=_probe_port(topology, link),
                rate_bps=round(back.rate_bps(topology) * back.arrives(topology, settings.loss)),
                duration_s=duration_s,
                pace_bps=round(PACE * way_bps) if way_bps < nic_bps else None,
                datagram_bytes=settings.datagram_bytes,
            )
        )
    return {host: tuple(one) for host, one in found.items()}


def burst_s(topology: Topology) -> float:
    """How long the burst takes with which hosts measure their links."""
    rates = [(burst.rate_bps(topology), burst.round_trip_s(topology)) for burst in topology.bursts]
    starts_s = [slow_start_s(rate_bps, round_trip_s) for rate_bps, round_trip_s in rates]
    slowest_bps = min((rate_bps for rate_bps, _ in rates), default=LEAST_PROBE_BITS)
    return max(PROBE_S, LEAST_PROBE_BITS / slowest_bps, max(starts_s, default=0.0) / SETTLE)


def slow_start_s(rate_bps: float, round_trip_s: float) -> float:
    """How long TCP takes until as much is on its way as the way holds: it doubles with each round trip."""
    return round_trip_s * (2 + math.log2(max(1.0, rate_bps * round_trip_s / INITIAL_WINDOW_BITS)))


def burst_addresses(topology: Topology) -> list[tuple[Burst, str, str]]:
    """Each burst with the addresses of the NICs that send and receive it."""
    addresses = plan(topology)
    return [(burst, *addresses.flow(burst.src, burst.dst)) for burst in topology.bursts]


def _probe_port(topology: Topology, link: int) -> int:
    """Where the NIC that ``link`` leaves from listens."""
    return PROBE_PORT + topology.port_at_tail(link)
