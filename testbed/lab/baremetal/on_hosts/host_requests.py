"""Requests that the controller can send to a host: its processes, the shaping of its NICs, measurements, and its clock.

The agent (:mod:`testbed.lab.baremetal.on_hosts.agent`) does what is asked, and it has the rights of the session's user
then, and root's only for the requests in :data:`AS_ROOT`, which touch no file of the user's.
"""

from __future__ import annotations

import base64
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError
from testbed.base.process_names import check_name
from testbed.files import foreign
from testbed.lab.baremetal.nics import readback, shaper, undoing
from testbed.lab.baremetal.nics.readback import IFB, ROOT_HANDLE, HostMeter, Wanted, changed_shape
from testbed.lab.baremetal.on_hosts import pings
from testbed.lab.baremetal.on_hosts.agent_requests import AgentRequests, listing
from testbed.lab.baremetal.on_hosts.processes import Processes, program
from testbed.lab.baremetal.on_hosts.rights import run_as_user
from testbed.lab.base import PIECE_BYTES, SHARED_VARIABLE
from testbed.lab.netns.kernel_interface.netlink import RouteSocket
from testbed.lab.netns.on_nodes.processes import worker_body
from testbed.lab.netns.readings.listening import listen
from testbed.lab.programs import Launch
from testbed.lab.requests import Requests, request

NOT_SHARED = f"testbed: {SHARED_VARIABLE} is not set: machines share no folder"
CLOCK_STEP_NS = 20_000_000
"""By how much (ns) the time of a file may be behind the clock: a few of the kernel's ticks."""
EXTEND_S = 10.0
"""Seconds after which the deadline of the undo is put off again while the controller is heard."""
AS_ROOT = frozenset({"time", "prepare", "shape", "shaped", "verify", "said", "adjust", "counters", "undo"})
"""Requests that work on the network and on ``/run``, and the import of code, whose byte code is kept beside it."""


class HostRequests(AgentRequests):
    """The requests (:data:`REQUESTS`), and what they leave behind for later ones."""

    def __init__(self, owner: str, processes: Processes, selector: selectors.BaseSelector) -> None:
        super().__init__(processes, selector)
        self._owner = owner
        self._wanted: Wanted | None = None
        self._changed: dict[tuple[str, bool], Any] = {}
        self._meter: HostMeter | None = None
        self._extended_s = 0.0
        self._launched_ns = 0
        self._body: Callable[[Launch], int] | None = None

    @request
    def time(self) -> float:
        """Read this host's clock; the call also shows that the controller is alive."""
        now_s = time.monotonic()
        if self._wanted is not None and now_s - self._extended_s > EXTEND_S:
            self._extended_s = now_s
            undoing.extend()
        return now_s

    @request
    def prepare(self, torch: bool) -> None:
        """Import what the workers that are launched next need."""
        self._body = worker_body(torch=torch)

    @request
    def launch(
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
            place, environment = folder or str(self.processes.work), dict(environment or {})
            note = NOT_SHARED if environment.pop(SHARED_VARIABLE, None) is not None else ""
            body: Callable[[], int] = program(words, environment, place, note)
            self._launched_ns = time.time_ns() - CLOCK_STEP_NS
        else:
            assert self._body is not None  # prepared before
            body = partial(self._body, Launch(process, 0, str(self.processes.below(job)), ""))
        followed = [one for one in (samples, log) if one is not None]
        self.processes.worker(body, log, process, followed, outputs)

    @request
    def written(self, folder: str) -> dict[str, Any]:
        """List what was changed below a folder since the last program was launched."""
        try:
            return listing(foreign.listed(Path(folder), self._launched_ns))
        except OSError as error:
            raise HostError(f"{folder}: {foreign.reason(error)}", fix="see what became of it") from None

    @request
    def read_written(self, folder: str, name: str, offset: int) -> dict[str, Any]:
        """Read a piece of such a file (:class:`testbed.lab.baremetal.controller.answers.Piece`)."""
        try:
            data = foreign.read_piece(Path(folder), name, offset, PIECE_BYTES)
        except (OSError, foreign.UnfitError) as error:
            raise HostError(f"{name}: {foreign.reason(error)}", fix="see who changes it") from None
        return {"data": base64.b64encode(data).decode()}

    @request
    def start(self, words: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> int:
        """Start a program beside the workers; return its PID."""
        return self.processes.beside(program(words, environment, folder), log, followed=log)

    @request
    def execute(self, words: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        """Run a command to its end; return its status, output and error output."""
        try:
            done = run_as_user(words, limit_s)
        except subprocess.TimeoutExpired:
            raise HostError(f"{' '.join(words)} did not end within {limit_s:g} s", fix="give it more time") from None
        except FileNotFoundError:
            return 127, "", f"there is no program {words[0]}\n"
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    @request
    def signal(self, number: int, pid: int | None = None) -> None:
        """Signal one program's session, or all."""
        self.processes.signal(number, pid)

    @request
    def shape(self, wanted: Mapping[str, Any], arm: bool) -> None:
        """Shape the NICs so; see :func:`testbed.lab.baremetal.nics.shaper.apply`."""
        shaper.apply(Wanted.read(wanted), arm=arm)

    @request
    def shaped(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Note that the playbook shaped the NICs so; return what is read back of them."""
        self._wanted, self._changed = Wanted.read(wanted), {}
        self._end_metering()
        self._extended_s = time.monotonic()
        return self.verify()

    @request
    def verify(self) -> dict[str, Any]:
        """Compare the kernel with what was asked for: a text where they differ, else the shapes, by NIC, out and in."""
        assert self._wanted is not None
        with RouteSocket() as netlink:
            found = readback.differs(netlink, self._wanted, self._changed)
        return {"differs": found, "shapes": None if found else readback.shapes(self._wanted)}

    @request
    def said(self) -> dict[str, Any]:
        """Read the kernel's messages for another decoder than ours, in base64, and the interfaces of each NIC, out and
        in."""
        assert self._wanted is not None
        with RouteSocket() as netlink:
            by_name = readback.indices(netlink)
            pairs = [(by_name[nic.name], by_name.get(f"{IFB}{by_name[nic.name]}", 0)) for nic in self._wanted.nics]
            shaped = [pair for pair, nic in zip(pairs, self._wanted.nics, strict=True) if nic.out_bps]
            said = listen(netlink, [index for pair in shaped for index in pair], ROOT_HANDLE, routes=True)
        told = {name: base64.b64encode(data).decode() for name, data in vars(said).items()}
        return {"indices": pairs, "said": told}

    @request
    def adjust(self, nic: int, out: bool, rate_bps: int, queue_bytes: int | None, blocked: bool) -> None:
        """Change one direction of a NIC in use."""
        assert self._wanted is not None
        one = self._wanted.nics[nic]
        shaper.change(one.name, one, out=out, rate_bps=rate_bps, queue_bytes=queue_bytes, blocked=blocked)
        self._changed[one.name, out] = changed_shape(one, rate_bps, queue_bytes, blocked)

    @request
    def counters(self) -> list[Any]:
        """Read (bytes, packets, drops) of each NIC, out and in."""
        assert self._wanted is not None
        return readback.counters([nic.name for nic in self._wanted.nics])

    @request
    def traffic(self, first: int, last: int) -> dict[str, Any]:
        """Read the bytes that NICs carry, and those of TCP connections with these ports
        (:class:`testbed.lab.baremetal.controller.answers.Metered`)."""
        if self._wanted is None:
            raise HostError("no NIC is shaped here", fix="build a network first")
        ports = range(first, last + 1)
        if self._meter is None or self._meter.ports != ports:
            self._end_metering()
            self._meter = HostMeter([nic.name for nic in self._wanted.nics], ports)
        return self._meter.read()

    def _end_metering(self) -> None:
        meter, self._meter = self._meter, None
        if meter is not None:
            meter.close()

    @request
    def undo(self) -> bool:
        """Undo the shaping, and end what runs."""
        self.processes.kill_all()
        self._wanted = None
        self._end_metering()
        return shaper.undo(self._owner)

    @request
    def echo(self, addresses: Sequence[str]) -> list[int]:
        """Send small packets back that come to these addresses; return the port of each. With no address, stop doing
        so."""
        return self._echoes.listen([pings.bound(one) for one in addresses])

    @request
    def ping(self, local: str, remote: str, port: int, count: int) -> list[float]:
        """Measure round trips of small packets (s); those that did not come back are missing."""
        return pings.ping(local, remote, port, count)


REQUESTS = Requests(HostRequests)
