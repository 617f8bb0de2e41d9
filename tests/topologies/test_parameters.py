"""What a builder's parameters take, and what they say of anything else."""

from __future__ import annotations

import pytest

from testbed.base.errors import SpecError
from testbed.topologies.call import Value
from testbed.topologies.parameters import bind, parameters_of


def builder(
    a: tuple[int, ...] = (), b: tuple[tuple[int, ...], ...] = (), word: str = "x", number: float = 1.0, whole: int = 1
) -> None:
    """Takes one of each kind."""


PARAMETERS = parameters_of(builder, 0)


def test_they_are_shown_as_an_expression_writes_them() -> None:
    assert list(map(str, PARAMETERS)) == ["a=[]", "b=[]", "word=x", "number=1.0", "whole=1"]


@pytest.mark.parametrize(
    "arguments", [{"a": (1, -5)}, {"b": ((1,), (2, 3))}, {"a": (), "b": ()}, {"word": "y"}, {"number": 2.5, "whole": 3}]
)
def test_values_that_fit(arguments: dict[str, Value]) -> None:
    assert bind("builder", PARAMETERS, arguments, SpecError) == arguments


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("a", 1, "builder: a is 1\n  fix: give a a list of integers, such as [1,5]"),
        ("a", (1, True), "builder: a is [1,true]\n  fix: give a a list of integers, such as [1,5]"),
        ("b", (1,), "builder: b is [1]\n  fix: give b a list of lists of integers, such as [[0,1],[2,3]]"),
        ("word", (1,), "builder: word is [1]\n  fix: give word a word"),
        ("number", True, "builder: number is true\n  fix: give number a number"),
        ("number", float("nan"), "builder: number is nan\n  fix: give number a number"),
        ("whole", 1.5, "builder: whole is 1.5\n  fix: give whole an integer"),
    ],
)
def test_values_that_do_not(key: str, value: Value, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        bind("builder", PARAMETERS, {key: value}, SpecError)
    assert str(caught.value) == text


def test_a_parameter_of_several_types_takes_values_of_each() -> None:
    def of_a_user(*, first: int | str = 1, second: str | None = None) -> None: ...

    given: dict[str, Value] = {"first": "x", "second": "y"}
    assert bind("own", parameters_of(of_a_user, 0), given, SpecError) == given
