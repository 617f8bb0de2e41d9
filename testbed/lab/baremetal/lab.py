"""The ``baremetal`` lab: machines of an Ansible inventory, shaped by a playbook, worked through an agent on each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from testbed.base.errors import HostError, LabError
from testbed.files.foreign import Listing
from testbed.lab.baremetal.controller import answers, shipping
from testbed.lab.baremetal.controller.connection import START_TIMEOUT_S, Connection
from testbed.lab.baremetal.controller.fleet import Fleet, Started
from testbed.lab.baremetal.fleet_lab import FleetLab, listing
from testbed.lab.baremetal.machines import Attached, Machines
from testbed.lab.baremetal.networks import measuring
from testbed.lab.baremetal.networks import network as networks
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.preparing.inventory import Inventory
from testbed.lab.baremetal.preparing.playbook import Tell
from testbed.lab.base import Impairment, LinkChange, LinkSettings, Patched
from testbed.lab.limits import HTB
from testbed.lab.measurements import Burst, Calibration, Counters, Interruption, Queues, Reading, Traffic, Way
from testbed.lab.programs import Completed, Launch, Program, Running, check_launches, check_target, need_torch
from testbed.lab.requests import Call
from testbed.topologies import addressing
from testbed.topologies.model import Topology

UNDO_S = 120.0
"""Seconds without a word from us after which a host undoes its shaping: longer than a network's hiccup, shorter than
lunch."""


def quiet(_: str) -> None:
    """Tell nobody."""


class BaremetalLab(FleetLab):
    """Lab of hosts that are there (see :class:`testbed.lab.base.Lab`); links are their training NICs.

    Args:
        inventory: the Ansible inventory.
        allow_missing: leave out hosts that cannot be reached, rather than refuse.
        tell: takes a line of progress.

    Raises:
        SpecError: the inventory makes no sense.
        HostError: a host cannot be used, is not prepared, or cannot be reached.
        MissingToolError: Ansible or its playbooks are not installed.
    """

    real_switches = True

    def __init__(self, inventory: Path, *, allow_missing: bool = False, tell: Tell = quiet) -> None:
        super().__init__()
        self._tell = tell
        self._machines = Machines(inventory, tell, self._on_event, allow_missing=allow_missing)
        self._network: networks.Placement | None = None
        self._started: set[str] = set()
        self._known: set[tuple[str, str]] = set()
        self._physical: list[dict[str, Any]] = []

    @property
    def inventory(self) -> Inventory:
        """The hosts in use."""
        return self._machines.inventory

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        networks.check(topology, settings, self.inventory)

    def written(self, node: int, folder: Path) -> Listing:
        return listing(self._up().connections[node].ask(HostRequests.written(str(folder))))

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        piece = self._up().connections[node].ask(HostRequests.read_written(str(folder), name, offset))
        return bytes(piece["data"])

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        self.down()
        self.require(topology, settings)
        pairs = {*pairs, *measuring.crossing_pairs(topology)}
        plan = networks.plan(
            topology, settings, pairs, self.inventory, self._machines.macs(), self._machines.owner, UNDO_S
        )
        self._network, self._changes = plan, {}
        self._started = set()
        self._ups += 1
        try:
            self._fleet = fleet = Fleet([self._machines.connect(host) for host in plan.hosts])
            fleet.logical = {used: planned for planned, used in plan.physical.items()}
            hello = fleet.ask(HostRequests.hello(), START_TIMEOUT_S)
            self._shape(plan)
            self._description = self._described(plan, hello, settings)
            self._take_in(fleet.ask_each([HostRequests.shaped(one.plain()) for one in plan.wanted]))
            fleet.begin()
        except HostError as error:
            self.down()
            raise LabError(error.problem, fix=error.fix) from None
        except BaseException:
            with suppress(LabError):
                self.down()
            raise

    def _shape(self, plan: networks.Placement) -> None:
        """Shape the hosts' NICs. NICs that are new to this lab are measured and then shaped by the playbook; from then
        on the agents, which are there anyway, shape them in a fraction of its time."""
        used = {(host.name, nic.name) for host, one in zip(plan.hosts, plan.wanted, strict=True) for nic in one.nics}
        plans = [one.plain() for one in plan.wanted]
        if used <= self._known:
            self._up().ask_each([HostRequests.shape(one, arm=True) for one in plans])
            return
        self._probe(plan)
        names = [host.name for host in plan.hosts]
        self._machines.shape(dict(zip(names, plans, strict=True)))
        self._known |= used

    def _probe(self, plan: networks.Placement) -> None:
        """Measure how fast the NICs are without shaping."""
        fleet = self._up()
        unshaped = [replace(one, nics=tuple(replace(nic, out_bps=0) for nic in one.nics)) for one in plan.wanted]
        fleet.ask_each([HostRequests.shape(one.plain(), arm=False) for one in unshaped])
        self._physical = measuring.physical(fleet, plan)
        fleet.ask(HostRequests.undo())
        for line in measuring.remarks(self._physical):
            self._tell(f"probe: {line}")

    def _described(self, plan: networks.Placement, hello: Sequence[Any], settings: LinkSettings) -> dict[str, Any]:
        hosts = {}
        for node, (host, wanted) in enumerate(zip(plan.hosts, plan.wanted, strict=True)):
            nics = {nic.name: self._machines.facts[host.name]["nics"][nic.name] for nic in wanted.nics}
            hosts[f"h{node}"] = {"host": host.name, "rack": host.rack, **hello[node], "nics": nics}
        return {
            "lab": "baremetal",
            "switches": "physical",
            "physical": self._physical,
            "mtu": settings.mtu,
            "undo_s": UNDO_S,
            "hosts": hosts,
        }

    def plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None = None) -> NoReturn:  # noqa: ARG002
        raise LabError(f"{topology.expression}: machines have no patch panels", fix="take the lab netns")

    def patch(
        self,
        topology: Topology,
        dark_s: float,  # noqa: ARG002  # as the protocol has it
        pairs: Iterable[tuple[int, int]] | None = None,
        lit: Callable[[], object] = lambda: None,  # noqa: ARG002
    ) -> Patched:
        self.plan_patch(topology, pairs)

    def agent(self) -> list[str]:
        """Return ``ssh``. Hosts may not reach each other by it; :mod:`testbed.experiment.expand` refuses what would
        need that."""
        return ["ssh"]

    def launch(self, workers: Sequence[Launch]) -> None:
        fleet, sent, calls = self._up(), [], []
        check_launches(workers, self._plan().topology)
        self._started |= {worker.process for worker in workers}
        if not all(worker.program for worker in workers):
            fleet.ask(HostRequests.prepare(need_torch(workers)), START_TIMEOUT_S)  # so that all start together
        for worker in workers:
            call, of_worker = self._ship(worker, worker.node)
            sent += of_worker
            calls.append((fleet.connections[worker.node], call))
        for connection, answer in sent:
            connection.end(answer)
        started = [(connection, connection.begin(call)) for connection, call in calls]
        for connection, answer in started:
            connection.end(answer, START_TIMEOUT_S)

    def _site(self, node: int) -> shipping.Site:
        host = self._plan().hosts[node]
        names = [nic.name for nic in host.nics]
        token = self._machines.token
        return shipping.Site(host, self._plan().physical, self._ups, token, names, f"{host.home}/work/{token}")

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        raise LabError(
            f"{next(iter(wanted.values()))}: the lab baremetal has the delays of the network that is there",
            fix="take the lab netns",
        )

    def signal(self, target: str, number: int) -> None:
        fleet, topology = self._up(), self._plan().topology
        check_target(target, topology, self._started)
        if topology.index.get(target, 0) >= len(fleet.connections):
            raise LabError(
                f"{target} is a switch of the network that is there; nothing of ours runs on it", fix="name a host"
            )
        if target in topology.index:
            fleet.connections[topology.index[target]].ask(HostRequests.signal(number))
        elif (node := fleet.node_of(target)) is not None:
            fleet.connections[node].ask(HostRequests.signal_worker(number, target))

    def start(self, node: int, program: Program, log: str) -> Running:
        there, name = self._shipped(program, node, log, None)
        call = HostRequests.start(there.words, there.environment, self._plan().hosts[node].home, name)
        return Started(self._up(), node, self._up().connections[node].ask(call))

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        plan, fleet = self._plan(), self._up()
        asked: list[tuple[Connection, Call[None]]] = []
        for change in changes:
            link = change.directed_link
            if change.rate_bps is not None:
                HTB.check_rate(change.rate_bps)
            now = self._changes[link] = self._changes.get(link, LinkChange(link)).then(change)
            where = plan.place(link)
            if where is None:
                raise LabError(
                    f"{plan.label(link)}: the lab baremetal cannot change links between switches, which "
                    "are the network's that is there",
                    fix="name a link of a host, or take the lab netns",
                )
            node, nic, out = where
            rate_bps = now.rate_bps or plan.topology.links[link // 2].rate_bps
            call = HostRequests.adjust(nic, out, rate_bps, now.queue_bytes, bool(now.blocked))
            asked.append((fleet.connections[node], call))
        begun = [(connection, connection.begin(call)) for connection, call in asked]
        for connection, answer in begun:
            connection.end(answer)

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        return measuring.calibrate(self._up(), pings, bursts, self._plan().physical)

    def between_racks(self) -> list[dict[str, Any]]:
        return measuring.between_racks(self._up(), self._plan())

    def verify(self) -> None:
        from testbed.lab.baremetal.nics import second_reading  # here, for pyroute2 takes 0.15 s

        fleet = self._up()
        self._take_in(fleet.ask(HostRequests.verify()))
        read = second_reading.check(self._plan(), self._changes, fleet.ask(HostRequests.said()))
        self._description["second_reading"] = read

    def spot_check(self) -> Reading:
        """Read all NICs of every host back by its agent. CPU time that this takes on a host is not known, so the time
        until all have answered stands for it."""
        began_s = time.monotonic()
        answers = self._up().ask(HostRequests.verify())
        differs = [
            f"{connection.name}: {one['differs']}"
            for connection, one in zip(self._up().connections, answers, strict=True)
            if one["differs"]
        ]
        links = sum(2 * len(one.nics) for one in self._plan().wanted)
        return Reading(links, time.monotonic() - began_s, tuple(differs))

    def _take_in(self, read_back: Sequence[Mapping[str, Any]]) -> None:
        """Raises LabError: a host's kernel has something else than was asked for."""
        shapes: Counter[tuple[tuple[str, int], ...]] = Counter()
        for connection, wanted, one in zip(self._up().connections, self._plan().wanted, read_back, strict=True):
            if one["differs"]:
                raise LabError(f"{connection.name}: {one['differs']}", fix="find what else changes its NICs")
            with connection.named():
                answers.as_many(one["shapes"], len(wanted.nics), "shapes of NICs")
            shapes.update(tuple(direction.items()) for nic in one["shapes"] for direction in nic)
        self._description["shapes"] = [{**dict(one), "directed_links": count} for one, count in shapes.items()]

    def counters(self) -> list[Counters]:
        plan, by_node = self._plan(), self._up().ask(HostRequests.counters())
        for connection, wanted, counted in zip(self._up().connections, plan.wanted, by_node, strict=True):
            with connection.named():
                answers.as_many(counted, len(wanted.nics), "counters of NICs")
        found = []
        for link in range(2 * len(plan.topology.links)):
            where = plan.place(link)
            if where is not None:
                node, nic, out = where
                found.append(Counters(link, *by_node[node][nic][0 if out else 1]))
        return found

    def traffic(self, ports: range) -> Sequence[Traffic]:
        return measuring.traffic(self._up(), self._plan().topology, ports)

    def watch_queues(self) -> bool:
        """Return False: a switch's queues are its own, and those of hosts would be read through SSH."""
        return False

    def queues(self) -> Queues:
        raise LabError("queues are not watched on machines", fix="take a lab of this machine, such as netns")

    def interruptions(self) -> list[Interruption]:
        return []

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        connection = self._up().connections[node]
        call = HostRequests.execute(command, timeout_s)
        return Completed(*connection.ask(call, timeout_s + START_TIMEOUT_S))

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Attached:
        """Run a command on a host for ``testbed exec``, as the user that the inventory names; words that name hosts of
        the topology become their training addresses."""
        plan, topology = self._plan(), self._plan().topology
        addresses = addressing.plan(topology)
        named = {
            topology.nodes[other].name: plan.physical[addresses.arrival(node, other)]
            for other in topology.hosts
            if other != node
        }
        words = [named.get(word, word) for word in command]
        return Attached(self._machines.ssh(plan.hosts[node]), words, files)

    def down(self) -> None:
        fleet, self._fleet, self._network = self._fleet, None, None
        self._description = {}
        if fleet is not None:
            fleet.close()
        self._machines.undo()

    def _plan(self) -> networks.Placement:
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network
