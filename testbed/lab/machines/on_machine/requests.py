"""Requests that the controller can send to a machine: the nodes of a network that are there, their processes, and
measurements from node to node.

Requests may be pickles in base64, as the controller may do anything on a machine by SSH. Answers are plain JSON
(:mod:`testbed.lab.machines.controller.answers`), as a machine may do nothing to the controller.
"""

from __future__ import annotations

import base64
import os
import pickle
import selectors
import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError, LabError
from testbed.lab.baremetal.on_hosts import pings
from testbed.lab.baremetal.on_hosts.agent_requests import AgentRequests, listing
from testbed.lab.base import SHARED, SHARED_VARIABLE, LinkChange
from testbed.lab.machines.on_machine.processes import ShareLab, ShareProcesses
from testbed.lab.measurements import Burst, Waited, Way
from testbed.lab.netns.kernel_interface import rtnetlink
from testbed.lab.netns.kernel_interface.netlink import RouteSocket
from testbed.lab.netns.network.build import OWN_NAMESPACE
from testbed.lab.netns.readings.readback import Sample
from testbed.lab.programs import Launch, Program
from testbed.lab.requests import Requests, request

COPIES = 3
"""Packets that are sent for each number: if one is lost, that is no cut."""
MOST_TAKEN = 1000
"""The most packets that are taken at once; others wait, or are lost."""
ROWS_TOLD = 20_000
"""The most rows of queues that one answer has: they take about 2 MB, which is half of an agent's longest line."""


class Beats:
    """Numbers that machines send each other in small packets, beside the tunnels: each reading of NICs sends some, and
    the next ones tell which of them came.

    Args:
        address: this machine's, on the NIC that leads to others.
    """

    def __init__(self, address: str) -> None:
        self._socket = pings.bound(address)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def send(self, number: int, to: Sequence[tuple[str, int]]) -> None:
        """Send a number to machines, by address and port."""
        for end in to:
            for _ in range(COPIES):
                with suppress(OSError):  # such as that there is no way: the other one does not hear it
                    self._socket.sendto(number.to_bytes(8, "big"), end)

    def heard(self) -> dict[str, list[int]]:
        """Return the numbers that came since the last call, by the address that they came from."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for _ in range(MOST_TAKEN):
            try:
                data, (address, _) = self._socket.recvfrom(16)
            except BlockingIOError:
                break
            except OSError:  # what an earlier packet met
                continue
            if len(data) == 8:
                found[address].add(int.from_bytes(data, "big"))
        return {address: sorted(numbers) for address, numbers in found.items()}


class MachineRequests(AgentRequests):
    """The requests (:data:`REQUESTS`) about the share of a network that is on this machine."""

    processes: ShareProcesses

    def __init__(self, processes: ShareProcesses, selector: selectors.BaseSelector) -> None:
        super().__init__(processes, selector)
        self._beats: Beats | None = None
        self._waited: Sequence[Waited] = ()

    @request
    def time(self) -> float:
        """Read this machine's clock."""
        return time.monotonic()

    @request
    def open(self, nic: str, address: str | None) -> dict[str, Any]:
        """Make the lab, with no network yet. Return the address and the MTU of the NIC that leads to other machines,
        the way in which links can be impaired here, and the port for other machines' beats.

        Args:
            address: the NIC's address, if it may have several.

        Raises:
            PrivilegeError: the kernel does not let this user make namespaces.
            HostError: the NIC has no such address.
        """
        if self.processes.lab is None:
            self.processes.lab = ShareLab(os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC))
        with RouteSocket() as netlink:
            links = {one.name: one for one in map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links()))}
            listed = [rtnetlink.read_address(body) for body in netlink.dump(rtnetlink.list_addresses())]
        if nic not in links:
            raise HostError(f"there is no NIC {nic}", fix=f"correct its nics; it has {', '.join(sorted(links))}")
        has = [one for index, one, _ in listed if index == links[nic].index]
        if not has or address not in (None, *has):
            raise HostError(
                f"{nic} has {'no IPv4 address' if not has else f'not the address {address}'}, and tunnels need one",
                fix=f"on it: ip address add 10.10.0.1/24 dev {nic}, with an address of its own on each machine",
            )
        if not links[nic].is_up:
            raise HostError(f"{nic} is down", fix=f"on it: ip link set {nic} up")
        own = address or has[0]
        self._beats = self._beats or Beats(own)
        return {"address": own, "mtu": links[nic].mtu, "way": self._lab.impairs_by(), "port": self._beats.port}

    @property
    def _lab(self) -> ShareLab:
        if self.processes.lab is None:
            raise LabError("no network is up", fix="call up() first")
        return self.processes.lab

    @request
    def require(self, topology: str, settings: str) -> None:
        """Look whether this machine can emulate such links (:meth:`testbed.lab.base.Lab.require`); both are pickled."""
        self._lab.require(_unpacked(topology), _unpacked(settings))

    @request
    def up(self, share: str, folder: str, reads: Sequence[str]) -> dict[str, Any]:
        """Build a share and read it back; return what was read.

        Args:
            share: a pickle of the topology, its settings and the share's blueprint.
            folder: name of the folder of the trial's files, below the agent's.
            reads: other folders that programs see.
        """
        topology, settings, plan = _unpacked(share)
        work = self.processes.below(folder)
        for name in (SHARED, *(node.name for node in plan.own_nodes)):
            (work / name).mkdir(parents=True, exist_ok=True)
        self._lab.share(work, [Path(one) for one in reads])
        self._lab.up_share(topology, settings, plan)
        return self._lab.describe()

    @request
    def down(self) -> None:
        """End all processes of the network, and let go of it."""
        self.processes.kill_all()

    @request
    def read_back(self) -> dict[str, Any]:
        """Read the share back again, and compare it with what was asked for; return what was read."""
        self._lab.read_back()
        return self._lab.describe()

    @request
    def said(self, nodes: Sequence[int], routed: Sequence[int]) -> list[Any]:
        """Ask the kernel about some nodes, for another decoder than ours: pairs of a node and messages in base64."""
        told = self._lab.said(Sample(tuple(nodes), tuple(routed)))
        return [
            (node, {name: base64.b64encode(data).decode() for name, data in vars(one).items()})
            for node, one in told.items()
        ]

    @request
    def spot_check(self) -> dict[str, Any]:
        """Read some of the shapers back in mid-run, as :class:`testbed.lab.measurements.Reading`."""
        return asdict(self._lab.spot_check())

    @request
    def launch(self, workers: Sequence[Mapping[str, Any]]) -> None:
        """Start workers, or programs that run in their place: each with the arguments of
        :meth:`testbed.lab.baremetal.on_hosts.host_requests.HostRequests.launch`, its node, and whether it has a use for
        PyTorch."""
        self.processes.launch({one["process"]: self._launch(**one) for one in workers})

    def _launch(
        self,
        process: str,
        job: str,
        log: str,
        samples: str | None,
        outputs: Sequence[str],
        *,
        node: int,
        torch: bool,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str = "",
    ) -> tuple[Launch, Sequence[str], Sequence[str]]:
        own = dict(environment or {})
        cleared = (SHARED_VARIABLE,) if own.pop(SHARED_VARIABLE, None) is not None else ()  # machines share no folder
        program = Program(tuple(words), own, folder, cleared) if words else None
        job_path, log_path = str(self.processes.below(job)) if job else "", str(self.processes.room_for(log))
        followed = [one for one in (samples, log) if one is not None]
        return Launch(process, node, job_path, log_path, program, torch), followed, outputs

    @request
    def listen(self, name: str) -> None:
        """Listen at a Unix socket below the working directory, and tell what processes say there."""
        self.processes.relay.listen(self.processes.room_for(name))

    @request
    def say(self, socket: int, message: str) -> None:
        """Send a message in base64 to a process that is connected to that socket; an empty one ends its connection."""
        self.processes.relay.say(socket, base64.b64decode(message))

    @request
    def start(self, node: int, words: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> int:
        """Start a program on a node beside the workers; return a number for it."""
        return self.processes.start(node, Program(tuple(words), environment, folder), log)

    @request
    def signal(self, number: int, pid: int) -> None:
        """Signal such a program, by the number that it was given."""
        self.processes.signal(number, pid)

    @request
    def signal_node(self, number: int, name: str) -> None:
        """Signal everything that was started on a node."""
        self._lab.signal(name, number)

    @request
    def holder(self, node: int) -> list[int]:
        """Return the PID of the process that holds a node's network namespace, and the number of its open file."""
        return list(self._lab.holder(node))

    @request
    def execute(self, node: int, words: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        """Run a command on a node to its end; return its status, output and error output."""
        done = self._lab.execute(node, words, limit_s)
        return done.status, done.stdout, done.stderr

    @request
    def written(self, node: int, folder: str) -> dict[str, Any]:
        """List what programs wrote on a node into their copy of a folder."""
        return listing(self._lab.written(node, Path(folder)))

    @request
    def read_written(self, node: int, folder: str, name: str, offset: int) -> dict[str, Any]:
        """Read a piece of such a file."""
        return {"data": base64.b64encode(self._lab.read_written(node, Path(folder), name, offset)).decode()}

    @request
    def adjust(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change links in use, as :class:`testbed.lab.base.LinkChange`."""
        self._lab.adjust([LinkChange(**one) for one in changes])

    @request
    def impair(self, order: str) -> dict[str, Any]:
        """Impair links where this machine has the ends that do so, and let others take a detour. Return the share's
        description.

        Args:
            order: pickled arguments of :meth:`testbed.lab.netns.lab.NetnsLab.impair_with_detours`.
        """
        self._lab.impair_with_detours(*_unpacked(order))
        return self._lab.describe()

    @request
    def plan_patch(self, share: str) -> None:
        """Work out how the share becomes this one, pickled, which has other circuits."""
        self._lab.plan_share_patch(_unpacked(share))

    @request
    def patch_step(self, step: int) -> float:
        """Take a step of the patch (:mod:`testbed.lab.netns.network.patch`); return when it was done."""
        return self._lab.patch_step(step)

    @request
    def read_back_moved(self) -> None:
        """Read back what the patch changed here."""
        self._lab.read_back_moved()

    @request
    def counters(self) -> list[Any]:
        """Read the counters of each directed link that leaves a node here, as
        :class:`testbed.lab.measurements.Counters`."""
        return [list(vars(one).values()) for one in self._lab.counters()]

    @request
    def watch_queues(self) -> bool:
        """Begin to read queues, as :meth:`testbed.lab.base.Lab.watch_queues`."""
        return self._lab.watch_queues()

    @request
    def queues(self) -> dict[str, Any]:
        """Stop reading queues, as :meth:`testbed.lab.base.Lab.queues`. Return what was read, with the number of rows in
        place of these: :meth:`waited` returns them."""
        found = self._lab.queues()
        self._waited = found.windows
        return {"rows": len(found.windows), **{name: vars(found)[name] for name in ("readings", "cost_s", "problem")}}

    @request
    def waited(self, first: int) -> list[Any]:
        """Return some of the rows, from this number on, as many as go into a line."""
        return [list(row) for row in self._waited[first : first + ROWS_TOLD]]

    @request
    def nic(self, name: str, number: int, to: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Read what a NIC of this machine has sent and received (bytes), and how many packets it has lost; and which
        numbers came from other machines. Send a number ``to`` these, by address and port."""
        if self._beats is None:
            raise LabError("no lab is open", fix="open it first")
        heard = self._beats.heard()
        self._beats.send(number, [(address, port) for address, port in to])
        with RouteSocket() as netlink:
            bodies = netlink.dump(rtnetlink.list_link_counters())
        found = {rtnetlink.read_link(body).name: rtnetlink.read_counters(body) for body in bodies}
        if name not in found:
            raise HostError(f"the NIC {name} is gone", fix="see who removed it")
        return {"counts": list(found[name]), "heard": heard}

    @request
    def traffic(self, first: int, last: int) -> list[dict[str, Any]]:
        """Read the bytes that links carry, and connections with these ports."""
        return [one._asdict() for one in self._lab.traffic(range(first, last + 1))]

    @request
    def calibrate(self, pings: Sequence[Mapping[str, Any]], bursts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Measure ways between nodes here, as :meth:`testbed.lab.base.Lab.calibrate`."""
        asked = [replace(Burst(**one), way=Way(**one["way"])) for one in bursts]
        return asdict(self._lab.calibrate([Way(**one) for one in pings], asked))

    @request
    def echo(self, ends: Sequence[Sequence[Any]]) -> list[int]:
        """Send small packets back that come to these ends, each a node and its address; return the port of each. With
        none, stop doing so."""
        sockets: list[socket.socket] = []
        for node, address in ends:
            with self._lab.inside(node):
                sockets.append(pings.bound(address))
        return self._echoes.listen(sockets)

    @request
    def ping(self, node: int, local: str, remote: str, port: int, count: int) -> list[float]:
        """Measure round trips of small packets (s) from a node, or from the machine itself; those that did not come
        back are missing."""
        with self._lab.inside(node):
            return pings.ping(local, remote, port, count)

    def _inside(self, node: int) -> Any:
        return self._lab.inside(node)


REQUESTS = Requests(MachineRequests)


def packed(value: object) -> str:
    """Write a value for a machine."""
    return base64.b64encode(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)).decode()


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))
