"""What the list ``perturb`` may hold."""

from __future__ import annotations

from pydantic import TypeAdapter

from testbed.perturb.registry import PERTURBATIONS
from testbed.spec.perturb import NAMED, Perturbations


def test_the_kind_says_which_group_is_read() -> None:
    for kind in ("rate", "rates"):
        given = {"kind": kind} | ({"share": "50 %"} if kind == "rate" else {"shares": {"50 %": 1.0}})
        (found,) = TypeAdapter(Perturbations).validate_python(given)
        assert type(found) is PERTURBATIONS[kind]


def test_a_name_stands_for_a_group_and_is_its_title() -> None:
    found = TypeAdapter(Perturbations).validate_python(list(NAMED))
    assert [one.title for one in found] == list(NAMED)
    assert [one.kind for one in found] == [group["kind"] for group in NAMED.values()]


def test_a_range_of_names_is_written_out() -> None:
    (found,) = TypeAdapter(Perturbations).validate_python(
        [{"kind": "down", "links": ["s0", "h9..h11", "h0-s0"], "at": "1 s"}]
    )
    assert found.links == ["s0", "h9", "h10", "h11", "h0-s0"]  # type: ignore[attr-defined]
