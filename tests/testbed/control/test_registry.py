"""Controllers that take turns in a thread: when each is asked, and what becomes of one that fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from testbed.base.errors import MissingToolError, SpecError, TrialError, WorkerError
from testbed.control import registry
from testbed.control.feed import Feed
from testbed.control.registry import Beside, Context, begun, of_kind
from testbed.workloads.kinds.base import Kind
from testbed.workloads.kinds.parts import Control
from tests.patience import until


class Counting:
    """Wants to be asked again after ``wait_s``, so many times."""

    is_urgent = False

    def __init__(self, wait_s: float, times: int) -> None:
        self._wait_s, self._times = wait_s, times
        self.asked_s: list[float] = []

    def look(self, _: Feed) -> float:
        self.asked_s.append(time.monotonic())
        return self._wait_s if len(self.asked_s) < self._times else math.inf


class Failing:
    is_urgent = False

    def __init__(self, error: Exception) -> None:
        self._error = error

    def look(self, _: Feed) -> float:
        raise self._error


def test_each_is_asked_when_it_wants() -> None:
    never, often, seldom = Counting(0.0, 1), Counting(0.001, 50), Counting(0.1, 3)
    with Beside(Feed({}), [never, seldom, often]) as beside:
        until(lambda: (len(often.asked_s), len(seldom.asked_s)) == (50, 3))
        until(lambda: not beside._thread._thread.is_alive())  # nobody wants to be asked again
    assert len(never.asked_s) == 1
    between = [later - one for one, later in zip(seldom.asked_s, seldom.asked_s[1:], strict=False)]
    assert all(wait_s >= 0.1 for wait_s in between)


class Scheduled:
    """Tells how it is scheduled while it looks."""

    def __init__(self, *, is_urgent: bool) -> None:
        self.is_urgent = is_urgent
        self.seen: list[bool] = []

    def look(self, _: Feed) -> float:
        self.seen.append(registry.urgent.entered)  # type: ignore[attr-defined]
        return math.inf


def test_only_who_says_so_comes_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched:
        entered = False

        def __enter__(self) -> None:
            Watched.entered = True

        def __exit__(self, *_: object) -> None:
            Watched.entered = False

    monkeypatch.setattr(registry, "urgent", Watched)
    one, other = Scheduled(is_urgent=True), Scheduled(is_urgent=False)
    with Beside(Feed({}), [one, other]):
        until(lambda: one.seen and other.seen)
    assert (one.seen, other.seen) == ([True], [False])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (WorkerError("h1 is lost", fix="find it"), "h1 is lost\n  fix: find it"),
        (SpecError("no ring", fix="give one"), "the controller Failing failed: no ring\n  fix: give one"),
        (KeyError("x"), r"the controller Failing failed: KeyError: 'x' \(test_registry.py, line \d+\)\n  fix: mend"),
    ],
)
def test_the_waiting_thread_raises_the_error_of_one_that_fails(error: Exception, told: str) -> None:
    feed = Feed({"h0": None})
    with pytest.raises(TrialError, match=f"^{told}"), Beside(feed, [Failing(error)]):
        until(lambda: feed.note([]))


def test_one_that_fails_at_the_very_end_is_told_too() -> None:
    feed = Feed({})
    with pytest.raises(TrialError, match="the controller Failing failed"), Beside(feed, [Failing(OSError())]):
        until(lambda: feed._error)


class Declaring(Kind):
    name = "declaring"
    control = Control(("one", "other"))


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a package add these controllers."""
    return lambda **makers: monkeypatch.setattr(registry, "plugged", {"controllers": makers}.__getitem__)


NOTHING = Context(None, None, None, None)  # type: ignore[arg-type]


def test_a_kind_names_its_controllers_and_those_with_an_end_are_ended(plug: Callable[..., None]) -> None:
    ended: list[str] = []

    class Ending(Counting):
        def __enter__(self) -> None:
            ended.append("not yet")

        def __exit__(self, *error: object) -> None:
            ended.append("now")

    plug(unasked=Failing, other=lambda _: Ending(1.0, 1), one=lambda _: Counting(1.0, 1))
    with begun([Declaring()], NOTHING) as found:
        assert [type(one) for one in found] == [Counting, Ending]
        assert ended == ["not yet"]
    assert ended == ["not yet", "now"]
    with begun([Kind()], NOTHING) as found:
        assert found == []


def test_a_controller_that_nobody_adds_or_that_cannot_be_made_is_named(plug: Callable[..., None]) -> None:
    plug(one=lambda _: Counting(1.0, 1))
    with pytest.raises(MissingToolError, match="the kind of trial declaring needs the controller 'other', and no inst"):
        of_kind(Declaring())

    def broken(_: Context) -> Counting:
        raise ValueError("five")

    plug(one=lambda _: Counting(1.0, 1), other=broken)
    with (
        pytest.raises(TrialError, match="the controller other failed: ValueError: five"),
        begun([Declaring()], NOTHING),
    ):
        pass


@pytest.mark.parametrize("told", [None, math.nan, "soon"])
def test_a_controller_whose_answer_is_no_time_fails_the_trial(told: Any) -> None:
    class Wrong:
        is_urgent = False

        def look(self, _: Feed) -> float:
            return told

    feed = Feed({})
    problem = "the controller Wrong failed: ValueError: look.. gave"
    with pytest.raises(TrialError, match=problem), Beside(feed, [Wrong()]):
        until(lambda: feed._error)
