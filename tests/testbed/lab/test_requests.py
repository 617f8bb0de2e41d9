"""What can be asked for over a connection: marked methods, with arguments of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.on_hosts import host_requests
from testbed.lab.docker import inside
from testbed.lab.requests import Call, RequestError, Requests, request


class Desk:
    def __init__(self) -> None:
        self.done: list[Any] = []

    @request
    def note(self, number: int, share: float = 0.0, words: Sequence[str] = (), on: bool | None = None) -> int:
        self.done.append((number, share, words, on))
        return len(self.done)

    @request
    def put(self, files: Mapping[str, Sequence[int]], rest: Any) -> None:
        self.done.append((files, rest))

    @request
    def keep(self, name: str, files: Sequence[int]) -> None:
        self.done.append((name, files))

    def secret(self) -> None:
        raise AssertionError("nobody may ask for this")


DESK = Requests(Desk)


def test_a_request_is_done_with_its_arguments() -> None:
    desk = Desk()
    assert DESK.find(desk, "note", [3, 1, ["a"]])() == 1
    assert DESK.find(desk, "note", named={"number": 4, "on": True})() == 2
    DESK.find(desk, "put", [{"a": [1, 2]}, object])()
    DESK.find(desk, "keep", [], {"name": "b"}, files=[7, 8])()
    assert desk.done == [(3, 1, ["a"], None), (4, 0.0, (), True), ({"a": [1, 2]}, object), ("b", [7, 8])]


def test_called_on_the_class_it_makes_what_is_sent() -> None:
    assert Desk.note(3, words=["a"]) == Call("note", {"number": 3, "words": ["a"]})
    assert Desk.keep("b", files=[7, 8]) == Desk.keep("b", [7, 8]) == Call("keep", {"name": "b"}, (7, 8))
    assert Desk().note(3) == 1, "an object's method it remains"
    with pytest.raises(TypeError, match="too many"):
        Desk.note(*range(9))  # type: ignore[arg-type]


def test_the_arguments_of_who_is_trusted_are_taken_as_they_are() -> None:
    class Odd:
        @request
        def take(self, thing: Desk) -> Desk:
            return thing

    desk = Desk()
    assert Requests(Odd, trusted=True).find(Odd(), "take", [desk])() is desk
    with pytest.raises(RequestError, match="there is no request 'serve'"):
        Requests(Odd, trusted=True).find(Odd(), "serve")


@pytest.mark.parametrize("name", ["secret", "__init__", "done", "", None, ["note"], "Note"])
def test_nothing_else_can_be_asked_for(name: object) -> None:
    with pytest.raises(RequestError, match="there is no request"):
        DESK.find(Desk(), name, [1])


@pytest.mark.parametrize(
    ("name", "arguments", "named", "problem"),
    [
        ("note", [], {}, "note: missing a required argument: 'number'"),
        ("note", [1], {"number": 2}, "note: multiple values for argument 'number'"),
        ("note", [1], {"self": 2}, "note: multiple values for argument 'self'"),
        ("note", [1], {"others": 2}, "note: got an unexpected keyword argument 'others'"),
        ("note", ["1"], {}, "note: number is '1', no int"),
        ("note", [True], {}, "note: number is True, no int"),
        ("note", [1, "x"], {}, "note: share is 'x', no float"),
        ("note", [1, 0.5, "words"], {}, "note: words is 'words', no "),
        ("note", [1, 0.5, ["a", 1]], {}, "note: words is .*, no "),
        ("note", [1], {"on": 1}, "note: on is 1, no "),
        ("put", [{"a": ["x"]}, None], {}, "put: files is .*, no "),
        ("put", [{1: [1]}, None], {}, "put: files is .*, no "),
        ("put", [[], None], {}, "put: files is .*, no "),
    ],
)
def test_arguments_of_other_types_reach_nothing(
    name: str, arguments: list[Any], named: dict[str, Any], problem: str
) -> None:
    desk = Desk()
    with pytest.raises(RequestError, match=problem):
        DESK.find(desk, name, arguments, named)
    assert desk.done == []


def test_a_type_that_nothing_can_be_held_against_is_refused_when_the_class_is_made() -> None:
    class Odd:
        @request
        def take(self, thing: Desk) -> None: ...

    with pytest.raises(TypeError, match="nothing can be held against"):
        Requests(Odd)


def test_the_requests_of_agents_and_containers_are_these() -> None:
    assert set(inside.REQUESTS) == {"run", "signal", "signal_all", "stopped", "end_all"}
    names = (
        "hello time prepare put launch start execute signal kill stopped shape shaped verify said receive send adjust "
        "signal_worker counters traffic cpu_s written read_written undo watch echo ping leave"
    )
    assert set(host_requests.REQUESTS) == set(names.split())
    assert set(host_requests.REQUESTS) >= host_requests.AS_ROOT
    assert set(host_requests.REQUESTS) >= answers.RESULTS.keys()
