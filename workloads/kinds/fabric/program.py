"""Agreement between the processes of a program: roles, parameters, and the network that the scheduler plans with."""

from __future__ import annotations

import math
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from testbed.base.errors import SpecError
from testbed.topologies.star import star
from testbed.workloads.job import Peer
from testbed.workloads.kinds.fabric.fields import convert, number
from testbed.workloads.kinds.fabric.plan import (
    Fabric,
    Options,
    check_delay_bound,
    check_divergence,
    check_times,
    fabric,
)
from testbed.workloads.kinds.fabric.processes.meeting import Place, meet
from testbed.workloads.kinds.fabric.processes.own_daemon import Job
from testbed.workloads.sync.tcp_info import congestion_control

Role = Literal["worker", "server", "replica", "scheduler"]
_ORDER: tuple[Role, ...] = ("worker", "server", "replica", "scheduler")
"""Order in which the roles stand in the nodes of a plan."""


@dataclass(frozen=True)
class Params:
    """The parameters with which a process registers. All processes give the same, but for ``rate_bps`` and
    ``timeout_s``.

    Attributes:
        floats: of the weights, and of an update.
        updates: of all workers together; when so many were pushed, the training ends. With ``sums`` a multiple of the
            workers.
        rate_bps: of this host's NIC, headers included.
        delay_bound: tau_max of eq. 9: an update is applied if at most this less one others came in between; None for no
            bound.
        divergence_bound: Div_max of section 5.3: how far, as a norm, the server's weights may be from its replica's;
            None for no replica.
        aggregators: how many workers' daemons may sum updates on their way; None for a fifth of them, at least one.
            Then the server's callback must do with a sum what it does with its terms.
        window_s: for how long updates are collected before they are planned together.
        sums: whether the server makes sums for ``all_reduce``, and has no weights.
        timeout_s: how long a process waits at most for others while nothing happens.

    Raises:
        SpecError: one of them makes no sense.
    """

    floats: int
    updates: int
    rate_bps: float
    delay_bound: int | None = None
    divergence_bound: float | None = None
    aggregators: int | None = None
    window_s: float = 0.1
    sums: bool = False
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        convert(self)
        for name in ("floats", "updates", "rate_bps", "timeout_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise SpecError(f"Params has {name} of {value:g}", fix=f"give {name} above 0, a finite number")
        if self.aggregators is not None and self.aggregators < 0:
            raise SpecError(f"Params has aggregators of {self.aggregators}", fix="give aggregators 0 or more, or None")
        if self.delay_bound is not None:
            check_delay_bound("Params", self.delay_bound)
        check_divergence("Params", self.divergence_bound, None)
        check_times("Params", self.window_s, 0.0)
        for name in ("delay_bound", "divergence_bound"):
            if self.sums and getattr(self, name) is not None:
                raise SpecError(
                    f"Params has sums and a {name} of {getattr(self, name):g}: a sum has all updates, and no replica",
                    fix=f"remove {name}, or sums",
                )

    @property
    def common(self) -> dict[str, Any]:
        """The parameters that all processes must give alike."""
        return {name: value for name, value in asdict(self).items() if name not in ("rate_bps", "timeout_s")}


def role(params: Params, place: Place | None = None) -> Role:
    """Return the role of a rank: the last process schedules, before it comes the replica, if there is a divergence
    bound, and before that the server; all others work. A program may take other roles, as long as there is one of each.

    Raises:
        SpecError: the environment does not say which rank this is.
    """
    place = place or Place.from_environment()
    others: tuple[Role, ...] = ("scheduler", "server")
    if params.divergence_bound is not None:
        others = ("scheduler", "replica", "server")
    from_end = place.world - 1 - place.rank
    return others[from_end] if from_end < len(others) else "worker"


def name_of(rank: int) -> str:
    """Return the name of a rank's process, as messages, ``push`` and ``get`` use it."""
    return f"rank{rank}"


def register(role: Role, params: Params, place: Place | None) -> Job:
    """Meet the other processes, and agree on a plan.

    Raises:
        SpecError: the environment does not say which rank this is, or the processes do not fit together.
        TrialTimeoutError, WorkerError: others did not come.
    """
    place = place or Place.from_environment()
    members = meet(place, {"role": role, "rate_bps": params.rate_bps, **params.common}, params.timeout_s)
    said = [one.said for one in members]
    rates_bps = _check_same(said, params)
    ranks = sorted(range(place.world), key=lambda rank: (_ORDER.index(said[rank]["role"]), rank))
    plan = _plan(params, ranks, [rates_bps[rank] for rank in ranks])
    node = ranks.index(place.rank)
    addresses = [members[rank].address for rank in ranks]
    peers = [
        Peer(other, addresses[node], addresses[other], place.port + 1 + max(node, other)) for other in plan.met_by(node)
    ]
    with socket.socket(socket.AF_INET) as sock:
        default = congestion_control(sock)
    return Job(plan, node, peers, default, params.timeout_s)


def _check_same(said: list[Mapping[str, Any]], params: Params) -> list[float]:
    """Check that the processes fit together, and return the rate of each rank's host (bit/s). Raises SpecError: the
    processes have other parameters, or a role is not filled as often as it must be."""
    for rank, one in enumerate(said):
        for name, value in params.common.items():
            if one.get(name) != value:
                raise SpecError(
                    f"rank {rank} has registered with {name}={one.get(name)}, and this process with {name}={value}",
                    fix="give all processes the same Params, but for rate_bps and timeout_s",
                )
        if one.get("role") not in _ORDER or not 0 < _rate_bps(one) < math.inf:
            raise SpecError(f"rank {rank} has no role and rate", fix="give all processes the same version of this")
    counts = Counter(one["role"] for one in said)
    for wanted, count in (("server", 1), ("replica", int(params.divergence_bound is not None)), ("scheduler", 1)):
        if counts[wanted] != count:
            raise SpecError(
                f"of {len(said)} processes, {counts[wanted]} registered as {wanted}, and {count} must",
                fix="let each process take the role that role(params) says; a divergence_bound needs a replica",
            )
    if params.updates < counts["worker"]:
        raise SpecError(
            f"Params has updates={params.updates}, and {counts['worker']} workers push one each at least",
            fix=f"give updates {counts['worker']} or more",
        )
    rest = params.updates % max(1, counts["worker"])  # without workers there is no plan
    if params.sums and rest:
        raise SpecError(
            f"Params has updates={params.updates} and sums, and {counts['worker']} workers push one each for a sum",
            fix=f"give updates {params.updates - rest}, or another multiple of the workers",
        )
    return [_rate_bps(one) for one in said]


def _rate_bps(said: Mapping[str, Any]) -> float:
    """Read the rate (bit/s) that a process reports for its host; not a number if it reports none."""
    try:
        return number(said.get("rate_bps"))
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _plan(params: Params, ranks: list[int], rates_bps: list[float]) -> Fabric:
    """Make the plan from the network that the scheduler knows: hosts around a switch, by the ranks of their
    processes."""
    staleness = 0 if params.sums else None
    options = Options(params.delay_bound, staleness, window_s=params.window_s, divergence_bound=params.divergence_bound)
    hosts = star(1, 0.0, hosts=len(ranks))
    named = [replace(node, name=name_of(rank)) for node, rank in zip(hosts.nodes, ranks, strict=False)]
    links = [replace(link, rate_bps=max(1, round(rate))) for link, rate in zip(hosts.links, rates_bps, strict=True)]
    network = replace(hosts, nodes=(*named, *hosts.nodes[len(named) :]), links=tuple(links))
    return fabric(network, "a program", options, params.aggregators)
