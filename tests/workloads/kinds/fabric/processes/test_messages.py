"""Notes come back as they were sent, and what is no note is refused."""

from __future__ import annotations

from typing import get_args

import pytest

from workloads.kinds.fabric.processes.messages import End, Gather, Give, Note, Order, Send, Weights, decode, encode

NOTES = [
    Send(7, 3, 0.25, 1e8, -1),
    Gather(2, (7, 9), ((1.5, 0.5), (1.0, 1.0)), 8),
    Order((), (), ()),
    Give((((1, 0.5, 0.0), ((2, 0.0, 1e6), (3, 0.1, 1e6))),), ((1, 0.0, True), (2, 1.5, False))),
    Weights(9, 4, 3, ((7, 0), (9, 2)), ((1, 0.0, True),), ((2, 0.0, 0.0),)),
    End(),
]


@pytest.mark.parametrize("note", NOTES, ids=lambda note: type(note).__name__)
def test_a_note_comes_back_as_it_was(note: Note) -> None:
    assert decode(encode(note)) == note


def test_each_type_has_a_name_of_its_own() -> None:
    names = [one.__name__ for one in get_args(Note)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "told", [b"", b"{}", b"[]", b'["Send",1]', b'["Nothing"]', b'["End",0]', b"\xff", b"[[]]", b"1"]
)
def test_what_is_no_note_is_refused(told: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(told)
