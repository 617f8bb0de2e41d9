"""The one process that stays on a host while a lab is up: answers the controller over the SSH connection that began it.

Usage: ``python -P -m testbed.lab.baremetal.agent WORK OWNER`` with JSON lines on standard input and output

Each line in is a request, ``{"id", "do", ...}``; each line out answers one, ``{"id", "result"}`` or ``{"id", "problem",
"fix"}``, or tells of something: ``{"grown": PATH, "data": BASE64}`` of a file that is followed, ``{"exit": NAME, ...}``
of a worker that has ended, after all that it wrote. When standard input ends, the controller is gone, in whatever way:
the agent ends all that it has started, undoes the shaping, and goes.

One thread, and no file of its own outside ``WORK``. Workers are forked from it once it has imported PyTorch. It has the
rights of the session's user, and root's only for the requests in :data:`AS_ROOT`, which touch no file of the user's.
The agent believes the controller: a user who can write there may do by SSH and sudo all that the agent does.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from testbed.base.errors import HostError, TestbedError
from testbed.base.process_names import check_name
from testbed.lab.baremetal import leftovers, pings, readback, shaper, undoing
from testbed.lab.baremetal.processes import Processes, program, tell
from testbed.lab.baremetal.rights import act_as_user, as_root, run_as_user, session_user
from testbed.lab.baremetal.wanted import IFB, ROOT_HANDLE, Wanted, changed_shape
from testbed.lab.base import Launch
from testbed.lab.netns import kernel
from testbed.lab.netns.listening import listen
from testbed.lab.netns.netlink import RouteSocket
from testbed.lab.requests import Requests, request
from testbed.machine.monitor import read_cpu

LOOK_S = 0.05
"""How often files that are followed, and the CPUs, are looked at."""
READINGS = 20
"""Of the CPUs, that are told together."""
EXTEND_S = 10.0
"""How often the deadline of the undo is put off while the controller is heard."""
AS_ROOT = frozenset({"time", "prepare", "shape", "shaped", "verify", "said", "adjust", "counters", "undo"})
"""Requests that work on the network and on ``/run``, and the import of code, whose byte code is kept beside it."""


@dataclass
class Agent:
    """Requests (:data:`REQUESTS`) are its methods that begin with ``do_``; their arguments are the request's other
    fields."""

    work: Path
    owner: str
    wanted: Wanted | None = None
    changed: dict[tuple[str, bool], Any] = field(default_factory=dict)
    watching: bool = False
    readings: list[tuple[float, ...]] = field(default_factory=list)
    looked_s: float = 0.0
    extended_s: float = 0.0
    serving: bool = False
    leaving: bool = False
    body: Callable[[Launch], int] | None = None

    def __post_init__(self) -> None:
        self.processes = Processes(self.work)
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._read)
        self._wake, self._wake_writer = socket.socketpair()
        for one in (self._wake, self._wake_writer):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._input = b""
        self._echoes = pings.Echoes(self._selector)

    def serve(self) -> None:
        """Until the controller is gone."""
        os.set_blocking(0, False)
        self.serving = True
        try:
            while not self.leaving:
                busy = self.processes.followed or self.watching
                for key, _ in self._selector.select(LOOK_S if busy else None):
                    key.data()
                self._look()
        finally:
            self.serving = False

    def leave(self) -> None:
        """Soon; and at once when it is said again, for we may wait for somebody to take what we tell. What we do at the
        end is not broken off."""
        if self.leaving and self.serving:
            raise SystemExit
        self.leaving = True

    def close(self) -> None:
        """End and undo everything."""
        self.processes.kill_all()
        with as_root(), suppress(TestbedError, OSError):
            shaper.undo(self.owner)

    # What is heard.

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            self.leaving = True
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):  # else it is a password that sudo did not ask for
                self._answer(line)

    def _answer(self, line: bytes) -> None:
        number, name = -1, "request"
        try:
            asked = _parsed(line)
            number, name = asked.pop("id"), asked.pop("do")
            do = REQUESTS.find(self, name, named=asked)
            with as_root() if name in AS_ROOT else nullcontext():
                result = do()
            tell(id=number, result=result)
        except TestbedError as error:
            tell(id=number, problem=error.problem, fix=error.fix)
        except OSError as error:
            full = " (its disk is full)" if error.errno == 28 else ""
            tell(id=number, problem=f"{name}: {error}{full}", fix="free some space there" if full else None)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            tell(id=number, problem=f"{name}: {error!r:.500} ({where})", fix=None)

    def _woken(self) -> None:
        self._wake.recv(4096)
        self.processes.reap()

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s - self.looked_s < LOOK_S:
            return
        self.looked_s = now_s
        self.processes.tell_growth()
        if self.watching:
            cores, ticks = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
            self.readings.append((now_s, *read_cpu(Path("/proc/stat").read_text(), cores, ticks)))
            if len(self.readings) == READINGS:
                self._tell_readings()

    def _tell_readings(self) -> None:
        tell(cpu=self.readings)
        self.readings = []

    # Requests.

    @request
    def do_hello(self) -> dict[str, Any]:
        """Who this is."""
        return {
            "kernel": platform.release(),
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "root": os.getuid() == 0,
            "pid": os.getpid(),
        }

    @request
    def do_time(self) -> float:
        """This clock; and the controller has been heard."""
        now_s = time.monotonic()
        if self.wanted is not None and now_s - self.extended_s > EXTEND_S:
            self.extended_s = now_s
            undoing.extend()
        return now_s

    @request
    def do_prepare(self, torch: bool) -> None:
        """Import what the workers that are launched next need."""
        from testbed.lab.netns.zygote import worker_body

        self.body = worker_body(torch=torch)

    @request
    def do_put(self, path: str, data: str, mode: int = 0o644, more: bool = False) -> None:
        """Write a file below the working directory, or add ``more`` to it."""
        place = self.processes.room_for(path)
        if not more:
            place.unlink(missing_ok=True)  # a pipe in its place would have us wait
        with place.open("ab") as file:
            file.write(base64.b64decode(data))
        place.chmod(mode)

    @request
    def do_launch(
        self,
        process: str,
        job: str,
        log: str,
        samples: str | None,
        outputs: Sequence[str],
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        """Start a worker, or the program that runs in its place; what it writes is told."""
        check_name(process)
        if words:
            body: Callable[[], int] = program(words, environment or {}, folder or str(self.work))
        else:
            assert self.body is not None  # prepared before
            body = partial(self.body, Launch(process, 0, str(self.processes.below(job)), ""))
        followed = [one for one in (samples, log) if one is not None]
        self.processes.worker(body, log, process, followed, outputs)

    @request
    def do_start(self, words: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> int:
        """Start a program beside the workers; its PID."""
        return self.processes.beside(program(words, environment, folder), log, followed=log)

    @request
    def do_execute(self, words: Sequence[str], limit_s: float) -> list[Any]:
        """Run a command to its end: status, output, error output."""
        try:
            done = run_as_user(words, limit_s)
        except subprocess.TimeoutExpired:
            raise HostError(f"{' '.join(words)} did not end within {limit_s:g} s", fix="give it more time") from None
        except FileNotFoundError:
            return [127, "", f"there is no program {words[0]}\n"]
        return [done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")]

    @request
    def do_signal(self, number: int, pid: int | None = None) -> None:
        """Signal one program's session, or all."""
        self.processes.signal(number, pid)

    @request
    def do_signal_worker(self, number: int, process: str) -> None:
        """Signal one worker's session."""
        self.processes.signal_worker(number, process)

    @request
    def do_kill(self) -> None:
        """End every worker; nobody is told."""
        self.processes.kill_workers()

    @request
    def do_stopped(self) -> list[str]:
        """Workers that were stopped by a signal."""
        return self.processes.stopped()

    @request
    def do_shape(self, wanted: Mapping[str, Any], arm: bool) -> None:
        """Make the NICs so; see :func:`testbed.lab.baremetal.shaper.apply`."""
        shaper.apply(Wanted.read(wanted), arm=arm)

    @request
    def do_shaped(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The NICs were shaped so; what is read back of them."""
        self.wanted, self.changed = Wanted.read(wanted), {}
        self.extended_s = time.monotonic()
        return self.do_verify()

    @request
    def do_verify(self) -> dict[str, Any]:
        """What the kernel has otherwise than asked for, or the shapes that it has, by NIC, out and in."""
        assert self.wanted is not None
        with RouteSocket() as netlink:
            found = readback.differs(netlink, self.wanted, self.changed)
        return {"differs": found, "shapes": None if found else readback.shapes(self.wanted)}

    @request
    def do_said(self) -> dict[str, Any]:
        """What the kernel says, for another decoder than ours: its messages in base64, and the interfaces of each NIC,
        out and in."""
        assert self.wanted is not None
        with RouteSocket() as netlink:
            by_name = readback.indices(netlink)
            pairs = [(by_name[nic.name], by_name.get(f"{IFB}{by_name[nic.name]}", 0)) for nic in self.wanted.nics]
            shaped = [pair for pair, nic in zip(pairs, self.wanted.nics, strict=True) if nic.out_bps]
            said = listen(netlink, [index for pair in shaped for index in pair], ROOT_HANDLE, routes=True)
        told = {name: base64.b64encode(data).decode() for name, data in vars(said).items()}
        return {"indices": pairs, "said": told}

    @request
    def do_receive(self, probes: Sequence[Mapping[str, Any]], result: str) -> int:
        """Expect bursts, and tell in a file what arrived of each; returns when they can come. The PID."""
        return self._burst([], probes, result)

    @request
    def do_send(self, probes: Sequence[Mapping[str, Any]]) -> int:
        """Send bursts to those who expect them. The PID."""
        return self._burst(probes, [], "sent")

    def _burst(self, sends: Sequence[Mapping[str, Any]], receives: Sequence[Mapping[str, Any]], result: str) -> int:
        """In a child, for it takes as long as the bursts do."""
        from testbed.lab.baremetal import bursts

        ready, tell_ready = os.pipe()
        path = self.processes.below(result)
        path.unlink(missing_ok=True)
        pid = self.processes.beside(
            lambda: bursts.main(sends, receives, tell_ready, path), "bursts.log", followed=result, keep=tell_ready
        )
        os.close(tell_ready)
        os.read(ready, 1)  # or its end
        os.close(ready)
        return pid

    @request
    def do_adjust(self, nic: int, out: bool, rate_bps: int, queue_bytes: int | None, blocked: bool) -> None:
        """Change one direction of a NIC in use."""
        assert self.wanted is not None
        one = self.wanted.nics[nic]
        shaper.change(one.name, one, out=out, rate_bps=rate_bps, queue_bytes=queue_bytes, blocked=blocked)
        self.changed[one.name, out] = changed_shape(one, rate_bps, queue_bytes, blocked)

    @request
    def do_counters(self) -> list[Any]:
        """By NIC, (bytes, packets, drops) out and in."""
        assert self.wanted is not None
        return readback.counters([nic.name for nic in self.wanted.nics])

    @request
    def do_undo(self) -> bool:
        """Undo the shaping, and end what runs."""
        self.processes.kill_all()
        self.wanted = None
        return shaper.undo(self.owner)

    @request
    def do_watch(self, on: bool) -> None:
        """Whether to tell how busy the CPUs are."""
        self.watching = on
        if not on:
            self._tell_readings()

    @request
    def do_echo(self, addresses: Sequence[str]) -> list[int]:
        """Send small packets back that come to these addresses; the port of each. None: no more."""
        return self._echoes.listen(addresses)

    @request
    def do_ping(self, local: str, remote: str, port: int, count: int) -> list[float]:
        """Round trips of small packets (s), of those that came back."""
        return pings.ping(local, remote, port, count)

    @request
    def do_leave(self) -> None:
        """All is well: nothing of this run is needed here any more."""
        self.leaving = True
        # What is in it, as its user may: the directory above it is root's. Workers may have closed some to themselves.
        for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            run_as_user([*words, "--", str(self.work)])
        with as_root():
            for folder in (self.work, self.work.parent):
                with suppress(OSError):  # it is gone, or other runs have theirs there
                    folder.rmdir()


REQUESTS = Requests(Agent)


def _parsed(line: bytes) -> dict[str, Any]:
    """
    Raises:
        HostError: it is no request.
    """
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict) or [type(request.get(name)) for name in ("id", "do")] != [int, str]:
        raise HostError(f"{line[:80]!r} is no request", fix="see what else writes to the agent's standard input")
    return request


def _make_own(path: Path) -> None:
    """Make the directory that is the user's; the one above it is root's."""
    path.mkdir(parents=True, exist_ok=True)
    user = session_user()
    if user:
        os.chown(path, user["user"], user["group"], follow_symlinks=False)


def main(work: str, owner: str) -> NoReturn:
    os.write(sys.stdout.fileno(), b"\n")  # a greeting of the shell's may not have ended its line
    leftovers.end_former(owner)
    kernel.adopt_orphans()
    path = Path(work)
    _make_own(path)
    act_as_user()
    agent = Agent(path, owner)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: agent.leave())
    try:
        agent.serve()
    except (BrokenPipeError, SystemExit):
        pass  # nobody hears us any more
    finally:
        agent.close()
    os._exit(0)  # what standard output still holds, nobody reads


if __name__ == "__main__":
    main(*sys.argv[1:])
