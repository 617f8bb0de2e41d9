"""Steps of Autotune: when they are made, and where they lead in a network that is played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pytest

from testbed.workloads.locality import tuning
from testbed.workloads.locality.masters import BETA, Masters, Pairs, blame, quicktune
from testbed.workloads.locality.tuning import EVERY, FINETUNE, IN_A_ROW, QUICKTUNE, Iteration, Step, Steps, filled
from tests.workloads.locality.test_masters import shared

HOSTS, CLASSES, CLASS_BYTES = 8, 64, 1e6
EQUAL, LIMITED = 8 * [5e9], [2e9, *(7 * [5e9])]


def sent(masters: Masters) -> Pairs:
    """Bytes from each host to each other one by the trees."""
    found, trees = np.zeros((masters.hosts, masters.hosts)), masters.parents
    for tree in trees.tolist():
        for child, parent in enumerate(tree):
            if parent >= 0:
                found[child, parent] += CLASS_BYTES
                found[parent, child] += CLASS_BYTES
    return found


def played(steps: Steps, first: Masters, rates: Sequence[Sequence[float]], late: int = 2) -> Iterator[tuple[int, Step]]:
    """Play iterations, each at these rates of hosts; a new plan is followed ``late`` iterations after it was told."""
    masters, plan, coming = first, 0, list[tuple[int, Step]]()
    for number, each in enumerate(rates):
        while coming and coming[0][0] <= number:
            plan, masters = coming[0][1].plan or 0, coming.pop(0)[1].masters
        load = sent(masters)
        took_s = 0.1 + float((8 * load.sum(axis=1) / np.array(each)).max())
        step = steps.add(Iteration(number, plan, took_s, load, shared(each), np.zeros_like(load)))
        if step is not None:
            yield number, step
            if step.plan is not None:
                coming.append((number + late, step))


def balanced() -> Masters:
    return quicktune([range(HOSTS)], CLASSES, shared(EQUAL))


def test_without_a_change_finetune_is_asked_every_ten_iterations_and_leaves_all_as_it_is() -> None:
    seen = [*played(Steps(balanced(), CLASS_BYTES), balanced(), 35 * [EQUAL])]
    assert [number for number, _ in seen] == [9, 19, 29]
    assert {(step.how, step.plan) for _, step in seen} == {(FINETUNE, None)}


def test_once_iterations_are_longer_quicktune_follows_at_once() -> None:
    rates = 13 * [EQUAL] + 20 * [LIMITED]
    (_, first), (number, second), *later = played(Steps(balanced(), CLASS_BYTES), balanced(), rates)
    assert (first.how, second.how, second.plan) == (FINETUNE, QUICKTUNE, 1)
    assert number == 13 + IN_A_ROW - 1
    assert second.masters.globals.tolist() == [4, 9, 9, 9, 9, 8, 8, 8]
    assert second.predicted_s == pytest.approx(0.1 + 8 * 88 * CLASS_BYTES / 2e9), "as it is played then"
    assert {step.how for _, step in later} == {FINETUNE}, "a better plan is no change of the network"


def test_once_iterations_are_shorter_quicktune_follows_at_once() -> None:
    rates = 13 * [LIMITED] + 5 * [EQUAL]
    first = quicktune([range(HOSTS)], CLASSES, shared(LIMITED))
    seen = [*played(Steps(first, CLASS_BYTES), first, rates)]
    assert [step.how for _, step in seen] == [FINETUNE, QUICKTUNE]
    assert seen[-1][1].masters.globals.tolist() == HOSTS * [CLASSES // HOSTS]


def test_a_change_just_after_a_step_is_seen() -> None:
    rates = 10 * [EQUAL] + 10 * [LIMITED]
    steps = Steps(quicktune([range(HOSTS)], CLASSES, shared(EQUAL)), CLASS_BYTES)
    seen = [*played(steps, balanced(), rates)]
    assert [(number, step.how) for number, step in seen][:2] == [(9, FINETUNE), (12, QUICKTUNE)]


def test_a_single_long_iteration_is_no_change() -> None:
    rates = [*(12 * [EQUAL]), LIMITED, *(12 * [EQUAL])]
    assert {step.how for _, step in played(Steps(balanced(), CLASS_BYTES), balanced(), rates)} == {FINETUNE}


def test_loads_are_even_within_14_steps_of_the_end_of_a_limit() -> None:
    slow = Masters(
        (tuple(range(HOSTS)),),
        (gm := np.repeat(np.arange(HOSTS, dtype=np.int32), [0, 10, 9, 9, 9, 9, 9, 9])),
        gm[None].copy(),
    )
    rates = 10 * [LIMITED] + 14 * EVERY * [EQUAL]
    *_, (_, last) = played(Steps(slow, CLASS_BYTES), slow, rates)
    sent_bytes = last.masters.sent_bytes(1.0)
    assert sent_bytes.max() / sent_bytes.min() < 1.05


@pytest.mark.parametrize(("beta", "keeps_some"), [(0.5, True), (BETA, False)])
def test_a_slow_host_keeps_masters_if_load_weighs_as_much_as_time(
    beta: float, keeps_some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "blame", partial(blame, beta=beta, gamma=1 - beta))
    rates = 10 * [EQUAL] + 100 * [LIMITED]
    *_, (_, last) = played(Steps(balanced(), CLASS_BYTES), balanced(), rates)
    assert bool(last.masters.globals[0]) == keeps_some
    assert bool(last.took_s > 0.1 + 8 * 1.2 * CLASSES * CLASS_BYTES / 2e9) == keeps_some


def test_a_plan_that_is_left_out_is_waited_for_ten_iterations() -> None:
    steps, load = Steps(balanced(), CLASS_BYTES), sent(balanced())
    seen = []
    for number in range(60):
        took_s = 0.5 if number < 13 else 1.0
        at = shared(EQUAL if number < 13 else LIMITED)
        if (step := steps.add(Iteration(number, 0, took_s, load, at, np.zeros_like(load)))) is not None:
            seen.append((number, step))
    assert seen[1][1].plan == 1
    told = [(number, step.plan) for number, step in seen if step.plan]
    assert told[0] == (15, 1)
    assert told[1][0] >= 15 + EVERY
    assert told[1][1] == 2


def test_a_plan_that_was_not_told_is_taken_back() -> None:
    steps = Steps(balanced(), CLASS_BYTES)
    for _, step in played(steps, balanced(), 13 * [EQUAL] + 4 * [LIMITED]):
        if step.plan:
            steps.withdraw()
            assert steps.newest == 0


def test_iterations_under_a_plan_that_nobody_told_do_not_count() -> None:
    steps, load = Steps(balanced(), CLASS_BYTES), sent(balanced())
    seen = [steps.add(Iteration(number, 7, 1.0, load, load, load)) for number in range(30)]
    assert seen == 30 * [None]


@pytest.mark.parametrize("known", [True, False])
def test_a_rate_that_is_not_known_is_the_mean_of_the_others(known: bool) -> None:
    nan = float("nan")
    rate_bps = np.array([[nan, 2, 4], [nan, nan, 6], [nan, nan, nan]]) if known else np.full((3, 3), nan)
    expected = [[0, 2, 4], [6, 0, 6], [4, 4, 0]] if known else [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert filled(rate_bps).tolist() == expected
