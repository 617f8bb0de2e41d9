"""The ``netns`` lab: the caller's side. Everything real happens in the sandbox, a process of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from testbed.base.errors import LabError, SpecError
from testbed.base.python import module_command
from testbed.files.foreign import Listing
from testbed.lab.base import Impairment, LinkChange, LinkSettings, Patched
from testbed.lab.measurements import Burst, Calibration, Counters, Interruption, Queues, Reading, Traffic, Way
from testbed.lab.netns.network.blueprint import (
    Blueprint,
    Builder,
    StaticRoute,
    blueprint,
    crossing,
    detours,
    initial_impairments,
)
from testbed.lab.netns.network.impairing import NETEM
from testbed.lab.netns.network.patch import carry_out, check_alike
from testbed.lab.netns.on_nodes.attached import Attached, run_and_collect
from testbed.lab.netns.on_nodes.processes import Files, logged
from testbed.lab.netns.readings.listening import Said
from testbed.lab.netns.readings.readback import Sample
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.netns.sandbox_process import WORK_TIMEOUT_S, SandboxProcess
from testbed.lab.programs import Completed, Exit, Launch, Program, Running, check_launches, check_target
from testbed.lab.requests import Call
from testbed.machine.monitor import Monitor
from testbed.machine.processes import children_by_inner_pid, cpu_s, first_child
from testbed.topologies.model import Topology

AGENT = "testbed.lab.netns.on_nodes.agent"
CALIBRATION_START_S = 30.0
"""Seconds for starting Python, and what a busy machine adds; the rest of a calibration's time limit is what it is asked
for, one by one."""
LOOK_AGAIN_S = 1.0
"""Seconds between two looks for processes whose PIDs are not known."""
PING_S = 0.1
"""Seconds for the packets of one way: more than they take."""


@dataclass(frozen=True)
class _Network:
    """A network that is up.

    Attributes:
        pairs: those that were asked for when it came up.
        plan: the blueprint of what should be there now, but for changes of links in use.
        routes_at: routes of a bridge that is to forward by address, too.
    """

    topology: Topology
    settings: LinkSettings
    pairs: list[tuple[int, int]]
    plan: Blueprint
    routes_at: Callable[[int], tuple[StaticRoute, ...]]


class NetnsLab:
    """A network in private namespaces of this machine (see :class:`testbed.lab.base.Lab`).

    Needs Linux and either root or unprivileged user namespaces. When this process ends, however it ends, the kernel
    removes processes, interfaces and namespaces. Methods may be called from several threads.

    Args:
        every_address: make every pair of hosts reach each other at all their addresses, so that ``ping NAME`` works
            (for poking around; training needs only the addresses of the paths).

    Raises:
        PrivilegeError: the kernel does not let this user make namespaces.
    """

    builder: Builder = "netns"
    real_switches = False

    def __init__(self, *, every_address: bool = False) -> None:
        self._every_address = every_address
        self._patching = threading.Lock()
        self._knowing = threading.Lock()  # links may be impaired while circuits move, and both changes count
        self._network: _Network | None = None
        self._planned: tuple[Topology, Blueprint] | None = None
        self._changes: dict[int, LinkChange] = {}
        self._leaving = threading.Event()
        self._description: dict[str, Any] = {}
        self._started: set[str] = set()
        self._inner: dict[str, int] = {}
        """PIDs, in the sandbox, of processes of :meth:`launch`, by name."""
        self._outer: dict[str, int] = {}
        """PIDs of these processes on this machine, as far as they were found."""
        self._sought: dict[str, int] | None = None
        """:attr:`_inner` as it was when processes were last looked up, at :attr:`_sought_s`."""
        self._sought_s = 0.0
        self._reads: tuple[Path, ...] = ()
        self._sandbox = SandboxProcess()

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        shared = [one.absolute() for one in (work, *reads)]
        if Path("/") in shared:
            raise SpecError("workers cannot have the folder /", fix="put the spec, and --out, into a folder")
        self._sandbox.ask(Sandbox.share(str(shared[0]), list(map(str, shared[1:]))))
        self._reads = tuple(shared[1:])

    def written(self, node: int, folder: Path) -> Listing:
        return self._sandbox.ask(Sandbox.written(node, self._reads.index(folder.absolute())))

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        return self._sandbox.ask(Sandbox.read_written(node, self._reads.index(folder.absolute()), name, offset))

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        impairments = initial_impairments(topology, settings)
        what = str(next(iter(impairments.values()))) if impairments else None
        self._sandbox.ask(Sandbox.require(what, settings))
        if settings.mark_at_bytes is not None and what and self.impairs_by() == NETEM:
            raise SpecError(
                f"a link with {what}, and queues that mark packets: netem takes the place of the queue that marks",
                fix="leave out links.ecn, or what netem would do",
            )

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        asked = list(pairs)
        self._bring_up(topology, settings, asked, self._blueprint(topology, settings, asked))

    def _bring_up(
        self, topology: Topology, settings: LinkSettings, pairs: list[tuple[int, int]], plan: Blueprint
    ) -> None:
        """Build a network of this blueprint, and take it for what was asked for from now on."""
        self._started, self._inner, self._outer = set(), {}, {}
        self._description = self._build(plan)
        routes_at = cache(partial(crossing, topology, pairs, every_address=self._every_address))
        self._network, self._changes = _Network(topology, settings, pairs, plan, routes_at), {}

    def _build(self, plan: Blueprint) -> dict[str, Any]:
        """Have the sandbox build the network; return what it has read back."""
        return self._sandbox.ask(Sandbox.up(plan), timeout_s=WORK_TIMEOUT_S)

    def plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None = None) -> None:
        with self._patching:
            self._plan_patch(topology, pairs)

    def patch(
        self,
        topology: Topology,
        dark_s: float,
        pairs: Iterable[tuple[int, int]] | None = None,
        lit: Callable[[], object] = lambda: None,
    ) -> Patched:
        with self._patching:
            if self._planned is None or self._planned[0] is not topology:
                self._plan_patch(topology, pairs)
            assert self._planned is not None
            _, planned = self._planned
            parted_s, lit_s = carry_out(
                lambda step: [self._sandbox.ask(Sandbox.patch_step(step))], dark_s, self._leaving
            )
            lit()
            self._sandbox.ask(Sandbox.read_back_moved())
            with self._knowing:
                before, self._planned = self._net, None
                plan = replace(planned, impairments=before.plan.impairments)
                self._network = replace(before, topology=topology, plan=plan)
            return Patched.between(before.topology, topology, parted_s, lit_s)

    def _plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None) -> None:
        up = self._net
        check_alike(up.topology, topology)
        planned = self._blueprint(topology, up.settings, up.pairs if pairs is None else pairs)
        self._sandbox.ask(Sandbox.plan_patch(planned), timeout_s=WORK_TIMEOUT_S)
        self._planned = topology, planned

    def _blueprint(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> Blueprint:
        by_netem = self.impairs_by() == NETEM
        every = self._every_address
        return blueprint(topology, settings, pairs, every_address=every, by_netem=by_netem, builder=self.builder)

    @property
    def _net(self) -> _Network:
        """The network that is up. Raises LabError if there is none."""
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network

    def impairs_by(self) -> str | None:
        """Way in which links can be impaired here: ``netem``, ``delay line``, or not at all (None)."""
        return self._sandbox.ask(Sandbox.way())

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        topology = self._net.topology
        for link in wanted:
            if not 0 <= link < 2 * len(topology.links):
                raise LabError(f"there is no directed link {link}", fix=f"the last is {2 * len(topology.links) - 1}")
        by_netem = self.impairs_by() == NETEM
        self.impair_with_detours(wanted, {} if by_netem else detours(topology, wanted, self._net.routes_at))

    def impair_with_detours(
        self, wanted: Mapping[int, Impairment], routes: Mapping[int, tuple[StaticRoute, ...]]
    ) -> None:
        """Impair links (:meth:`impair`), of which some take a detour by these routes of the bridges at their ends.
        Raises LabError: the kernel refuses it; MissingToolError: it cannot impair links."""
        if self.impairs_by() is None:
            what = ", ".join({str(impairment) for impairment in wanted.values()})
            self._sandbox.ask(Sandbox.require(what, LinkSettings()))
        self._description |= self._sandbox.ask(Sandbox.impair(dict(wanted), dict(routes)))
        with self._knowing:
            self._network = replace(self._net, plan=self._net.plan.impaired(wanted, routes))

    def impaired_by(self) -> dict[str, Any]:
        """Report how links are impaired, and, of the delay line, how late it was so far and its CPU time."""
        return self._sandbox.ask(Sandbox.impaired_by())

    def verify(self) -> None:
        # Here, for it loads pyroute2, which takes 0.15 s: after the first trial, and not before every lab.
        from testbed.lab.netns.readings import second_reading

        self.read_back()
        plan = self._net.plan
        chosen = second_reading.sample(plan)
        read = second_reading.check(plan, self._changes, chosen, self.said(chosen))
        self._description["second_reading"] = read

    def read_back(self) -> None:
        """Read the network back by our own decoder. Raises LabError: something differs."""
        self._description = self._sandbox.ask(Sandbox.verify(), timeout_s=WORK_TIMEOUT_S)

    def said(self, chosen: Sample) -> dict[int, Said]:
        """Ask the kernel about some nodes; its messages, not decoded. Raises LabError: it cannot be asked."""
        return self._sandbox.ask(Sandbox.said(chosen), timeout_s=WORK_TIMEOUT_S)

    def spot_check(self) -> Reading:
        return self._sandbox.ask(Sandbox.spot_check())

    def prepare(self) -> None:
        """Import PyTorch in the process that workers are forked from, unless that was done."""
        self._sandbox.ask(Sandbox.prepare(), timeout_s=WORK_TIMEOUT_S)

    def launch(self, workers: Sequence[Launch]) -> None:
        check_launches(workers, self._net.topology)
        self._started |= {worker.process for worker in workers}
        located = [replace(w, job=str(Path(w.job).absolute()), log=str(Path(w.log).absolute())) for w in workers]
        started = self._sandbox.ask(Sandbox.launch(located), timeout_s=WORK_TIMEOUT_S)
        self._outer = {name: pid for name, pid in self._outer.items() if name not in started}
        self._inner = self._inner | started

    def agent(self) -> list[str]:
        topology = self._net.topology
        self._sandbox.ask(Sandbox.serve_calls([topology.nodes[host].name for host in topology.hosts]))
        return module_command(AGENT)

    def exits(self) -> list[Exit]:
        return self._sandbox.ask(Sandbox.exits())

    def stopped(self) -> list[str]:
        return self._sandbox.ask(Sandbox.stopped())

    def cpu_s(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids().items()}

    def kill(self) -> None:
        self._sandbox.ask(Sandbox.kill(), timeout_s=WORK_TIMEOUT_S)

    def signal(self, target: str, number: int) -> None:
        topology = self._net.topology
        check_target(target, topology, self._started)
        ask = Sandbox.signal_node if target in topology.index else Sandbox.signal_worker
        self._sandbox.ask(ask(target, number))

    def start(self, node: int, program: Program, log: str) -> Running:
        settings = (f"{name}={value}" for name, value in program.environment.items())
        words = ["env", f"--chdir={program.folder}", *settings, *program.words]
        with logged(log) as files:
            return self._attached(partial(Sandbox.start, node, words), files)

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        self._sandbox.ask(Sandbox.adjust(list(changes)))
        for change in changes:
            link = change.directed_link
            self._changes[link] = self._changes.get(link, LinkChange(link)).then(change)

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        """Raises LabError: nothing could be measured; what the program said is told."""
        limit_s = CALIBRATION_START_S + PING_S * len(pings) + sum(one.duration_s for one in bursts)
        start = partial(Sandbox.calibrate, pings, bursts)
        done = run_and_collect(lambda files: self._attached(start, files), ["calibration"], limit_s)
        if done.status:
            raise LabError(f"the network could not be measured: {done.stderr}", fix="see what the program said")
        found = json.loads(done.stdout)
        return Calibration(found["pings"], tuple(map(tuple, found["round_trips_s"])), tuple(found["rates_bps"]))

    def between_racks(self) -> list[dict[str, Any]]:
        """Return nothing: processes on switches measure these links."""
        return []

    def monitor(self) -> Monitor:
        return Monitor(self._pids)

    def _pids(self) -> dict[str, int]:
        """PIDs on this machine of processes that were launched, by name. A process that ended before it was looked up
        has none. The kernel's list of children may miss some while others end (proc_pid_children(5)), so those without
        a PID are looked up again."""
        inner, outer, now_s = self._inner, self._outer, time.monotonic()
        is_missing = inner.keys() != outer.keys()
        if is_missing and (inner is not self._sought or now_s - self._sought_s >= LOOK_AGAIN_S):
            self._sought, self._sought_s = inner, now_s
            first = first_child(self._sandbox.launcher_pid)
            children = {} if first is None else children_by_inner_pid(first)
            self._outer = outer = {
                name: known for name, pid in inner.items() if (known := outer.get(name) or children.get(pid))
            }
        return dict(outer)

    def counters(self) -> list[Counters]:
        return self._sandbox.ask(Sandbox.counters())

    def traffic(self, ports: range) -> Sequence[Traffic]:
        return self._sandbox.ask(Sandbox.traffic(ports))

    def tell(self, path: Path, said: Mapping[str, Any]) -> None:
        with path.open("a") as file:  # nodes have this machine's clock, and see the folder
            file.write(json.dumps(said) + "\n")

    def watch_queues(self) -> bool:
        return self._sandbox.ask(Sandbox.watch_queues())

    def queues(self) -> Queues:
        return self._sandbox.ask(Sandbox.queues())

    def interruptions(self) -> list[Interruption]:
        return []

    @property
    def launcher_pid(self) -> int:
        """PID of the process above the sandbox."""
        return self._sandbox.launcher_pid

    def congestion_controls(self) -> list[str]:
        """TCP congestion controls that workers may choose in this lab."""
        return self._sandbox.ask(Sandbox.congestion_controls())

    def try_enclosure(self) -> None:
        """Raises LabError: the kernel does not let workers be kept apart from the machine; it says what is refused."""
        self._sandbox.ask(Sandbox.try_enclosure())

    def has_qdisc(self, kind: str) -> bool:
        """Whether the kernel knows the queueing discipline ``htb`` (rates) or ``netem`` (delays)."""
        return self._sandbox.ask(Sandbox.has_qdisc(kind))

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        """Run one command on a node, without input, and wait for it. Raises LabError: it did not end in time (it was
        killed), or the lab ended."""
        return run_and_collect(lambda files: self.attach(node, command, files), command, timeout_s)

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Attached:
        """Start one command on a node with the given standard input, output and error (the caller keeps them).

        If the input is a terminal that no session controls yet (a fresh pty), the command controls it.
        """
        return self._attached(partial(Sandbox.run, node, list(command)), files)

    def command_line(self, files: tuple[int, int, int]) -> Attached:
        """Start the command line (``mininet>``), if the network's builder has one, on these files."""
        return self._attached(Sandbox.command_line, files)

    def _attached(self, start: Callable[[Sequence[int]], Call[int]], files: Files) -> Attached:
        """Send the request that starts a command, and return the command, with the status of its end on a stream of its
        own."""
        status, theirs = socket.socketpair()
        with theirs:
            pid = self._sandbox.ask(start((*files, theirs.fileno())))
        return Attached(status, lambda number: self._sandbox.ask(Sandbox.signal(pid, number)))

    def describe(self) -> dict[str, Any]:
        return self._description

    def down(self) -> None:
        self._leaving.set()
        with self._patching:
            self._leaving.clear()
            self._sandbox.ask(Sandbox.down(), timeout_s=WORK_TIMEOUT_S)
        self._network = self._planned = None
        self._description = {}

    def fileno(self) -> int:
        """File descriptor for select(): readable when the lab has ended."""
        return self._sandbox.fileno()

    def close(self) -> None:
        self._leaving.set()
        self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
