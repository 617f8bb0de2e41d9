"""Training on a device that is not the host: here a CPU stands for it, with buffers of its own and the same copies."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from testbed.workloads.job import Compute, Training
from testbed.workloads.learning import accelerated
from testbed.workloads.learning.accelerated import DeviceReplica, device_for, replica_on
from testbed.workloads.learning.reference import reference
from testbed.workloads.learning.training import Replica
from testbed.workloads.models import model

SETTINGS = Training("lenet5", "digits", 4, 3, 0.05, 0.9, 1)
DEVICE = torch.device("cpu")


def both(buckets: list[tuple[int, int]] | None = None, settings: Training = SETTINGS) -> tuple[Replica, DeviceReplica]:
    there = replica_on(DEVICE, settings, buckets)
    assert isinstance(there, DeviceReplica)
    return Replica(settings, buckets), there


@pytest.mark.parametrize("optimiser", ["sgd", "nesterov"])
def test_three_steps_are_the_same_to_the_last_bit(optimiser: Literal["sgd", "nesterov"]) -> None:
    here, there = both(settings=replace(SETTINGS, optimiser=optimiser))
    for i in range(3):
        for replica in (here, there):
            replica.compute(*replica.samples(i, 0, 2))
        assert np.array_equal(here.gradient, there.gradient)
        for replica in (here, there):
            replica.gradient += np.float32(0.5)  # what another worker has sent
            replica.step(2)
    there.fetch()
    assert np.array_equal(here.weights, there.weights)
    assert np.array_equal(here.velocity, there.velocity)
    assert here.evaluate() == there.evaluate()


def test_the_module_and_the_host_share_no_memory() -> None:
    _, there = both()
    there.compute(*there.samples(0, 0, 1))
    before = there.weights.copy()
    there.step(1)
    assert np.array_equal(there.weights, before), "they come here when they are asked for"
    there.fetch()
    assert not np.array_equal(there.weights, before)
    parameter = next(there.module.parameters())
    assert parameter.grad is not None
    there.gradient[:] = 7
    assert not (parameter.grad == 7).any()


def test_a_bucket_is_here_when_it_is_said_to_be_ready() -> None:
    spans = model("lenet5").buckets()
    here, there = both(spans)
    here.compute(*here.samples(0, 0, 1))
    seen: list[int] = []

    def on_ready(bucket: int) -> None:
        start, stop = spans[bucket]
        assert np.array_equal(there.gradient[start:stop], here.gradient[start:stop])
        assert not there.gradient[stop:].any(), "what comes later is not here yet"
        seen.append(bucket)

    there.on_ready = on_ready
    there.compute(*there.samples(0, 0, 1))
    assert seen == list(range(len(spans)))


def test_weights_of_another_worker_are_taken_there() -> None:
    here, there = both()
    here.compute(*here.samples(0, 0, 1))
    here.step(1)
    there.weights[:], there.velocity[:] = here.weights, here.velocity
    there.put()
    for replica in (here, there):
        replica.compute(*replica.samples(1, 0, 1))
        replica.step(1)
    there.fetch()
    assert np.array_equal(here.weights, there.weights)


def test_workers_take_gpus_in_turn_and_only_to_compute_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.cuda.is_available() or device_for(Compute("real"), 0) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(device_for(Compute("real"), rank)) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_for(Compute("paced", 0.1), 0) is None
    assert device_for(Compute("none"), 0) is None
    assert accelerated.name(None) == accelerated.name(DEVICE) == "cpu"
    assert type(replica_on(None, SETTINGS)) is Replica


A_GPU_IS_THERE = """
import os, sys, torch
from torch.utils import backend_registration

class Guard(backend_registration._DummyDeviceGuard):
    def device_count(self):
        return 1

backend_registration._setup_privateuseone_for_python_backend(device_guard=Guard())
torch.backends.cuda.is_built = lambda: sys.argv[1] == "built"
from testbed.workloads.learning import training
from testbed.workloads.job import Training

training.warm_up()
if os.fork() == 0:
    replica = training.Replica(Training("lenet5", "digits", 4, 3, 0.05, 0.9, 1))
    replica.compute(*replica.samples(0, 0, 1))
    print("computed", flush=True)
    os._exit(0)
os.wait()
"""
"""PyTorch with a device that counts as one, and can do nothing: what forked children may compute then."""


@pytest.mark.parametrize(("built", "said"), [("built", "computed"), ("not built", "Unable to handle autograd")])
def test_workers_are_forked_where_there_is_a_gpu(root: Path, built: str, said: str) -> None:
    command = [sys.executable, "-c", A_GPU_IS_THERE, built]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert said in done.stdout + done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that PyTorch sees")
def test_a_gpu_trains_as_a_cpu_does() -> None:
    there = replica_on(torch.device("cuda", 0), SETTINGS)
    for i in range(SETTINGS.iterations):
        there.compute(*there.samples(i, 0, 1))
        there.step(1)
    there.fetch()
    expected = reference(SETTINGS, 1).weights
    assert np.linalg.norm(there.weights - expected) / np.linalg.norm(expected) < 1e-4
