"""Ways to impair the links of a network: by the kernel's netem, or by the delay line. One interface, two ways.

netem sits below the shaper at the egress of a link's tail, the delay line at the ingress of its head. For the link this
is the same: a packet that is delayed before it is served or after comes as late.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
import socket
import subprocess
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from testbed.base.errors import LabError, MissingToolError
from testbed.lab.base import Impairment
from testbed.lab.measurements import Counters
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface import rtnetlink, shaping
from testbed.lab.netns.kernel_interface.netem import Netem
from testbed.lab.netns.kernel_interface.netlink import NLM_F_CREATE, NLM_F_REPLACE, RouteSocket
from testbed.lab.netns.network import delay_line
from testbed.lab.netns.network.blueprint import NodePlan
from testbed.lab.netns.network.build import BuiltNetwork
from testbed.lab.netns.network.delay_line import DelayLine, Order, cutting
from testbed.lab.requests import Call

_T = TypeVar("_T")
NETEM, DELAY_LINE = "netem", "delay line"
IPTABLES = "iptables"
QUEUES = "/proc/net/netfilter/nfnetlink_queue"
QUEUE_DROPPED, USER_DROPPED = 5, 6
"""Columns of the kernel's table of queues: packets refused by a queue that is full, and those that its reader could not
be told of."""
TOOL_TIMEOUT_S = 30.0
SIGMAS = 6
SYSTEM_PATHS = ("/usr/sbin", "/sbin")


class Impairing:
    """A way to impair the links of one network."""

    def __init__(self, network: BuiltNetwork) -> None:
        self._network = network

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        """Impair each of these directed links so from now on. Raises LabError: the kernel refuses it; MissingToolError:
        a program is missing."""
        raise NotImplementedError

    def check(self) -> None:
        """Compare what is there with what was asked for, beyond the shapers, which are compared by :mod:`readback`.
        Raises LabError: it differs."""

    def alive(self) -> None:
        """Raises LabError: what delays the packets has ended."""

    def unasked(self, counted: Sequence[Counters]) -> list[Counters]:
        """Return the kernel's counts, with those packets as drops that were dropped without being asked to."""
        raise NotImplementedError

    def report(self) -> dict[str, Any]:
        """Report how links are impaired, for the run's description."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what is held."""


class ByNetem(Impairing):
    """Impairment by the kernel's netem, in place of the FIFO below a link's shaper."""

    def __init__(self, network: BuiltNetwork) -> None:
        super().__init__(network)
        self._most_lost: dict[int, float] = {}

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        network = self._network
        self._most_lost |= {link: max(one.loss, self._most_lost.get(link, 0.0)) for link, one in wanted.items()}
        fresh = wanted.keys() - network.netem.keys()
        network.netem |= {link: Netem.of(one, network.blueprint.seed(link)) for link, one in wanted.items()}
        if any(impairment.every_packet for impairment in wanted.values()):
            self._send_single_packets()
        for link in wanted:
            node, _ = network.blueprint.ends[link]
            port, label = network.blueprint.port(link), network.blueprint.label(link)
            flags = NLM_F_CREATE | NLM_F_REPLACE if link in fresh else 0
            with network.inside(node), RouteSocket() as netlink:
                netlink.send([shaping.leaf(port.index, network.shape(port), label, flags)])

    def _send_single_packets(self) -> None:
        """Have new connections of hosts send no large packets: netem decides once about a packet that is cut later
        (GSO)."""

        def limit(node: NodePlan, netlink: RouteSocket) -> None:
            if node.mode == "host":
                what = f"{node.name}'s large packets"
                netlink.send([rtnetlink.limit_segments(port.index, 1, what) for port in node.ports])

        self._network.on_every_node(limit)

    def unasked(self, counted: Sequence[Counters]) -> list[Counters]:
        """Take as many drops off as chance may lose: netem counts what it is told to lose among the drops."""
        return [replace(one, drops=_beyond(one, self._most_lost.get(one.directed_link, 0.0))) for one in counted]

    def report(self) -> dict[str, Any]:
        return {"way": NETEM}


class ByLine(Impairing):
    """Impairment by the delay line, a process in the sandbox, which :meth:`impair` starts when it is first needed."""

    def __init__(self, network: BuiltNetwork) -> None:
        super().__init__(network)
        self._queues: dict[int, int] = {}  # queue at the link's head, by directed link
        self._channel: Channel | None = None
        self._process = -1

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        blueprint = self._network.blueprint
        orders: list[Order] = []
        rules: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for directed, impairment in wanted.items():
            head, queue = blueprint.ends[directed ^ 1]
            namespace = self._network.namespaces[head]
            mtu_bytes = blueprint.settings.mtu
            orders.append(Order(directed, namespace, queue, impairment, blueprint.seed(directed), mtu_bytes))
            if directed not in self._queues:
                rules[head][blueprint.port(directed ^ 1).name] = queue
        self._ask(DelayLine.impair(orders))
        for head, queues in rules.items():
            with self._network.inside(head):
                run_tool([IPTABLES + "-restore", "--noflush"], rules_text(queues))
        self._queues |= {order.directed_link: order.queue for order in orders}

    def check(self) -> None:
        if not self._queues:
            return
        blueprint = self._network.blueprint
        found = self._ask(DelayLine.report())["links"]
        asked = {link: blueprint.impairments.get(link, Impairment()) for link in self._queues}
        for link, impairment in asked.items():
            if found.get(link) != impairment:
                raise LabError(f"{blueprint.label(link)}: asked for {impairment}, the delay line has {found.get(link)}")
        for head, links in self._by_head().items():
            wanted = {f"-A PREROUTING -i {blueprint.port(d ^ 1).name} -j NFQUEUE --queue-num {q}" for d, q in links}
            with self._network.inside(head):
                listed = set(run_tool([IPTABLES, "-t", "mangle", "-S", "PREROUTING"]).splitlines())
                queues = read_queues()
            for line in wanted - listed:
                raise LabError(f"{blueprint.nodes[head].name}: asked for the rule {line!r}, the kernel has none such")
            for directed, queue in links:
                for number in (queue, cutting(queue)):
                    if number not in queues:
                        raise LabError(f"{blueprint.label(directed)}: no listener at netfilter queue {number}")

    def alive(self) -> None:
        if self._process >= 0 and select.select([self._process], [], [], 0)[0]:
            raise LabError("the delay line has ended, and no delayed link carries anything since", fix="run it again")

    def unasked(self, counted: Sequence[Counters]) -> list[Counters]:
        """Add the packets as drops that a queue refused, or that this process could not be told of."""
        found: dict[int, int] = {}
        for head, links in self._by_head().items():
            with self._network.inside(head):
                queues = read_queues()
            found |= {directed: queues.get(queue, 0) + queues.get(cutting(queue), 0) for directed, queue in links}
        return [replace(one, drops=one.drops + found.get(one.directed_link, 0)) for one in counted]

    def report(self) -> dict[str, Any]:
        if not self._queues:
            return {"way": DELAY_LINE}
        seen = self._ask(DelayLine.report())
        del seen["links"]
        return {"way": DELAY_LINE, "seeded": True, **seen}

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            os.close(self._process)

    def _by_head(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Group the directed links that are stopped at a node, and their queues, by node."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for directed, queue in self._queues.items():
            found[self._network.blueprint.ends[directed ^ 1][0]].append((directed, queue))
        return found

    def _ask(self, call: Call[_T]) -> _T:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        try:
            self._channel.send((call.name, call.arguments))
            answer, _ = self._channel.receive()
        except ChannelClosedError:
            raise LabError("the delay line has ended", fix="take the lab down and up again") from None
        if isinstance(answer, Exception):
            raise answer
        return cast(_T, answer)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _become_line(theirs, self._network.namespaces.values())
        theirs.close()
        self._channel, self._process = Channel(ours), os.pidfd_open(pid)


def _become_line(stream: socket.socket, namespaces: Iterable[int]) -> NoReturn:
    """Run the delay line in a forked child, to its end."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kept = {0, 1, 2, stream.fileno(), *namespaces}
        for fd in {int(one.name) for one in Path("/proc/self/fd").iterdir()} - kept:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)
        delay_line.main(Channel(stream))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _beyond(counted: Counters, loss: float) -> int:
    """Number of drops beyond those that a loss by chance makes, but once in a billion."""
    mean = loss * (counted.packets + counted.drops)
    return max(0, counted.drops - math.ceil(mean + SIGMAS * math.sqrt(mean)))


def rules_text(queues: Mapping[str, int]) -> str:
    """Text for iptables-restore that stops what arrives at each interface in its queue."""
    rules = [f"-A PREROUTING -i {interface} -j NFQUEUE --queue-num {number}\n" for interface, number in queues.items()]
    return f"*mangle\n{''.join(rules)}COMMIT\n"


def read_queues() -> dict[int, int]:
    """Read the packets dropped by each netfilter queue of this namespace that somebody listens to."""
    rows = [line.split() for line in Path(QUEUES).read_text().splitlines()]
    return {int(row[0]): int(row[QUEUE_DROPPED]) + int(row[USER_DROPPED]) for row in rows}


def tool(name: str) -> str:
    """Path of a program, searched in /usr/sbin as well, which is not on every user's path. Raises MissingToolError: it
    is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PATHS])
    found = shutil.which(name, path=path)
    if found is None:
        raise MissingToolError(f"{name} is not installed", fix=f"sudo apt-get install {IPTABLES}")
    return found


def run_tool(words: Sequence[str], text: str = "") -> str:
    """Run a program in the network namespace that we are in; return what it prints. Raises LabError: it failed;
    MissingToolError: it is not installed."""
    done = subprocess.run(
        [tool(words[0]), *words[1:]], input=text, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise LabError(f"{' '.join(words)} failed: {done.stderr.strip()}\n{text}".rstrip())
    return done.stdout
