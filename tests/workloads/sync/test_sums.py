"""Slots and windows: who may have which memory when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.sync.plan import Windows
from testbed.workloads.sync.sums import Slots

KLASS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(KLASS, st.integers(1, 5))
def test_a_window_apart_chunks_share_memory(klass: list[int], window: int) -> None:
    slots = Slots(klass, [8] * len(klass), window, [True] * 4)
    at = [klass[:k].count(c) for k, c in enumerate(klass)]
    for a in range(len(klass)):
        for b in range(len(klass)):
            same = klass[a] == klass[b] and (at[a] - at[b]) % window == 0
            assert np.shares_memory(slots.parts[a], slots.parts[b]) == same


def test_a_slot_is_taken_once_and_free_when_all_has_left() -> None:
    slots = Slots([0, 0, 0], [4, 4, 3], 2, [True])
    assert slots.take(0, lambda _: False)
    slots.parts[0][:] = 7
    assert slots.take(0, lambda _: False)
    assert (slots.parts[0] == 7).all()
    assert not slots.take(2, lambda _: False)
    slots.leave(0)
    assert not slots.take(2, lambda part: part is slots.parts[0])
    assert slots.take(2, lambda part: part is slots.parts[1])
    assert slots.parts[2].tolist() == [0, 0, 0]


def test_a_class_that_passes_by_costs_nothing() -> None:
    slots = Slots([0, 1], [4, 4], 2, [True, False])
    assert len(slots.parts[0]) == 4
    assert len(slots.parts[1]) == 0


@given(KLASS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_window_holds_back_and_lets_go(klass: list[int], window: int, random: object) -> None:
    windows = Windows(klass, window)
    at = [klass[:k].count(c) for k, c in enumerate(klass)]
    sent = [k for k in range(len(klass)) if windows.may_send(k)]
    assert sent == [k for k in range(len(klass)) if at[k] < window or window == 0]
    on_the_way, done = list(sent), 0
    while on_the_way:
        k = on_the_way.pop(random.randrange(len(on_the_way)))  # type: ignore[attr-defined]
        done += 1
        later = windows.summed(k)
        if later is not None:
            assert klass[later] == klass[k]
            assert at[later] == at[k] + window
            on_the_way.append(later)
    assert done == len(klass)
    windows.begin()
    assert [k for k in range(len(klass)) if windows.may_send(k)] == sent


def test_a_slot_must_be_held_to_be_left() -> None:
    with pytest.raises(KeyError):
        Slots([0], [4], 1, [True]).leave(0)
