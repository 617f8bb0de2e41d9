from __future__ import annotations

from typing import Any

import pytest

from testbed.base.errors import HostError
from testbed.lab.machines.controller.answers import MACHINES
from testbed.lab.machines.controller.nics import Nics


class Counting:
    """A fleet of two machines whose NICs have counted so."""

    def __init__(self, *rows: list[tuple[int, int, int]]) -> None:
        self._rows = list(rows)

    def ask_each(self, _: Any) -> list[tuple[int, int, int]]:
        return self._rows.pop(0)


def test_the_busiest_interval_of_the_last_trial_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics()
    nics._names, nics._rates_bps = ["eth1", "eth1"], [1000.0, 2000.0]
    fleet: Any = Counting(
        [(0, 0, 7), (0, 0, 0)],  # before a trial
        [(900, 0, 7), (0, 900, 0)],
        [(1000, 10, 7), (10, 1000, 0)],  # after it
        [(1000, 200, 9), (200, 1000, 0)],  # and after the next one
    )
    moments = iter((0.0, 1.0, 3.0, 5.0))
    monkeypatch.setattr("testbed.lab.machines.controller.nics.time.monotonic", lambda: next(moments))
    for ends in (True, False, True):
        nics.read(fleet, ends=ends)
    first, second = nics.used(["node1", "node2"], [500.0, 600.0])
    assert first == {
        "machine": "node1",
        "nic": "eth1",
        "rate_bps": 1000.0,
        "most_bps": 500.0,
        "peak_bps": 7200.0,
        "dropped": 0,
    }
    assert (second["peak_bps"], second["dropped"]) == (7200.0, 0)
    nics.read(fleet, ends=True)
    first, _ = nics.used(["node1", "node2"], [500.0, 600.0])
    assert (first["peak_bps"], first["dropped"]) == (8 * 190 / 2, 2)


SHAPE = {"directed_links": 6, "rate_bps": 10**8, "qdisc": "htb"}
WRONG: list[tuple[str, Any]] = [
    ("up", {"mtu": 1500}),
    ("up", {"mtu": 1500, "shapes": [{"directed_links": -1}]}),
    ("up", {"mtu": 1500, "shapes": [], "deep": [[[[[[[[[[1]]]]]]]]]]}),
    ("up", {"mtu": 1500, "shapes": [], "long": [0] * 20_000}),
    ("open", {"address": "10.0.0.1", "mtu": 1500, "way": "magic"}),
    ("spot_check", {"links": 1, "cost_s": -1.0, "differs": []}),
    ("counters", [[0, 1, 2, 3]]),
    ("nic", [1, 2]),
    ("said", [[0, {"qdiscs": ""}]]),
    ("calibrate", {"pings": 11, "round_trips_s": [[-1.0]], "rates_bps": []}),
    ("down", 1),
]


@pytest.mark.parametrize(("do", "value"), WRONG)
def test_what_no_machine_answers_is_refused(do: str, value: Any) -> None:
    with pytest.raises(HostError, match=f"it answers '{do}'"):
        MACHINES.result(do, value)


def test_texts_of_a_machine_may_be_shown_on_a_terminal() -> None:
    found = MACHINES.result("up", {"mtu": 1500, "shapes": [SHAPE], "sysctls": {"\x1b[2Jname": {"a\x07": 1}}})
    assert found == {"mtu": 1500, "shapes": [SHAPE], "sysctls": {"\\x1b[2Jname": {"a\\x07": 1}}}
