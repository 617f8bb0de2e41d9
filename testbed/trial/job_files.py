"""Job files, one for each process of a trial's jobs: who talks to whom at which address and port, and what it
trains."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from testbed.base.errors import TopologyError
from testbed.base.process_names import in_job, of_job
from testbed.lab.base import LinkSettings
from testbed.lab.programs import Launch
from testbed.topologies.addressing import Addresses, plan
from testbed.topologies.model import Burst, Topology
from testbed.topologies.part import Part
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.trial.ports import Ports
from testbed.workloads import kinds
from testbed.workloads.bursts.arrivals import LEAST_BITS, SETTLE
from testbed.workloads.failover import write_whole
from testbed.workloads.job import Compute, Failover, Gated, Meeting, Peer, Probe, StepJitter, Task, WorkerJob
from testbed.workloads.learning.checkpoint import Checkpoint
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.forest import Forest, placed
from testbed.workloads.sync.schemes import build

PROBE_PORT = 9_000
"""Base of the port at which a NIC listens for its burst, to which its port number on the host is added."""
ECHO_PORTS = 9_500, 9_501
"""UDP ports of all hosts: from which they send packets that are to come back, and at which they answer."""
STATE_PORT = 9_600
"""Port at which a process listens that gives weights to others, or takes them, after a node died."""
PROBE_S, LONGEST_PROBE_S, NIC_S = 0.4, 1.0, 0.01
"""Seconds of a burst: the least, which is short beside a trial and long enough that a core taken away for a tick or two
does not decide the rate; the most on fast links; and the time for each NIC, for all of them share the cores."""
INITIAL_WINDOW_BITS = 10 * 1448 * 8
"""Bits that Linux sends before the first acknowledgement (RFC 6928)."""

KERNEL_S, LEAST_KERNEL_BYTES = 5e-3, 16_384
"""Limits of what the kernel may hold of a connection that has to be empty before circuits can move: what its link
carries in this many seconds, and at least a few packets."""

PACE = 1.1
"""Factor by which a burst whose way is slower than its NIC is sent faster than that way, which fills it. Unpaced,
megabytes would queue before the slow link, and behind them the acknowledgements of the burst that comes the other
way."""


Probing = Mapping[str, tuple[Probe, ...]]
"""Measurements of a node's links, by the process that makes them."""


def write(trial: Trial, files: Files, congestion_control: str, agent: Sequence[str] = ()) -> list[Launch]:
    """Write every job's plan and what each of its processes is to do into ``files.work``; return what the lab is to
    launch.

    ``agent`` is the lab's command that reaches another host; a library gets it as one program.
    """
    if agent:
        files.agent.write_text(f'#!/bin/sh\nexec {shlex.join(agent)} "$@"\n')
        files.agent.chmod(0o755)
    probing = {} if trial.is_probed_before else _probing(trial)
    for job in trial.jobs:
        kinds.save(job.plan, files.plan(job.name))
        files.generation(0, job.name).mkdir()
        if job.own:
            job.own.place(files.prepared(job.name))
        for task in worker_jobs(job, files, congestion_control, probing, trial.ports):
            first, *others = trial.members[job.members[task.name].name].parts
            also = tuple(str(files.job(part.name)) for part in others) if task.name == first.name else ()
            replace(task, also=also).save(files.job(task.name))
    torch = {job.name for job in trial.jobs if _uses_torch(job)}
    return [
        Launch(
            name,
            process.node,
            str(files.job(process.parts[0].name)),
            str(files.log(name)),
            torch=any(part.job in torch for part in process.parts),
        )
        for name, process in trial.members.items()
    ]


def _uses_torch(job: Job) -> bool:
    return job.work.uses_torch or job.kind.software.uses_torch(job.plan)


def _probing(trial: Trial) -> Probing:
    """Have the first process of each node measure its links."""
    topology = trial.topology
    bursts = probes(topology, plan(topology), link_settings(trial.spec))
    return {name: bursts.get(node, ()) for node, name in {n: p for p, n in reversed(trial.processes.items())}.items()}


def worker_jobs(
    job: Job, files: Files, congestion_control: str, probing: Probing, ports: Ports | None = None
) -> Iterator[WorkerJob]:
    """Yield what each process of a job is to do: workers, then those that only pass chunks on. ``ports`` are the
    trial's; None for a job that is alone."""
    forest, spec = job.plan, job.network.spec
    addresses, port = plan(job.network.topology), job.kind.software.meeting_port(forest)
    ports = ports or Ports(job.members, len(job.network.topology.nodes))
    ranks, savers = {name: rank for rank, name in enumerate(job.workers)}, {*job.savers}
    for name, node in job.processes.items():
        yield WorkerJob(
            node=node,
            name=name,
            job=job.name,
            rank=ranks.get(name),
            world=job.world,
            forest=str(files.plan(job.name)),
            peers=tuple(peers(addresses, job, name, ports)),
            training=training(job, files),
            compute=compute_of(job, ranks.get(name)),
            overlap=job.work.overlap,
            buckets=job.gradient.buckets,
            priority=job.work.priority == "layer",
            chunk_bytes=job.chunk_bytes,
            congestion_control=congestion_control,
            start_timeout_s=spec.start_timeout_s,
            timeout_s=spec.timeout_s,
            samples=str(files.samples(name)),
            weights=str(files.weights(name)) if name in savers else None,
            probes=probing.get(name, ()),
            failover=Failover(0, str(files.generation(0, job.name)), spec.silence_s) if job.goes_on else None,
            loss_s=spec.silence_s if job.survives else None,
            meeting=None if port is None else _meeting(job, addresses, node, files, port),
            jitter=jitter_of(job, node) if name in ranks else None,
            checkpoint=_checkpoint(job, node, ranks.get(name), files.checkpoint(name)),
            fenced=str(files.fenced(job.name)) if job.returns else None,
            gate=_gate(job, files),
        )


def _gate(job: Job, files: Files) -> Gated | None:
    """Return where a process is told to hold, if circuits move while iterations run. Its kernel may hold of each
    connection what a link carries in a few milliseconds."""
    if not any(one.reconfiguration for one in job.network.perturbations):
        return None
    return Gated(str(files.gate), max(LEAST_KERNEL_BYTES, round(job.network.slowest_bps * KERNEL_S / 8)))


def _checkpoint(job: Job, node: int, rank: int | None, path: Path) -> Checkpoint | None:
    """Return which checkpoints a process writes: all weights that it has, or its part of those that all workers have.
    On a worker's node, only the worker writes."""
    asked = job.network.arm.checkpoint
    if asked is None or node not in job.checkpoints or (rank is None and node in job.plan.workers):
        return None
    total = job.iterations if rank is not None else job.iterations * job.world
    share = None if asked.spread is None or rank is None else (asked.spread, job.world, rank)
    rate_bytes_per_s = asked.rate_bytes_per_s / job.work.scale
    return Checkpoint(asked.every, rate_bytes_per_s, str(path), total, share, resumes=bool(job.returns))


def again(process: str, job: Job, files: Files) -> Launch:
    """Write the job of a process that is started again from its checkpoint; return what the lab is to launch."""
    path = files.job(process)
    before = WorkerJob.load(path)
    write_whole(path, replace(before, probes=(), restarts=before.restarts + 1).text())
    return Launch(process, before.node, str(path), str(files.log(process)), torch=_uses_torch(job))


def training(job: Job, files: Files) -> Task:
    """Return the task of each worker, with files that were prepared for it where they are while the trial runs."""
    task = job.training
    if job.own is None:
        return task
    own = {"own": job.own.names(files.prepared(job.name)), "own_digest": job.own.digest}
    return replace(task, **own)  # a task of prepared files has both fields


def compute_of(job: Job, rank: int | None) -> Compute:
    """Return how a worker computes, its own slowdowns included."""
    slow = job.stragglers
    if slow is None or rank is None:
        return job.compute
    return replace(job.compute, factor=tuple(slow.factor[rank]), extra_s=tuple(slow.extra_s[rank]))


def jitter_of(job: Job, node: int) -> StepJitter | None:
    """Return the jitter of a worker's steps, if it has some. Of several, variances add up, as those of independent
    normal distributions do."""
    sigmas_s = [sigma_s[node] for sigma_s in job.network.jitter if node in sigma_s]
    return StepJitter(math.hypot(*sigmas_s), (job.network.draws_seed, node)) if sigmas_s else None


def _meeting(job: Job, addresses: Addresses, node: int, files: Files, port: int) -> Meeting:
    """Return where ranks meet by themselves. Hosts have one NIC each, or the scheme would have been refused."""
    return Meeting(
        hosts=tuple(job.plan.nodes[worker] for worker in job.plan.workers),
        local=addresses.of(node, 0),
        first=addresses.of(job.plan.workers[0], 0),
        port=port,
        agent=str(files.agent),
    )


def peers(addresses: Addresses, job: Job, part: str, ports: Ports) -> Iterator[Peer]:
    """Yield a process's side of its connections in a job: with each process that it meets there one, or one for each of
    several parallel circuits, or for each NIC of a server, unless one of the two uses only one of these."""
    process = job.members[part]
    for name in process.meets:
        other = job.members.get(name) or job.members[of_job(job.name, name)]  # one that jobs share
        count = len(addresses.topology.connections(process.node, other.node))
        only = [each.connection for each in (process, other) if each.connection is not None]
        for connection in [min(only)] if only else range(count):
            end = peer(addresses, process.node, other.node, ports.of(process, other), connection)
            yield replace(end, process=in_job(job.name, other.name))


def peer(addresses: Addresses, node: int, other: int, port: int, connection: int = 0) -> Peer:
    """Return ``node``'s side of a connection with ``other``; the lower index opens it."""
    local, remote = addresses.flow(node, other, connection)
    bound = addresses.topology.is_parallel and len(addresses.leading(node, other, remote)) > 1
    return Peer(node=other, local=local, remote=remote, port=port, bound=bound)


def host_pairs(trial: Trial) -> list[tuple[int, int]]:
    """Return (source, destination) of every flow of a trial, probes and background flows included: the pairs that the
    lab needs routes for."""
    wanted = {(burst.src, burst.dst) for burst in trial.topology.bursts} | {*trial.background}
    if trial.is_probed_before:
        wanted |= {pair for ring in meeting_rings(trial.topology) for pair in pairs(ring)}
    if trial.findings:
        wanted |= {*permutations(_all(trial.topology), 2)}
    for job in trial.jobs:
        wanted |= {*job.kind.pairs(job.plan), *permutations(_may_meet(job), 2)}
    return sorted(wanted | {(dst, src) for src, dst in wanted})


def moves_for_jobs(trial: Trial) -> bool:
    """Whether circuits move for jobs, so that some hosts have routes later only."""
    return any(job.slot is not None and job.slot.circuits is not None for job in trial.jobs)


def joined(topology: Topology, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs that have routes."""
    return [pair for pair in pairs if _reach(topology, *pair)]


def meeting_rings(topology: Topology) -> list[Forest]:
    """Return rings along which processes meet that measure links: one for all hosts that have routes to each other."""
    left, found = list(topology.hosts), []
    while left:
        near = tuple(host for host in left if _reach(topology, left[0], host))
        left = [host for host in left if host not in near]
        if len(near) > 1:
            part = Part(topology, near)
            found.append(placed(build("ring", part.topology, []), part))
    return found


def _reach(topology: Topology, a: int, b: int) -> bool:
    try:
        return bool(topology.paths(a, b))
    except TopologyError:
        return False


def _may_meet(job: Job) -> Sequence[int]:
    """Return nodes any two of which may connect: where processes connect as they like, and in a job that goes on with
    another plan when a node dies."""
    return _all(job.network.topology) if job.goes_on else job.kind.meet(job.plan)


def _all(topology: Topology) -> Sequence[int]:
    """Return all nodes that may have processes."""
    return [*topology.hosts, *(switch for switch in topology.switches if topology.nodes[switch].ina)]


def probes(topology: Topology, addresses: Addresses, settings: LinkSettings) -> dict[int, tuple[Probe, ...]]:
    """Return, for each host, its NICs' part in :attr:`Topology.bursts`: where to send, and where to expect whose
    burst."""
    sends = {burst.src_link: burst for burst in topology.bursts}
    receives = {burst.dst_link ^ 1: burst for burst in topology.bursts}
    duration_s = burst_s(topology)
    found: dict[int, list[Probe]] = defaultdict(list)
    for link in sorted(sends.keys() & receives.keys()):
        found[sends[link].src].append(probe(addresses, settings, sends[link], receives[link], duration_s))
    return {host: tuple(one) for host, one in found.items()}


def probe(addresses: Addresses, settings: LinkSettings, out: Burst, back: Burst, duration_s: float) -> Probe:
    """Return a host's part in two bursts at the same time: ``out`` leaves it, and ``back`` arrives."""
    topology = addresses.topology
    local, remote = addresses.flow(out.src, out.dst, out.connection)
    way_bps, nic_bps = out.rate_bps(topology), topology.links[out.src_link // 2].rate_bps
    return Probe(
        local=local,
        remote=remote,
        source=addresses.flow(back.src, back.dst, back.connection)[0],
        send_port=_probe_port(topology, out.dst_link ^ 1),
        listen_port=_probe_port(topology, back.dst_link ^ 1),
        rate_bps=round(back.rate_bps(topology) * back.arrives(topology, settings.loss)),
        duration_s=duration_s,
        pace_bps=round(PACE * way_bps) if way_bps < nic_bps else None,
        datagram_bytes=settings.datagram_bytes,
    )


def burst_s(topology: Topology) -> float:
    """Return how long the burst takes with which hosts measure their links (s)."""
    rates = [(burst.rate_bps(topology), burst.round_trip_s(topology)) for burst in topology.bursts]
    starts_s = [slow_start_s(rate_bps, round_trip_s) for rate_bps, round_trip_s in rates]
    slowest_bps = min((rate_bps for rate_bps, _ in rates), default=LEAST_BITS)
    shared_s = min(LONGEST_PROBE_S, NIC_S * len(rates))
    return max(PROBE_S, shared_s, LEAST_BITS / slowest_bps, max(starts_s, default=0.0) / SETTLE)


def slow_start_s(rate_bps: float, round_trip_s: float) -> float:
    """Return how long TCP takes until as much is on its way as the way holds (s): it doubles with each round trip."""
    return round_trip_s * (2 + math.log2(max(1.0, rate_bps * round_trip_s / INITIAL_WINDOW_BITS)))


def burst_addresses(topology: Topology) -> list[tuple[Burst, str, str]]:
    """Return each burst with the addresses of the NICs that send and receive it."""
    addresses = plan(topology)
    return [(burst, *addresses.flow(burst.src, burst.dst, burst.connection)) for burst in topology.bursts]


def _probe_port(topology: Topology, link: int) -> int:
    """Return the port at which the NIC that ``link`` leaves from listens."""
    return PROBE_PORT + topology.port_at_tail(link)
