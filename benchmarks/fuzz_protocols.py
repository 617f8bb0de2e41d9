"""Messages that were tampered with: does a reader of a connection end in a traceback, hang or swell?

    python benchmarks/fuzz_protocols.py [--inputs N] [--only NAME ...] [--seed N]

Honest messages are changed at random: by their structure (a value of another type, an absurd number, a key that is
gone, a header that says something else) and by their bytes. A reader may take the input, or raise one of our named
errors. Agents' requests are read as a user without rights. Exit code 1 if there are findings (``fuzzing.py``).
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import random
import select
import socket
import struct
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from fuzzing import Subject, Take, arguments, report

from testbed.base.errors import LabError, TestbedError, TrialTimeoutError
from testbed.interactive import reach
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.clock import Clock
from testbed.lab.baremetal.controller.connection import Connection
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.on_hosts import agent as agents
from testbed.lab.baremetal.on_hosts import cpu_readings
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.programs import Command
from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.kinds.asynchronous.parameter_server import Client, Replica, Server
from testbed.workloads.kinds.asynchronous.plan import replicas, servers
from testbed.workloads.kinds.phub import api
from testbed.workloads.kinds.phub.api import Handle
from testbed.workloads.kinds.phub.core import Core, Ends, Manager
from testbed.workloads.kinds.phub.exchange import End
from testbed.workloads.kinds.phub.memory import Memory
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.learning.parts import spans
from testbed.workloads.sync import transport
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.compiled import CompiledEngine
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.reception import Reception
from testbed.workloads.sync.schemes import build_plan

NOBODY = 65534


# Changes.

STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 7, 2**31, 2**63, 2**64, 10**30, -(10**400), 1.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "h0", "../../etc/passwd", "/etc/shadow", "\0", "\x1b[2J", "\ud800", "{{ 7 * 7 }}", "x" * 10_000, "[" * 999),
    *([], {}, [[]], [0] * 1000, {"id": 0}, {"a": {"b": {"c": []}}}),
)


def change_json(rng: random.Random, honest: bytes) -> bytes:
    """A line of JSON with something else in it; now and then changed in its bytes."""
    value = json.loads(honest)
    for _ in range(rng.choice((1, 1, 2, 4))):
        value = _changed(rng, value)
    line = json.dumps(value).encode()
    if rng.random() < 0.05:
        line = line.replace(b"0", b"9" * 5000, 1)
    if rng.random() < 0.05:
        deep = rng.choice((50, 150, 500, 5000, 50_000))
        line = line[: len(line) // 2] + b"[" * deep + b"]" * rng.choice((0, deep)) + line[len(line) // 2 :]
    return change_bytes(rng, line) if rng.random() < 0.2 else line


BETWEEN = (b"Welcome!", b"\xff\0", b"{", b"", b"-" * 100_000, b"{" + b" " * 5_000_000)
"""Lines that may be between others."""


def change_lines(rng: random.Random, honest: bytes) -> bytes:
    """Lines of JSON: changed, doubled, in another order, and others between them."""
    lines = honest.split(b"\n")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind < 3:
            with suppress(ValueError, RecursionError):  # it was changed before
                lines[at] = change_json(rng, lines[at])
        elif kind == 3:
            lines.insert(at, rng.choice((lines[at], *BETWEEN)))
        elif kind == 4:
            del lines[at : at + rng.randint(0, 1)]
        else:
            rng.shuffle(lines)
        lines = lines or [b""]
    return b"\n".join(lines)


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.randrange(8)
        if kind == 0:
            return {name: one for name, one in value.items() if name != key}
        if kind == 1:
            return {**value, rng.choice(("id", "do", "extra", "data", "")): rng.choice(STRANGE)}
        return {**value, key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:at] + value[at + rng.randint(0, 1) :] * rng.choice((1, 1, 3))
        return [*value[:at], _changed(rng, value[at]), *value[at + 1 :]]
    return rng.choice(STRANGE)


def change_bytes(rng: random.Random, honest: bytes) -> bytes:
    """Bytes and headers that say something else, are gone, or are there twice."""
    data = bytearray(honest)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, to = sorted(rng.choices(range(len(data) + 1), k=2))
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            del data[at : rng.choice((at + 1, at + 4, to))]
        elif kind == 2:
            data[at:at] = data[at:to]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.choice((1, 4, 5, 100)))
        elif kind == 4:
            del data[at:]
        else:  # a header: 4 bytes, of which the upper ones say what it is
            word = rng.choice((0, 1, 8, 2**28, 2**28 + 8, 2**29, 2**31, 2**32 - 1, rng.getrandbits(32)))
            at -= at % 4
            data[at : at + 4] = struct.pack("!I", word)
    return bytes(data)


# Agents of hosts: what they are asked, and what they answer.

REQUESTS: dict[str, dict[str, Any]] = {
    "hello": {},
    "time": {},
    "put": {"path": "1/work/job.json", "data": "e30=", "mode": 0o644},
    "execute": {"words": ["true"], "limit_s": 1.0},
    "start": {"words": ["true"], "environment": {"A": "b"}, "folder": "/", "log": "1/logs/a"},
    "launch": {
        "process": "h0",
        "job": "1/job",
        "log": "1/log",
        "samples": "1/s",
        "outputs": ["1/w"],
        "words": ["true"],
    },
    "signal": {"number": 9, "pid": 77},
    "kill": {},
    "stopped": {},
    "shape": {"wanted": {"owner": "a b", "nics": [{"name": "x", "peers": [["1", "2"]]}], "undo_s": 9.0}, "arm": False},
    "shaped": {"wanted": {"owner": "a b", "nics": [{"name": "x", "peers": [["1", "2"]]}], "undo_s": 9.0}},
    "verify": {},
    "said": {},
    "adjust": {"nic": 0, "out": True, "rate_bps": 10**8, "queue_bytes": None, "blocked": False},
    "counters": {},
    "undo": {},
    "watch": {"on": False},
}
"""Of requests, those that neither end the agent nor have names looked up."""
_SHAPES = [[{"rate_bps": 1, "burst_bytes": 1, "queue_bytes": 1}] * 2]
_SAID = dict.fromkeys(("qdiscs", "classes", "addresses", "routes"), "AAAA")
RESULTS: dict[str, Any] = {
    "hello": {"kernel": "6.1", "python": "3.11", "cores": 2, "root": True, "pid": 7},
    "time": 123.4,
    "put": None,
    "start": 7,
    "execute": [0, "out", ""],
    "stopped": ["h0"],
    "verify": {"differs": None, "shapes": _SHAPES},
    "said": {"indices": [[1, 2]], "said": _SAID},
    "counters": [[[1, 2, 3], [4, 5, 6]]],
    "undo": True,
    "echo": [4000],
    "ping": [0.001, 0.002],
}
TOLD: tuple[dict[str, Any], ...] = (
    {"grown": "1/h0.jsonl", "data": "eyJ0aW1lIjogMS4wfQo="},
    {"grown": "1/log", "data": "YQ=="},
    {"exit": "h0", "status": 0, "started_s": 1.0, "ended_s": 2.0},
    {"ended": 7, "status": 0},
    {"cpu": [[1.0, 2.0, 0.0, 3.0, 0.0], [1.1, 2.1, 0.0, 3.2, None]]},
)


def requests_of_agents() -> Subject:
    """As an agent reads them."""
    honest = [json.dumps({"id": 1, "do": do, **fields}).encode() for do, fields in REQUESTS.items()]
    return Subject("agents, requests", honest, change_json, _agent)


def _agent() -> Take:
    work = Path(tempfile.mkdtemp(prefix="testbed-fuzz-"))
    if os.geteuid() == 0:
        os.chown(work, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    one, _ = agents.of_host(work, "nobody")
    told: list[dict[str, Any]] = []
    for module in (agents, cpu_readings):
        module.__dict__["tell"] = lambda **fields: told.append(fields)

    def take(line: bytes) -> None:
        told.clear()
        one._answer(line)
        one._processes.kill_all()
        problem = next((said["problem"] for said in told if "problem" in said), None)
        if problem is not None:
            raise TestbedError(problem)

    assert writing
    return take


class Answering(Connection):
    """The controller's end of a connection over which exactly this comes, after one request of each kind."""

    def __init__(self, name: str, fleet: Callable[[], Fleet] | None = None, said: bytes = b"") -> None:
        self.name, self.clock, self._kind = name, Clock(), answers.HOSTS
        self.clock.add(1.0, 1.0, 1.0)
        self._waiting = {i: (do, 1.0, 1.0, Future()) for i, do in enumerate(RESULTS)}
        self._out = io.BufferedReader(cast(io.RawIOBase, io.BytesIO(said)))
        if fleet is not None:
            self._on_event = lambda _, event: fleet().on_event(fleet().connections[0], cast(answers.Event, event))

    def listen(self) -> None:
        """Take all of it. Raises HostError: it cannot be."""
        self._listen()


def answers_of_agents() -> Subject:
    """As the controller reads them, with what agents tell unasked."""
    lines = [json.dumps({"id": i, "result": one}).encode() for i, one in enumerate(RESULTS.values())]
    lines += [json.dumps(one).encode() for one in TOLD]
    lines += [b'{"id": 2, "problem": "no room", "fix": null}']
    picked = [b"\n".join(lines[i:]) + b"\n" for i in range(len(lines))]
    return Subject("agents, answers", picked, change_lines, _controller)


def _controller() -> Take:
    folder = Path(tempfile.mkdtemp(prefix="testbed-fuzz-"))

    def take(said: bytes) -> None:
        fleet = Fleet([Answering("node1"), Answering("node2")])
        for name in ("h0.jsonl", "log"):
            fleet.follow(0, f"1/{name}", folder / name)
        fleet.expect("h0", 0)
        Answering("node1", lambda: fleet, said).listen()
        fleet.exits()

    return take


def facts_of_hosts() -> Subject:
    """What Ansible's modules say of a host."""
    nic = {"mac": "02:00:00:00:00:01", "mtu": "1500", "speed": None}
    left = {"what": "directory a", "owner": "", "token": "t", "since": "2026"}
    honest = json.dumps({"facts": {"kernel": "6", "nics": {"eth1": nic}}, "left": [left]})

    def take(line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return  # Ansible reads it, and refuses
        if isinstance(said, dict):
            answers.facts(said.get("facts", {}), ["eth1"])
            answers.left(said.get("left", []))

    return Subject("hosts, facts", [honest.encode()], change_json, lambda: take)


def bursts_of_hosts() -> Subject:
    """What a host says of bursts that it received."""
    honest = b'{"burst": 0, "rate_bps": 1e8}\n{"burst": 1, "rate_bps": 9e7}'
    return Subject(
        "hosts, bursts",
        [honest],
        change_lines,
        lambda: lambda said: answers.bursts(said.decode(errors="replace").splitlines(), 2),
    )


# Unix sockets.


class NoLab:
    """A lab that runs nothing."""

    def fileno(self) -> int:
        return -1

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Command:
        raise LabError(f"{node} does not run {command[0]}, into {files}")


def commands_for_labs() -> Subject:
    """``testbed exec`` to ``testbed up``, and what that answers."""
    honest = json.dumps({"node": "h0", "command": ["ping", "-c", "1", "h1"]}).encode()
    return Subject("up, requests", [honest], change_json, _doorway)


def _doorway() -> Take:
    doorway = object.__new__(reach.Doorway)
    doorway._lab, doorway._topology = NoLab(), build_topology("star(hosts=3)", rate_bps=10**9)

    def take(message: bytes) -> None:
        ours, theirs = _pair()
        with ours, theirs:
            socket.send_fds(ours, [message[: reach.LARGEST_MESSAGE]], [0, 1, 2][: len(message) % 4])
            doorway._answer(theirs)
            reach.status(ours.recv(reach.LARGEST_MESSAGE))

    return take


def answers_of_labs() -> Subject:
    """``testbed up`` to ``testbed exec``."""
    honest = [b'{"status": 0}', b'{"problem": "no node", "fix": "take h0"}']
    return Subject("exec, answers", honest, change_json, lambda: reach.status)


def messages_of_containers() -> Subject:
    """What comes from a container, as far as the wire goes."""
    said = {"arrived": "h0", "python": "python3", "wire": 1, "job": 1, "cpus": 1.5, "memory_bytes": 2**30}

    def take(message: bytes) -> None:
        ours, theirs = _pair()
        with ours, theirs:
            socket.send_fds(ours, [message[:100_000]], [0, 1, 2][: len(message) % 4])
            ours.shutdown(socket.SHUT_WR)
            try:
                descriptors = Wire(theirs).receive(1.0)[1]
            except WireClosedError as error:  # which its callers turn into one of ours
                raise LabError(str(error)) from None
            for descriptor in descriptors:
                os.close(descriptor)

    return Subject("docker wire", [json.dumps(said).encode()], change_json, lambda: take)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


# Workers among themselves.

FLOATS, UPDATES = 60, 4
PATIENCE_S = 0.0
"""For a neighbour that says nothing: all that it is going to say is there already."""
Sockets = Mapping[int, socket.socket]
Member = Callable[[int, Sockets, float], None]
Talk = Callable[[Any, int, Sockets, float], None]


def synchronise(
    forest: Forest, node: int, sockets: Sockets, patience_s: float, made: Callable[..., Engine] = Engine
) -> None:
    """An iteration between barriers, by the engine."""
    table = cut(forest, FLOATS, [(0, FLOATS)], 64)
    gradient = np.ones(FLOATS, np.float32) if node in forest.workers else None
    with made(node, forest, table, {peer: [one] for peer, one in sockets.items()}, gradient) as engine:
        engine.barrier(patience_s)
        for bucket in range(table.buckets):
            engine.start(bucket)
        engine.wait(patience_s)
        engine.barrier(patience_s)


def exchange(forest: Forest, node: int, sockets: Sockets, patience_s: float) -> None:
    """A training with parameter servers, which may have replicas."""
    name, served = forest.nodes[node], servers(forest)
    if node in forest.workers:
        weights = np.zeros(FLOATS, np.float32)
        with Client(name, forest, sockets, np.ones(FLOATS, np.float32), weights) as client:
            client.barrier(patience_s)
            while client.goes_on:
                client.start(0)
                client.wait(patience_s)
            client.barrier(patience_s)
        return
    copied = {replica: server for server, replica in replicas(forest).items()}
    first, end = spans(FLOATS, len(served))[served.index(copied.get(node, node))]
    weights = np.zeros(end - first, np.float32)
    made = Replica if node in copied else Server
    with made(name, forest, sockets, (weights, partial(np.add, weights, out=weights)), UPDATES) as server:
        server.barrier(patience_s)
        for _ in server.serve(1, 0, 1, patience_s):
            pass
        server.barrier(patience_s)


def push_and_pull(plan: Plan, number: int, sockets: Sockets, patience_s: float) -> None:
    """Iterations of a box, by one of its workers, a core, or the manager, from the handle on."""
    names = [process.name for process in plan.processes()]
    name, ends = names[number], {names[at]: End(names[at], at, sock) for at, sock in sockets.items()}
    first, *others = workers = names[: len(plan.workers)]
    cores = [ends[core] for core in plan.cores_at if core in ends]
    if name in workers:
        is_first = name == first
        handle = (api.create_service if is_first else api.take_handle)(
            ends[plan.manager if is_first else first], patience_s
        )
        api.hand_on(handle, [*cores, *(ends[other] for other in others if is_first)])
        weights = np.zeros(FLOATS, np.float32)
        with api.init_service(name, cores, plan, np.ones(FLOATS, np.float32), weights) as client:
            client.barrier(patience_s)
            for _ in range(UPDATES):
                api.push_pull(client, range(len(plan.keys)), timeout_s=patience_s)
            client.barrier(patience_s)
        return
    if name == plan.manager:
        api.hand_on(Handle.new(0), [*cores, ends[first]])
        served: Core | Manager = Manager(name, cores, plan, UPDATES)
    else:
        deadline = time.monotonic() + patience_s
        handle = Handle.read(ends[plan.manager].sock, plan.manager, deadline)
        served_here = [worker for worker in workers if worker in ends]
        for worker in served_here:
            handle.check(Handle.read(ends[worker].sock, worker, deadline), worker)
        memory = Memory({key: plan.keys[key].floats for key in plan.keys_of(name)}, plan.parts(name))
        values = {key: memory.room(len(total)) for key, total in memory.sums.items()}
        held = {key: (value, partial(np.add, value, out=value)) for key, value in values.items()}
        boxes = {box: ends[core] for box, core in plan.across_from(name).items()}
        joined = Ends(name, [ends[worker] for worker in served_here], ends[plan.manager], boxes=boxes)
        served = Core(joined, plan, held, memory, UPDATES, None)
    with served:
        served.barrier(patience_s)
        for _ in served.serve(1, 0, 1, patience_s):
            pass
        served.barrier(patience_s)


def conversation(called: str, topology: str, scheme: str, node: int, talk: Talk) -> Subject:
    """Messages that neighbours send to a process. An input replaces those of one neighbour; the others are honest."""
    plan = build_plan(scheme, build_topology(topology, rate_bps=10**9), [FLOATS])
    heard = overheard(_met(plan), node, partial(talk, plan))
    places = [(peer, i) for peer, pieces in heard.items() for i in range(len(pieces))]
    honest = [bytes([at, False]) + heard[peer][i].said for at, (peer, i) in enumerate(places)]

    def change(rng: random.Random, one: bytes) -> bytes:
        return bytes([one[0], rng.random() < 0.2]) + change_bytes(rng, one[2:])

    def take(one: bytes) -> None:
        peer, i = places[one[0]]
        changed = [*heard[peer][:i], Piece(heard[peer][i].after_bytes, one[2:], bool(one[1])), *heard[peer][i + 1 :]]
        replays = {other: Replay(pieces) for other, pieces in {**heard, peer: changed}.items()}
        try:
            talk(plan, node, cast(Sockets, replays), PATIENCE_S)
        finally:
            for replay in replays.values():
                replay.close()

    return Subject(called, honest, change, lambda: take)


@dataclass(frozen=True)
class Piece:
    """What a neighbour said once it had been sent so many bytes, and whether it was gone then."""

    after_bytes: int
    said: bytes
    is_last: bool = False


class Replay:
    """A socket at whose other end a neighbour says its pieces, each when it is time."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._pieces, self._sent_bytes = deque(pieces), 0
        self._say()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ours, name)

    def sendmsg(self, buffers: Sequence[bytes], _ancillary: object = (), _flags: int = 0) -> int:
        """Send, and have the neighbour take it."""
        count = self._ours.sendmsg(buffers)
        self._theirs.recv(1 << 20)
        self._sent_bytes += count
        self._say()
        return count

    def sendall(self, data: bytes) -> None:
        self.sendmsg([data])

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()

    def _say(self) -> None:
        while self._pieces and self._pieces[0].after_bytes <= self._sent_bytes:
            piece = self._pieces.popleft()
            with suppress(BlockingIOError, BrokenPipeError):
                self._theirs.send(piece.said)
            if piece.is_last:
                self._pieces.clear()
                self._theirs.shutdown(socket.SHUT_WR)


def _met(plan: Any) -> list[list[int]]:
    """The neighbours of each process by number: of a forest that of its node, of a box its place among processes."""
    if isinstance(plan, Forest):
        met = {process.name: process.meets for process in kinds.of(plan).processes(plan)}
        return [[plan.nodes.index(other) for other in met.get(node, ())] for node in plan.nodes]  # switches have none
    names = [process.name for process in plan.processes()]
    pairs = [sorted(map(names.index, pair)) for pair in plan.meetings()]
    return [[sum(pair) - number for pair in pairs if number in pair] for number in range(len(names))]


def overheard(met: Sequence[Sequence[int]], node: int, member: Member) -> dict[int, list[Piece]]:
    """Bytes that each neighbour sends to a process if all are honest."""
    ends: dict[int, dict[int, socket.socket]] = {one: {} for one in range(len(met))}
    heard: dict[int, list[Piece]] = {}
    sent_bytes: Counter[int] = Counter()
    relayed: dict[socket.socket, tuple[socket.socket, int, bool]] = {}
    for a in ends:
        for b in (one for one in met[a] if one > a):
            if node not in (a, b):
                ends[a][b], ends[b][a] = socket.socketpair()
                continue
            peer = a + b - node
            (ends[node][peer], near), (ends[peer][node], far) = socket.socketpair(), socket.socketpair()
            heard[peer] = []
            relayed |= {far: (near, peer, True), near: (far, peer, False)}
    threads = [threading.Thread(target=member, args=(one, ends[one], 5.0)) for one in ends if ends[one]]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for source in select.select(list(relayed), [], [], 0.05)[0]:
            target, peer, is_heard = relayed[source]
            data = source.recv(1 << 16)
            if not data:
                del relayed[source]
                continue
            if is_heard:
                heard[peer].append(Piece(sent_bytes[peer], data))
            else:
                sent_bytes[peer] += len(data)
            with suppress(BrokenPipeError):
                target.sendall(data)
    return dict(sorted(heard.items()))


def greetings() -> Subject:
    """The index that a worker says to a worker it connects to."""
    honest = [(1).to_bytes(4, "big"), (2).to_bytes(4, "big")]

    def begin() -> Take:
        listener = transport.tcp_socket("reno")
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        place = listener.getsockname()

        sources = (f"127.{1 + i % 250}.{i // 250 % 250}.7" for i in itertools.count())

        def take(said: bytes) -> None:
            source = next(sources)
            with socket.create_connection(place, source_address=(source, 0)) as ours:
                ours.sendall(said[:1000])
                ours.shutdown(socket.SHUT_WR)

                def called_off() -> None:
                    if select.select([ours], [], [], 0.0)[0]:
                        raise TrialTimeoutError("it was closed: it is no neighbour")

                met = Reception(listener, [(1, source)], ["h0", "h1", "h2"]).until(math.inf, called_off)
            for one in met.values():
                one.close()

        return take

    return Subject("workers, greetings", honest, change_bytes, begin)


def protocols() -> list[Subject]:
    """All of them."""
    return [
        requests_of_agents(),
        answers_of_agents(),
        facts_of_hosts(),
        bursts_of_hosts(),
        commands_for_labs(),
        answers_of_labs(),
        messages_of_containers(),
        greetings(),
        conversation("engine, ring", "star(hosts=3)", "ring", 0, synchronise),
        conversation("engine, server", "star(hosts=3)", "ps(servers=1)", 0, synchronise),
        conversation("compiled, ring", "star(hosts=3)", "ring", 0, partial(synchronise, made=CompiledEngine)),
        conversation(
            "compiled, server", "star(hosts=3)", "ps(servers=1)", 0, partial(synchronise, made=CompiledEngine)
        ),
        conversation("engine, switch", "star(hosts=3,ina=all)", "switchml", 3, synchronise),
        conversation("engine, below a switch", "star(hosts=3,ina=all)", "switchml", 0, synchronise),
        conversation("parameter server", "star(hosts=2)", "async_ps", 1, exchange),
        conversation("its workers", "star(hosts=2)", "async_ps", 0, exchange),
        conversation("two parameter servers", "star(hosts=4)", "async_ps(servers=2)", 2, exchange),
        conversation("their workers", "star(hosts=4)", "async_ps(servers=2)", 0, exchange),
        conversation("server with a replica", "star(hosts=4)", "async_ps(replication=chain)", 2, exchange),
        conversation("replica", "star(hosts=4)", "async_ps(replication=chain)", 3, exchange),
        conversation("box, core", "star(hosts=3)", "pbox(key_bytes=64)", 2, push_and_pull),
        conversation(
            "box, core of a rack",
            "spine_leaf(racks=2,hosts_per_rack=3,spines=1)",
            "pbox(boxes=rack,across=ps,key_bytes=64)",
            4,
            push_and_pull,
        ),
        conversation("box, manager", "star(hosts=3)", "pbox(key_bytes=64,aggregation=wide)", 3, push_and_pull),
        conversation("box, worker", "star(hosts=3)", "pbox(key_bytes=64)", 0, push_and_pull),
    ]


if __name__ == "__main__":
    report(protocols(), arguments(__doc__))
