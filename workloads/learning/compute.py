"""Times at which the gradient of an iteration is there: computed in real time, paced like a profile, or at once.

Problem: nine workers on two cores finish computing when the machine lets them, not when the experiment says. Pacing
computes the real gradient and then holds it back until the profile's time has passed, so all workers are ready
together, provided that the machine can compute faster than the pace; where it cannot, that is counted (``overrun_s``).

With gradients leaving layer by layer, each layer has its own due time: the pace is divided over the forward pass and
the layers' backward passes in proportion to what they really take, measured before training starts: CPU time, for
other workers use the same cores meanwhile, and the least of :data:`PROFILE_RUNS` runs of each piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import Compute

PROFILE_RUNS = 3
REST_S = 0.03
"""How long (s) a worker that has its sum computes nothing, if its pace leaves room. On shared cores it would hold up
others that still synchronise: the last chunks of SwitchML among eight workers came 10 to 15 ms late."""


@dataclass(frozen=True)
class Computed:
    """One iteration's computing.

    ``loss`` is None where nothing is trained. ``compute_s`` is the wall-clock time it really took, without waits and
    communication; ``overrun_s`` by how much the latest bucket, or a forward pass that was played before, missed its due
    time (0 unless paced). A straggler was made to take ``factor`` times as long and ``extra_s`` more. After its end the
    worker rested for ``rested_s`` (:data:`REST_S`).
    """

    loss: float | None
    compute_s: float
    overrun_s: float
    factor: float = 1.0
    extra_s: float = 0.0
    rested_s: float = 0.0


class Model(Protocol):
    """The model with which a worker computes gradients.

    Attributes:
        gradient: float32[floats], which :attr:`compute` overwrites.
        buckets: spans (start, stop) of it, in the order in which they become ready.
        on_ready: called with a bucket's index, while the gradient is computed, as soon as that bucket and those before
            it are complete. A model without layers calls it for none.
        is_warm: a process that this one was forked from has computed such a gradient, so only memory is new here.
    """

    is_warm: bool
    on_ready: Callable[[int], None]

    @property
    def gradient(self) -> NDArray[np.float32]: ...

    @property
    def buckets(self) -> Sequence[tuple[int, int]]: ...

    @property
    def compute(self) -> Callable[..., float]:
        """Overwrites the gradient with that of some samples, always the same one; returns the loss."""

    def samples(self, iteration: int, rank: int, world: int) -> tuple[Any, ...]:
        """Return the samples that ``rank`` takes in an iteration."""


class Accelerator:
    """Computing of a worker: it puts the gradient of each iteration into the replica, and releases it when it is due.

    ``release(bucket)`` is called once a bucket, in order: a bucket is a layer if ``layered``, else all is bucket 0.
    While a layered gradient waits for its due time ``poll(seconds)`` is called, so that communication goes on.
    """

    def __init__(
        self,
        replica: Model,
        compute: Compute,
        rank: int,
        world: int,
        layered: bool,
        release: Callable[[int], None],
        poll: Callable[[float], None],
    ) -> None:
        """Compute once, which is what ``none`` repeats, so that the start of a GPU is of no iteration, nor are page
        faults where a pace is to be kept. In real time, a model that is warm does not compute: 64 workers on two cores
        would compute for a second before they begin."""
        self._replica, self._compute, self._rank, self._world = replica, compute, rank, world
        self._layered, self._release = layered, release
        self._wait = poll if layered else time.sleep
        replica.on_ready = lambda _bucket: None  # that of an earlier generation's may be there still
        self._loss = 0.0
        if compute.mode != "real" or not replica.is_warm:
            self._loss = replica.compute(*replica.samples(0, rank, world))
        self._repeated = replica.gradient.copy() if compute.mode == "none" else None
        self._rested_s = 0.0
        self._spare_s = np.inf if compute.mode == "paced" else 0.0
        """The least that an iteration had left of its pace, had it begun to compute at once."""
        self._due = np.ones(1)
        if layered:
            self._due = self._profile() if compute.mode == "paced" else np.ones(len(replica.buckets))
            replica.on_ready = self._ready

    def _profile(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return float64[buckets]: when each bucket is ready, as a share of the time that the whole takes."""
        moments: list[float] = []
        self._replica.on_ready = lambda _bucket: moments.append(time.thread_time())
        samples = self._replica.samples(0, self._rank, self._world)
        runs = []
        for _ in range(PROFILE_RUNS):
            moments[:] = [time.thread_time()]
            self._replica.compute(*samples)
            runs.append(np.diff(moments))
        ready = np.cumsum(np.min(runs, axis=0))
        shares: np.ndarray[tuple[int], np.dtype[np.float64]] = ready / ready[-1]
        return shares

    def run(self, iteration: int, start_s: float, sum_s: float | None = None) -> Computed:
        """Compute the iteration that began at ``start_s`` (``time.monotonic``); return when all is released.

        A pace counts from ``sum_s``, when the sum before was there: it holds the optimizer's step, too. Nine workers
        take 40 ms on two cores to step LeNet-5 together, which machines of their own would not.
        """
        self._paced_from_s = start_s if sum_s is None else sum_s
        self._factor, self._extra_s = self._compute.slowdown(iteration)
        if self._repeated is not None:
            self._replica.gradient[:] = self._repeated
            if self._extra_s:
                self._wait(self._extra_s)
            for bucket in range(len(self._due)):
                self._release(bucket)
            return Computed(self._loss, 0.0, 0.0, extra_s=self._extra_s)
        self._start_s, self._paused_s, self._compute_s, self._overrun_s = start_s, 0.0, 0.0, 0.0
        self._slowed_s = 0.0
        loss = self._replica.compute(*self._replica.samples(iteration, self._rank, self._world))
        if not self._layered:
            self._ready(0)
        self._rested_s = 0.0
        return Computed(loss, self._compute_s, self._overrun_s, self._factor, self._extra_s)

    def rest(self) -> float:
        """Let others end their synchronisation (:data:`REST_S`); return for how long (s). No iteration is longer for
        it: it takes at most half of what was left of the pace in each so far."""
        self._rested_s = max(0.0, min(REST_S, self._spare_s / 2))
        if self._rested_s:
            self._wait(self._rested_s)
        return self._rested_s

    def _ready(self, bucket: int) -> None:
        """Wait for the due time of a bucket, whose gradient is computed, if it has one; then release it."""
        now = time.monotonic()
        self._compute_s = now - self._start_s - self._paused_s
        if self._compute.mode == "paced":
            whole_s = self._factor * self._compute.pace_s + self._extra_s
            early = self._paced_from_s + whole_s * float(self._due[bucket]) - now
            self._overrun_s = max(self._overrun_s, -early)
            self._spare_s = min(self._spare_s, early + self._rested_s)
        else:
            early = (self._factor - 1) * self._compute_s + self._extra_s - self._slowed_s
            self._slowed_s += early
        if early > 0:
            self._wait(early)
        self._release(bucket)
        self._paused_s += time.monotonic() - now
