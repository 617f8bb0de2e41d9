from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from testbed.base.errors import HostError, LabError
from testbed.lab.baremetal.controller.connection import Clock
from testbed.lab.machines.controller import measuring
from testbed.lab.machines.controller.answers import MACHINES
from testbed.lab.measurements import Waited

ROWS_TOLD = 2
"""Rows of an answer in these tests."""


class Machine:
    """A machine that has read these rows, whose clock is this much (s) behind ours."""

    def __init__(self, name: str, behind_s: float, rows: Sequence[Waited], *, problem: str | None = None) -> None:
        self.name, self.clock, self._rows = name, Clock(), rows
        self.told = {"rows": len(rows), "readings": 10 + len(rows), "cost_s": 0.5, "problem": problem}
        self.clock.add(behind_s, 0.0, behind_s)

    def ask(self, call: Any) -> list[list[float]]:
        assert call.name == "waited"
        first = call.arguments["first"]
        return [list(row) for row in self._rows[first : first + ROWS_TOLD]]

    @contextmanager
    def named(self) -> Iterator[None]:
        try:
            yield
        except HostError as error:
            raise LabError(f"{self.name}: {error}") from None


class Machines:
    """A fleet of such machines."""

    def __init__(self, *connections: Machine) -> None:
        self.connections = connections

    def ask(self, call: Any) -> list[dict[str, Any]]:
        assert call.name == "queues"
        return [one.told for one in self.connections]


def row(link: int, start_s: float) -> Waited:
    return Waited(link, start_s, 0.25, 1500, 750.0, 0.0, 1, 0)


def read(monkeypatch: pytest.MonkeyPatch, *machines: Machine) -> Any:
    """Readings of two machines, of which the first has the links 0 and 1, and the second the others."""
    monkeypatch.setattr(measuring, "ROWS_TOLD", ROWS_TOLD)
    fleet: Any = Machines(*machines)
    return measuring.queues(fleet, [frozenset({0, 1}), frozenset({2, 3})])


def test_readings_of_machines_are_joined_by_our_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [row(0, 1.0), row(0, 3.0), row(1, 3.0), row(0, 5.0), row(1, 7.0)]
    found = read(
        monkeypatch, Machine("node1", 100.0, first), Machine("node2", 50.0, [row(2, 52.0)], problem="no memory")
    )
    assert [(one.directed_link, one.start_s) for one in found.windows] == [
        (0, 101.0),
        (2, 102.0),
        (0, 103.0),
        (1, 103.0),
        (0, 105.0),
        (1, 107.0),
    ]
    assert {one[2:] for one in found.windows} == {row(0, 0.0)[2:]}
    assert (found.readings, found.cost_s, found.problem) == (11, 1.0, "node2: no memory")


def test_machines_in_which_nothing_waited_have_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, Machine("node1", 0.0, []), Machine("node2", 0.0, []))
    assert (found.windows, found.readings, found.problem) == ((), 10, None)


@pytest.mark.parametrize(
    ("more", "problem"), [(0, "node2: it tells of the queue of link 1"), (1, "node2: it says 1 rows of queues")]
)
def test_a_machine_tells_of_its_own_links_and_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, more: int, problem: str
) -> None:
    second = Machine("node2", 0.0, [row(1, 1.0)])
    second.told["rows"] += more
    with pytest.raises(LabError, match=problem):
        read(monkeypatch, Machine("node1", 0.0, []), second)


@pytest.mark.parametrize("value", [[0, 1.0, -1.0, 0, 0.0, 0.0, 0, 0], [0, 1.0, 1.0, 0, 0.0, 1.5, 0, 0], [0, 1.0], "x"])
def test_rows_are_checked_before_they_are_used(value: Any) -> None:
    assert MACHINES.result("waited", [list(row(0, -5.0))]) == [tuple(row(0, -5.0))]
    with pytest.raises(HostError, match="it answers 'waited'"):
        MACHINES.result("waited", [value])
