"""The one-line notation reads what it writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import SpecError
from topologies.call import Call, parse

NAMES = st.from_regex(r"[a-z_./:-]+", fullmatch=True)
KEYS = st.from_regex(r"[a-z_]\w*", fullmatch=True).filter(str.isascii)
VALUES = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["ecmp", "by_x"])
)


@given(name=NAMES, arguments=st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read_back(name: str, arguments: dict[str, int | float | bool | str]) -> None:
    call = Call(name, arguments)
    again = parse(str(call), "star(hosts=9)")
    assert again == call
    assert list(again.arguments) == list(arguments)
    assert [type(value) for value in again.arguments.values()] == [type(value) for value in arguments.values()]


def test_values_have_types() -> None:
    call = parse(" f ( a = 1, b=1.5,c=TRUE,d=word ) ", "star(hosts=9)")
    assert call == Call("f", {"a": 1, "b": 1.5, "c": True, "d": "word"})


def test_an_argument_given_twice() -> None:
    with pytest.raises(SpecError) as error:
        parse("star(hosts=3,hosts=4)", "star(hosts=9)")
    assert str(error.value) == "'hosts' is given twice in 'star(hosts=3,hosts=4)'\n  fix: give it once"


@pytest.mark.parametrize("text", ["", "a b", "f(", "f)", "f(a)", "f(a=1,)", "f(=1)", "f(a=1 2)", "f((a=1))"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"fix: write it as star\(hosts=9\)"):
        parse(text, "star(hosts=9)")
