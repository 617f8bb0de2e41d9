"""Training under a strategy is training in one process: weights, tables and losses, in whatever order messages come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workloads.job import Training
from testbed.workloads.kinds.hybrid.program.layout import Collected, collected
from testbed.workloads.kinds.hybrid.program.server import Server
from testbed.workloads.learning.reference import judged, reference
from testbed.workloads.learning.training import first_weights
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.strategy import Strategy, data_parallel, mp_bytes, read
from tests.workloads.kinds.hybrid.program.in_process import InProcess, cuts, know_diamond, operators, single, task

TABLES_PLACED = {"e0": [0], "e1": [1], "e2": [2], "e3": [2], "e4": [0, 1], "rest": "all"}


@pytest.fixture(scope="module", autouse=True)
def _diamond() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        know_diamond(patch)
        yield


def _weights(asked: Training, strategy: Strategy, trial: InProcess) -> Collected:
    return collected(operators(asked), strategy, [server.saved() for server in trial.servers])


@settings(max_examples=20)
@given(data=st.data(), seed=st.integers(0, 99))
def test_any_strategy_trains_as_one_process_does(data: st.DataObject, seed: int) -> None:
    asked = task("diamond", batch=3, iterations=4)
    strategy = data.draw(cuts(operators(asked)))
    first = first_weights(asked).astype(np.float64)
    trial = InProcess(asked, strategy, first, seed)  # type: ignore[arg-type]
    trial.run()
    found = _weights(asked, strategy, trial)
    wanted = single(asked, strategy.servers, first)
    assert not found.differing
    assert np.abs(found.weights - wanted).max() < 1e-10 * np.abs(wanted - first).max()
    assert np.array_equal(trial.pair_bytes, 2 * asked.iterations * mp_bytes(operators(asked), strategy))  # of 8 bytes


@pytest.mark.parametrize(
    ("name", "given_"),
    [
        pytest.param("dlrm_tiny", TABLES_PLACED, marks=pytest.mark.rehearse),
        ("candle_tiny", {"drug0": [0, 1], "drug1": [0, 1], "cell0": [2], "cell1": [2], "rest": "all"}),
    ],
)
def test_floats_come_to_the_reference(name: str, given_: object) -> None:
    asked = task(name, batch=4, iterations=3)
    strategy = read(operators_of(name), 3, given_)
    trial = InProcess(asked, strategy, first_weights(asked))
    trial.run()
    found = _weights(asked, strategy, trial)
    assert not found.differing
    verdict = judged(found.weights, asked, ((0, 3),))
    assert verdict["training_error"] < 1e-5
    assert np.array_equal(trial.pair_bytes, asked.iterations * mp_bytes(operators(asked), strategy))


def test_an_operator_that_misses_one_holders_gradient_is_found() -> None:
    """The referee must not pass what is wrong."""
    asked = task("candle_tiny", batch=4, iterations=2)
    strategy = data_parallel(operators_of("candle_tiny"), 3)
    trial = InProcess(asked, strategy, first_weights(asked))
    compute = trial.servers[2].compute

    def without_gradient(step: object) -> None:
        compute(step)  # type: ignore[arg-type]
        trial.servers[2].gradient[slice(*trial.servers[2].layout.operators[0])] = 0

    trial.servers[2].compute = without_gradient  # type: ignore[method-assign,assignment]
    trial.run()
    verdict = judged(_weights(asked, strategy, trial).weights, asked, ((0, 3),))
    assert verdict["training_error"] > 10 * verdict["training_allowed"]


def test_the_loss_is_found_where_the_last_operator_is() -> None:
    asked = task("diamond", batch=3, iterations=1)
    strategy = read(operators_of("diamond"), 4, {"dense1": [1, 3], "rest": [0]})
    trial = InProcess(asked, strategy, first_weights(asked))
    trial.run()
    assert trial.losses[0, 0] is trial.losses.get((0, 2)) is None
    known = [trial.losses[0, server] for server in (1, 3)]
    assert np.mean([one for one in known if one]) == pytest.approx(np.log(2), abs=0.05)  # it does not know yet


def test_what_a_server_does_not_hold_is_not_touched() -> None:
    asked = task("diamond", batch=3, iterations=1)
    strategy = read(operators_of("diamond"), 2, {"e0": [1], "rest": [0]})
    server = Server(asked, strategy, 0, first_weights(asked))
    start, stop = server.layout.operators[0]
    assert not server.weights[start:stop].any()
    assert len(server.saved()) == server.layout.floats - (stop - start)


def test_data_parallelism_comes_to_the_reference_of_as_many_ranks() -> None:
    asked = task("diamond", batch=5, iterations=3)
    strategy = data_parallel(operators_of("diamond"), 2)
    trial = InProcess(asked, strategy, first_weights(asked))
    trial.run()
    assert not trial.pair_bytes.any()
    assert _weights(asked, strategy, trial).weights == pytest.approx(reference(asked, 2).weights, abs=1e-6)
