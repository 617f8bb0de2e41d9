"""Notes come back as they were sent, and what is no note is refused."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from testbed.workloads.kinds.fabric.processes.messages import (
    MOST_VALUES,
    Arrived,
    End,
    Gather,
    Give,
    Nears,
    Note,
    Order,
    Pass,
    Send,
    Weights,
    decode,
    encode,
)
from testbed.workloads.serving.exchange import LONGEST_BYTES

NOTES = [
    Send(7, 3, 0.25, 1e8, -1),
    Gather(2, (7, 9), ((1.5, 0.5), (1.0, 1.0)), 8),
    Order((), (), ()),
    Give((((1, 0.5, 0.0), (2, 3)),), ((1, 0.0, True), (2, 1.5, False)), 7.5),
    Pass(2, 0.5, 1e6),
    Arrived((7, 9), 3, 0, 1.25),
    Nears((7, 9), 3, 0.02, 0, 1.25),
    Weights(9, 4, 3, ((7, 0), (9, 2)), ((1, 0.0, True),), (2,)),
    End(),
]


@pytest.mark.parametrize("note", NOTES, ids=lambda note: type(note).__name__)
def test_a_note_comes_back_as_it_was(note: Note) -> None:
    assert decode(encode(note)) == note


def test_each_type_has_a_name_of_its_own() -> None:
    names = [one.__name__ for one in get_args(Note)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "told", [b"", b"{}", b"[]", b'["Send",1]', b'["Nothing"]', b'["End",0]', b"\xff", b"[[]]", b"1", b"[" * 10**5]
)
def test_what_is_no_note_is_refused(told: bytes) -> None:
    with pytest.raises(ValueError, match=r"no note|JSON|Expecting|codec|nested"):
        decode(told)


def test_a_note_of_millions_of_values_is_refused_before_any_is_made() -> None:
    """It took 429 MiB and 20 s."""
    told = b"[" + b"[]," * (LONGEST_BYTES // 3 - 1) + b"[]]"
    tracemalloc.start()
    began_s = time.process_time()
    with pytest.raises(ValueError, match=f"more than {MOST_VALUES:,} values"):
        decode(told)
    assert time.process_time() - began_s < 2
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="is no finite number"):
        decode(f'["Push",1,2,{number}]'.encode())


WRONG = {
    '["Held","7",0]': "a note Held whose count is '7', no int",
    '["Held",true,0]': "a note Held whose count is True, no int",
    '["Held",7.0,0]': "a note Held whose count is 7.0, no int",
    f'["Held",{2**63},0]': f"{2**63} is no finite number below 2\\^63",
    '["Push",1,2,null]': "a note Push whose norm is None, no float",
    '["Push",1,2,[]]': r"a note Push whose norm is \[\], no float",
    '["Order",1,[],[]]': "a note Order whose updates is 1, no list",
    '["Order",[[1]],[],[]]': r"a note Order whose updates is \[1\], no int",
    '["Decided",[[1]],0]': r"a note Decided whose entries is \[1\], no list of 2",
    '["Give",[],[[1,0.5,1]],null]': "a note Give whose recipients is 1, no bool",
}


@pytest.mark.parametrize("told", WRONG)
def test_a_field_of_another_type_is_named(told: str) -> None:
    with pytest.raises(ValueError, match=WRONG[told]):
        decode(told.encode())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.dictionaries(st.text(), st.none()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(note=st.sampled_from(NOTES), data=st.data())
@settings(max_examples=25)
def test_whatever_stands_in_a_field_is_of_its_type_or_refused(note: Note, data: st.DataObject) -> None:
    """A part of a note, however deep, is replaced by something else."""
    told = json.loads(encode(note))
    place = told
    at = data.draw(st.integers(0, len(place) - 1))
    while isinstance(place[at], list) and place[at] and data.draw(st.booleans()):
        place = place[at]
        at = data.draw(st.integers(0, len(place) - 1))
    place[at] = data.draw(JSON)
    try:
        found = decode(json.dumps(told).encode())
    except ValueError:
        return
    for field, kind in get_type_hints(type(found)).items():
        TypeAdapter(kind).validate_python(getattr(found, field), strict=True)
