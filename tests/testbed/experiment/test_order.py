"""The order of trials, and how they are shared out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.cell import are_compared
from testbed.base.errors import UsageError
from testbed.experiment.order import blocks, in_order, part


@dataclass(frozen=True)
class Cell:
    label: str
    batch: int = 16
    point: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.label}{self.batch if self.batch != 16 else ''}{''.join(map(str, self.point.values()))}"


def shown(cells: list[list[Cell]] | list[tuple[Cell, ...]]) -> list[str]:
    return [" ".join(map(repr, block)) for block in cells]


GROUPS = st.lists(st.integers(1, 6), min_size=1, max_size=6)


def made(sizes: list[int]) -> list[tuple[Cell, ...]]:
    return [tuple(Cell("ABCDEF"[i], point={"x": x}) for i in range(size)) for x, size in enumerate(sizes)]


def test_arms_with_the_same_batch_at_the_same_point_belong_together() -> None:
    cells = [Cell(arm, batch, {"r": r}) for r in (1, 2) for batch in (16, 64) for arm in "AB"]
    assert shown(blocks(cells)) == ["A1 B1", "A641 B641", "A2 B2", "A642 B642"]


def test_arms_that_sweep_the_same_field_meet_at_its_values() -> None:
    cells = [Cell(arm, point={"hosts": hosts}) for arm in "AB" for hosts in (2, 4, 8)]
    assert shown(blocks(cells)) == ["A2 B2", "A4 B4", "A8 B8"]


def test_an_arm_that_does_not_sweep_is_beside_all_that_do() -> None:
    cells = [Cell("A"), *(Cell("B", point={"servers": n}) for n in (1, 2, 3)), Cell("C")]
    assert shown(blocks(cells)) == ["A B1 B2 B3 C"]


def test_it_does_not_matter_which_arm_comes_first() -> None:
    cells = [*(Cell("A", point={"hosts": h, "servers": n}) for h in (2, 4) for n in (1, 2) if n < h)]
    cells += [Cell("B", point={"hosts": h}) for h in (2, 4)]
    assert shown(blocks(cells)) == ["A21 B2", "A41 A42 B4"]


def test_arms_that_sweep_different_fields_are_not_compared() -> None:
    cells = [*(Cell("A", point={"hosts": n}) for n in (2, 4)), *(Cell("B", point={"n": n}) for n in (2, 4))]
    assert shown(blocks(cells)) == ["A2", "A4", "B2", "B4"]


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))), max_size=12)
)
def test_every_cell_is_in_one_block_with_all_it_is_compared_with(made: list[tuple[str, dict[str, int]]]) -> None:
    cells = [Cell(label, point=point) for label, point in made]
    found = blocks(cells)
    assert sorted(id(cell) for block in found for cell in block) == sorted(map(id, cells))
    where = {id(cell): i for i, block in enumerate(found) for cell in block}
    for one in cells:
        for other in cells:
            assert not are_compared(one, other) or where[id(one)] == where[id(other)]


def test_where_the_first_arm_is_left_out_the_others_are_together() -> None:
    cells = [Cell("A", point={"h": 2}), *(Cell(arm, point={"h": h}) for arm in "BC" for h in (2, 4))]
    assert shown(blocks(cells)) == ["A2 B2 C2", "B4 C4"]


def test_rounds_go_there_and_back() -> None:
    groups = made([2, 2])
    assert [repr(in_order(groups, number)) for number in range(4)] == [
        "[A0, B0, A1, B1]",
        "[B1, A1, B0, A0]",
        "[B0, A0, B1, A1]",
        "[A1, B1, A0, B0]",
    ]


def test_three_arms_take_turns() -> None:
    (group,) = made([3])
    found = ["".join(cell.label for cell in in_order([group], number)) for number in range(6)]
    assert found == ["ABC", "CBA", "BCA", "ACB", "CAB", "BAC"]


@given(GROUPS, st.integers(0, 40))
def test_each_cell_runs_once_in_each_round_and_blocks_stay_together(sizes: list[int], number: int) -> None:
    groups = made(sizes)
    found = in_order(groups, number)
    assert Counter(map(repr, found)) == Counter(repr(cell) for group in groups for cell in group)
    places = [cell.point["x"] for cell in found]
    assert places == sorted(places, reverse=number % 2 == 1)


@given(GROUPS, st.integers(0, 10))
def test_a_drift_weighs_on_all_cells_alike_over_each_pair_of_rounds(sizes: list[int], pair: int) -> None:
    groups = made(sizes)
    order = [*in_order(groups, 2 * pair), *in_order(groups, 2 * pair + 1)]
    place: dict[str, int] = Counter()
    for i, cell in enumerate(order):
        place[repr(cell)] += i
    assert set(place.values()) == {len(order) - 1}


@given(st.integers(1, 6), st.integers(1, 3))
def test_each_arm_is_first_equally_often(arms: int, times: int) -> None:
    (group,) = made([arms])
    first = Counter(in_order([group], number)[0].label for number in range(2 * arms * times))
    assert set(first.values()) == {2 * times}
    assert len(first) == arms


LENGTHS = st.lists(st.floats(0.1, 100), min_size=1, max_size=30)


@given(LENGTHS, st.data())
def test_parts_are_disjoint_complete_and_balanced(seconds: list[float], data: st.DataObject) -> None:
    groups = made([1] * len(seconds))
    count = data.draw(st.integers(1, len(seconds)))
    parts = [part(groups, seconds, number + 1, count) for number in range(count)]
    assert sorted(repr(group) for one in parts for group in one) == sorted(map(repr, groups))
    by_group = dict(zip(map(repr, groups), seconds, strict=True))
    loads = [sum(by_group[repr(group)] for group in one) for one in parts]
    assert max(loads) - min(loads) <= max(seconds) + 1e-6
    assert all(parts)
    for one in parts:
        assert one == [group for group in groups if group in one]


def test_more_parts_than_groups() -> None:
    with pytest.raises(UsageError) as error:
        part(made([2, 2]), [1.0, 1.0], 3, 3)
    assert str(error.value) == (
        "--part 3/3: trials that are compared with each other stay on one machine, and this experiment has only 2 such "
        "groups\n"
        "  fix: make at most 2 parts"
    )
