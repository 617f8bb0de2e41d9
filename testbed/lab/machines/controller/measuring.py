"""Measurements of a network over several machines: on one machine by its own lab, and from machine to machine by their
agents; and queues at the egresses, which each machine has read at moments of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from operator import attrgetter

from testbed.base.errors import HostError
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.connection import ANSWER_TIMEOUT_S, START_TIMEOUT_S, Connection
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.networks.measuring import PINGS, rates
from testbed.lab.baremetal.on_hosts.pings import PATIENCE_S
from testbed.lab.machines.on_machine.requests import ROWS_TOLD, MachineRequests
from testbed.lab.measurements import Burst, Calibration, Queues, Waited, Way

PING_S = 0.1
"""Seconds for the packets of one way: more than they take."""


def calibrate(
    fleet: Fleet, machine: Callable[[int], int], pings: Sequence[Way], bursts: Sequence[Burst]
) -> Calibration:
    """Measure round trips and bursts, as :meth:`testbed.lab.base.Lab.calibrate`. Bursts from machine to machine run at
    once, since one by one they would not show that they share what is between machines.

    Args:
        machine: the number of the machine that a node is on.

    Raises:
        LabError: it could not be measured.
    """
    trips: list[tuple[float, ...]] = [()] * len(pings)
    came: list[float] = [0.0] * len(bursts)

    def local(way: Way) -> bool:
        return machine(way.src) == machine(way.dst)

    for number, connection in enumerate(fleet.connections):
        ways = [i for i, way in enumerate(pings) if local(way) and machine(way.src) == number]
        sent = [i for i, one in enumerate(bursts) if local(one.way) and machine(one.way.src) == number]
        if not ways and not sent:
            continue
        call = MachineRequests.calibrate([asdict(pings[i]) for i in ways], [asdict(bursts[i]) for i in sent])
        limit_s = START_TIMEOUT_S + PING_S * len(ways) + sum(bursts[i].duration_s for i in sent)
        found = connection.ask(call, limit_s)
        with connection.named():
            answers.as_many(found["round_trips_s"], len(ways), "round trips")
            answers.as_many(found["rates_bps"], len(sent), "rates")
        for i, times in zip(ways, found["round_trips_s"], strict=True):
            trips[i] = tuple(times)
        for i, rate_bps in zip(sent, found["rates_bps"], strict=True):
            came[i] = rate_bps
    across = [i for i, way in enumerate(pings) if not local(way)]
    for i, times in zip(across, _round_trips(fleet, machine, [pings[i] for i in across]), strict=True):
        trips[i] = times
    over = [i for i, one in enumerate(bursts) if not local(one.way)]
    for i, rate_bps in zip(over, rates(fleet, [bursts[i] for i in over], at=machine) if over else [], strict=True):
        came[i] = rate_bps
    return Calibration(PINGS, tuple(trips), tuple(came))


def _round_trips(fleet: Fleet, machine: Callable[[int], int], ways: Sequence[Way]) -> list[tuple[float, ...]]:
    """Measure round trips (s) of each way from machine to machine, one after the other; those that did not come back
    are missing."""
    if not ways:
        return []
    ends: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for way in ways:
        ends[machine(way.dst)].append((way.dst, way.remote))
    opened = fleet.ask_some({number: MachineRequests.echo(some) for number, some in ends.items()})
    ports: dict[tuple[int, str], int] = {}
    for number, some in ends.items():
        if len(opened[number]) != len(some):
            raise HostError(f"{fleet.connections[number].name}: it says {len(opened[number])} ports of {len(some)}")
        ports |= dict(zip(some, opened[number], strict=True))
    found = []
    for way in ways:
        port = ports[way.dst, way.remote]
        call = MachineRequests.ping(way.src, way.local, way.remote, port, PINGS)
        limit_s = ANSWER_TIMEOUT_S + PINGS * PATIENCE_S
        found.append(tuple(fleet.connections[machine(way.src)].ask(call, limit_s)))
    fleet.ask_some({number: MachineRequests.echo([]) for number in ends})
    return found


def queues(fleet: Fleet, links: Sequence[frozenset[int]]) -> Queues:
    """Stop reading on all machines, and join what they have read, as :meth:`testbed.lab.base.Lab.queues`. Moments are
    on our clock. There were as many readings as the machine with the fewest has made; CPU time is that of all machines.

    Args:
        links: the directed links that leave each machine's nodes.

    Raises:
        LabError: queues are not watched, or a machine is lost, or tells of links that are not its own.
    """
    told = fleet.ask(MachineRequests.queues())
    windows = [
        row
        for connection, one, own in zip(fleet.connections, told, links, strict=True)
        for row in _queue_rows(connection, one["rows"], own)
    ]
    problems = [
        f"{connection.name}: {one['problem']}"
        for connection, one in zip(fleet.connections, told, strict=True)
        if one["problem"] is not None
    ]
    return Queues(
        tuple(sorted(windows, key=attrgetter("start_s", "directed_link"))),
        min(one["readings"] for one in told),
        sum(one["cost_s"] for one in told),
        "; ".join(problems) or None,
    )


def _queue_rows(connection: Connection, count: int, links: frozenset[int]) -> list[Waited]:
    """Fetch the rows of a machine. Raises LabError as :func:`queues` does."""
    found: list[Waited] = []
    while len(found) < count:
        told = connection.ask(MachineRequests.waited(len(found)))
        with connection.named():
            answers.as_many(told, min(ROWS_TOLD, count - len(found)), "rows of queues")
            strange = {link for link, *_ in told} - links
            if strange:
                raise HostError(f"it tells of the queue of link {min(strange)}, which is not its own", fix=answers.FIX)
        rows = [Waited(*row) for row in told]
        found += [row._replace(start_s=connection.clock.local_s(row.start_s)) for row in rows]
    return found
