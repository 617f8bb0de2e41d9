"""The ``baremetal`` lab: machines of an Ansible inventory, shaped by a playbook, worked through an agent on each."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.errors import HostError, LabError
from testbed.lab.baremetal import inventory as inventories
from testbed.lab.baremetal import measuring
from testbed.lab.baremetal import network as networks
from testbed.lab.baremetal.bundle import bundle
from testbed.lab.baremetal.connection import START_TIMEOUT_S, Connection, end_shared
from testbed.lab.baremetal.fleet import Fleet
from testbed.lab.baremetal.playbook import Tell, play
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
    Running,
    Way,
    check_rate,
)
from testbed.monitor import CpuLog
from topologies.model import Topology

UNDO_S = 120.0
"""Without a word from us for so long, a host undoes its shaping: longer than a network's hiccup, shorter than lunch."""
LOOK = "Look at the host"
INTERFACES = "eth"
"""How a topology's ports are called in what workers are told, see :func:`testbed.command.launches`."""


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
        MissingToolError: Ansible is not installed.
    """

    def __init__(self, inventory: Path, *, allow_missing: bool = False, tell: Tell = quiet) -> None:
        self.inventory = inventories.load(inventory)
        self._tell, self._token = tell, secrets.token_hex(4)
        self.owner = f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, {self._token}"
        self._control = Path(tempfile.mkdtemp(prefix="tb-"))  # short: a unix socket's path has 108 characters at most
        self._connections: dict[str, Connection] = {}
        self._fleet: Fleet | None = None
        self._network: networks.Network | None = None
        self._topology: Topology | None = None
        self._changes: dict[int, LinkChange] = {}
        self._description: dict[str, Any] = {}
        self._ups = 0
        self._probed: set[tuple[str, str]] = set()
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
            self._tell(f"run: {name} is left out: {why.strip()}")
        self.inventory = self.inventory.without(list(found.unreachable))
        return {host.name: found.answers[host.name][LOOK] for host in self.inventory.hosts}

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        networks.check(topology, settings, self.inventory)

    def share(self, folder: Path, reads: Sequence[Path] = ()) -> None:
        """Nothing to do: each host has a folder of its own, and what is written there is brought here."""

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        self.down()
        self.require(topology, settings)
        macs = {name: {nic: one["mac"] for nic, one in fact["nics"].items()} for name, fact in self._facts.items()}
        plan = networks.plan(topology, settings, pairs, self.inventory, macs, self.owner, UNDO_S)
        self._topology, self._network, self._changes = topology, plan, {}
        self._ups += 1
        try:
            self._fleet = fleet = Fleet([self._connect(host) for host in plan.hosts])
            fleet.logical = {used: planned for planned, used in plan.physical.items()}
            hello = fleet.ask("hello", START_TIMEOUT_S)
            fleet.ask("prepare", START_TIMEOUT_S)
            self._probe(plan, topology)
            self._shape(plan)
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

    def _probe(self, plan: networks.Network, topology: Topology) -> None:
        """How fast the NICs really are, each once: before they are first shaped."""
        used = {(host.name, nic.name) for host, one in zip(plan.hosts, plan.wanted, strict=True) for nic in one.nics}
        if used <= self._probed:
            return
        fleet = self._up()
        unshaped = [replace(one, nics=tuple(replace(nic, out_bps=0) for nic in one.nics)) for one in plan.wanted]
        fleet.ask_each("open", [{"wanted": networks.plain(one)} for one in unshaped])
        self._physical = measuring.physical(fleet, plan, topology)
        fleet.ask("undo")
        self._probed |= used
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

    def _on_event(self, connection: Connection, event: Mapping[str, Any]) -> None:
        if self._fleet is not None:
            self._fleet.on_event(connection, event)

    def _shape(self, plan: networks.Network) -> None:
        names = [host.name for host in plan.hosts]
        plans = {host.name: networks.plain(one) for host, one in zip(plan.hosts, plan.wanted, strict=True)}
        variables = {"testbed_digest": self._digest, "testbed_plans": plans}
        play("shape", self.inventory, variables, self._control, self._tell, limit=names).require(names)

    def _described(self, plan: networks.Network, hello: Sequence[Any], settings: LinkSettings) -> dict[str, Any]:
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
        return ["ssh"]

    def launch(self, workers: Sequence[Launch]) -> None:
        fleet, sent = self._up(), []
        requests: list[dict[str, Any] | None] = [None] * len(fleet.connections)
        for worker in workers:
            request, files = self._request(worker)
            connection = fleet.connections[worker.node]
            sent += [(connection, connection.put(name, data, mode)) for name, (data, mode) in files.items()]
            requests[worker.node] = request
        for connection, answer in sent:
            connection.end(answer)
        fleet.ask_each("launch", requests, START_TIMEOUT_S)

    def _request(self, worker: Launch) -> tuple[dict[str, Any], dict[str, tuple[bytes, int]]]:
        """What an agent is told of a worker, and the files that it needs: content and mode by name there."""
        fleet, host = self._up(), self._plan().hosts[worker.node]
        place = _Place(Path(worker.job).parent.absolute() if worker.job else None, self._ups, host.home, self._token)
        log = place.log(worker.log)
        fleet.follow(worker.node, log, Path(worker.log))
        Path(worker.log).touch()
        request: dict[str, Any] = {"node": worker.node, "job": "", "log": log, "samples": None, "outputs": []}
        if worker.job:
            job = json.loads(Path(worker.job).read_text())
            samples = place.name(job["samples"])
            fleet.follow(worker.node, samples, Path(job["samples"]))
            outputs = [job["weights"]] if job.get("weights") else []
            for path in outputs:
                fleet.follow(worker.node, place.name(path), Path(path))
            request |= {"samples": samples, "outputs": [place.name(path) for path in outputs]}
            request["job"] = place.name(worker.job)
            place.words = dict(self._plan().physical)
            place.files[request["job"]] = json.dumps(place.mapped(job)).encode(), 0o644
        if worker.program:
            request |= self._program(worker.node, worker.program, place)
        return request, place.files

    def _program(self, node: int, program: Program, place: _Place) -> dict[str, Any]:
        """A program's words, environment and directory as they are on a node."""
        host = self._plan().hosts[node]
        place.words = {**self._plan().physical, sys.executable: f"{host.home}/venv/bin/python"}
        place.words |= {f"{INTERFACES}{port}": nic.name for port, nic in enumerate(host.nics)}
        environment = {name: place.mapped(value) for name, value in program.environment.items() if name != "PATH"}
        environment["PATH"] = f"{host.home}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {
            "words": [place.mapped(word) for word in program.words],
            "environment": environment,
            "folder": place.mapped(program.folder),
        }

    def exits(self) -> list[Exit]:
        return self._up().exits()

    def stopped(self) -> list[int]:
        return sorted(node for nodes in self._up().ask("stopped") for node in nodes)

    def kill(self) -> None:
        self._up().ask("kill")

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        raise LabError(
            f"{next(iter(wanted.values()))}: the lab baremetal has the delays of the network that is there",
            fix="take the lab netns",
        )

    def signal(self, node: int, number: int) -> None:
        self._up().connections[node].ask("signal", number=number)

    def start(self, node: int, program: Program, log: str) -> Running:
        fleet, host = self._up(), self._plan().hosts[node]
        place = _Place(None, self._ups, host.home, self._token)
        name = place.log(log)
        fleet.follow(node, name, Path(log))
        Path(log).touch()
        asked = self._program(node, program, place) | {"folder": host.home}
        return _Started(fleet, node, fleet.connections[node].ask("start", log=name, **asked))

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        topology, plan, fleet = self._topology, self._plan(), self._up()
        assert topology is not None
        asked: list[tuple[int, dict[str, Any]]] = []
        for change in changes:
            link, before = (
                change.directed_link,
                self._changes.get(change.directed_link, LinkChange(change.directed_link)),
            )
            if change.rate_bps is not None:
                check_rate(change.rate_bps)
            now = LinkChange(
                link,
                before.rate_bps if change.rate_bps is None else change.rate_bps,
                before.queue_bytes if change.queue_bytes is None else change.queue_bytes,
                before.blocked if change.blocked is None else change.blocked,
            )
            self._changes[link] = now
            node, nic, out = plan.place(topology, link)
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

    def verify(self) -> None:
        self._take_in(self._up().ask("verify"))

    def _take_in(self, read_back: Sequence[Mapping[str, Any]]) -> None:
        """
        Raises:
            LabError: a host's kernel has something else than was asked for.
        """
        shapes: Counter[tuple[tuple[str, int], ...]] = Counter()
        for connection, one in zip(self._up().connections, read_back, strict=True):
            if one["differs"]:
                raise LabError(f"{connection.name}: {one['differs']}", fix="see who else changes its NICs")
            shapes.update(tuple(direction.items()) for nic in one["shapes"] for direction in nic)
        self._description["shapes"] = [{**dict(one), "directed_links": count} for one, count in shapes.items()]

    def counters(self) -> list[Counters]:
        topology, plan, by_node = self._topology, self._plan(), self._up().ask("counters")
        assert topology is not None
        found = []
        for link in range(2 * len(topology.links)):
            node, nic, out = plan.place(topology, link)
            found.append(Counters(link, *by_node[node][nic][0 if out else 1]))
        return found

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        connection = self._up().connections[node]
        answer = connection.ask("execute", timeout_s + START_TIMEOUT_S, words=list(command), limit_s=timeout_s)
        return Completed(*answer)

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
        """Watches the CPUs of the hosts in use, see :class:`testbed.monitor.Elsewhere`."""
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
        if self._control.exists():
            end_shared(self.inventory.hosts, self._control)
            shutil.rmtree(self._control, ignore_errors=True)

    def _up(self) -> Fleet:
        if self._fleet is None:
            raise LabError("no network is up", fix="call up() first")
        return self._fleet

    def _plan(self) -> networks.Network:
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network

    def __enter__(self) -> BaremetalLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Place:
    """Where a trial's files are on a host: names there of paths here, and which of them are to be sent."""

    def __init__(self, work: Path | None, number: int, home: str, token: str) -> None:
        self._work, self._number, self._root = work, number, f"{home}/work/{token}"
        self.words: dict[str, str] = {}
        self.files: dict[str, tuple[bytes, int]] = {}

    def name(self, path: str) -> str:
        """Of a file of the trial's working directory, relative to the agent's."""
        assert self._work is not None
        return f"{self._number}/work/{Path(path).absolute().relative_to(self._work)}"

    def log(self, path: str) -> str:
        """Of a log."""
        return f"{self._number}/logs/{Path(path).name}"

    def mapped(self, value: Any) -> Any:
        """The same with paths and words as they are there; files that are here already are to be sent."""
        if isinstance(value, dict):
            return {key: self.mapped(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mapped(one) for one in value]
        if not isinstance(value, str):
            return value
        if self._work is not None and (value == str(self._work) or value.startswith(f"{self._work}{os.sep}")):
            name, path = self.name(value), Path(value)
            if path.is_file() and name not in self.files:
                self.files[name] = path.read_bytes(), path.stat().st_mode & 0o777
            return f"{self._root}/{name}"
        return self.words.get(value, value)


class _Started:
    """A program beside the workers (:class:`testbed.lab.base.Running`)."""

    def __init__(self, fleet: Fleet, node: int, pid: int) -> None:
        self._fleet, self._node, self._pid = fleet, node, pid

    def signal(self, number: int) -> object:
        return self._fleet.connections[self._node].ask("signal", number=number, pid=self._pid)

    def wait(self, timeout_s: float) -> int:
        return self._fleet.wait_ended(self._node, self._pid, timeout_s)


class FleetMonitor:
    """As :class:`testbed.monitor.Monitor`, of the hosts; ``log`` is that of the one that was least idle."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __enter__(self) -> FleetMonitor:
        self._fleet.logs.clear()
        self._fleet.ask("watch", on=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(LabError):  # who is lost is told of elsewhere
            self._fleet.ask("watch", on=False)

    @property
    def log(self) -> CpuLog:
        return min(self._fleet.logs.values(), key=_idle, default=CpuLog())


def _idle(log: CpuLog) -> float:
    """Idle share over all of a log."""
    total_s = log.total_s[-1] - log.total_s[0]
    return (log.idle_s[-1] - log.idle_s[0]) / total_s if total_s else 1.0
