"""The one-line notation reads what it writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.topologies.call import LARGEST, LONGEST, Call, Value, parse

NAMES = st.from_regex(r"[a-z_./:-]+", fullmatch=True)
KEYS = st.from_regex(r"[a-z_]\w*", fullmatch=True).filter(str.isascii)
SINGLE = st.one_of(
    st.integers(1 - LARGEST, LARGEST - 1),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["ecmp", "by_x"]),
)
LIST = st.lists(SINGLE, max_size=3).map(tuple)
VALUES = st.one_of(SINGLE, LIST, st.lists(st.one_of(SINGLE, LIST), max_size=3).map(tuple))


@given(name=NAMES, arguments=st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read_back(name: str, arguments: dict[str, Value]) -> None:
    call = Call(name, arguments)
    again = parse(str(call), "star(hosts=9)")
    assert again == call
    assert list(again.arguments) == list(arguments)
    assert [type(value) for value in again.arguments.values()] == [type(value) for value in arguments.values()]


def test_values_have_types() -> None:
    call = parse(" f ( a = 1, b=1.5,c=TRUE,d=word ) ", "star(hosts=9)")
    assert call == Call("f", {"a": 1, "b": 1.5, "c": True, "d": "word"})


def test_lists() -> None:
    call = parse("f(a=[ 1, -5 ],b=[[0,1],[x]],c=[],d=2)", "star(hosts=9)")
    assert call.arguments == {"a": (1, -5), "b": ((0, 1), ("x",)), "c": (), "d": 2}
    assert str(call) == "f(a=[1,-5],b=[[0,1],[x]],c=[],d=2)"


def test_an_argument_given_twice() -> None:
    with pytest.raises(SpecError) as error:
        parse("star(hosts=3,hosts=4)", "star(hosts=9)")
    assert str(error.value) == "'hosts' is given twice in 'star(hosts=3,hosts=4)'\n  fix: give it once"


def test_what_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(SpecError, match="an expression of 32,769 characters"):
        parse("x" * (LONGEST + 1), "star(hosts=9)")


ABSURD = ["f(a=9223372036854775808)", f"f(a={'9' * 5000})", "f(a=[[[1]]])", f"f(a={'[' * 9000}{']' * 9000})"]
LISTS = ["f(a=[1)", "f(a=1])", "f(a=[1,])", "f(a=[1]2)", "f(a=[[1])", "f(a=[1]])", "f(a=[1][2])", "f(a=[b=1])"]


@pytest.mark.parametrize(
    "text", ["", "a b", "f(", "f)", "f(a)", "f(a=1,)", "f(=1)", "f(a=1 2)", "f((a=1))", *LISTS, *ABSURD]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"fix: .*(write it as|as in) star\(hosts=9\)"):
        parse(text, "star(hosts=9)")


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("f(a=1", "nothing closes '(', character 2", "add ')' at the end"),
        ("f(a=[1,2)", "nothing closes '[', character 5", "add ']' before character 9"),
        ("f(a=[1", "nothing closes '[', character 5", "add ']' at the end"),
        ("f a=1)", "nothing opens ')', character 6", "remove it"),
        ("f(a=1])", "nothing opens ']', character 6", "remove it"),
    ],
)
def test_a_bracket_without_its_other_half(text: str, problem: str, fix: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(text, "star(hosts=9)")
    assert str(error.value) == f"cannot read {text!r}: {problem}\n  fix: {fix}, as in star(hosts=9)"
