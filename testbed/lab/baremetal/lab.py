"""The ``baremetal`` lab: machines of an Ansible inventory, shaped by a playbook, worked through an agent on each."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.base.errors import HostError, LabError
from testbed.lab.baremetal import answers, crossings, measuring, shipping
from testbed.lab.baremetal import inventory as inventories
from testbed.lab.baremetal import network as networks
from testbed.lab.baremetal.answers import Event
from testbed.lab.baremetal.attached import Attached, Losses
from testbed.lab.baremetal.bundle import bundle
from testbed.lab.baremetal.connection import START_TIMEOUT_S, Connection, Lost, end_shared, ssh
from testbed.lab.baremetal.fleet import Fleet
from testbed.lab.baremetal.fleet_monitor import FleetMonitor
from testbed.lab.baremetal.playbook import Played, Tell, play
from testbed.lab.base import (
    Burst,
    Calibration,
    Completed,
    Counters,
    Exit,
    Impairment,
    Launch,
    LinkChange,
    LinkSettings,
    Patched,
    Program,
    Reading,
    Running,
    Way,
    check_launches,
    check_rate,
    check_target,
    need_torch,
)
from topologies import addressing
from topologies.model import Topology

UNDO_S = 120.0
"""Without a word from us for so long, a host undoes its shaping: longer than a network's hiccup, shorter than lunch."""
LOOK = "Look at the host"


def quiet(_: str) -> None:
    """Tell nobody."""


class BaremetalLab:
    """Hosts that are there (see :class:`testbed.lab.base.Lab`); links are their training NICs.

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
        self.inventory = inventories.load(inventory)
        self._tell, self._token = tell, secrets.token_hex(4)
        self.owner = f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, {self._token}"
        self._control = Path(tempfile.mkdtemp(prefix="tb-"))  # short: a unix socket's path has 108 characters at most
        self._connections: dict[str, Connection] = {}
        self._losses = Losses()
        self._fleet: Fleet | None = None
        self._network: networks.Placement | None = None
        self._topology: Topology | None = None
        self._started: set[str] = set()
        self._changes: dict[int, LinkChange] = {}
        self._description: dict[str, Any] = {}
        self._ups = 0
        self._known: set[tuple[str, str]] = set()
        self._physical: list[dict[str, Any]] = []
        try:
            self._digest, _ = bundle(self._control)
            self._facts = self._look(allow_missing)
        except BaseException:
            self.close()
            raise

    def _look(self, allow_missing: bool) -> dict[str, Any]:
        """What the hosts are like; leaves out those that cannot be reached, if that is allowed."""
        found = play("run", self.inventory, {"testbed_digest": self._digest}, self._control, self._tell)
        found.require([host.name for host in self.inventory.hosts], allow_missing=allow_missing)
        for name, why in found.unreachable.items():
            self._tell(f"run: {name} is left out: {answers.plain(why.strip())}")
        self.inventory = self.inventory.without(list(found.unreachable))
        return {host.name: _facts(host, found) for host in self.inventory.hosts}

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        networks.check(topology, settings, self.inventory)

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        """Nothing to do: each host has a folder of its own, and what is written there is brought here."""

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        self.down()
        self.require(topology, settings)
        macs = {name: {nic: one["mac"] for nic, one in fact["nics"].items()} for name, fact in self._facts.items()}
        pairs = {*pairs, *crossings.pairs(topology)}
        plan = networks.plan(topology, settings, pairs, self.inventory, macs, self.owner, UNDO_S)
        self._topology, self._network, self._changes = topology, plan, {}
        self._started = set()
        self._ups += 1
        try:
            self._fleet = fleet = Fleet([self._connect(host) for host in plan.hosts])
            fleet.logical = {used: planned for planned, used in plan.physical.items()}
            hello = fleet.ask("hello", START_TIMEOUT_S)
            self._shape(plan, topology)
            self._description = self._described(plan, hello, settings)
            self._take_in(fleet.ask_each("shaped", [{"wanted": networks.plain(one)} for one in plan.wanted]))
            fleet.begin()
        except HostError as error:
            self.down()
            raise LabError(error.problem, fix=error.fix) from None
        except BaseException:
            with suppress(LabError):
                self.down()
            raise

    def _shape(self, plan: networks.Placement, topology: Topology) -> None:
        """NICs that are new to this lab are measured and then shaped by the playbook; from then on the agents, which
        are there anyway, shape them in a fraction of its time."""
        used = {(host.name, nic.name) for host, one in zip(plan.hosts, plan.wanted, strict=True) for nic in one.nics}
        plans = [networks.plain(one) for one in plan.wanted]
        if used <= self._known:
            self._up().ask_each("shape", [{"wanted": one, "arm": True} for one in plans])
            return
        self._probe(plan, topology)
        names = [host.name for host in plan.hosts]
        variables = {"testbed_digest": self._digest, "testbed_plans": dict(zip(names, plans, strict=True))}
        play("shape", self.inventory, variables, self._control, self._tell, limit=names).require(names)
        self._known |= used

    def _probe(self, plan: networks.Placement, topology: Topology) -> None:
        """How fast the NICs really are."""
        fleet = self._up()
        unshaped = [replace(one, nics=tuple(replace(nic, out_bps=0) for nic in one.nics)) for one in plan.wanted]
        fleet.ask_each("shape", [{"wanted": networks.plain(one), "arm": False} for one in unshaped])
        self._physical = measuring.physical(fleet, plan, topology)
        fleet.ask("undo")
        for line in measuring.remarks(self._physical):
            self._tell(f"probe: {line}")

    def _connect(self, host: inventories.Host) -> Connection:
        known = self._connections.get(host.name)
        if known is not None and known.lost is None:
            return known
        if known is not None:
            known.close()
        work, code = f"{host.home}/work/{self._token}", f"{host.home}/code-{self._digest}"
        made = self._connections[host.name] = Connection(host, code, work, self.owner, self._control, self._on_event)
        return made

    def _on_event(self, connection: Connection, event: Event | Lost) -> None:
        if isinstance(event, Lost):
            self._losses.lost()
        if self._fleet is not None:
            self._fleet.on_event(connection, event)

    def _described(self, plan: networks.Placement, hello: Sequence[Any], settings: LinkSettings) -> dict[str, Any]:
        hosts = {}
        for node, (host, wanted) in enumerate(zip(plan.hosts, plan.wanted, strict=True)):
            nics = {nic.name: self._facts[host.name]["nics"][nic.name] for nic in wanted.nics}
            hosts[f"h{node}"] = {"host": host.name, "rack": host.rack, **hello[node], "nics": nics}
        return {
            "lab": "baremetal",
            "switches": "physical",
            "physical": self._physical,
            "mtu": settings.mtu,
            "undo_s": UNDO_S,
            "hosts": hosts,
        }

    def plan_patch(self, topology: Topology) -> None:
        raise LabError(f"{topology.expression}: machines have no patch panels", fix="take the lab netns")

    def patch(self, topology: Topology, dark_s: float) -> Patched:  # noqa: ARG002  # as the protocol has it
        raise LabError(f"{topology.expression}: machines have no patch panels", fix="take the lab netns")

    def agent(self) -> list[str]:
        """Hosts may not reach each other by it; :mod:`testbed.experiment.expand` refuses what would need that."""
        return ["ssh"]

    def launch(self, workers: Sequence[Launch]) -> None:
        fleet, sent, requests = self._up(), [], []
        assert self._topology is not None
        check_launches(workers, self._topology)
        self._started |= {worker.process for worker in workers}
        if not all(worker.program for worker in workers):
            fleet.ask("prepare", START_TIMEOUT_S, torch=need_torch(workers))  # so that all start together
        for worker in workers:
            request, files, followed = shipping.request(worker, self._site(worker.node))
            for name, path in followed.items():
                fleet.follow(worker.node, name, path)
            Path(worker.log).touch()
            connection = fleet.connections[worker.node]
            for name, (data, mode) in files.items():
                sent += [(connection, answer) for answer in connection.put(name, data, mode)]
            requests.append((connection, request))
            fleet.expect(worker.process, worker.node)
        for connection, answer in sent:
            connection.end(answer)
        started = [(connection, connection.begin("launch", **request)) for connection, request in requests]
        for connection, answer in started:
            connection.end(answer, START_TIMEOUT_S)

    def _site(self, node: int) -> shipping.Site:
        return shipping.Site(self._plan().hosts[node], self._plan().physical, self._ups, self._token)

    def exits(self) -> list[Exit]:
        return self._up().exits()

    def stopped(self) -> list[str]:
        return self._up().stopped()

    def kill(self) -> None:
        self._up().kill()

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        raise LabError(
            f"{next(iter(wanted.values()))}: the lab baremetal has the delays of the network that is there",
            fix="take the lab netns",
        )

    def signal(self, target: str, number: int) -> None:
        fleet, topology = self._up(), self._topology
        assert topology is not None
        check_target(target, topology, self._started)
        if topology.index.get(target, 0) >= len(fleet.connections):
            raise LabError(
                f"{target} is a switch of the network that is there; nothing of ours runs on it", fix="name a host"
            )
        if target in topology.index:
            fleet.connections[topology.index[target]].ask("signal", number=number)
        elif (node := fleet.node_of(target)) is not None:
            fleet.connections[node].ask("signal_worker", number=number, process=target)

    def start(self, node: int, program: Program, log: str) -> Running:
        fleet, site = self._up(), self._site(node)
        name = site.log(log)
        fleet.follow(node, name, Path(log))
        Path(log).touch()
        asked = shipping.program(program, site, shipping.Shipment(site, None)) | {"folder": site.host.home}
        return _Started(fleet, node, fleet.connections[node].ask("start", log=name, **asked))

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        topology, plan, fleet = self._topology, self._plan(), self._up()
        assert topology is not None
        asked: list[tuple[int, dict[str, Any]]] = []
        for change in changes:
            link = change.directed_link
            if change.rate_bps is not None:
                check_rate(change.rate_bps)
            now = self._changes[link] = self._changes.get(link, LinkChange(link)).then(change)
            where = plan.place(topology, link)
            if where is None:
                raise LabError(
                    f"{networks.label(topology, link)}: the lab baremetal cannot change links between switches, which "
                    "are the network's that is there",
                    fix="name a link of a host, or take the lab netns",
                )
            node, nic, out = where
            rate_bps = now.rate_bps or topology.links[link // 2].rate_bps
            fields = {"nic": nic, "out": out, "rate_bps": rate_bps, "queue_bytes": now.queue_bytes}
            asked.append((node, {**fields, "blocked": bool(now.blocked)}))
        answers = [
            (fleet.connections[node], fleet.connections[node].begin("adjust", **fields)) for node, fields in asked
        ]
        for connection, answer in answers:
            connection.end(answer)

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        return measuring.calibrate(self._up(), pings, bursts, self._plan().physical)

    def between_racks(self) -> list[dict[str, Any]]:
        assert self._topology is not None
        return measuring.between_racks(self._up(), self._plan(), self._topology)

    def verify(self) -> None:
        from testbed.lab.baremetal import second_reading  # here, for it loads pyroute2, which takes 0.15 s

        fleet, topology = self._up(), self._topology
        assert topology is not None
        self._take_in(fleet.ask("verify"))
        read = second_reading.check(topology, self._plan(), self._changes, fleet.ask("said"))
        self._description["second_reading"] = read

    def spot_check(self) -> Reading:
        """Of every host: its agent reads all of its NICs. What that takes of a host's CPU is not known, so the time
        until all have answered stands for it."""
        began_s = time.monotonic()
        answers = self._up().ask("verify")
        differs = [
            f"{connection.name}: {one['differs']}"
            for connection, one in zip(self._up().connections, answers, strict=True)
            if one["differs"]
        ]
        links = sum(2 * len(one.nics) for one in self._plan().wanted)
        return Reading(links, time.monotonic() - began_s, tuple(differs))

    def _take_in(self, read_back: Sequence[Mapping[str, Any]]) -> None:
        """
        Raises:
            LabError: a host's kernel has something else than was asked for.
        """
        shapes: Counter[tuple[tuple[str, int], ...]] = Counter()
        for connection, wanted, one in zip(self._up().connections, self._plan().wanted, read_back, strict=True):
            if one["differs"]:
                raise LabError(f"{connection.name}: {one['differs']}", fix="see who else changes its NICs")
            with connection.named():
                answers.as_many(one["shapes"], len(wanted.nics), "shapes of NICs")
            shapes.update(tuple(direction.items()) for nic in one["shapes"] for direction in nic)
        self._description["shapes"] = [{**dict(one), "directed_links": count} for one, count in shapes.items()]

    def counters(self) -> list[Counters]:
        topology, plan, by_node = self._topology, self._plan(), self._up().ask("counters")
        assert topology is not None
        for connection, wanted, counted in zip(self._up().connections, plan.wanted, by_node, strict=True):
            with connection.named():
                answers.as_many(counted, len(wanted.nics), "counters of NICs")
        found = []
        for link in range(2 * len(topology.links)):
            where = plan.place(topology, link)
            if where is not None:
                node, nic, out = where
                found.append(Counters(link, *by_node[node][nic][0 if out else 1]))
        return found

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        connection = self._up().connections[node]
        answer = connection.ask("execute", timeout_s + START_TIMEOUT_S, words=list(command), limit_s=timeout_s)
        return Completed(*answer)

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Attached:
        """Run a command on a host for ``testbed exec``, as the user that the inventory names; words that name hosts of
        the topology become their training addresses."""
        assert self._topology is not None
        plan, topology = self._plan(), self._topology
        addresses = addressing.plan(topology)
        named = {
            topology.nodes[other].name: plan.physical[addresses.arrival(node, other)]
            for other in topology.hosts
            if other != node
        }
        words = [named.get(word, word) for word in command]
        return Attached(ssh(plan.hosts[node], self._control), words, files)

    def fileno(self) -> int:
        """Readable once a host is lost."""
        return self._losses.fileno()

    def describe(self) -> dict[str, Any]:
        if self._fleet is None:
            return self._description
        hosts = self._description.get("hosts", {})
        clocked = {
            name: {**one, "clock": clock}
            for (name, one), clock in zip(hosts.items(), self._fleet.clocks(), strict=True)
        }
        return {**self._description, "clock_uncertainty_s": self._clock_uncertainty_s(), "hosts": clocked}

    def monitor(self) -> FleetMonitor:
        return FleetMonitor(self._up())

    def _clock_uncertainty_s(self) -> float:
        """By how much a time between moments on two hosts may be off: what the two worst clocks may."""
        worst = sorted(one["uncertainty_s"] for one in self._up().clocks())
        return sum(worst[-2:])

    def down(self) -> None:
        fleet, self._fleet, self._network, self._topology = self._fleet, None, None, None
        self._description = {}
        if fleet is not None:
            fleet.close()
        problems = []
        for connection in self._connections.values():
            if connection.lost is None:
                try:
                    connection.ask("undo")
                except LabError as error:
                    problems.append(error)
        if problems:
            raise problems[0]

    def close(self) -> None:
        with suppress(LabError):
            self.down()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._losses.close()
        if self._control.exists():
            end_shared(self.inventory.hosts, self._control)
            shutil.rmtree(self._control, ignore_errors=True)

    def _up(self) -> Fleet:
        if self._fleet is None:
            raise LabError("no network is up", fix="call up() first")
        return self._fleet

    def _plan(self) -> networks.Placement:
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _facts(host: inventories.Host, found: Played) -> dict[str, Any]:
    """What a host is like.

    Raises:
        HostError: what it says of itself cannot be.
    """
    try:
        return answers.facts(found.answers[host.name].get(LOOK, {}), [nic.name for nic in host.nics])
    except HostError as error:
        raise HostError(f"{host.name}: {error.problem}", fix=error.fix) from None


class _Started:
    """A program beside the workers (:class:`testbed.lab.base.Running`)."""

    def __init__(self, fleet: Fleet, node: int, pid: int) -> None:
        self._fleet, self._node, self._pid = fleet, node, pid

    def signal(self, number: int) -> object:
        return self._fleet.connections[self._node].ask("signal", number=number, pid=self._pid)

    def wait(self, timeout_s: float) -> int:
        return self._fleet.wait_ended(self._node, self._pid, timeout_s)
