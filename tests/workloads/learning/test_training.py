"""Batches, gradient views, hooks, optimiser, and equality of distributed and single-process training."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from testbed.base.errors import SpecError
from testbed.workloads.job import Training
from testbed.workloads.learning import reference as references
from testbed.workloads.learning import training
from testbed.workloads.learning.reference import (
    NOISE,
    accuracy,
    allowed,
    reference,
    relative_error,
    training_error,
)
from testbed.workloads.learning.training import LAST_LAYER, Floats, Replica, global_batch, initial_weights, rank_batch
from testbed.workloads.models import model

SETTINGS = Training("lenet5", "digits", batch=8, iterations=3, learning_rate=0.01, momentum=0.9, seed=7)

counts = st.integers(1, 200)


@pytest.fixture
def weights_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """References without accuracies: a pass over the test set takes ten times as long as an iteration."""
    monkeypatch.setattr(references, "_evaluated", lambda *_: set())
    references.reference.cache_clear()
    yield
    references.reference.cache_clear()  # others look at accuracies


@settings(deadline=None)  # the first example pays for imports
@given(seed=st.integers(0, 9), iteration=st.integers(0, 30), batch=counts, world=st.integers(1, 12), count=counts)
def test_ranks_partition_the_global_batch(seed: int, iteration: int, batch: int, world: int, count: int) -> None:
    slices = [rank_batch(seed, iteration, batch, world, rank, count) for rank in range(world)]
    assert all(len(piece) == batch for piece in slices)
    assert np.array_equal(np.concatenate(slices), global_batch(seed, iteration, world * batch, count))


@given(seed=st.integers(0, 9), size=counts, count=counts, epochs=st.integers(1, 3))
def test_iterations_read_whole_epochs(seed: int, size: int, count: int, epochs: int) -> None:
    iterations = -(-epochs * count // size)
    stream = np.concatenate([global_batch(seed, i, size, count) for i in range(iterations)])
    for epoch in range(epochs):
        assert sorted(stream[epoch * count : (epoch + 1) * count]) == list(range(count))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=4), st.integers(1, 6), counts)
def test_whoever_dies_no_sample_is_skipped_or_read_twice(worlds: list[tuple[int, int]], batch: int, count: int) -> None:
    """Phases of (iterations, ranks): their batches, one after the other, are those of one endless stream."""
    read, taken, iteration = [], 0, 0
    for iterations, world in worlds:
        shift = taken - iteration * world * batch
        for _ in range(iterations):
            read += [rank_batch(3, iteration, batch, world, rank, count, shift) for rank in range(world)]
            taken, iteration = taken + world * batch, iteration + 1
    assert np.array_equal(np.concatenate(read), global_batch(3, 0, taken, count))


def test_batches_do_not_depend_on_how_many_ranks_share_them() -> None:
    one = rank_batch(5, 4, 36, 1, 0, 1437)
    many = [rank_batch(5, 4, 4, 9, rank, 1437) for rank in range(9)]
    assert np.array_equal(one, np.concatenate(many))


def test_epochs_are_shuffled_anew() -> None:
    assert not np.array_equal(global_batch(1, 0, 50, 50), global_batch(1, 1, 50, 50))


def test_initial_weights_are_he_uniform_and_follow_the_seed() -> None:
    net = model("lenet5")
    flat = initial_weights(net, 1)
    fc1 = flat[10_250 : 10_250 + 1024 * 3136]
    assert np.abs(fc1).max() <= np.sqrt(6 / 3136) * (1 + 1e-6)
    assert fc1.std() == pytest.approx(np.sqrt(2 / 3136), rel=0.01)
    assert abs(fc1.mean()) < 1e-4
    fc2 = flat[:10_240]
    assert fc2.std() == pytest.approx(LAST_LAYER * np.sqrt(2 / 1024), rel=0.03)
    assert not flat[10_240:10_250].any()  # fc2.bias
    assert np.array_equal(flat, initial_weights(net, 1))
    assert not np.array_equal(flat, initial_weights(net, 2))


def test_tensors_and_gradients_view_the_flat_buffers() -> None:
    replica = Replica(SETTINGS)
    replica.compute(*replica.samples(0, 0, 1))
    base, start = replica.gradient.ctypes.data, 0
    parameters = dict(replica.module.named_parameters())
    for name, shape in model("lenet5").tensors():
        tensor = parameters[name]
        assert tensor.grad is not None
        assert tensor.grad.data_ptr() == base + 4 * start
        assert tensor.data_ptr() == replica.weights.ctypes.data + 4 * start
        assert tuple(tensor.shape) == shape
        start += tensor.numel()
    assert start == len(replica.gradient)


def test_gradient_is_overwritten_not_accumulated() -> None:
    replica = Replica(SETTINGS)
    samples = replica.samples(0, 0, 1)
    replica.compute(*samples)
    first = replica.gradient.copy()
    replica.compute(*samples)
    assert np.array_equal(replica.gradient, first)
    assert np.linalg.norm(first) > 0


def test_gradient_is_that_of_a_plain_module() -> None:
    replica = Replica(SETTINGS)
    samples = replica.samples(0, 0, 1)
    plain = model("lenet5").build()
    plain.load_state_dict(replica.module.state_dict())
    loss = cross_entropy(plain(samples[0]), samples[1])
    loss.backward()
    assert replica.compute(*samples) == pytest.approx(float(loss.detach()))
    parts = [dict(plain.named_parameters())[name].grad for name, _ in model("lenet5").tensors()]
    expected = torch.cat([part.flatten() for part in parts if part is not None]).numpy()
    assert np.allclose(replica.gradient, expected, rtol=1e-4, atol=1e-7)


def test_buckets_become_ready_in_their_order_and_complete() -> None:
    replica = Replica(SETTINGS)
    samples = replica.samples(0, 0, 1)
    replica.compute(*samples)
    whole = replica.gradient.copy()
    seen: list[int] = []

    def on_ready(bucket: int) -> None:
        start, stop = replica.buckets[bucket]
        assert np.array_equal(replica.gradient[start:stop], whole[start:stop])
        seen.append(bucket)

    replica.on_ready = on_ready
    for _ in range(2):
        seen.clear()
        replica.compute(*samples)
        assert seen == [0, 1, 2, 3]


ALL = [
    ("lenet5", "digits", 0.01),
    ("resnet8", "digits", 0.1),
    ("bert_tiny", "python_reference", 0.1),
    ("dlrm_tiny", "clicks", 0.1),
]


@pytest.mark.parametrize(("name", "dataset", "rate"), ALL)
def test_layers_become_ready_in_backward_order(name: str, dataset: str, rate: float) -> None:
    replica = Replica(Training(name, dataset, 4, 1, rate, 0.9, 1))
    seen: list[int] = []
    replica.on_ready = seen.append
    replica.compute(*replica.samples(0, 0, 1))
    assert seen == list(range(len(model(name).layers)))


def test_fused_layers_become_ready_together() -> None:
    first, second, *rest = model("resnet8").buckets()
    spans = [(first[0], second[1]), (rest[0][0], rest[-1][1])]
    replica = Replica(Training("resnet8", "digits", 4, 1, 0.1, 0.9, 1), spans)
    seen: list[int] = []
    replica.on_ready = seen.append
    replica.compute(*replica.samples(0, 0, 1))
    assert seen == [0, 1]


@pytest.mark.parametrize(
    ("name", "dataset", "rate"),
    [pytest.param(*one, marks=[pytest.mark.rehearse] if one[0] == "bert_tiny" else []) for one in ALL],
)
def test_every_model_learns(name: str, dataset: str, rate: float) -> None:
    iterations = 30 if name == "resnet8" else 15  # which begins slowly
    replica = Replica(Training(name, dataset, 64, iterations, rate, 0.9, 1))
    losses = []
    for i in range(iterations):
        losses.append(replica.compute(*replica.samples(i, 0, 1)))
        replica.step(1)
    assert np.mean(losses[-5:]) < 0.9 * losses[0]
    share, loss = replica.evaluate()
    assert loss < 0.9 * losses[0]
    assert share > (0.05 if name == "bert_tiny" else 0.25)


def test_an_error_in_a_hook_reaches_the_caller() -> None:
    replica = Replica(SETTINGS)

    def on_ready(bucket: int) -> None:
        raise ConnectionError(f"bucket {bucket}")

    replica.on_ready = on_ready
    with pytest.raises(ConnectionError, match="bucket 0"):
        replica.compute(*replica.samples(0, 0, 1))


@pytest.mark.parametrize(("optimiser", "after"), [("sgd", [0.9, 0.71]), ("nesterov", [0.81, 0.539])])
def test_two_steps_of_one_weight(optimiser: Literal["sgd", "nesterov"], after: list[float]) -> None:
    """Weight 1, gradient 1 twice: here the sum over two ranks, which have 1 each."""
    work = Training("", "", 1, 2, learning_rate=0.1, momentum=0.9, seed=1, optimiser=optimiser)
    weights, velocity, found = np.ones(1, np.float32), np.zeros(1, np.float32), []
    for _ in range(2):
        training.descend(work, weights, velocity, np.full(1, 2, np.float32), 2)
        found.append(float(weights[0]))
    assert found == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize("name", ["sgd", "nesterov"])
def test_step_is_that_of_torch_sgd(name: Literal["sgd", "nesterov"]) -> None:
    replica = Replica(dataclasses.replace(SETTINGS, optimiser=name))
    parameter = torch.from_numpy(replica.weights.copy()).requires_grad_()
    rate, momentum = SETTINGS.learning_rate, SETTINGS.momentum
    optimiser = torch.optim.SGD([parameter], lr=rate, momentum=momentum, nesterov=name == "nesterov")
    for seed in range(3):
        total = np.random.default_rng(seed).standard_normal(len(replica.weights), np.float32)
        parameter.grad = torch.from_numpy(total / 4)
        optimiser.step()
        replica.gradient[:] = total
        replica.step(world=4)
    assert relative_error(replica.weights, parameter.detach().numpy()) < 1e-6


@pytest.mark.usefixtures("weights_alone")
@pytest.mark.parametrize("world", [1, 3, 9])
def test_distributed_training_ends_with_the_reference_weights(world: int) -> None:
    replica = Replica(SETTINGS)
    for iteration in range(SETTINGS.iterations):
        total = np.zeros_like(replica.gradient)
        for rank in range(world):
            replica.compute(*replica.samples(iteration, rank, world))
            total += replica.gradient
        replica.gradient[:] = total
        replica.step(world)
    assert relative_error(replica.weights, reference(SETTINGS, world).weights) < 1e-5
    assert relative_error(replica.weights, initial_weights(model("lenet5"), SETTINGS.seed)) > 1e-3


@pytest.mark.usefixtures("weights_alone")
def test_the_reference_is_plain_sgd_on_whole_batches() -> None:
    world, data = 3, Replica(SETTINGS).data
    module = model("lenet5").build()
    module.load_state_dict(Replica(SETTINGS).module.state_dict())
    optimiser = torch.optim.SGD(module.parameters(), lr=SETTINGS.learning_rate, momentum=SETTINGS.momentum)
    for iteration in range(SETTINGS.iterations):
        positions = global_batch(SETTINGS.seed, iteration, world * SETTINGS.batch, len(data.train))
        images, labels = data.select(data.train[positions])
        optimiser.zero_grad()
        cross_entropy(module(images), labels).backward()
        optimiser.step()
    parameters = module.state_dict()
    expected = torch.cat([parameters[name].flatten() for name, _ in model("lenet5").tensors()]).numpy()
    assert relative_error(reference(SETTINGS, world).weights, expected) < 1e-5


@pytest.mark.usefixtures("weights_alone")
def test_the_reference_goes_on_with_fewer_ranks_where_the_others_stopped() -> None:
    worlds, replica = ((0, 3), (1, 2)), Replica(SETTINGS)
    read = 0
    for iteration in range(SETTINGS.iterations):
        world = 3 if iteration < 1 else 2
        size = world * SETTINGS.batch
        positions = global_batch(SETTINGS.seed, 0, read + size, len(replica.data.train))[read:]
        replica.compute(*replica.data.select(replica.data.train[positions]))  # the mean over all ranks' samples
        replica.step(1)
        read += size
    assert relative_error(reference(SETTINGS, worlds).weights, replica.weights) < 1e-5
    assert relative_error(reference(SETTINGS, 3).weights, replica.weights) > 1e-4


def trained(job: Training, fault: str = "") -> np.ndarray:
    """Weights after training as five workers whose scheme commits a fault once, half way."""
    world, at = 5, job.iterations // 2
    replica, before = Replica(job), np.zeros(0, np.float32)
    for iteration in range(job.iterations):
        total = np.zeros_like(replica.gradient)
        for rank in reversed(range(world)):
            images, labels = replica.samples(iteration, rank, world)
            faulty = iteration == at and rank == 4
            if faulty and fault == "a sample less":
                replica.compute(images[1:], labels[1:])
                replica.gradient *= (len(labels) - 1) / len(labels)
            else:
                replica.compute(images, labels)
            own = replica.gradient.copy() if rank == 4 else replica.gradient
            if not (faulty and fault == "a worker less"):
                total += before if faulty and fault == "a stale gradient" else own
            before = own if rank == 4 else before
        replica.gradient[:] = total
        replica.step(world)
    return replica.weights


@pytest.mark.usefixtures("weights_alone")
@pytest.mark.parametrize("learning_rate", [pytest.param(0.01, marks=pytest.mark.rehearse), 0.0001])
def test_one_wrong_gradient_is_seen_at_any_learning_rate(learning_rate: float) -> None:
    job = dataclasses.replace(SETTINGS, batch=4, iterations=4, learning_rate=learning_rate)
    ideal = reference(job, 5).weights
    most = allowed(ideal, reference(job, 5, noise=NOISE).weights, job)
    assert training_error(trained(job), ideal, job) < most / 5
    for fault in ("a sample less", "a stale gradient", "a worker less"):
        assert training_error(trained(job, fault), ideal, job) > 10 * most, fault


def test_reference_of_mode_none_is_one_step() -> None:
    once = reference(dataclasses.replace(SETTINGS, iterations=1), 2).weights
    assert np.array_equal(reference(SETTINGS, 2, "none").weights, once)


def test_reference_is_kept_and_read_only() -> None:
    weights = reference(SETTINGS, 2, "none").weights
    assert reference(SETTINGS, 2, "none").weights is weights
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 1


def test_training_learns_the_digits_and_the_reference_says_how_accuracy_rose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MOST_EVALUATED", 6)
    job = Training("lenet5", "digits", batch=24, iterations=27, learning_rate=0.01, momentum=0.9, seed=1)
    before, loss_before = accuracy(job, initial_weights(model("lenet5"), 1))
    found = reference(job, 3)
    after, loss_after = accuracy(job, found.weights)
    assert before < 0.3
    assert after > 0.85
    assert loss_after < loss_before / 3
    iterations = [iteration for iteration, _ in found.accuracy]
    assert (iterations[0], iterations[-1], len(set(iterations))) == (0, 26, 6)
    assert found.accuracy[-1][1] == after
    assert found.accuracy[0][1] < 0.5
    shorter = reference(dataclasses.replace(job, iterations=iterations[1] + 1), 3)
    assert shorter.accuracy[-1] == found.accuracy[1]
    assert reference(SETTINGS, 2, "none").accuracy == ()


def test_a_batch_above_the_training_set_wraps_around() -> None:
    replica = Replica(dataclasses.replace(SETTINGS, batch=1500))
    images, labels = replica.samples(0, 0, 1)
    assert images.shape == (1500, 1, 28, 28)
    assert labels.shape == (1500,)


def test_model_and_dataset_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(training.datasets.DATASETS, "small", lambda: (torch.zeros(40, 1, 8, 8), torch.arange(40) % 4))
    with pytest.raises(SpecError) as caught:
        Replica(dataclasses.replace(SETTINGS, dataset="small"))
    assert str(caught.value) == (
        "model 'lenet5' takes (1, 28, 28) and knows 10 classes, dataset 'small' has (1, 8, 8) and 4\n"
        "  fix: choose a model and a dataset that fit each other"
    )


def test_weights_made_before_a_fork_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, job = model("lenet5"), Training("lenet5", "digits", 4, 1, 0.1, 0.9, 1)
    fresh = initial_weights(net, 1)
    made = fresh.copy()
    monkeypatch.setitem(training._made_before_the_fork, (net.name, 1), made)
    for taken in (True, False):
        replica = Replica(job)
        assert (replica.weights is made) == taken
        assert np.array_equal(replica.weights, fresh)
        replica.compute(*replica.samples(0, 0, 1))
        replica.step(1)
        assert not np.array_equal(replica.weights, fresh)
    assert np.array_equal(Replica(dataclasses.replace(job, seed=2)).weights, initial_weights(net, 2))


@pytest.fixture
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], Floats]:
    """Initial weights by model and seed, of which there are none yet; the pages of this process stay as they are."""
    made: dict[tuple[str, int], Floats] = {}
    monkeypatch.setattr(training, "_made_before_the_fork", made)
    monkeypatch.setattr(training, "_computed", set())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    return made


def test_what_trainings_share_is_made_once(
    nothing_made: dict[tuple[str, int], Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Training] = []
    computed: list[Training] = []

    def build(work: Training) -> Replica:
        built.append(work)
        return Replica(work)

    monkeypatch.setattr(training, "Replica", build)
    monkeypatch.setattr(Replica, "compute", lambda replica, *_: computed.append(replica.training))
    first = Training("resnet8", "digits", 4, 1, 0.1, 0.9, 5)
    other, larger = dataclasses.replace(first, seed=6), dataclasses.replace(first, batch=8)
    training.expect([first, other, first])
    assert (built, computed) == ([first, other], [first])  # kernels do not depend on the seed
    assert set(nothing_made) == {("resnet8", 5), ("resnet8", 6)}
    for (name, seed), weights in nothing_made.items():
        assert np.array_equal(weights, initial_weights(model(name), seed))
    kept = nothing_made["resnet8", 5]
    training.expect([first])
    assert (computed, list(nothing_made.values())) == ([first], [kept])  # those of the other one are let go
    assert [Replica(work).is_warm for work in (first, other, larger)] == [True, True, False]
    training.expect([larger])
    assert computed == [first, larger]


def test_a_users_own_code_is_not_run_before_workers_are_forked(
    nothing_made: dict[tuple[str, int], Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "Replica", lambda _work: pytest.fail("it was built"))
    training.expect([Training("./net.py:Net", "digits", 4, 1, 0.1, 0.9, 1)])
    training.expect([Training("resnet8", "./data.py:load", 4, 1, 0.1, 0.9, 1)])
    assert not nothing_made
