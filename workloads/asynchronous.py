"""What an asynchronous trial's processes bring to their exchange: a server its weights, a worker where they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from workloads.job import Job, Training
from workloads.models import model
from workloads.replay import Floats, Updates, Values
from workloads.sync import transport
from workloads.sync.forest import Forest
from workloads.sync.parameter_server import Client, Server

if TYPE_CHECKING:
    from workloads.training import Replica


def join(job: Job, forest: Forest, source: Replica | Values | None) -> Client | Server:
    """Meet the other processes of the trial; ``source`` is where a worker's gradients are from, None at the server.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    sockets = transport.connect(job.node, job.peers, forest.nodes, job.congestion_control, job.start_timeout_s)
    if isinstance(source, Updates):
        return Client(job.name, forest, sockets, source.gradient, source.received, source.learn)
    if source is not None:
        assert not isinstance(source, Values)
        return Client(job.name, forest, sockets, source.gradient, source.weights)
    weights, apply = _weights(job)
    return Server(job.name, forest, sockets, weights, apply, job.training.iterations * job.world)


def _weights(job: Job) -> tuple[Floats, Callable[[Floats], None]]:
    """The server's, and what a gradient does to them: a step of SGD; of a profile it is added."""
    work, floats = job.training, job.buckets[-1][1]
    if not isinstance(work, Training):
        total: Floats = np.zeros(floats, np.float32)

        def add(gradient: Floats) -> None:
            np.add(total, gradient, out=total)

        return total, add
    from workloads.training import descend, initial_weights, use_one_thread  # imports torch

    use_one_thread()
    weights, velocity = initial_weights(model(work.model), work.seed), np.zeros(floats, np.float32)

    def step(gradient: Floats) -> None:
        descend(work, weights, velocity, gradient, job.world)

    return weights, step
