"""The one process that stays on a host while a lab is up: answers the controller over the SSH connection that began it.

Usage: ``python -P -m testbed.lab.baremetal.on_hosts.agent WORK OWNER`` with JSON lines on standard input and output

Each line in is a request, ``{"id", "do", ...}``; each line out answers one, ``{"id", "result"}`` or ``{"id", "problem",
"fix"}``, or tells of something: ``{"grown": PATH, "data": BASE64}`` of a file that is followed, ``{"exit": NAME, ...}``
of a worker that has ended, after all that it wrote. When standard input ends, the controller is gone, in whatever way:
the agent ends all that it has started, undoes the shaping, and goes.

One thread, and no file of its own outside ``WORK``. Workers are forked from it once it has imported PyTorch. It has the
rights of the session's user, and root's only for some requests (:mod:`testbed.lab.baremetal.on_hosts.host_requests`).
The agent believes the controller: a user who can write there may do by SSH and sudo all that the agent does.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

from testbed.base.errors import HostError, TestbedError
from testbed.lab.baremetal.nics import leftovers, shaper
from testbed.lab.baremetal.on_hosts.agent_requests import AgentRequests
from testbed.lab.baremetal.on_hosts.host_requests import AS_ROOT, REQUESTS, HostRequests
from testbed.lab.baremetal.on_hosts.processes import Processes, tell
from testbed.lab.baremetal.on_hosts.rights import act_as_user, as_root, session_user
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes.processes import child_ends
from testbed.lab.requests import Requests

LOOK_S = 0.05
"""Seconds between two looks at files that are followed, and at the CPUs; processes are looked at at random moments of
their own."""


class Agent:
    """The agent's loop: reads requests and writes answers and events; ``host`` does what is asked.

    Args:
        requests: those of ``host``.
        as_root: the names of requests that need root's rights.
    """

    def __init__(self, host: AgentRequests, requests: Requests, as_root: Collection[str] = ()) -> None:
        self._host, self._requests, self._as_root = host, requests, as_root
        self._processes, self._readings, self._selector = host.processes, host.readings, host.selector
        self._selector.register(0, selectors.EVENT_READ, self._read)
        self._wake = child_ends()
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._input = b""
        self._looked_s = 0.0
        self._serving = False

    def serve(self) -> None:
        """Serve requests until the controller is gone."""
        os.set_blocking(0, False)
        self._serving = True
        try:
            while not self._host.leaving:
                busy = self._processes.followed or self._readings.watched
                for key, _ in self._selector.select(self._readings.pause_s(LOOK_S) if busy else None):
                    key.data()
                self._look()
        finally:
            self._serving = False

    def leave(self) -> None:
        """End the loop soon; when called again, at once, for we may wait for somebody to take what we tell. What comes
        after the loop is not broken off."""
        if self._host.leaving and self._serving:
            raise SystemExit
        self._host.leaving = True

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            self._host.leaving = True
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
            do = self._requests.find(self._host, name, named=asked)
            with as_root() if name in self._as_root else nullcontext():
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
        self._processes.reap()

    def _look(self) -> None:
        now_s = time.monotonic()
        self._readings.look(now_s)
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        self._processes.tell_growth()
        self._readings.read(now_s)


def _parsed(line: bytes) -> dict[str, Any]:
    """Raises HostError: it is no request."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict) or [type(request.get(name)) for name in ("id", "do")] != [int, str]:
        raise HostError(f"{line[:80]!r} is no request", fix="see what else writes to the agent's standard input")
    return request


def begin(work: str, owner: str) -> Path:
    """Begin to be an agent, in the place of former ones of this run; return the working directory, which is made, and
    is the user's."""
    os.write(sys.stdout.fileno(), b"\n")  # a greeting of the shell's may not have ended its line
    leftovers.end_former(owner)
    kernel.adopt_orphans()
    path = Path(work)
    path.mkdir(parents=True, exist_ok=True)
    if user := session_user():
        os.chown(path, user["user"], user["group"], follow_symlinks=False)  # the directory above it is root's
    return path


def main(work: str, owner: str) -> NoReturn:
    path = begin(work, owner)
    act_as_user()
    run(*of_host(path, owner))


def of_host(path: Path, owner: str) -> tuple[Agent, Callable[[], object]]:
    """Make the agent of a host whose NICs are shaped, with its working directory; and what ends all that it has
    done."""
    host = HostRequests(owner, Processes(path), selectors.DefaultSelector())

    def close() -> None:
        host.processes.kill_all()
        with as_root(), suppress(TestbedError, OSError):
            shaper.undo(owner)

    return Agent(host, REQUESTS, AS_ROOT), close


def run(agent: Agent, close: Callable[[], object]) -> NoReturn:
    """Serve until the controller is gone; then end everything that was started, by ``close``, and this process."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: agent.leave())
    try:
        agent.serve()
    except (BrokenPipeError, SystemExit):
        pass  # nobody hears us any more
    finally:
        close()
    os._exit(0)  # what standard output still holds, nobody reads


if __name__ == "__main__":
    main(*sys.argv[1:])
