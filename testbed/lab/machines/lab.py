"""The ``machines`` lab: one network in namespaces of several machines, each with its share, worked through an agent on
each."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError, LabError
from testbed.files.foreign import Listing
from testbed.lab.baremetal.controller import shipping
from testbed.lab.baremetal.controller.connection import START_TIMEOUT_S, Connection, become
from testbed.lab.baremetal.controller.fleet import Fleet, Started
from testbed.lab.baremetal.fleet_lab import FleetLab, listing
from testbed.lab.baremetal.machines import Attached, Machines
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.base import Impairment, LinkChange, LinkSettings, Patched
from testbed.lab.machines.controller import measuring
from testbed.lab.machines.controller.answers import MACHINES
from testbed.lab.machines.controller.nics import Nics
from testbed.lab.machines.controller.relay import Relay
from testbed.lab.machines.cut import MOST_NUMBER, OUTER_BYTES, Cut, Underlay, cut, impairing, share
from testbed.lab.machines.on_machine.requests import MachineRequests, packed
from testbed.lab.machines.place import Spread
from testbed.lab.measurements import (
    Burst,
    Calibration,
    Counters,
    Interruption,
    Passed,
    Queues,
    Reading,
    Stream,
    Traffic,
    Way,
)
from testbed.lab.netns.network.blueprint import Blueprint, StaticRoute, blueprint, crossing, detours
from testbed.lab.netns.network.build import MACHINE
from testbed.lab.netns.network.impairing import NETEM
from testbed.lab.netns.network.patch import carry_out, check_alike
from testbed.lab.netns.readings.listening import Said
from testbed.lab.place import Opening
from testbed.lab.programs import Completed, Exit, Launch, Program, Running, check_launches, check_target
from testbed.topologies.model import Path as Route
from testbed.topologies.model import Topology

WORK_TIMEOUT_S = 60.0
"""Seconds that a machine may take to build its share, and to start processes."""
SILENT_S = 10.0
"""Seconds for which a machine may say nothing; it is asked for its clock every second."""
BACK_S, AGAIN_S = 60.0, 1.0
"""Seconds that a trial waits for a machine that was lost in an earlier one, and between two attempts to reach it."""
PINGS = 11
"""Number of round trips between two machines, of which the shortest counts."""


@dataclass(frozen=True)
class _Network:
    """A network over machines: what was asked for, where its nodes are, and what is between machines.

    Attributes:
        routes_at: routes of a bridging switch that is to forward by address, too.
    """

    topology: Topology
    settings: LinkSettings
    pairs: list[tuple[int, int]]
    by_netem: bool
    cut: Cut
    between: Underlay
    routes_at: Callable[[int], tuple[StaticRoute, ...]]


class MachinesLab(FleetLab):
    """One network over the machines of an Ansible inventory (see :class:`testbed.lab.base.Lab`).

    Raises:
        SpecError: the inventory makes no sense.
        HostError: a machine cannot be used, is not prepared, or cannot be reached.
        MissingToolError: Ansible or its playbooks are not installed.
    """

    real_switches = False

    def __init__(self, opening: Opening) -> None:
        super().__init__()
        assert opening.inventory is not None
        self._spread, self._every_address = opening.options or Spread(), opening.every_address
        self._network: _Network | None = None
        self._shares: list[Blueprint] = []
        self._started: dict[str, int] = {}
        self._opened: dict[Connection, Any] = {}
        """Answers of machines to the request that opened their labs, by connection."""
        self._round_trips_s: dict[tuple[int, int], float] = {}
        self._patching, self._leaving = threading.Lock(), threading.Event()
        self._planned: tuple[Topology, list[Blueprint]] | None = None
        """Network whose circuits the machines have planned to move to, and its shares."""
        self._nics = Nics()
        self._relay: Relay | None = None
        self._hello: list[Any] = []
        self._reads: list[str] = []
        self._next_number = 1 + secrets.randbelow(MOST_NUMBER // 2)
        self._machines = Machines(
            opening.inventory, opening.tell, self._on_event, allow_missing=opening.allow_missing, agent=MACHINES
        )

    @property
    def names(self) -> list[str]:
        """Names of the machines, in the order of their numbers in a cut."""
        return [host.name for host in self._machines.inventory.hosts]

    def _connected(self) -> list[Connection]:
        """Connections to all machines, each with a lab in which nothing needs to be up; new ones where some were lost.
        Raises LabError: one cannot be had."""
        hosts = self._machines.inventory.hosts
        found = [self._connection(host) for host in hosts]
        asked = {
            number: one.begin(MachineRequests.open(host.nics[0].name, host.nics[0].address))
            for number, (one, host) in enumerate(zip(found, hosts, strict=True))
            if one not in self._opened
        }
        if asked:
            self._hello = [one.ask(MachineRequests.hello(), START_TIMEOUT_S) for one in found]
            for number, answer in asked.items():
                self._opened[found[number]] = found[number].end(answer, START_TIMEOUT_S)
            self._nics = Nics()
            self._round_trips_s = _round_trips_s(found, [self._opened[one]["address"] for one in found])
        return found

    def _connection(self, host: Host) -> Connection:
        """Connection to a machine: if that was lost in an earlier trial, as soon as the machine answers again. Raises
        LabError: it does not."""
        until_s = time.monotonic() + BACK_S
        while True:
            found = self._machines.connect(host)
            if not self._ups or found in self._opened:
                return found
            try:
                found.ask(MachineRequests.hello(), BACK_S)
            except LabError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(AGAIN_S)
            else:
                return found

    def _underlay(self, connections: Sequence[Connection]) -> Underlay:
        opened = [self._opened[one] for one in connections]
        addresses, mtus = (tuple(one[key] for one in opened) for key in ("address", "mtu"))
        return Underlay(tuple(self.names), addresses, mtus, self._next_number, self._round_trips_s)

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        connections = self._connected()
        found = cut(topology, self.names, self._spread.place)
        if found.crossing(topology):
            self._underlay(connections).check(settings.mtu)
        asked = MachineRequests.require(packed(_without_router(topology)), packed(settings))
        for one, answer in [(one, one.begin(asked)) for one in connections]:
            one.end(answer)

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        """Keep the folder of the trial's files. Machines must have ``reads`` at the same places."""
        super().share(work)
        self._reads = [str(one.absolute()) for one in reads]

    def written(self, node: int, folder: Path) -> Listing:
        return listing(self._on(node).ask(MachineRequests.written(node, str(folder))))

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        return bytes(self._on(node).ask(MachineRequests.read_written(node, str(folder), name, offset))["data"])

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        self.down()
        self.require(topology, settings)
        connections = self._connected()
        underlay = self._underlay(connections)
        asked, found = list(pairs), cut(topology, self.names, self._spread.place)
        by_netem = all(self._opened[one]["way"] == NETEM for one in connections)
        routes_at = cache(partial(crossing, topology, asked, every_address=self._every_address))
        net = _Network(topology, settings, asked, by_netem, found, underlay, routes_at)
        self._shares = self._cut_up(net, topology, asked)
        self._network = net
        self._next_number = 1 + (self._next_number + len(topology.links)) % (MOST_NUMBER // 2)
        self._started, self._changes, self._ups = {}, {}, self._ups + 1
        self._fleet = fleet = Fleet(connections, SILENT_S)
        sent = _without_router(topology), settings
        try:
            ends = [(self._opened[one]["address"], self._opened[one]["port"]) for one in connections]
            self._nics.measure(fleet, ends, [host.nics[0].name for host in self._machines.inventory.hosts])
            calls = [MachineRequests.up(packed((*sent, one)), f"{self._ups}/work", self._reads) for one in self._shares]
            self._description = self._merged(fleet.ask_each(calls, WORK_TIMEOUT_S))
            self._nics.allow(self._most_bps())
            fleet.begin()
        except BaseException:
            with suppress(LabError):
                self.down()
            raise

    def _cut_up(self, net: _Network, topology: Topology, pairs: list[tuple[int, int]]) -> list[Blueprint]:
        """Make the share of each machine in a network, or in one with other circuits."""
        every = self._every_address
        whole = blueprint(topology, net.settings, pairs, every_address=every, by_netem=net.by_netem)
        return [share(whole, net.cut, net.between, number) for number in range(len(self.names))]

    def _merged(self, described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Join what machines say of their shares: by machine, and what the whole network has."""
        topology, found = self._net.topology, self._net.cut
        hosts = {
            name: {"host": name, **hello, "nodes": len(found.nodes(number)), "share": dict(one)}
            for number, (name, hello, one) in enumerate(zip(self.names, self._hello, described, strict=True))
        }
        return {
            "lab": "machines",
            "mtu": described[0].get("mtu"),
            "shapes": _counted(one["shapes"] for one in described),
            "impairments": _counted(one["impairments"] for one in described),
            "crossing_links": len(found.crossing(topology)),
            "crossing_bps": {name: found.crossing_bps(topology, number) for number, name in enumerate(self.names)},
            "underlay_round_trips_s": {
                f"{self.names[a]} {self.names[b]}": trip_s for (a, b), trip_s in self._round_trips_s.items()
            },
            "impaired_by": next((one["impaired_by"] for one in described if one.get("impaired_by")), None),
            "hosts": hosts,
        }

    def _most_bps(self) -> list[float]:
        """Compute the highest rate (bit/s) at which links to other machines can use each NIC, with what tunnels
        add."""
        net, share = self._net, 1 + OUTER_BYTES / self._description["mtu"]
        rates_bps = {link: one.rate_bps for link, one in self._changes.items() if one.rate_bps is not None}
        return [share * net.cut.crossing_bps(net.topology, number, rates_bps) for number in range(len(self.names))]

    def plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None = None) -> None:
        with self._patching:
            self._plan_patch(topology, pairs)

    def _plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None) -> list[Blueprint]:
        net = self._net
        check_alike(net.topology, topology)
        shares = self._cut_up(net, topology, net.pairs if pairs is None else list(pairs))
        self._up().ask_each([MachineRequests.plan_patch(packed(one)) for one in shares], WORK_TIMEOUT_S)
        self._planned = topology, shares
        return shares

    def patch(
        self,
        topology: Topology,
        dark_s: float,
        pairs: Iterable[tuple[int, int]] | None = None,
        lit: Callable[[], object] = lambda: None,
    ) -> Patched:
        """Move circuits; they are dark a little longer than is asked, for machines take each step together."""
        with self._patching:
            fleet, planned = self._up(), self._planned
            if planned is None or planned[0] is not topology:
                planned = topology, self._plan_patch(topology, pairs)
            before, self._planned = self._net, None
            dark_at_s, lit_s = carry_out(self._patch_step, dark_s, self._leaving)
            lit()
            fleet.ask(MachineRequests.read_back_moved())
            self._network = replace(before, topology=topology)
            self._shares = [
                replace(one, impairments=was.impairments) for one, was in zip(planned[1], self._shares, strict=True)
            ]
            return Patched.between(before.topology, topology, dark_at_s, lit_s)

    def _patch_step(self, step: int) -> list[float]:
        """Take a step of a patch on all machines; return when each had done so, by our clock."""
        done_s = self._up().ask(MachineRequests.patch_step(step))
        return [one.clock.local_s(at_s) for one, at_s in zip(self._up().connections, done_s, strict=True)]

    def agent(self) -> list[str]:
        raise LabError("programs of one node start none on nodes of other machines", fix="take the lab netns")

    def launch(self, workers: Sequence[Launch]) -> None:
        fleet = self._up()
        check_launches(workers, self._net.topology)
        calls: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        sent = []
        gate = next(filter(None, map(shipping.gate, workers)), None) if self._relay is None else None
        if gate is not None:
            self._relay = Relay(fleet, gate)
            fleet.ask(MachineRequests.listen(shipping.Shipment(self._site(0), self._work).name(str(gate))))
        for worker in workers:
            machine = self._machine(worker.node)
            call, of_worker = self._ship(worker, machine, self._work)
            sent += of_worker
            calls[machine].append({**call.arguments, "node": worker.node, "torch": worker.torch})
            self._started[worker.process] = worker.node
        for connection, answer in sent:
            connection.end(answer)
        fleet.ask_some({machine: MachineRequests.launch(some) for machine, some in calls.items()}, WORK_TIMEOUT_S)

    def _site(self, machine: int) -> shipping.Site:
        host = self._machines.inventory.hosts[machine]
        return shipping.Site(host, {}, self._ups, self._machines.token, ())

    def exits(self) -> list[Exit]:
        return [replace(one, node=self._started[one.process]) for one in super().exits()]

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        """Impair links, each on the machine that has the end where its way of impairing works. If that is a bridging
        switch that has to forward by address for it, packets are addressed to it last."""
        fleet, net, plan = self._up(), self._net, self._shares[0]
        routes = {} if net.by_netem else detours(net.topology, wanted, net.routes_at)
        shares = {number: self._description["hosts"][name]["share"] for number, name in enumerate(self.names)}
        for orders in impairing(plan, net.cut, net.between, wanted, routes):
            calls = {machine: MachineRequests.impair(packed(order)) for machine, order in orders.items()}
            shares |= fleet.ask_some(calls, WORK_TIMEOUT_S)
            for machine, order in orders.items():
                self._shares[machine] = self._shares[machine].impaired(*order)
        self._description |= self._merged([shares[number] for number in range(len(self.names))])

    def signal(self, target: str, number: int) -> None:
        fleet, topology = self._up(), self._net.topology
        check_target(target, topology, self._started)
        if target in topology.index:
            self._on(topology.index[target]).ask(MachineRequests.signal_node(number, target))
        elif (machine := fleet.node_of(target)) is not None:
            fleet.connections[machine].ask(MachineRequests.signal_worker(number, target))

    def start(self, node: int, program: Program, log: str) -> Running:
        machine = self._machine(node)
        there, name = self._shipped(program, machine, log, self._work)
        call = MachineRequests.start(node, there.words, there.environment, there.folder, name)
        return Started(self._up(), machine, self._on(node).ask(call))

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        some: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for change in changes:
            some[self._machine(self._net.topology.tail(change.directed_link))].append(vars(change))
        self._up().ask_some({machine: MachineRequests.adjust(one) for machine, one in some.items()})
        for change in changes:
            link = change.directed_link
            self._changes[link] = self._changes.get(link, LinkChange(link)).then(change)
        self._nics.allow(self._most_bps())

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        """Measure ways that cross at the same time: one by one, they would not show that they share an underlay."""
        return measuring.calibrate(self._up(), self._machine, pings, bursts)

    def between_racks(self) -> list[dict[str, Any]]:
        """Return nothing: nodes on switches measure these links."""
        return []

    def verify(self) -> None:
        from testbed.lab.netns.readings import second_reading  # here, for it loads pyroute2, which takes 0.15 s

        fleet = self._up()
        self._description = self._merged(fleet.ask(MachineRequests.read_back(), WORK_TIMEOUT_S))
        read: Counter[str] = Counter()
        chosen = [second_reading.sample(one) if one.here else None for one in self._shares]
        asked = {
            machine: MachineRequests.said(one.nodes, one.routed)
            for machine, one in enumerate(chosen)
            if one is not None
        }
        for machine, told in fleet.ask_some(asked, WORK_TIMEOUT_S).items():
            one, plan = chosen[machine], self._shares[machine]
            assert one is not None
            said = {node: Said(**messages) for node, messages in told}
            found = second_reading.check(plan, self._changes, one, said)
            read.update(directed_links=found["directed_links"], routes=found["routes"])
            self._description["second_reading"] = {"decoder": found["decoder"], **read}

    def spot_check(self) -> Reading:
        """Read some links of every machine back by its agent, all at once; and what machines' NICs have carried."""
        found = self._up().ask(MachineRequests.spot_check())
        self._nics.read(self._up())
        differs = [
            f"{connection.name}: {text}"
            for connection, one in zip(self._up().connections, found, strict=True)
            for text in one["differs"]
        ]
        cost_s = max(one["cost_s"] for one in found)
        return Reading(sum(one["links"] for one in found), cost_s, tuple(differs))

    def counters(self) -> list[Counters]:
        found = self._up().ask(MachineRequests.counters())
        self._nics.read(self._up())
        for number, (connection, counted) in enumerate(zip(self._up().connections, found, strict=True)):
            with connection.named():
                self._check_links(number, [link for link, *_ in counted])
        return sorted((Counters(*one) for counted in found for one in counted), key=lambda one: one.directed_link)

    def _check_links(self, machine: int, links: Sequence[int]) -> None:
        """Raises HostError: a machine tells of links that do not leave its nodes, or not of all that do."""
        own = self._shares[machine].own_links
        if sorted(links) != own:
            raise HostError(
                f"it tells of {len(links)} links, and {len(own)} leave its nodes", fix="see who is root there"
            )

    def traffic(self, ports: range) -> Sequence[Traffic]:
        fleet, found = self._up(), []
        for number, (connection, told) in enumerate(
            zip(fleet.connections, fleet.ask(MachineRequests.traffic(ports[0], ports[-1])), strict=True)
        ):
            for one in told:
                with connection.named():
                    self._check_links(number, [link for link, *_ in one["links"]])
                links = tuple(Passed(*passed) for passed in one["links"])
                found.append(Traffic(links, tuple(Stream(*s) for s in one["streams"]), one["at_s"], one["took_s"]))
        return found

    def watch_queues(self) -> bool:
        """Begin to read queues on each machine, at moments of its own. A trial does so when it begins, so NICs are read
        from now on, too."""
        self._nics.begin(self._up())
        return all(self._up().ask(MachineRequests.watch_queues()))

    def queues(self) -> Queues:
        return measuring.queues(self._up(), [frozenset(plan.own_links) for plan in self._shares])

    def interruptions(self) -> list[Interruption]:
        return self._nics.interruptions(self.names)

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        words = [shipping.Shipment(self._site(self._machine(node)), self._work).mapped(word) for word in command]
        return Completed(
            *self._on(node).ask(MachineRequests.execute(node, words, timeout_s), timeout_s + START_TIMEOUT_S)
        )

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Attached:
        """Run a command on a node for ``testbed exec``, over SSH, with the files of the node's machine. Raises
        LabError: a password is needed to be root there: the terminal is the command's."""
        host = self._machines.inventory.hosts[self._machine(node)]
        root, password = become(host)
        if password:
            raise LabError(f"{host.name}: testbed exec cannot give sudo a password", fix="let sudo ask for none there")
        pid, number = self._on(node).ask(MachineRequests.holder(node))
        enter = ["nsenter", f"--target={pid}", "--pid", "--mount", "--root", "--ipc", f"--net=/proc/{pid}/fd/{number}"]
        name = self._net.topology.nodes[node].name
        named = [*["env", "--chdir=/", "unshare", "--uts", "sh", "-c"], 'hostname "$0" && exec "$@"', name]
        return Attached(self._machines.ssh(host), [*root, *enter, *named, *command], files)

    def describe(self) -> dict[str, Any]:
        found = super().describe()
        if self._network is not None and self._network.cut.crossing(self._network.topology):
            found = {**found, "underlay": self._nics.used(self.names)}
        return found

    def down(self) -> None:
        self._leaving.set()
        with self._patching:
            self._leaving.clear()
        self._planned = None
        fleet, self._fleet, self._network = self._fleet, None, None
        self._description, self._shares = {}, []
        if fleet is None:
            return
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        fleet.close()
        living = [one for one in fleet.connections if one.lost is None]
        for one, answer in [(one, one.begin(MachineRequests.down())) for one in living]:
            one.end(answer, WORK_TIMEOUT_S)

    @property
    def _net(self) -> _Network:
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network

    def _machine(self, node: int) -> int:
        return self._net.cut.machine[node]

    def _on(self, node: int) -> Connection:
        """Connection to the machine that a node is on."""
        return self._up().connections[self._machine(node)]


def _counted(told: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Add up what machines say of their links: each distinct value with the number of directed links that have it."""
    counts: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for each in chain.from_iterable(told):
        counts[tuple(item for item in each.items() if item[0] != "directed_links")] += each["directed_links"]
    return [{**dict(value), "directed_links": count} for value, count in sorted(counts.items(), key=str)]


def _nowhere(topology: Topology, src: int, dst: int) -> tuple[Route, ...]:
    """Router of a topology on a machine, where all routes are in the blueprint."""
    raise LabError(f"{topology.expression}: no route from {src} to {dst} is known here")


def _without_router(topology: Topology) -> Topology:
    """Copy a topology as plain data: its router may be any function."""
    return replace(topology, router=_nowhere)


def _round_trips_s(connections: Sequence[Connection], addresses: Sequence[str]) -> dict[tuple[int, int], float]:
    """Measure the shortest round trip (s) between each pair of machines. Raises LabError: no packet comes back from one
    to another."""
    found = {}
    for a, b in combinations(range(len(connections)), 2):
        (port,) = connections[b].ask(MachineRequests.echo([[MACHINE, addresses[b]]]))
        trips_s = connections[a].ask(MachineRequests.ping(MACHINE, addresses[a], addresses[b], port, PINGS))
        connections[b].ask(MachineRequests.echo([]))
        if not trips_s:
            raise LabError(
                f"{connections[a].name} gets no packet from {connections[b].name} ({addresses[a]} to {addresses[b]})",
                fix="see their addresses, the switch between them, and firewalls",
            )
        found[a, b] = min(trips_s)
    return found
