"""Labs that work through an agent on each of several machines: what they have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from testbed.base.errors import LabError
from testbed.files.foreign import Listing
from testbed.lab.baremetal.controller import shipping
from testbed.lab.baremetal.controller.answers import Event
from testbed.lab.baremetal.controller.connection import Connection, Lost, Pending
from testbed.lab.baremetal.controller.fleet import Fleet, FleetMonitor
from testbed.lab.baremetal.machines import Machines
from testbed.lab.base import LinkChange
from testbed.lab.programs import Exit, Launch, Program
from testbed.lab.requests import Call


class FleetLab:
    """Lab of machines with agents (see :class:`testbed.lab.base.Lab`)."""

    _machines: Machines

    def __init__(self) -> None:
        self._lost = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fleet: Fleet | None = None
        self._work: Path | None = None
        self._changes: dict[int, LinkChange] = {}
        self._description: dict[str, Any] = {}
        self._ups = 0

    def _on_event(self, connection: Connection, event: Event | Lost) -> None:
        if isinstance(event, Lost):
            with suppress(OSError):  # nobody looks any more
                os.eventfd_write(self._lost, 1)
        if self._fleet is not None:
            self._fleet.on_event(connection, event)

    def _site(self, machine: int) -> shipping.Site:
        """A machine, by its number, as files and words are translated to it."""
        raise NotImplementedError

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:  # noqa: ARG002 - as every lab's
        """Keep the folder of the trial's files: each machine has a folder of its own, and what is written there is
        brought here."""
        self._work = work.absolute()

    def _ship(
        self, worker: Launch, machine: int, work: Path | None = None
    ) -> tuple[Call[None], list[tuple[Connection, Pending[None]]]]:
        """Send a worker's files to its machine, and follow those that grow there. Return the request that starts it,
        and what to wait for before."""
        fleet = self._up()
        connection = fleet.connections[machine]
        call, files, followed = shipping.launching(worker, self._site(machine), work)
        for name, path in followed.items():
            fleet.follow(machine, name, path)
        Path(worker.log).touch()
        sent = [answer for name, (data, mode) in files.items() for answer in connection.put(name, data, mode)]
        fleet.expect(worker.process, machine)
        return call, [(connection, answer) for answer in sent]

    def _shipped(self, program: Program, machine: int, log: str, work: Path | None) -> tuple[Program, str]:
        """Translate a program to a machine, and follow its log there; return it with the log's name."""
        site = self._site(machine)
        name = site.log(log)
        self._up().follow(machine, name, Path(log))
        Path(log).touch()
        return shipping.program(program, site, shipping.Shipment(site, work)), name

    def exits(self) -> list[Exit]:
        return self._up().exits()

    def stopped(self) -> list[str]:
        return self._up().stopped()

    def cpu_s(self) -> dict[str, float]:
        return self._up().cpu_s()

    def kill(self) -> None:
        self._up().kill()

    def tell(self, path: Path, said: Mapping[str, Any]) -> None:
        """Add the line on every machine: which machine's processes read it is not known here."""
        self._up().tell(shipping.Shipment(self._site(0), self._work).name(str(path)), said)

    def fileno(self) -> int:
        """File descriptor that is readable once a machine is lost."""
        return self._lost

    def monitor(self) -> FleetMonitor:
        return FleetMonitor(self._up())

    def describe(self) -> dict[str, Any]:
        if self._fleet is None:
            return self._description
        clocks = self._fleet.clocks()
        named = zip(self._description.get("hosts", {}).items(), clocks, strict=True)
        worst = sorted(clock["uncertainty_s"] for clock in clocks)
        # The largest error of a time between moments on two machines is the sum of the two largest uncertainties.
        hosts = {name: {**one, "clock": clock} for (name, one), clock in named}
        return {**self._description, "clock_uncertainty_s": sum(worst[-2:]), "hosts": hosts}

    def down(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        with suppress(LabError):
            self.down()
        self._machines.close()
        lost, self._lost = self._lost, -1  # before it is closed: a connection's thread may still tell a loss
        if lost >= 0:
            os.close(lost)

    def _up(self) -> Fleet:
        if self._fleet is None:
            raise LabError("no network is up", fix="call up() first")
        return self._fleet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listing(told: Mapping[str, Any]) -> Listing:
    """Make a listing of what an agent tells (:class:`testbed.lab.baremetal.controller.answers.Written`)."""
    return Listing(tuple((name, size_bytes) for name, size_bytes in told["files"]), told["is_whole"])
