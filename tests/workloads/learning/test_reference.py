"""How far weights may be from those of a single process, and what fixed point may leave of sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from testbed.workloads.job import Training
from testbed.workloads.learning.reference import COARSEST, MOST_DRAWS, Reference, judged, reference, repeated
from testbed.workloads.learning.training import Replica, initial_weights
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.models import model
from testbed.workloads.sync.fixed_point import Scales
from testbed.workloads.sync.forest import FixedPoint

LENET = Training("lenet5", "digits", batch=2, iterations=2, learning_rate=0.01, momentum=0.9, seed=3)
RESNET = Training("resnet8", "digits", batch=2, iterations=3, learning_rate=0.05, momentum=0.5, seed=3)
BERT = Training("bert_tiny", "python_reference", batch=2, iterations=2, learning_rate=0.1, momentum=0.9, seed=3)
WORLD = 4
Gradients = list[np.ndarray]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pass over the test set after each iteration."""
    monkeypatch.setattr(Replica, "evaluate", lambda self: (float(np.abs(self.weights).mean()), 1.0))


def trained(job: Training, add: Callable[[Gradients], np.ndarray]) -> np.ndarray:
    """Weights after training as :data:`WORLD` workers whose scheme makes a sum of their gradients by ``add``."""
    replica = Replica(job)
    for iteration in range(job.iterations):
        gradients = []
        for rank in range(WORLD):
            replica.compute(*replica.samples(iteration, rank, WORLD))
            gradients.append(replica.gradient.copy())
        replica.gradient[:] = add(gradients)
        replica.step(WORLD)
    return replica.weights


def backwards(gradients: Gradients, factor: float = 1.0) -> np.ndarray:
    """Along a chain from the last worker on, where each partial sum counts ``factor``."""
    total = gradients[-1].copy()
    for gradient in gradients[-2::-1]:
        total = total * np.float32(factor) + gradient
    return total


def in_integers(gradients: Gradients, scale: float) -> np.ndarray:
    """As workers and switches do it, in another order than the reference."""
    steps = [gradient.copy().view(np.int32) for gradient in gradients]
    scales = Scales(FixedPoint(scale, 4), len(steps), steps, "h0")
    for k in range(len(steps)):
        scales.encode(k)
    steps[0][:] = sum(reversed(steps))
    scales.decode(0)
    return steps[0].view(np.float32)


@pytest.mark.parametrize(
    "job",
    [LENET, RESNET, pytest.param(BERT, marks=pytest.mark.rehearse)],
    ids=lambda job: job.model,
)
def test_other_orders_pass_and_partial_sums_that_are_too_small_do_not(job: Training) -> None:
    found = judged(trained(job, backwards), job, ((0, WORLD),))
    assert 0 < found["training_error"] < found["training_allowed"] / 3
    assert found["curve"]
    found = judged(trained(job, lambda parts: backwards(parts, 0.9995)), job, ((0, WORLD),))
    assert found["training_error"] > 3 * found["training_allowed"]


def test_tolerance_follows_the_training() -> None:
    """One step leads nowhere by rounding; many, at a high rate, do."""

    def allowed(**changes: float) -> float:
        job = dataclasses.replace(RESNET, **changes)
        almost = reference(job, WORLD).weights.copy()
        almost[0] += 1e-6
        return float(judged(almost, job, ((0, WORLD),))["training_allowed"])

    assert allowed(iterations=1) < 2e-4
    assert allowed(iterations=30, momentum=0.9) > 3 * allowed(iterations=1)


def test_fixed_point_is_repeated_to_the_last_bit() -> None:
    scale = 1e6
    found = judged(trained(RESNET, lambda parts: in_integers(parts, scale)), RESNET, ((0, WORLD),), scales=(scale,))
    assert found["training_error"] == 0
    assert 0 < found["coarseness"] < COARSEST
    assert found["curve"] == reference(RESNET, ((0, WORLD),), "real", (scale,)).accuracy
    short = trained(RESNET, lambda parts: in_integers(parts[:-1], scale))
    found = judged(short, RESNET, ((0, WORLD),), scales=(scale,))
    assert found["training_error"] > 100 * found["training_allowed"]


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_a_coarse_scale_is_found_and_the_one_to_take_is_fine(scale: float) -> None:
    """With 0.01 all gradients are rounded to nothing, so that weights stay where they began."""
    weights = trained(RESNET, lambda parts: in_integers(parts, scale))
    assert np.array_equal(weights, initial_weights(model("resnet8"), RESNET.seed)) == (scale == 0.01)
    found = judged(weights, RESNET, ((0, WORLD),), scales=(scale,))
    assert found["training_error"] == 0
    assert found["coarseness"] > 30 * COARSEST
    taken = reference(RESNET, ((0, WORLD),), "real", (found["scale_needed"],))
    assert COARSEST / 100 < taken.coarseness < COARSEST


def test_weights_that_are_not_the_references_have_no_accuracies() -> None:
    job = RESNET
    ideal = reference(job, WORLD)
    moved = ideal.weights - initial_weights(model(job.model), job.seed)
    assert judged(ideal.weights, job, ((0, WORLD),))["curve"] == ideal.accuracy
    assert judged(ideal.weights + np.float32(0.02) * moved, job, ((0, WORLD),))["curve"] is None


def test_updates_that_are_too_small_are_not_those_of_the_server() -> None:
    order = [Update(0, 0, 0), Update(1, 0, 0), Update(0, 1, 1)]
    ideal: Reference = repeated(RESNET, 2, order)
    assert judged(ideal.weights, RESNET, ((0, 2),), order=order)["training_allowed"] == 0
    start = initial_weights(model("resnet8"), RESNET.seed)
    found = judged(start + np.float32(0.9995) * (ideal.weights - start), RESNET, ((0, 2),), order=order)
    assert found["training_error"] > 3 * found["training_allowed"] > 0


def test_what_roundings_explain_of_a_lost_server_follows_from_the_size_of_its_weights() -> None:
    assert repeated(RESNET, 2, [Update(0, 0, 0)]).takeover_rounded is None
    both = [Step((Update(0, 0, 0, on_former=True),), by=by) for by in ("former", "replica")]
    found = repeated(RESNET, 2, both)
    assert found.takeover_apart == 0
    assert found.takeover_rounded == pytest.approx(1e-4 * float(np.linalg.norm(found.weights)))


def test_a_right_trial_is_not_doubted_because_one_rounding_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the trainings with sums that are off comes to the reference's side; the trial and others do not."""
    ideal = initial_weights(model("lenet5"), 3) + np.float32(0.01)
    draws: list[int] = []

    def trained(*_: object) -> Reference:
        noise, draw = _[4:6]
        if noise:
            draws.append(int(str(draw)))
        return Reference(ideal * np.float32(1 + (0 if not noise else 1e-3 if draw == 2 else 1e-6)), ())

    monkeypatch.setattr("testbed.workloads.learning.reference.reference", trained)
    near, far = (judged(ideal * np.float32(1 + off), LENET, ((0, WORLD),)) for off in (1e-4, 1e-1))
    assert near["training_error"] <= near["training_allowed"]
    assert draws[:3] == [0, 1, 2]
    assert far["training_error"] > far["training_allowed"]
    assert draws[3:] == list(range(MOST_DRAWS))
    assert judged(ideal, LENET, ((0, WORLD),))["training_allowed"] == 0
