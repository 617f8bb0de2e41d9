"""Queues at the egresses of all machines, which each has read at moments of its own."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from testbed.base.errors import HostError
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.connection import Connection
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.machines.on_machine.requests import ROWS_TOLD, MachineRequests
from testbed.lab.measurements import Queues, Waited


def read(fleet: Fleet, links: Sequence[frozenset[int]]) -> Queues:
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
        for row in _rows(connection, one["rows"], own)
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


def _rows(connection: Connection, count: int, links: frozenset[int]) -> list[Waited]:
    """Fetch the rows of a machine. Raises LabError as :func:`read` does."""
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
