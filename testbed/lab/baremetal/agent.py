"""The one process that stays on a host while a lab is up: answers the controller over the SSH connection that began it.

Usage: ``python -P -m testbed.lab.baremetal.agent WORK OWNER`` with JSON lines on standard input and output

Each line in is a request, ``{"id", "do", ...}``; each line out answers one, ``{"id", "result"}`` or ``{"id", "problem",
"fix"}``, or tells of something: ``{"grown": PATH, "data": BASE64}`` of a file that is followed, ``{"exit": NODE, ...}``
of a worker that has ended, after all that it wrote. When standard input ends, the controller is gone, in whatever way:
the agent ends all that it has started, undoes the shaping, and goes.

One thread, and no file of its own outside ``WORK``. Workers are forked from it once it has imported PyTorch; they and
all programs run as the user of the SSH session, and only the agent has root's rights, if the inventory gives any.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from testbed.errors import HostError, TestbedError
from testbed.lab.baremetal import shaper
from testbed.lab.base import Launch
from testbed.lab.netns.netlink import RouteSocket
from testbed.monitor import read_cpu

LOOK_S = 0.05
"""How often files that are followed, and the CPUs, are looked at."""
READINGS = 20
"""Of the CPUs, that are told together."""
EXTEND_S = 10.0
"""How often the deadline of the undo is put off while the controller is heard."""
PATIENCE_S = 1.0
PIECE_BYTES = 1 << 20


@dataclass
class Child:
    """A process that was started: a worker has a ``node`` and is told of when it ends, with its ``outputs``."""

    started_s: float
    node: int | None = None
    run: int | None = None
    followed: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass
class Followed:
    """A file that is told of as it grows."""

    path: Path
    sent: int = 0


@dataclass
class Agent:
    """Requests are its methods that begin with ``do_``; their arguments are the request's other fields."""

    work: Path
    owner: str
    children: dict[int, Child] = field(default_factory=dict)
    followed: dict[str, Followed] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    wanted: shaper.Wanted | None = None
    changed: dict[tuple[str, bool], Any] = field(default_factory=dict)
    watching: bool = False
    readings: list[tuple[float, ...]] = field(default_factory=list)
    looked_s: float = 0.0
    extended_s: float = 0.0
    leaving: bool = False

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._read)
        self._wake, self._wake_writer = socket.socketpair()
        for one in (self._wake, self._wake_writer):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._input = b""
        self._echoes: list[socket.socket] = []

    def serve(self) -> None:
        """Until the controller is gone."""
        os.set_blocking(0, False)
        while not self.leaving:
            busy = self.followed or self.watching
            for key, _ in self._selector.select(LOOK_S if busy else None):
                key.data()
            self._look()

    def close(self) -> None:
        """End and undo everything."""
        self._end_all()
        with suppress(TestbedError, OSError):
            shaper.undo(self.owner)

    # What is heard.

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            self.leaving = True
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._answer(json.loads(line))

    def _answer(self, request: dict[str, Any]) -> None:
        number, name = request.pop("id"), request.pop("do")
        try:
            method: Callable[..., Any] = getattr(self, f"do_{name}")
            tell(id=number, result=method(**request))
        except TestbedError as error:
            tell(id=number, problem=error.problem, fix=error.fix)
        except OSError as error:
            full = " (its disk is full)" if error.errno == 28 else ""
            tell(id=number, problem=f"{name}: {error}{full}", fix="free some space there" if full else None)
        except Exception as error:
            tell(id=number, problem=f"{name}: {error!r}\n{traceback.format_exc()}", fix=None)

    def _woken(self) -> None:
        self._wake.recv(4096)
        self._reap()

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s - self.looked_s < LOOK_S:
            return
        self.looked_s = now_s
        for name in list(self.followed):
            self._send_growth(name)
        if self.watching:
            cores, ticks = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
            self.readings.append((now_s, *read_cpu(Path("/proc/stat").read_text(), cores, ticks)))
            if len(self.readings) == READINGS:
                self._tell_readings()

    def _tell_readings(self) -> None:
        tell(cpu=self.readings)
        self.readings = []

    def _send_growth(self, name: str) -> None:
        one = self.followed[name]
        try:
            if one.path.stat().st_size == one.sent:
                return
            with one.path.open("rb") as file:
                file.seek(one.sent)
                data = file.read()
        except FileNotFoundError:
            return
        one.sent += len(data)
        tell(grown=name, data=base64.b64encode(data).decode())

    # Requests.

    def do_hello(self) -> dict[str, Any]:
        """Who this is."""
        import platform

        return {
            "kernel": platform.release(),
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "root": os.geteuid() == 0,
            "pid": os.getpid(),
        }

    def do_time(self) -> float:
        """This clock; and the controller has been heard."""
        now_s = time.monotonic()
        if self.wanted is not None and now_s - self.extended_s > EXTEND_S:
            self.extended_s = now_s
            shaper.extend()
        return now_s

    def do_prepare(self) -> None:
        """Import what workers need."""
        from testbed.lab.netns.zygote import worker_body

        worker_body()

    def do_put(self, path: str, data: str, mode: int = 0o644) -> None:
        """Write a file below the working directory."""
        place = self._below(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(base64.b64decode(data))
        place.chmod(mode)
        self._give(place)

    def do_launch(
        self,
        node: int,
        job: str,
        log: str,
        samples: str | None,
        outputs: Sequence[str],
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        """Start a worker, or the program that runs in its place; what it writes is told."""
        path = self._below(log)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._give(path.parent)
        followed = tuple(one for one in (samples, log) if one is not None)
        for name in followed:
            self._below(name).unlink(missing_ok=True)
            self.followed[name] = Followed(self._below(name))
        started_s = time.monotonic()
        if words:
            pid = self._start(words, environment or {}, folder or str(self.work), path)
        else:
            from testbed.lab.netns.zygote import worker_body

            body = worker_body()
            pid = self._fork(lambda: body(Launch(node, str(self._below(job)), "")), path)
        self.children[pid] = Child(started_s, node=node, followed=followed, outputs=tuple(outputs))

    def do_start(self, words: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> int:
        """Start a program beside the workers; its PID."""
        path = self._below(log)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._give(path.parent)
        self.followed[log] = Followed(path)
        pid = self._start(words, environment, folder, path)
        self.children[pid] = Child(time.monotonic(), run=pid, followed=(log,))
        return pid

    def do_execute(self, words: Sequence[str], limit_s: float) -> list[Any]:
        """Run a command to its end: status, output, error output."""
        try:
            done = subprocess.run(
                list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, **_user()
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"{' '.join(words)} did not end within {limit_s:g} s", fix="give it more time") from None
        except FileNotFoundError:
            return [127, "", f"there is no program {words[0]}\n"]
        return [done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")]

    def do_signal(self, number: int, pid: int | None = None) -> None:
        """Signal one program's session, or all."""
        self._reap()
        for one in list(self.children) if pid is None else [pid]:
            with suppress(ProcessLookupError):
                os.killpg(one, number)

    def do_kill(self) -> None:
        """End every worker; nobody is told."""
        self._reap()
        for pid in [pid for pid, child in self.children.items() if child.node is not None]:
            self._end(pid)

    def do_stopped(self) -> list[int]:
        """Nodes whose worker was stopped by a signal."""
        self._reap()
        workers = {pid: child.node for pid, child in self.children.items() if child.node is not None}
        return [node for pid, node in workers.items() if _state(pid) in "Tt"]

    def do_open(self, wanted: Mapping[str, Any]) -> None:
        """Give the NICs their addresses, unshaped, for a look at how fast they really are."""
        shaper.apply(shaper.Wanted.read(wanted), arm=False)

    def do_shaped(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The NICs were shaped so by the playbook; what is read back of them."""
        self.wanted, self.changed = shaper.Wanted.read(wanted), {}
        self.extended_s = time.monotonic()
        return self.do_verify()

    def do_verify(self) -> dict[str, Any]:
        """What the kernel has otherwise than asked for, or the shapes that it has, by NIC, out and in."""
        assert self.wanted is not None
        with RouteSocket() as netlink:
            found = shaper.differs(netlink, self.wanted, self.changed)
        return {"differs": found, "shapes": None if found else shaper.shapes(self.wanted)}

    def do_receive(self, probes: Sequence[Mapping[str, Any]], result: str) -> int:
        """Expect bursts, and tell in a file what arrived of each; returns when they can come. The PID."""
        return self._burst([], probes, result)

    def do_send(self, probes: Sequence[Mapping[str, Any]]) -> int:
        """Send bursts to those who expect them. The PID."""
        return self._burst(probes, [], "sent")

    def _burst(self, sends: Sequence[Mapping[str, Any]], receives: Sequence[Mapping[str, Any]], result: str) -> int:
        """In a child, for it takes as long as the bursts do."""
        from testbed.lab.baremetal import bursts

        ready, tell_ready = os.pipe()
        path = self._below(result)
        path.unlink(missing_ok=True)
        pid = self._fork(
            lambda: bursts.main(sends, receives, tell_ready, path), self.work / "bursts.log", keep=tell_ready
        )
        os.close(tell_ready)
        os.read(ready, 1)  # or its end
        os.close(ready)
        self.followed[result] = Followed(path)
        self.children[pid] = Child(time.monotonic(), run=pid, followed=(result,))
        return pid

    def do_adjust(self, nic: int, out: bool, rate_bps: int, queue_bytes: int | None, blocked: bool) -> None:
        """Change one direction of a NIC in use."""
        assert self.wanted is not None
        one = self.wanted.nics[nic]
        shaper.change(one.name, one, out=out, rate_bps=rate_bps, queue_bytes=queue_bytes, blocked=blocked)
        self.changed[one.name, out] = shaper.shape_of(one, rate_bps, queue_bytes, blocked)

    def do_counters(self) -> list[Any]:
        """By NIC, (bytes, packets, drops) out and in."""
        assert self.wanted is not None
        return shaper.counters([nic.name for nic in self.wanted.nics])

    def do_undo(self) -> bool:
        """Undo the shaping, and end what runs."""
        self._end_all()
        self.followed.clear()
        self.wanted = None
        return shaper.undo(self.owner)

    def do_watch(self, on: bool) -> None:
        """Whether to tell how busy the CPUs are."""
        self.watching = on
        if not on:
            self._tell_readings()

    def do_echo(self, addresses: Sequence[str]) -> list[int]:
        """Send small packets back that come to these addresses; the port of each. None: no more."""
        for sock in self._echoes:
            self._selector.unregister(sock)
            sock.close()
        self._echoes = []
        for address in addresses:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((address, 0))
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ, lambda sock=sock: sock.sendto(*sock.recvfrom(2048)))
            self._echoes.append(sock)
        return [sock.getsockname()[1] for sock in self._echoes]

    def do_ping(self, local: str, remote: str, port: int, count: int) -> list[float]:
        """Round trips of small packets (s), of those that came back."""
        found: list[float] = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((local, 0))
            sock.connect((remote, port))
            sock.settimeout(PATIENCE_S)
            for number in range(count):
                sent_s = time.monotonic()
                try:
                    sock.send(number.to_bytes(64, "big"))
                    while int.from_bytes(sock.recv(64), "big") != number:
                        pass  # an earlier one, that came late
                except OSError:
                    if not found:
                        break  # one that is not there answers none of them
                    continue
                found.append(time.monotonic() - sent_s)
        return found

    def do_leave(self) -> None:
        """All is well: nothing of this run is needed here any more."""
        self.leaving = True
        shutil.rmtree(self.work, ignore_errors=True)
        with suppress(OSError):  # other runs have theirs there
            self.work.parent.rmdir()

    # Processes.

    def _start(self, words: Sequence[str], environment: Mapping[str, str], folder: str, log: Path) -> int:
        if not Path(folder).is_dir():
            raise HostError(f"it has no directory {folder}", fix="put there what the command needs, at the same place")

        def run() -> NoReturn:
            os.chdir(folder)
            os.environ.update(environment)
            try:
                os.execvp(words[0], list(words))
            except OSError as error:
                raise OSError(error.errno, f"cannot start {words[0]} in {folder}: {error.strerror}") from None

        return self._fork(run, log)

    def _fork(self, body: Callable[[], int], log: Path, keep: int | None = None) -> int:
        """A child that leads a session, writes into ``log``, and exits with the body's result; of our files it can
        ``keep`` one."""
        pid = os.fork()
        if pid:
            return pid
        status = 127
        try:
            null, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.setsid()
            for fd, number in ((null, 0), (output, 1), (output, 2)):
                os.dup2(fd, number)
            kept = 2 if keep is None else keep
            os.closerange(3, kept)
            os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become_user()
            status = body()
        except SystemExit as wish:
            status = wish.code if isinstance(wish.code, int) else int(wish.code is not None)
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        for pid in list(self.children):
            done, raw = os.waitpid(pid, os.WNOHANG)
            if done:
                self._ended(pid, os.waitstatus_to_exitcode(raw))

    def _ended(self, pid: int, status: int) -> None:
        child, ended_s = self.children.pop(pid), time.monotonic()
        for name in child.followed:
            self._send_growth(name)
            del self.followed[name]
        if child.node is not None:
            for name in child.outputs:
                self._send_whole(name)
            tell(exit=child.node, status=status, started_s=child.started_s, ended_s=ended_s)
        else:
            tell(ended=child.run, status=status)

    def _send_whole(self, name: str) -> None:
        with suppress(FileNotFoundError), self._below(name).open("rb") as file:
            while data := file.read(PIECE_BYTES):
                tell(grown=name, data=base64.b64encode(data).decode())

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # before it leads a session
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for name in self.children.pop(pid).followed:
            self.followed.pop(name, None)

    def _end_all(self) -> None:
        for pid in list(self.children):
            self._end(pid)

    def _below(self, name: str) -> Path:
        return self.work / name

    def _give(self, path: Path) -> None:
        """To the user whose processes are to use it, with the directories above it, up to ours."""
        user = _user()
        while user and path != self.work.parent:
            os.chown(path, int(user["user"]), int(user["group"]))
            path = path.parent


def tell(**fields: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _user() -> dict[str, Any]:
    """As :mod:`subprocess` wants it: the user of the session, where sudo has made root of it."""
    if "SUDO_UID" not in os.environ or os.geteuid():
        return {}
    return {"user": int(os.environ["SUDO_UID"]), "group": int(os.environ["SUDO_GID"]), "extra_groups": []}


def _become_user() -> None:
    user = _user()
    if user:
        os.setgroups([])
        os.setgid(user["group"])
        os.setuid(user["user"])


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def main(work: str, owner: str) -> NoReturn:
    path = Path(work)
    path.mkdir(parents=True, exist_ok=True)
    agent = Agent(path, owner)
    agent._give(path)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(agent, "leaving", True))
    try:
        agent.serve()
    except BrokenPipeError:
        pass  # nobody hears us any more
    finally:
        agent.close()
    os._exit(0)  # what standard output still holds, nobody reads


if __name__ == "__main__":
    main(*sys.argv[1:])
