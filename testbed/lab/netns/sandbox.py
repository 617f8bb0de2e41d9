"""The sandbox: owns every namespace, builds the network, starts and reaps all processes, as the caller asks one by one.

It is the first process of a PID namespace (:mod:`testbed.lab.netns.launcher`).
"""

from __future__ import annotations

import os
import select
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from testbed.base.errors import LabError, TestbedError
from testbed.files import foreign
from testbed.files.foreign import Listing
from testbed.lab.base import SHARED, Impairment, LinkChange, LinkSettings, piece_of
from testbed.lab.measurements import Burst, Counters, Queues, Reading, Traffic, Way
from testbed.lab.netns.channel import Channel
from testbed.lab.netns.kernel_interface import capabilities, sysctls
from testbed.lab.netns.kernel_interface.netlink import NetlinkError
from testbed.lab.netns.network import patch
from testbed.lab.netns.network.blueprint import Blueprint, StaticRoute
from testbed.lab.netns.network.build import OWN_NAMESPACE, BuiltNetwork, LentNetwork
from testbed.lab.netns.network.impairing import ByLine, ByNetem, Impairing
from testbed.lab.netns.on_nodes import calls
from testbed.lab.netns.on_nodes.enclosure import Enclosure, View
from testbed.lab.netns.on_nodes.processes import (
    Place,
    Processes,
    by_stream,
    child_ends,
    expect_jobs,
    run_program,
    worker_body,
)
from testbed.lab.netns.readings import readback
from testbed.lab.netns.readings.listening import Said
from testbed.lab.netns.readings.queues import Sampler
from testbed.lab.netns.readings.streams import Meter
from testbed.lab.programs import Exit, Launch, need_torch
from testbed.lab.requests import Requests, request

ETC_HOSTS = "/etc/hosts"


class Sandbox:
    """Requests that the caller can send (:data:`REQUESTS`), and the loop that answers them."""

    def __init__(self, channel: Channel, services: tuple[Path, ...]) -> None:
        """Prepare the sandbox. ``services`` are sockets that others on this machine listen on."""
        self._channel = channel
        self._network: BuiltNetwork | None = None
        self._patch: patch.Patch | None = None
        self._way: Impairing | None = None
        self._sampler: Sampler | None = None
        self._meter: Meter | None = None
        self._lent: dict[int, int] = {}
        self._processes = Processes()
        self._work: Path | None = None
        self._copies: tuple[Path, ...] = ()
        self._enclosures: dict[int, Enclosure] = {}
        self._hosts: dict[str, int] = {}
        self._services = services
        self._wake = child_ends()

    def serve(self) -> NoReturn:
        """Answer requests and reap children. Raises ChannelClosedError when the caller is gone."""
        channel, wake = self._channel.fileno(), self._wake.fileno()
        while True:
            callers = {one.line.fileno(): one for one in self._enclosures.values() if one.line is not None}
            poll = select.poll()  # unlike select(), for any descriptor
            for fd in (channel, wake, *callers):
                poll.register(fd, select.POLLIN)
            left_s = None if self._sampler is None else self._sampler.sample()
            ready = [fd for fd, _ in poll.poll(None if left_s is None else 1e3 * left_s)]
            if wake in ready:
                self._wake.recv(4096)
                self._processes.reap()
            for fd in callers.keys() & ready:
                self._take_call(callers[fd])
            if channel in ready:
                (name, named), files = self._channel.receive()
                answer = self._answer(name, named, files)
                if isinstance(answer, Exception):
                    for fd in files:
                        os.close(fd)
                self._channel.send(answer)

    def _answer(self, name: str, named: Mapping[str, Any], files: Sequence[int]) -> Any:
        """Carry out one request; return its result, or the error."""
        try:
            return REQUESTS.find(self, name, named=named, files=files)()
        except TestbedError as error:
            return error
        except Exception as error:
            return LabError(f"{name}: {error!r}\n{traceback.format_exc()}")

    @request
    def lend(self, nodes: Sequence[int], files: Sequence[int]) -> None:
        """Keep network namespaces that somebody else has made, for these nodes of the network that is built next, or,
        as the node :data:`testbed.lab.netns.network.build.MACHINE`, the one that tunnels lead out of."""
        self._lent |= dict(zip(nodes, files, strict=True))

    @request
    def share(self, work: str, copies: Sequence[str]) -> None:
        """Let workers, from the next :meth:`up` on, read what is in ``work``, write to the folder there that has their
        node's name and to the one that all share, and have copies on write of the others."""
        self._work, self._copies = Path(work), tuple(map(Path, copies))

    @request
    def written(self, node: int, copy: int) -> Listing:
        """List what programs on a node wrote into the copy of that number."""
        return foreign.listed(self._layer(node, copy))

    @request
    def read_written(self, node: int, copy: int, name: str, offset: int) -> bytes:
        """Read a piece of such a file."""
        return piece_of(self._layer(node, copy), name, offset)

    def _layer(self, node: int, copy: int) -> Path:
        if node not in self._enclosures:
            raise LabError("its processes were ended, and what they wrote is gone with them")
        return Path(f"/proc/self/fd/{self._enclosures[node].written[copy]}")

    @request
    def up(self, blueprint: Blueprint) -> dict[str, Any]:
        """Build the network and read it back; return what was read, summarised."""
        self.down()
        _require(blueprint)
        lent, self._lent = self._lent, {}
        self._network = _builder(blueprint, lent)
        try:
            self._network.build()
            self._way = (ByNetem if blueprint.by_netem else ByLine)(self._network)
            if blueprint.impairments:
                self._way.impair(blueprint.impairments)
            Path(ETC_HOSTS).write_text(blueprint.hosts_file)
            return self.verify()
        except BaseException:
            self.down()
            raise

    @request
    def verify(self) -> dict[str, Any]:
        """Read the network back again and compare it with what was asked for."""
        return readback.verify(self._up(), self._impairing())

    @request
    def spot_check(self) -> Reading:
        """Read some of the shapers back in mid-run. Requests are served one by one, so no change is half done."""
        return readback.spot_check(self._up(), self._impairing())

    @request
    def said(self, chosen: readback.Sample) -> dict[int, Said]:
        """Ask the kernel about some nodes, for another decoder than ours."""
        return readback.said(self._up(), chosen)

    @request
    def impair(self, wanted: Mapping[int, Impairment], routes: Mapping[int, tuple[StaticRoute, ...]]) -> dict[str, Any]:
        """Impair links from now on; ``routes`` are those of bridges, by the links that are to take a detour there.
        Return what the description says of it from now on."""
        network, way = self._up(), self._impairing()
        try:
            self._impair(network, way, wanted, routes)
        except NetlinkError as error:
            raise LabError(f"the kernel refused to {error.strerror}") from error
        way.check()
        return {"impairments": readback.impairments(network.blueprint), "impaired_by": way.report()}

    def _impair(
        self,
        network: BuiltNetwork,
        way: Impairing,
        wanted: Mapping[int, Impairment],
        routes: Mapping[int, tuple[StaticRoute, ...]],
    ) -> None:
        for directed, found in routes.items():
            switch, _ = network.blueprint.ends[directed ^ 1]
            if switch in network.namespaces and not network.blueprint.nodes[switch].forwards:
                network.forward_by_address(switch, found)
        if wanted:  # else only the tails of links are here
            network.set_impairments(wanted)
            way.impair(wanted)
        for directed in routes.keys() - network.blueprint.detours:
            if network.blueprint.ends[directed][0] in network.namespaces:
                network.detour(directed)

    @request
    def impaired_by(self) -> dict[str, Any]:
        """Report how links are impaired, and how exactly so far."""
        return self._impairing().report()

    @request
    def way(self) -> str | None:
        """Way in which links can be impaired here: by netem, or by the delay line, or not at all."""
        return capabilities.way()

    @request
    def plan_patch(self, blueprint: Blueprint) -> None:
        """Work out how the network becomes this one, which has other circuits."""
        self._patch = patch.plan(self._up().blueprint, blueprint)

    @request
    def patch_step(self, step: int) -> float:
        """Take a step of the planned patch (:mod:`testbed.lab.netns.network.patch`); return when it was done."""
        network, planned = self._up(), self._planned()
        network.send(planned.steps[step])
        done_s = time.monotonic()
        if step == patch.CHANGE:
            impairments = network.blueprint.impairments  # which may have changed since it was planned
            network.blueprint = replace(planned.after, impairments=impairments)
        return done_s

    @request
    def read_back_moved(self) -> None:
        """Read back everything that the patch changed."""
        planned, self._patch = self._planned(), None
        readback.verify_nodes(self._up(), self._impairing(), planned.touched)

    def _planned(self) -> patch.Patch:
        if self._patch is None:
            raise LabError("no patch is planned", fix="call plan_patch() first")
        return self._patch

    @request
    def namespaces(self) -> dict[int, int]:
        """Numbers, in this process, of the open files of nodes' network namespaces, by node."""
        return dict(self._up().namespaces)

    @request
    def down(self) -> None:
        """End all processes and let go of the network."""
        self._processes.kill_all()
        self._end_sampling()
        self._end_metering()
        enclosures, self._enclosures, self._hosts = list(self._enclosures.values()), {}, {}
        for enclosure in enclosures:
            enclosure.close()
        if self._way is not None:
            self._way.close()
            self._way = None
        if self._network is not None:
            self._network.close()
            self._network = self._patch = None
            Path(ETC_HOSTS).write_text("127.0.0.1 localhost\n")

    @request
    def run(self, node: int, command: Sequence[str], files: Sequence[int]) -> int:
        """Start a command of the caller's own, which sees the machine as the caller does.

        ``files`` are standard input, output, error, and the stream for its status."""
        return self._processes.run(self._place(node), command, files[:3], by_stream(files[3]))

    @request
    def start(self, node: int, command: Sequence[str], files: Sequence[int]) -> int:
        """Start a program that a spec names, on an enclosed node; files as for :meth:`run`."""
        return self._processes.run(self._enclosed(node), command, files[:3], by_stream(files[3]))

    @request
    def serve_calls(self, hosts: Sequence[str]) -> None:
        """Let programs that are started from now on start others on these hosts."""
        self._hosts = {node.name: node.index for node in self._up().blueprint.nodes if node.name in set(hosts)}

    def _take_call(self, caller: Enclosure) -> None:
        assert caller.line is not None
        if not calls.take(caller.line, self._call):
            caller.line.close()
            caller.line = None

    def _call(self, name: str, command: str, stdio: list[int], tell: calls.Tell) -> None:
        if name not in self._hosts:
            raise LabError(f"there is no host {name!r} in this lab")
        self._processes.run(self._enclosed(self._hosts[name]), ["sh", "-c", command], stdio, tell)

    @request
    def command_line(self, files: Sequence[int]) -> int:
        """Start the command line of the network's builder for a person at a terminal; files as for :meth:`run`."""
        network = self._up()
        place = Place(network.blueprint.builder, network.home)
        return self._processes.call(place, network.command_line, files[:3], by_stream(files[3]), keep=True)

    @request
    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst], files: Sequence[int]) -> int:
        """Start :mod:`.calibration`, in a process that needs no imports if workers have run here; files as for
        :meth:`run`."""
        namespaces = dict(self._up().namespaces)
        body = partial(_calibrate, namespaces, pings, bursts)
        return self._processes.call(self._place(min(namespaces)), body, files[:3], by_stream(files[3]))

    @request
    def signal(self, pid: int, number: int) -> None:
        """Signal a command and its children."""
        self._processes.signal(pid, number)

    @request
    def prepare(self) -> None:
        """Import what workers need, so that they start at once."""
        worker_body()

    @request
    def launch(self, workers: Sequence[Launch]) -> dict[str, int]:
        """Fork the workers, or start the programs that run in their place; return their PIDs here, by name."""
        torch = need_torch(workers)
        # All places first, so that all start at once.
        self._enclose([worker.node for worker in workers])
        places = [self._enclosed(worker.node) for worker in workers]
        expect_jobs(workers)
        return {
            worker.process: self._processes.launch(
                worker, place, run_program if worker.program else worker_body(torch=torch)
            )
            for worker, place in zip(workers, places, strict=True)
        }

    @request
    def exits(self) -> list[Exit]:
        """Workers that ended since the last call. Raises LabError if what delays their packets has ended."""
        if self._way is not None:
            self._way.alive()
        self._processes.reap()
        return self._processes.exits()

    @request
    def stopped(self) -> list[str]:
        """Workers that do not run."""
        return self._processes.stopped()

    @request
    def kill(self) -> None:
        """End every worker."""
        for node in self._processes.kill_workers():
            self._enclosures.pop(node).close()

    @request
    def signal_node(self, name: str, number: int) -> None:
        """Signal everything that was started on a node."""
        self._processes.signal_node(name, number)

    @request
    def signal_worker(self, name: str, number: int) -> None:
        """Signal one worker."""
        self._processes.signal_worker(name, number)

    @request
    def adjust(self, changes: Sequence[LinkChange]) -> None:
        """Change links that are in use."""
        self._up().adjust(changes)

    @request
    def counters(self) -> list[Counters]:
        """Read the counters of each directed link."""
        return readback.counters(self._up(), self._impairing())

    @request
    def traffic(self, ports: range) -> list[Traffic]:
        """Read bytes that links carry, and connections with these ports; empty if nothing is shaped."""
        network = self._up()
        if not network.blueprint.settings.shaped:
            return []
        if self._meter is None or self._meter.ports != ports:
            self._end_metering()
            self._meter = Meter(network, ports)
        return [self._meter.read()]

    def _end_metering(self) -> None:
        meter, self._meter = self._meter, None
        if meter is not None:
            meter.close()

    @request
    def watch_queues(self) -> bool:
        """Begin to read what waits at every egress, again and again between requests; False if nothing is shaped."""
        network = self._up()
        self._end_sampling()
        if network.blueprint.settings.shaped:
            self._sampler = Sampler(network)
        return self._sampler is not None

    @request
    def queues(self) -> Queues:
        """Stop reading queues; return what was read."""
        found = self._end_sampling()
        if found is None:
            raise LabError("queues are not watched", fix="call watch_queues() first")
        return found

    def _end_sampling(self) -> Queues | None:
        sampler, self._sampler = self._sampler, None
        return None if sampler is None else sampler.close()

    @request
    def congestion_controls(self) -> list[str]:
        """Congestion controls that a worker may choose."""
        return capabilities.congestion_controls()

    @request
    def has_qdisc(self, kind: str) -> bool:
        """Whether the kernel has this queueing discipline, to shape or delay packets."""
        return capabilities.has_qdisc(kind)

    @request
    def try_enclosure(self) -> None:
        """Raises LabError if the kernel does not let workers be kept apart from the machine."""
        namespace = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = Enclosure("a node", namespace, View(copies=(Path(sys.prefix),)))
            try:
                found.wait()
            finally:
                found.end()
                found.close()
        finally:
            os.close(namespace)

    @request
    def require(self, what: str | None, settings: LinkSettings) -> None:
        """Raises MissingToolError if the kernel cannot shape links, or not give them ``what``, an impairment's text, or
        not mark packets; PrivilegeError if it keeps the congestion control from workers."""
        if settings.congestion_control is not None:
            sysctls.require_control(settings.congestion_control)
        capabilities.require_qdisc("htb", "a link's rate")
        if settings.mark_at_bytes is not None:
            capabilities.require_qdisc("red", "a queue that marks packets by ECN")
        if what is not None:
            capabilities.require_way(f"a link with {what}")

    def _up(self) -> BuiltNetwork:
        if self._network is None:
            raise LabError("no network is up", fix="call up() first")
        return self._network

    def _impairing(self) -> Impairing:
        self._up()
        assert self._way is not None
        return self._way

    def _enclosed(self, node: int) -> Place:
        """Place of workers and programs of a spec on a node, with its enclosure."""
        self._enclose([node])
        return replace(self._place(node), enclosure=self._enclosures[node])

    def _enclose(self, nodes: Iterable[int]) -> None:
        """Make an enclosure on each of these nodes that has none; new ones are furnished at the same time."""
        new: dict[int, Enclosure] = {}
        try:
            for node in nodes:
                if node not in self._enclosures and node not in new:
                    new[node] = self._begun_enclosure(self._place(node))
            for one in new.values():
                one.wait()
        except BaseException:
            for one in new.values():
                one.end()
                one.close()
            raise
        self._enclosures |= new

    def _begun_enclosure(self, place: Place) -> Enclosure:
        assert place.namespace is not None
        own = () if self._work is None else (self._work / place.name, self._work / SHARED)
        writable = tuple(folder for folder in own if folder.is_dir())
        view = View(self._work, writable, self._copies, self._services, agent=bool(self._hosts))
        return Enclosure(place.name, place.namespace, view)

    def _place(self, node: int) -> Place:
        network = self._up()
        return Place(network.blueprint.nodes[node].name, network.namespaces[node])


REQUESTS = Requests(Sandbox, trusted=True)


def _builder(blueprint: Blueprint, lent: Mapping[int, int]) -> BuiltNetwork:
    if blueprint.builder == "mininet":
        from testbed.lab.mininet.network import MininetNetwork  # which is an extra

        return MininetNetwork(blueprint)
    return LentNetwork(blueprint, lent) if lent else BuiltNetwork(blueprint)


def _calibrate(namespaces: Mapping[int, int], pings: Sequence[Way], bursts: Sequence[Burst]) -> int:
    from testbed.lab.netns.readings import calibration  # with NumPy, which this process has once workers were forked

    return calibration.main(namespaces, pings, bursts)


def _require(blueprint: Blueprint) -> None:
    """Raises MissingToolError if the kernel lacks what the links need."""
    if not blueprint.settings.shaped:
        return
    capabilities.require_qdisc("htb", "a link's rate")
    if blueprint.impairments:
        directed, impairment = next(iter(blueprint.impairments.items()))
        capabilities.require_way(f"link {blueprint.label(directed)} with {impairment}")
