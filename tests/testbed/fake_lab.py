"""A lab in memory: the network is exactly what was asked for, and programs are children of the test, on this machine.

For tests of the harness that need no packets: what it asks of a lab, and what it makes of exits, counters and failures.
It needs no privilege. What it was asked for is noted; ends of workers can be made up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.errors import LabError
from testbed.files import foreign
from testbed.files.foreign import Listing
from testbed.lab.base import PIECE_BYTES, Impairment, LinkChange, LinkSettings, Patched
from testbed.lab.measurements import Burst, Calibration, Counters, Interruption, Queues, Reading, Traffic, Way
from testbed.lab.netns.on_nodes.processes import is_stopped
from testbed.lab.programs import Completed, Exit, Launch, Program, check_launches, check_target
from testbed.machine.monitor import Monitor
from testbed.machine.processes import cpu_s
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import goodput

PINGS = 3


@dataclass(frozen=True)
class Note:
    """One thing that the lab was asked for, and when (``time.monotonic``)."""

    name: str
    argument: Any
    at_s: float


class Child:
    """A program that runs here, in a session of its own, as if on a node."""

    def __init__(self, program: Program, log: str) -> None:
        self.started_s = time.monotonic()
        with Path(log).open("ab") as output:
            self.process = subprocess.Popen(
                program.words,
                cwd=program.folder,
                env={**os.environ, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self, timeout_s: float) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"a program did not end within {timeout_s:g} s") from None

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.process.pid)


class FakeLab:
    """See :class:`testbed.lab.base.Lab`.

    Args:
        looks: what :meth:`exits` says, one list a call, of processes that do not exist.
        stopped: processes, which do not exist either, that somebody has stopped.
        refuses: have the kernel refuse every change.

    Attributes:
        odd: what spot checks find from now on.
        used_s: what :meth:`cpu_s` says, of processes that do not exist.
    """

    real_switches = False

    def __init__(self, *looks: list[Exit], stopped: Sequence[str] = (), refuses: bool = False) -> None:
        self._looks, self._stopped, self._refuses = list(looks), list(stopped), refuses
        self.notes: list[Note] = []
        self.odd: tuple[str, ...] = ()
        self.used_s: dict[str, float] = {}
        self._topology: Topology | None = None
        self._settings = LinkSettings()
        self._changes: dict[int, LinkChange] = {}
        self._started: set[str] = set()
        self._workers: dict[str, tuple[int, Child]] = {}
        self._beside: list[tuple[int, Child]] = []
        self._closed = False

    def asked(self, name: str) -> list[Any]:
        """The arguments of every call of that name."""
        return [note.argument for note in self.notes if note.name == name]

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        self._note("require", (topology, settings))

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        """Programs here see the machine's files as they are."""

    def written(self, node: int, folder: Path) -> Listing:
        """List all that is in the folder: programs here have no copies."""
        del node
        return foreign.listed(folder)

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        del node
        return foreign.read_piece(folder, name, offset, PIECE_BYTES)

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        self._note("up", (topology, settings, list(pairs)))
        self._topology, self._settings, self._changes = topology, settings, {}
        self._started = set()

    def plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None = None) -> None:
        del pairs
        self._note("plan_patch", topology)

    def patch(
        self,
        topology: Topology,
        dark_s: float,
        pairs: Iterable[tuple[int, int]] | None = None,
        lit: Callable[[], object] = lambda: None,
    ) -> Patched:
        del pairs
        now = time.monotonic()
        self._note("patch", topology)
        lit()
        return Patched(1, 1, now, now + dark_s)

    def agent(self) -> list[str]:
        return ["env", "--"]

    def launch(self, workers: Sequence[Launch]) -> None:
        self._note("launch", list(workers))
        check_launches(workers, self._up())
        for worker in workers:
            assert worker.program, "a fake lab runs programs, not workers"
            self._started.add(worker.process)
            self._workers[worker.process] = worker.node, Child(worker.program, worker.log)

    def exits(self) -> list[Exit]:
        if self._looks:
            return self._looks.pop(0)
        ended = {name: one for name, one in self._workers.items() if one[1].process.poll() is not None}
        for name in ended:
            del self._workers[name]
        now = time.monotonic()
        return [
            Exit(name, node, child.process.returncode, child.started_s, now) for name, (node, child) in ended.items()
        ]

    def stopped(self) -> list[str]:
        return [*self._stopped, *(name for name, (_, child) in self._workers.items() if child.is_stopped)]

    def cpu_s(self) -> dict[str, float]:
        return self.used_s or {name: cpu_s(child.process.pid) for name, (_, child) in self._workers.items()}

    def kill(self) -> None:
        for _, child in self._workers.values():
            child.signal(signal.SIGKILL)
            child.process.wait()
        self._workers = {}

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        self._change("impair", dict(wanted))

    def signal(self, target: str, number: int) -> None:
        self._note("signal", (target, number))
        topology = self._up()
        check_target(target, topology, self._started)
        there = topology.index.get(target)
        own = [child for node, child in self._beside if node == there]
        own += [child for name, (node, child) in self._workers.items() if target == name or node == there]
        for child in own:
            child.signal(number)

    def start(self, node: int, program: Program, log: str) -> Child:
        self._beside.append((node, Child(program, log)))
        return self._beside[-1][1]

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        self._change("adjust", list(changes))
        self._changes |= {change.directed_link: change for change in changes}

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        self._up()
        rates = tuple(burst.rate_bps * goodput(self._settings.mtu) for burst in bursts)
        return Calibration(PINGS, tuple((1e-4,) * PINGS for _ in pings), rates)

    def verify(self) -> None:
        self._up()

    def spot_check(self) -> Reading:
        self._note("spot_check", None)
        return Reading(2 * len(self._up().links), 1e-4, self.odd)

    def between_racks(self) -> list[dict[str, Any]]:
        return []

    def monitor(self) -> Monitor:
        return Monitor(lambda: {name: child.process.pid for name, (_, child) in [*self._workers.items()]})

    def counters(self) -> list[Counters]:
        return [Counters(directed, 0, 0, 0) for directed in range(2 * len(self._up().links))]

    def traffic(self, ports: range) -> Sequence[Traffic]:  # noqa: ARG002 - as every lab's
        return ()

    def tell(self, path: Path, said: Mapping[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(said) + "\n")

    def watch_queues(self) -> bool:
        self._note("watch_queues", None)
        return False

    def queues(self) -> Queues:
        raise LabError("queues are not watched")

    def interruptions(self) -> list[Interruption]:
        return []

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        self._note("execute", (node, list(command)))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"`{' '.join(command)}` did not end within {timeout_s:g} s") from None
        return Completed(done.returncode, done.stdout, done.stderr)

    def describe(self) -> dict[str, Any]:
        rates = Counter(self._rate_bps(directed) for directed in range(2 * len(self._up().links)))
        shapes = [{"rate_bps": rate_bps, "directed_links": count} for rate_bps, count in rates.items()]
        return {"lab": "fake", "mtu": self._settings.mtu, "shapes": shapes}

    def down(self) -> None:
        self.kill()
        for _, child in self._beside:
            child.signal(signal.SIGKILL)
            child.process.wait()
        self._topology, self._beside = None, []

    def close(self) -> None:
        self.down()
        self._closed = True

    def _rate_bps(self, directed: int) -> int:
        change = self._changes.get(directed, LinkChange(directed))
        return change.rate_bps or self._up().links[directed // 2].rate_bps

    def _change(self, name: str, argument: Any) -> None:
        if self._refuses:
            raise LabError("the kernel refused")
        self._note(name, argument)

    def _up(self) -> Topology:
        if self._topology is None:
            raise LabError("the lab has ended" if self._closed else "no network is up", fix="call up() first")
        return self._topology

    def _note(self, name: str, argument: Any) -> None:
        self.notes.append(Note(name, argument, time.monotonic()))
