"""A word that some kinds need is of a part, and ``Kind`` has the words of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds import ASKS, interface, lines, of_parts, said_by  # the benchmark

import testbed
from testbed.base.errors import UsageError
from testbed.workloads import kinds
from testbed.workloads.kinds import parts
from testbed.workloads.kinds.base import Kind
from testbed.workloads.kinds.forest.kind import ForestKind

ROOT = Path(testbed.__file__).parents[1]


def test_what_one_kind_alone_says_is_in_a_part() -> None:
    words, named = interface(ROOT)
    by = said_by(ROOT)
    assert {word for word in words if len(by[word]) == 1} == set()
    assert len(words) <= 30
    assert named == list(parts.PARTS)


def test_few_lines_ask_for_the_sort_of_a_job() -> None:
    assert len(list(lines(ROOT, ASKS))) <= 50
    assert len(list(lines(ROOT, of_parts([*parts.PARTS])))) <= 19


def test_a_part_is_none_or_of_its_class_and_some_kind_has_it() -> None:
    for name, part in parts.PARTS.items():
        had = [getattr(kind, name) for kind in kinds.kinds().values()]
        assert all(isinstance(one, part) for one in had if one is not None)
        assert any(one is not None for one in had)
        assert getattr(Kind, name) in had or None in had, "some kind does without"


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("held", "model_parallel"),
        ("shares_network", "sharing"),
        ("values", "groups"),
        ("notes", "wording"),
        ("counts", "own_samples"),
        ("no_trees", "carrier"),
        ("controllers", "control"),
        ("unknown_load", "unknown"),
    ],
)
def test_a_kind_that_defines_a_word_of_a_part_is_told_so(word: str, part: str) -> None:
    """Or what it says there would not hold, and nobody would know."""
    with pytest.raises(UsageError, match=f"the kind of trial Own defines {word}, ") as told:
        type("Own", (ForestKind,), {word: None})
    assert f"give it the part {part}, a " in told.value.fix


@pytest.mark.parametrize("word", ["neighbours", "role"])
def test_a_kind_that_tells_of_nodes_in_place_of_processes_is_told_so(word: str) -> None:
    with pytest.raises(UsageError, match=f"the kind of trial Own defines {word}, ") as told:
        type("Own", (ForestKind,), {word: None})
    assert told.value.fix.startswith("let its processes() return each with its role")


def test_words_that_a_kind_and_a_part_have_both_stay_the_kinds() -> None:
    assert "cost" in vars(parts.Gate).keys() & vars(Kind).keys()
    type("Own", (ForestKind,), {"cost": ForestKind.cost})
