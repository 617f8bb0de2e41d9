"""Circuits of jobs that have their own: patched for the job, and given to its hosts once they are free (TopoOpt,
sections 3.1 and 4, figure 10).

With look-ahead, circuits are patched while the jobs before still run, on the second panels of their hosts. So the job
waits only until the 1x2 switches have turned. Without, patching begins when the hosts are free, and takes as long as
the panels do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from testbed.base.errors import TestbedError
from testbed.control.conductor import Record
from testbed.lab.base import Lab, Patched
from testbed.perturb.registry import ASKED_IN_BAND
from testbed.topologies.model import Topology
from testbed.topologies.patch_panel import repatched
from testbed.trial.job import Job
from testbed.trial.job_files import joined

SOON_S = 0.01
"""Seconds until it is looked again whether hosts are free, or light is there."""


class Switching:
    """Moves of circuits in the lab, made in a thread, one after the other.

    Attributes:
        records: the moves, as they went. One is due when the job's hosts are free, and its circuits are patched.
        dark_s: by job, seconds from when its hosts were free until its circuits carried light.
        lit_s: by job, when its circuits carried light (``time.monotonic``).
    """

    def __init__(self, lab: Lab, topology: Topology, pairs: Sequence[tuple[int, int]]) -> None:
        """Move nothing yet. ``pairs`` are all that jobs want routes for, as far as circuits join them."""
        self._lab, self._topology, self._pairs = lab, topology, pairs
        self._thread = ThreadPoolExecutor(1, "switching")
        self._patched_s: dict[str, float] = {}
        self._free_s: dict[str, float] = {}
        self._moves: dict[str, Future[Patched]] = {}
        self.records: list[Record] = []
        self.dark_s: dict[str, float] = {}
        self.lit_s: dict[str, float] = {}

    def look_ahead(self, job: Job) -> None:
        """Begin to patch a job's circuits, if its panels look ahead: the ports of its hosts that look ahead are free,
        since the jobs before it have begun."""
        panels = self._topology.panels
        assert panels is not None
        if panels.looks_ahead:
            self._patched_s.setdefault(job.name, time.monotonic() + panels.reconfiguration_s)

    def is_lit(self, job: Job) -> bool:
        """Give a job whose hosts are free its circuits; return whether they carry light.

        Raises:
            LabError, TopologyError: they cannot be moved.
        """
        now, panels = time.monotonic(), self._topology.panels
        assert panels is not None
        free_s = self._free_s.setdefault(job.name, now)
        if job.name not in self._moves:
            patched_s = self._patched_s.get(job.name, now)
            if now < patched_s:
                return False
            self._move(job, max(free_s, patched_s), 0.0 if panels.looks_ahead else panels.reconfiguration_s)
        if not self._moves[job.name].done():
            return False
        record = next(one for one in self.records if one.what.endswith(f" {job.name}"))
        try:
            done = self._moves[job.name].result()
        except TestbedError as error:
            record.error = error.problem
            raise
        record.begun_s, record.done_s = done.dark_s, done.lit_s
        self.dark_s[job.name], self.lit_s[job.name] = done.lit_s - free_s, done.lit_s
        return True

    def _move(self, job: Job, due_s: float, dark_s: float) -> None:
        assert self._topology.panels is not None
        assert job.own_slot.circuits is not None
        own = self._topology.panels.among(job.own_slot.hosts, job.own_slot.circuits)
        self._topology = repatched(self._topology, own)
        pairs = joined(self._topology, self._pairs)
        self.records.append(Record(ASKED_IN_BAND, f"circuits of the job {job.name}", due_s, takes_s=dark_s))
        self._moves[job.name] = self._thread.submit(partial(self._lab.patch, self._topology, dark_s, pairs))

    def close(self) -> None:
        """Begin no more moves."""
        self._thread.shutdown(wait=False, cancel_futures=True)
