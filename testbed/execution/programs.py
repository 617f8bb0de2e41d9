"""Processes of a trial whose workload is a command: a rank a host, started as torchrun would start it, unchanged. Under
a scheme, ranks are told of it, and processes of ours that only add run beside them (:mod:`.scripts`).

Every rank's environment has what torchrun sets (:mod:`.launched`), and the interface that Gloo is to take. Links
are measured before the ranks start, and counted while they run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.base.errors import TrialTimeoutError
from testbed.base.python import PACKAGE
from testbed.control import endings
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Controller
from testbed.evidence.spot_checks import Readings
from testbed.execution import outputs, scripts, supervise
from testbed.execution.launched import left_out, rank_environment, search_path
from testbed.execution.observed import Lines
from testbed.execution.so_far import Tick
from testbed.lab import homes
from testbed.lab.base import SHARED_VARIABLE, Lab
from testbed.lab.programs import Launch, Program
from testbed.recovery.deaths import Course, undisturbed
from testbed.spec.workload.launchers import Started, without_launcher
from testbed.topologies.addressing import plan
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.rank_job import VARIABLE

MACHINES, MACHINES_PORT = "TESTBED_MACHINES", 12400
"""Variable with the address and a port of every rank, in their order, for programs that want such a list. The port is
LightGBM's own."""
COUNT_S = 1.0
"""Seconds between two looks at the links, to see whether anything moves."""
LEAST_SHARE = 0.02
"""Share of a core from which on a rank computes. One of 64 that import on two cores has more, and a rank that waits
less."""
COMPUTING = 10
"""Number of timeouts for which ranks may compute in silence."""


class Programs:
    """Ranks of a program, which tell nothing while they run.

    Attributes:
        files: files that they read and write.
        launches: launches for the lab, which starts them in this order.
        samples: files that are read while processes run, by process; None for a process that writes none that can be.
        signs: signs of life that they give.
        instead: words about what would go on without a node, to end an error's fix with; empty if nothing would.
    """

    instead = ""

    def __init__(self, trial: Trial, lab: Lab, files: Files, congestion_control: str) -> None:
        """Write what ranks of a script are told, and the job files of processes of ours."""
        self._trial, self._lab, self.files = trial, lab, files
        ranks = launches(trial, files)
        servers = scripts.write(trial, files, congestion_control) if trial.network.arm.scheme else []
        self.launches = [*servers, *ranks]
        self.samples: Mapping[str, Path | None] = dict.fromkeys(one.process for one in (*ranks, *servers))
        self.signs = Activity(lab, files, [*ranks, *servers], trial.spec.timeout_s)

    def controllers(self, feed: Feed, readings: Readings, tick: Tick) -> Sequence[Controller]:  # noqa: ARG002
        """Return a controller that says when the trial begins, for nobody else does."""
        return [_Beginning()]

    def lines(self) -> dict[str, Lines]:
        """Read what ranks of a script under a scheme wrote, and the samples of our processes beside them."""
        return scripts.lines(self._trial, self.files) if self._trial.network.arm.scheme else {}

    def described(self, lines: Mapping[str, Lines]) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing: the processes say nothing of where they train."""
        return {}

    def kept(self) -> list[str]:
        """Keep the outputs that the spec names."""
        return outputs.keep(self._trial, self._lab, self.files)

    def courses(self, events: Sequence[Record]) -> dict[str, Course]:  # noqa: ARG002
        """Return courses in which nobody died, or the trial would have failed."""
        return {job.name: undisturbed(job) for job in self._trial.jobs}


class _Beginning:
    """Controller that says that the trial begins, once its processes were started."""

    is_urgent = False

    def look(self, feed: Feed) -> float:
        if feed.begun_s is None:
            feed.begin()
        return supervise.POLL_S


def launches(trial: Trial, files: Files) -> list[Launch]:
    """Launch the command once on each host that has a rank."""
    topology, program, nodes = trial.network.topology, trial.spec.workload.program, trial.job.plan.workers
    assert program is not None  # or nothing would tell of iterations
    addresses, is_scripted = plan(topology), bool(trial.network.arm.scheme)
    started = without_launcher(program.words, len(nodes)) if is_scripted else Started(program.words)
    own: dict[str, str] = {}
    if program.python:  # as if its environment was activated
        path = os.pathsep.join((str(Path(program.python).parent), search_path()))
        own = {"PYTHONPATH": str(_lent(files.work / "lent")), "PATH": path}
    machines = ",".join(f"{addresses.of(node, 0)}:{MACHINES_PORT}" for node in nodes)
    found = []
    for rank, node in enumerate(nodes):
        name, first = topology.nodes[node].name, addresses.flow(node, nodes[0])[1] if rank else addresses.of(node, 0)
        environment = {
            **rank_environment(rank, len(nodes), first),
            **{variable: f"eth{topology.port_at_tail(topology.ports[node][0])}" for variable in INTERFACES},
            **started.environment,
            homes.VARIABLE: "1",
            **own,
            SHARED_VARIABLE: str(files.shared),
            **({VARIABLE: str(files.job(name))} if is_scripted else {MACHINES: machines}),
        }
        folder = str(trial.network.folder.resolve())
        one = Program(started.words, environment, folder, left_out(os.environ, environment))
        found.append(Launch(name, node, str(files.job(name)) if is_scripted else "", str(files.log(name)), one))
    return found


def _lent(folder: Path) -> Path:
    """Make a folder by which a Python that has no testbed finds ours, and nothing else: the package, and the entry
    point that ``import torch`` calls."""
    about = folder / "testbed-0.dist-info"
    about.mkdir(parents=True)
    (folder / "testbed").symlink_to(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: testbed\nVersion: 0\n")
    (about / "entry_points.txt").write_text("[torch.backends]\ntestbed = testbed.autoload:autoload\n")
    return folder


INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


class Activity:
    """Signs of life of programs: logs grow, links carry something, or a rank computes, as one does that imports on a
    busy machine. Computing alone is a sign for a while: a rank may also turn in a loop for ever."""

    def __init__(self, lab: Lab, files: Files, launches: Sequence[Launch], timeout_s: float) -> None:
        """Watch ``launches``: the ranks in their order, and then processes of ours. A sign is due every
        ``timeout_s``."""
        self._lab, self._files, self._timeout_s = lab, files, timeout_s
        self._logs = [Path(one.log) for one in launches]
        self._ranks = {one.process: rank for rank, one in enumerate(launches) if one.program}
        self._seen: tuple[int, ...] | None = None
        self._moved_s = self._looked_s = self._told_s = 0.0
        self._used_s: dict[str, float] = {}

    def called(self, process: str) -> str:
        """Return the name of a process in errors, such as ``rank 1 on h1``."""
        if process in self._ranks:
            return f"rank {self._ranks[process]} on {process}"
        return self._files.called(process)

    def look(self, feed: Feed) -> None:
        """Compare, once a second, lengths of logs and bytes on the links with those of the last look."""
        now = time.monotonic()
        if self._seen is None or now - self._looked_s >= COUNT_S:
            sizes = [endings.size_bytes(log) for log in self._logs]
            before, self._seen = self._seen, (*sizes, *(count.bytes for count in self._lab.counters()))
            if self._seen != before:
                self._told_s = self._moved_s = now
            elif self._computes(now - self._looked_s) and now - self._told_s <= COMPUTING * self._timeout_s:
                self._moved_s = now
            self._looked_s = now
        if feed.running and now - self._moved_s > self._timeout_s:
            raise self._stuck([self.called(one) for one in feed.running], self._files.log(feed.running[0]))

    def _computes(self, within_s: float) -> bool:
        """Whether a rank has had a share of a core since the last look, which was so long ago."""
        before, self._used_s = self._used_s, self._lab.cpu_s()
        return any(
            used_s - before.get(name, used_s) > LEAST_SHARE * within_s
            for name, used_s in self._used_s.items()
            if name in self._ranks
        )

    def _stuck(self, running: Sequence[str], log: Path) -> TrialTimeoutError:
        """Make the error; ``log`` is that of the first of the processes that are still ``running``."""
        silent_s = time.monotonic() - self._told_s
        lasted_s, more = self._timeout_s, ", and no rank computed"
        if silent_s > COMPUTING * self._timeout_s:
            lasted_s, more = silent_s, ", though a rank computed"
        return TrialTimeoutError(
            f"for {lasted_s:.4g} s no rank wrote anything and no link carried anything{more}; still running: "
            f"{', '.join(running[:5])}{supervise.stopped(self._lab)}\n"
            f"{endings.tail(log)}",
            fix=f"read {log}, or give a longer timeout",
        )
