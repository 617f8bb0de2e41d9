"""The controller's end of one agent: an ssh process, requests and answers in JSON lines, and that host's clock."""

from __future__ import annotations

import base64
import getpass
import json
import os
import resource
import shlex
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from testbed.base.errors import HostError, LabError
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.answers import AgentKind, Event, Refusal, Result
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.on_hosts.processes import LONGEST_LINE_BYTES, PIECE_BYTES
from testbed.lab.baremetal.preparing.ansible import (
    ADDRESS,
    ARGUMENTS,
    HOST_KEYS,
    KEY,
    PASSWORD,
    PORT,
    PROGRAM,
    USER,
    given,
)
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.requests import Call

REMEMBERED_S = 30.0
DRIFT = 50e-6
"""Rate at which two undisciplined quartz clocks drift apart at most; where NTP disciplines both it is below 1e-6."""
_T = TypeVar("_T")
Pending = Future[tuple[_T, float, float]]
"""An answer that is to come, with the moments of its request and its arrival."""
ANSWER_TIMEOUT_S = 30.0
START_TIMEOUT_S = 60.0
"""Seconds that an agent's start may take: Python's start on a busy machine, and PyTorch's import."""
CLOSE_TIMEOUT_S = 5.0
NO = ("no", "false", "off", "0", "n", "f", "0.0")
"""Words that Ansible takes for false."""
MOST_GREETING_BYTES = 1 << 20
"""The most bytes of lines before the agent's first: what a shell says at first, and what libraries print."""
MOST_ERRORS_BYTES = 16 << 20
"""The most bytes that a host may write on standard error, which is kept in a file."""
LAST_ERRORS_BYTES = 64 << 10
"""Bytes at the end of standard error that are searched for the reason of an end."""
GO_ON = "see whether it is on and reachable; then go on with testbed run --resume"
HUGE_PAGES = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
"""Setting of the environment, as in the netns lab, see :data:`testbed.lab.netns.sandbox_process.HUGE_PAGES`."""


@dataclass(frozen=True)
class Exchange:
    """One comparison of clocks: ``offset_s`` is to be added to the host's clock; it is off by at most
    ``uncertainty_s``."""

    at_s: float
    offset_s: float
    uncertainty_s: float


@dataclass
class Clock:
    """One host's clock compared with ours, from NTP's four moments, of which the agent's two are one.

    The controller notes when it asks and when the answer is there; the host says what its ``time.monotonic()`` was in
    between. Its clock is then off by the middle of the two minus what it said, by half of the round trip at most. Of
    the last exchanges the one with the shortest round trip counts; clocks that drift apart by 50 ppm do so by 1.5 ms in
    the :data:`REMEMBERED_S` that an exchange counts for, so a recent one is preferred to one that was a little quicker.
    """

    exchanges: deque[Exchange] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Lock of the exchanges: they come in one thread, and samples, whose times they move, in another."""

    def add(self, asked_s: float, said_s: float, answered_s: float) -> None:
        """Note an exchange: our clock, theirs, ours."""
        one = Exchange(answered_s, (asked_s + answered_s) / 2 - said_s, (answered_s - asked_s) / 2)
        with self._lock:
            self.exchanges.append(one)
            while answered_s - self.exchanges[0].at_s > REMEMBERED_S:
                self.exchanges.popleft()

    def best(self) -> Exchange:
        """The exchange that counts now. Raises ValueError before the first exchange."""
        with self._lock:
            known = tuple(self.exchanges)
        now_s = known[-1].at_s if known else 0.0
        return min(known, key=lambda one: one.uncertainty_s + DRIFT * (now_s - one.at_s))

    def their_s(self, local_s: float) -> float:
        """Convert a moment of our clock to the host's."""
        return local_s - self.best().offset_s

    def local_s(self, their_s: float) -> float:
        """Convert a moment of the host's clock to ours."""
        return their_s + self.best().offset_s


def ssh(host: Host, control: Path) -> list[str]:
    """The command that reaches a host as Ansible does, over the connection that Ansible has opened if there is one."""
    one = host.variables
    words = [str(given(one, PROGRAM) or "ssh"), "-o", "BatchMode=yes"]
    words += ["-o", "ForwardAgent=no"]  # a worker would log in to other hosts with the controller's keys
    words += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s", "-o", f"ControlPath={control}/%C"]
    words += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    words += ["-o", "StrictHostKeyChecking=no"] if str(given(one, HOST_KEYS)).lower() in NO else []
    for option, names in (("Port", PORT), ("IdentityFile", KEY), ("User", USER)):
        value = given(one, names)
        words += [] if value is None else ["-o", f'{option}="{value}"']
    for name in ARGUMENTS:
        words += shlex.split(str(one.get(name) or ""))
    return [*words, str(given(one, ADDRESS) or host.name)]


def end_shared(hosts: Iterable[Host], control: Path) -> None:
    """End the connections that are shared below ``control``: SSH keeps a process for each, for a minute."""
    for host in hosts:
        words = ssh(host, control)
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([words[0], "-O", "exit", *words[1:]], capture_output=True, timeout=CLOSE_TIMEOUT_S)


def become(host: Host) -> tuple[list[str], str]:
    """Words in front of a command that make root of the user, and what they want to read first (a password)."""
    if (given(host.variables, USER) or getpass.getuser()) == "root":
        return [], ""
    password = given(host.variables, PASSWORD)
    if password:
        return ["sudo", "-S", "-p", ""], f"{password}\n"
    return ["sudo", "-n"], ""


@dataclass(frozen=True)
class Lost:
    """Event: an agent is gone and was not told to go."""

    error: LabError


class Connection:
    """Connection to an agent that runs. ``on_event`` is called, in a thread of the connection, with what the agent
    tells unasked, and with :class:`Lost`. The connection is ended if something comes that no agent says, or that
    ``on_event`` refuses by HostError."""

    def __init__(
        self,
        host: Host,
        code: str,
        agent: AgentKind,
        arguments: Sequence[str],
        control: Path,
        on_event: Callable[[Connection, Event | Lost], None],
    ) -> None:
        self.host, self.name, self.clock = host, host.name, Clock()
        self._kind, self._on_event = agent, on_event
        self._waiting: dict[int, tuple[str, float, float, Pending[Any]]] = {}
        """Requests without an answer, the oldest first: name, when asked, seconds that the answer may take."""
        self._heard_s = time.monotonic()
        self._lock = threading.Lock()
        self._next, self._leaving = 0, False
        self.lost: LabError | None = None
        self._refused: HostError | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed in close()
        words, first = become(host)
        start = [*words, "env", HUGE_PAGES, f"PYTHONPATH={code}", f"{host.home}/venv/bin/python"]
        start += ["-P", "-m", agent.module, *arguments]
        self._process = subprocess.Popen(
            [*ssh(host, control), shlex.join(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for us, who then tell it to leave
        )
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (MOST_ERRORS_BYTES, MOST_ERRORS_BYTES))
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        if first:
            self._in.write(first.encode())
            self._in.flush()
        self._thread = threading.Thread(target=self._read, name=f"agent-{host.name}", daemon=True)
        self._thread.start()

    def begin(self, call: Call[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> Pending[_T]:
        """Send a request, and return the answer that is to come, within this time. Raises LabError: the agent is
        gone."""
        answer: Pending[_T] = Future()
        with self._lock:
            if self.lost is not None:
                raise self._gone(self.lost)
            number, self._next = self._next, self._next + 1
            line = json.dumps({"id": number, "do": call.name, **call.arguments}).encode() + b"\n"
            self._waiting[number] = call.name, time.monotonic(), timeout_s, answer
            try:
                self._in.write(line)
                self._in.flush()
            except OSError:
                pass  # the reader sees its end, and says why
        return answer

    def end(self, answer: Pending[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> _T:
        """Wait for the result of a request. Raises LabError: the host refused, which it says why; or it is gone, or
        slow."""
        return self._answered(answer, timeout_s)[0]

    def _answered(self, answer: Pending[_T], timeout_s: float) -> tuple[_T, float, float]:
        """Wait for the result; with it when it was asked for, and when it came. Raises LabError as :meth:`end` does."""
        try:
            return answer.result(timeout_s)
        except FutureTimeoutError:
            raise LabError(
                f"{self.name}: no answer for {timeout_s:g} s", fix="see whether it is overloaded, or the network lost"
            ) from None

    def ask(self, call: Call[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> _T:
        """Send a request and wait for its result. Raises LabError as :meth:`begin` and :meth:`end` do."""
        return self.end(self.begin(call, timeout_s), timeout_s)

    def exchange(self, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Compare the clocks once. Raises LabError."""
        said_s, asked_s, answered_s = self._answered(self.begin(HostRequests.time()), timeout_s)
        self.clock.add(asked_s, said_s, answered_s)

    def give_up(self, most_s: float) -> None:
        """End the connection if the host has said nothing for longer than ``most_s``, though the request that it has
        to answer first takes no time."""
        for _, asked_s, timeout_s, _ in list(self._waiting.values())[:1]:
            if timeout_s <= ANSWER_TIMEOUT_S and time.monotonic() - max(asked_s, self._heard_s) > most_s:
                self._refused = HostError(f"it has said nothing for {most_s:g} s", fix=GO_ON)
                self._process.kill()

    def put(self, name: str, content: bytes, mode: int = 0o644) -> list[Pending[None]]:
        """Begin to write a file below the agent's working directory, in pieces: an agent looks through lines."""
        starts = range(0, max(1, len(content)), PIECE_BYTES)
        pieces = [base64.b64encode(content[at : at + PIECE_BYTES]).decode() for at in starts]
        return [self.begin(HostRequests.put(name, one, mode, i > 0)) for i, one in enumerate(pieces)]

    def close(self) -> None:
        """Tell the agent to leave, or, if it does not, end the connection: then it leaves, too."""
        self._leaving = True
        with suppress(LabError):
            self.begin(HostRequests.leave())
        with suppress(OSError):
            self._in.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._out.close()
        self._errors.close()

    def _read(self) -> None:
        try:
            self._listen()
        except HostError as error:
            self._refused = error
            self._process.kill()
        finally:  # whatever ended it, nobody is to wait for an answer
            self._ended()

    def _listen(self) -> None:
        """Take what the agent says until it ends. Raises HostError: it says what no agent says, or what was not asked
        for."""
        greeting_bytes = 0
        while line := self._out.readline(LONGEST_LINE_BYTES + 1):
            self._heard_s = time.monotonic()
            if len(line) > LONGEST_LINE_BYTES:
                raise HostError(f"it says a line of more than {LONGEST_LINE_BYTES:,} bytes", fix=answers.FIX)
            if line.startswith(b"{"):
                self._take(line)
                continue
            greeting_bytes += len(line)
            if greeting_bytes > MOST_GREETING_BYTES:
                problem = f"it says {greeting_bytes:,} bytes that are no agent's, at last {line[:80]!r}"
                raise HostError(problem, fix=answers.FIX)

    def _take(self, line: bytes) -> None:
        answered_s = time.monotonic()
        message = answers.message(line)
        if not isinstance(message, Result | Refusal):
            self._on_event(self, message)
            return
        asked = self._waiting.pop(message.id, None)
        if asked is None:
            raise HostError(f"it answers a request {message.id}, of which there is none", fix=answers.FIX)
        do, asked_s, _, answer = asked
        if isinstance(message, Refusal):
            answer.set_exception(LabError(f"{self.name}: {message.problem}", fix=message.fix))
            return
        try:
            answer.set_result((self._kind.result(do, message.result), asked_s, answered_s))
        except HostError as error:
            answer.set_exception(self._odd(error))
            raise

    @contextmanager
    def named(self) -> Iterator[None]:
        """Raises LabError: in place of a HostError about what this host says, with its name."""
        try:
            yield
        except HostError as error:
            raise self._odd(error) from None

    def _odd(self, error: HostError) -> LabError:
        return LabError(f"{self.name}: {error.problem}", fix=error.fix)

    def _ended(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        with self._lock:
            self.lost = self._why()
            waiting = list(self._waiting.values())
            self._waiting.clear()
        if not self._leaving:
            self._on_event(self, Lost(self.lost))  # first, so that who asks again after an answer knows it
        for *_, answer in waiting:
            answer.set_exception(self._gone(self.lost))

    @staticmethod
    def _gone(lost: LabError) -> LabError:
        """Make a new error each time: an error that is raised again and again grows by the places where it has been
        raised."""
        return LabError(lost.problem, fix=lost.fix)

    def _why(self) -> LabError:
        if self._refused is not None:
            return self._odd(self._refused)
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_ERRORS_BYTES))
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        why = answers.plain(said[-1]) if said else f"ssh ended with status {self._process.returncode}"
        return LabError(
            f"{self.name}: the connection to its agent is lost ({why})",
            fix=GO_ON,
        )
