"""Requests that every agent answers: about the machine, files, and workers, wherever they run there."""

from __future__ import annotations

import base64
import json
import os
import platform
import selectors
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

from testbed.files import foreign
from testbed.lab.baremetal.on_hosts import pings
from testbed.lab.baremetal.on_hosts.processes import Processes
from testbed.lab.baremetal.on_hosts.readings import Readings
from testbed.lab.baremetal.on_hosts.rights import as_root, run_as_user
from testbed.lab.requests import request
from testbed.machine.cgroups import limits
from testbed.workloads.job import Probe

Selector = selectors.BaseSelector
_End = TypeVar("_End")
ADDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags to open a file that is written to: a link in its place, which a worker may have made, is refused, and so is a
pipe that nobody reads, for whose reader we would have to wait."""


def listing(found: foreign.Listing) -> dict[str, Any]:
    """Write a listing as JSON, which has no names that are not UTF-8: these are left out."""
    files = [one for one in found.files if one[0].isprintable()]
    return {"files": files, "is_whole": found.is_whole and len(files) == len(found.files)}


class AgentRequests:
    """The requests that all agents have.

    Attributes:
        readings: what the controller is told of the machine while it watches.
        leaving: whether the agent is to go.
    """

    def __init__(self, processes: Processes, selector: Selector) -> None:
        self.processes, self.selector = processes, selector
        self.readings = Readings(processes.workers)
        self._echoes = pings.Echoes(selector)
        self.leaving = False

    @request
    def hello(self) -> dict[str, Any]:
        """Describe this machine and its agent."""
        return {
            "kernel": platform.release(),
            "python": platform.python_version(),
            "cores": limits().cores,
            "root": os.getuid() == 0,
            "pid": os.getpid(),
        }

    @request
    def put(self, path: str, data: str, mode: int = 0o644, more: bool = False) -> None:
        """Write a file below the working directory, or add ``more`` to it."""
        place = self.processes.room_for(path)
        if not more:
            place.unlink(missing_ok=True)
        with os.fdopen(os.open(place, ADDED), "ab") as file:
            file.write(base64.b64decode(data))
            os.fchmod(file.fileno(), mode)

    @request
    def signal_worker(self, number: int, process: str) -> None:
        """Signal one worker's session."""
        self.processes.signal_worker(number, process)

    @request
    def kill(self) -> None:
        """End every worker; nobody is told."""
        self.processes.kill_workers()

    @request
    def stopped(self) -> list[str]:
        """Workers that were stopped by a signal."""
        return self.processes.stopped()

    @request
    def cpu_s(self) -> dict[str, float]:
        """Processor time of each worker and of all that it has started."""
        return self.processes.cpu_s()

    @request
    def watch(self, on: bool) -> None:
        """Begin, or with ``on`` false end, telling how busy the CPUs are, and whether workers stand still."""
        self.readings.watch(on)

    @request
    def leave(self) -> None:
        """End the agent and delete its working directory: nothing of this run is needed here any more."""
        self.leaving = True
        # What is in it, as its user may: the directory above it is root's. Workers may have closed some to themselves.
        for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            run_as_user([*words, "--", str(self.processes.work)])
        with as_root():
            for folder in (self.processes.work, self.processes.work.parent):
                with suppress(OSError):  # it is gone, or other runs have theirs there
                    folder.rmdir()

    @request
    def receive(self, probes: Sequence[Mapping[str, Any]], result: str) -> int:
        """Expect bursts, and tell in a file what arrived of each; returns their PID when they can come. Each is a
        :class:`testbed.workloads.job.Probe`, with its ``node`` where a machine has several."""
        return self._burst([], probes, result)

    @request
    def send(self, probes: Sequence[Mapping[str, Any]]) -> int:
        """Send bursts to those who expect them; return the PID."""
        return self._burst(probes, [], "sent")

    def _burst(self, sends: Sequence[Mapping[str, Any]], receives: Sequence[Mapping[str, Any]], result: str) -> int:
        """Fork a child for bursts, for it takes as long as they do; return its PID once bursts can come. The child
        writes a line of JSON for each burst received, by its place in the list."""
        from testbed.workloads.bursts.probe import finish, receive, send  # here, for it loads NumPy

        ready, tell_ready = os.pipe()
        path = self.processes.below(result)
        path.unlink(missing_ok=True)

        def body() -> int:
            selector = selectors.DefaultSelector()
            receivers = [self._begun(receive, one, selector) for one in receives]
            senders = [self._begun(send, one, selector) for one in sends]
            os.write(tell_ready, b"1")
            os.close(tell_ready)
            finish(selector, max(one["duration_s"] for one in [*sends, *receives]))
            for sender in senders:
                sender.end()
            lines = [{"burst": number, "rate_bps": one.arrivals.rate_bps} for number, one in enumerate(receivers)]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return 0

        pid = self.processes.beside(body, "bursts.log", followed=result, keep=tell_ready)
        os.close(tell_ready)
        os.read(ready, 1)  # or its end
        os.close(ready)
        return pid

    def _begun(self, how: Callable[[Probe, Selector], _End], one: Mapping[str, Any], selector: Selector) -> _End:
        """Begin an end of a burst, on its node."""
        asked = dict(one)
        with self._inside(asked.pop("node", 0)):
            return how(Probe(**asked), selector)

    def _inside(self, node: int) -> AbstractContextManager[object]:  # noqa: ARG002  # one that has nodes has another
        """Be on a node meanwhile."""
        return nullcontext()
