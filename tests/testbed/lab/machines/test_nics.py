from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from testbed.base.errors import HostError
from testbed.lab.machines.controller.answers import MACHINES
from testbed.lab.machines.controller.nics import Nics
from testbed.lab.machines.on_machine.requests import Beats
from testbed.lab.measurements import Interruption


class Counting:
    """A fleet of two machines whose NICs have counted so, and that heard these numbers of each other."""

    def __init__(
        self, rows: Sequence[Sequence[tuple[int, int, int]]], heard: Sequence[tuple[list[int], list[int]]] = ()
    ) -> None:
        self._rows = list(rows)
        self._heard = list(heard) or [([], [])] * len(rows)

    def ask_each(self, _: Any) -> list[dict[str, Any]]:
        by = zip(self._rows.pop(0), self._heard.pop(0), reversed(ADDRESSES), strict=True)
        return [{"counts": counts, "heard": {other: heard}} for counts, heard, other in by]


ADDRESSES = ("10.0.0.1", "10.0.0.2")


def read(monkeypatch: pytest.MonkeyPatch, fleet: Any, moments: Sequence[float], begin: Sequence[bool] = ()) -> Nics:
    """NICs of two machines after readings at these moments; a trial begins with the first one, and as ``begin`` says
    with others."""
    nics, times = Nics(), iter(moments)
    nics._names, nics._rates_bps = ["eth1", "eth1"], [1000.0, 2000.0]
    nics._ends = [(address, 7) for address in ADDRESSES]
    nics.allow([500.0, 600.0])
    monkeypatch.setattr("testbed.lab.machines.controller.nics.time.monotonic", lambda: next(times))
    for number in range(len(moments)):
        begins = not number or (number < len(begin) and begin[number])
        (nics.begin if begins else nics.read)(fleet)
    return nics


ROWS = [
    [(0, 0, 7), (0, 0, 0)],  # before a trial
    [(900, 0, 7), (0, 900, 0)],
    [(1000, 10, 7), (10, 1000, 0)],  # after it
    [(1000, 200, 9), (200, 1000, 0)],  # and after the next one
]


def test_the_busiest_interval_of_the_trial_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = [([], []), ([1], [1]), ([2], [2])]
    nics = read(monkeypatch, Counting(ROWS[:3], heard), (0.0, 1.0, 3.0))
    first, second = nics.used(["node1", "node2"])
    assert first == {
        "machine": "node1",
        "nic": "eth1",
        "rate_bps": 1000.0,
        "most_bps": 500.0,
        "peak_bps": 7200.0,
        "dropped": 0,
    }
    assert (second["peak_bps"], second["dropped"]) == (7200.0, 0)


def test_what_was_before_the_trial_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = read(monkeypatch, Counting(ROWS), (0.0, 1.0, 3.0, 5.0), (True, False, True, False))
    first, _ = nics.used(["node1", "node2"])
    assert (first["peak_bps"], first["dropped"]) == (8 * 190 / 2, 2)


def test_links_count_with_the_rates_with_which_they_could_use_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = read(monkeypatch, Counting(ROWS[:1]), (0.0,))
    nics.allow([900.0, 600.0])
    nics.allow([700.0, 300.0])
    assert [one["most_bps"] for one in nics.used(["node1", "node2"])] == [900.0, 600.0]
    monkeypatch.undo()
    nics.begin(Counting(ROWS[:1]))
    assert [one["most_bps"] for one in nics.used(["node1", "node2"])] == [700.0, 300.0], "the next trial has the last"


CUTS: dict[str, tuple[list[tuple[list[int], list[int]]], list[tuple[float, float]]]] = {
    "all came, early or late": ([([], []), ([1, 2], [1]), ([], [2]), ([3, 4], [3]), ([], [4])], []),
    "two in a row did not come to the first": (
        [([], []), ([1], [1]), ([], [2]), ([4], [3]), ([], [4])],
        [(0.0, 3.0)],
    ),
    "a second time comes after what came": (
        [([], []), ([2], [1]), ([], [2]), ([], [3]), ([], [4])],
        [(0.0, 1.0), (1.0, 3.5)],
    ),
    "too short a time": ([([], []), ([1], [1]), ([2], [2]), ([3], []), ([], [4])], []),
    "the last may be on its way": ([([], []), ([1], [1]), ([2], [2]), ([3], [3]), ([4], [4])], []),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_time_in_which_nothing_came_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    heard, cuts = CUTS[name]
    moments = (10.0, 11.0, 12.0, 13.0, 13.5) if cuts else (10.0, 10.9, 11.4, 11.8, 12.2)
    fleet = Counting([ROWS[0]] * 5, heard)
    nothing = "nothing came to node1 from node2"
    found = read(monkeypatch, fleet, moments).interruptions(["node1", "node2"])
    assert found == [Interruption(nothing, 10.0 + since_s, 10.0 + until_s) for since_s, until_s in cuts]


def test_beats_tell_which_numbers_came() -> None:
    here, there = Beats("127.0.0.1"), Beats("127.0.0.1")
    for number in (3, 4):
        here.send(number, [("127.0.0.1", there.port), ("127.0.0.1", 1)])
    assert there.heard() == {"127.0.0.1": [3, 4]}
    assert there.heard() == {}


SHAPE = {"directed_links": 6, "rate_bps": 10**8, "qdisc": "htb"}
IMPAIRMENT = {"directed_links": 2, "delay_s": 0.005, "jitter_s": 0.0, "loss": 0.01, "reorder": 0.0}
TOLD = {"mtu": 1500, "shapes": [SHAPE], "impairments": [IMPAIRMENT]}
WRONG: list[tuple[str, Any]] = [
    ("up", {"mtu": 1500}),
    ("up", {**TOLD, "shapes": [{"directed_links": -1}]}),
    ("impair", {**TOLD, "impairments": [{"directed_links": 1, "delay_s": "long"}]}),
    ("up", {**TOLD, "deep": [[[[[[[[[[1]]]]]]]]]]}),
    ("up", {**TOLD, "long": [0] * 20_000}),
    ("open", {"address": "10.0.0.1", "mtu": 1500, "way": "magic", "port": 7}),
    ("spot_check", {"links": 1, "cost_s": -1.0, "differs": []}),
    ("counters", [[0, 1, 2, 3]]),
    ("nic", {"counts": [1, 2], "heard": {}}),
    ("nic", {"counts": [1, 2, 3], "heard": {"10.0.0.1" * 50: [1]}}),
    ("nic", {"counts": [1, 2, 3], "heard": {"10.0.0.1": list(range(2000))}}),
    ("nic", {"counts": [1, 2, 3], "heard": {f"10.0.{n // 250}.{n % 250}": [] for n in range(2000)}}),
    ("open", {"address": "10.0.0.1", "mtu": 1500, "way": None, "port": 70_000}),
    ("said", [[0, {"qdiscs": ""}]]),
    ("calibrate", {"pings": 11, "round_trips_s": [[-1.0]], "rates_bps": []}),
    ("down", 1),
]


@pytest.mark.parametrize(("do", "value"), WRONG)
def test_what_no_machine_answers_is_refused(do: str, value: Any) -> None:
    with pytest.raises(HostError, match=f"it answers '{do}'"):
        MACHINES.result(do, value)


def test_texts_of_a_machine_may_be_shown_on_a_terminal() -> None:
    found = MACHINES.result("up", {**TOLD, "sysctls": {"\x1b[2Jname": {"a\x07": 1}}})
    assert found == {**TOLD, "sysctls": {"\\x1b[2Jname": {"a\\x07": 1}}}
