"""Which cells belong together, and what each one's ratios are relative to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.cell import Cell, agree, cell_of, pairs, partner, references


@dataclass(frozen=True)
class At:
    label: str
    point: dict[str, Any] = field(default_factory=dict)
    batch: int = 16

    def __repr__(self) -> str:
        return f"{self.label}{''.join(map(str, self.point.values()))}"


def shown(cells: list[At], first: str = "A") -> str:
    """Each cell with its reference: ``B4:A4``."""
    found = references(cells, first).of
    return " ".join(f"{cell!r}:{'-' if i is None else repr(cells[i])}" for cell, i in zip(cells, found, strict=True))


def swept(label: str, **fields: list[Any]) -> list[At]:
    """An arm at every value of its fields."""
    points: list[dict[str, Any]] = [{}]
    for name, values in fields.items():
        points = [point | {name: value} for point in points for value in values]
    return [At(label, point) for point in points]


def test_a_record_and_its_trial_name_one_cell() -> None:
    record = {"label": "ring", "batch": 2, "point": {"topology.hosts": 4, "links.rate": 10**8}, "at": "hosts=4"}
    assert cell_of(record) == Cell("ring", 2, (("links.rate", "100000000"), ("topology.hosts", "4")))
    assert str(cell_of(record)) == "ring, batch 2, hosts=4"
    assert cell_of({"label": "ring", "batch": 0}) == Cell("ring", 0)


def test_points_that_read_alike_are_cells_of_their_own() -> None:
    one, other = (Cell.of("ring", 2, {"a.rate": rate, "b.rate": 1}, "rate=1") for rate in (1, 2))
    assert one != other
    assert str(one) == str(other)


def test_arms_meet_at_the_values_that_both_sweep() -> None:
    assert shown(swept("A", h=[2, 4]) + swept("B", h=[2, 4])) == "A2:A2 A4:A4 B2:A2 B4:A4"
    assert shown(swept("A", h=[2, 4]) + swept("B", h=[2, 4], s=[1])) == "A2:A2 A4:A4 B21:A2 B41:A4"
    assert shown([At("A"), At("A", batch=64), At("B", batch=64), At("B", batch=8)]) == "A:A A:A B:A B:-"


def test_a_first_arm_that_alone_sweeps_a_field_is_several_with_the_least_one_first() -> None:
    assert shown(swept("A", s=[4, 1]) + swept("B")) == "A4:A1 A1:A1 B:A1"
    assert shown(swept("A", h=[2, 4], s=[4, 16]) + swept("B", h=[2, 4])) == (
        "A24:A24 A216:A24 A44:A44 A416:A44 B2:A24 B4:A44"
    )
    assert references(swept("A", s=[4, 1]) + swept("B"), "A").own == {"s": 1}
    assert references(swept("A", s=["x", 16, 4]) + swept("B"), "A").own == {"s": 4}


def test_where_it_is_the_only_arm_its_points_are_settings() -> None:
    assert shown(swept("A", s=[4, 1])) == "A4:A4 A1:A1"


def test_an_arm_that_does_not_sweep_what_others_do_has_no_reference_among_them() -> None:
    assert shown(swept("A", h=[2, 4]) + swept("B", h=[2, 4]) + [At("C")]) == "A2:A2 A4:A4 B2:A2 B4:A4 C:-"


def test_where_the_first_arm_was_left_out_nobody_stands_in() -> None:
    cells = [At("B", {"h": 2}), At("C", {"h": 2}), *swept("A", h=[4]), *swept("B", h=[4])]
    assert shown(cells) == "B2:- C2:- A4:A4 B4:A4"
    assert shown(cells, "D") == "B2:- C2:- A4:- B4:-"
    assert references([], "A").of == ()


POINTS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))


@given(st.lists(st.builds(At, st.sampled_from("ABC"), POINTS, st.sampled_from([8, 16])), max_size=12))
def test_a_reference_is_of_the_first_arm_and_agrees_in_what_others_sweep(cells: list[At]) -> None:
    found = references(cells, "A")
    for cell, i in zip(cells, found.of, strict=True):
        if i is not None:
            assert (cells[i].label, cells[i].batch) == ("A", cell.batch)
            assert found.own.items() <= cells[i].point.items()
            rest = {name: value for name, value in cell.point.items() if name not in found.own}
            assert agree(rest, cells[i].point)


def test_pairs_are_of_the_same_repeat_and_of_the_trials_that_count() -> None:
    base = [(0, True, "a"), (1, False, "b"), (2, True, "c")]
    assert pairs(base, [(2, True, "z"), (1, True, "y"), (3, True, "x")]) == [("c", "z")]
    assert pairs(base, [(1, True, "y"), (3, True, "x")]) == []  # a VALID trial on both sides, and no pair of them
    assert pairs(base, []) == []


def test_pairs_where_a_side_has_no_valid_trial() -> None:
    mixed, invalid = [(0, True, "a"), (1, False, "b")], [(0, False, "y"), (1, False, "z")]
    assert pairs(invalid, invalid) == [("y", "y"), ("z", "z")]
    assert pairs(mixed, invalid) == []
    assert pairs(invalid, mixed) == []


def test_a_partner_must_be_the_only_point() -> None:
    others = [({"h": 2}, "a"), ({"h": 4}, "b"), ({"h": 4}, "c")]
    assert partner({"h": 4, "s": 1}, others) == "b"
    assert partner({"s": 1}, others) is None
    assert partner({"h": 8}, others) is None
