"""What a lab says of itself without being opened."""

from __future__ import annotations

import pytest

from testbed.base.errors import MissingToolError, SpecError
from testbed.lab.limits import HTB, Limits
from testbed.lab.place import DeclaredPlace, Prerequisite
from testbed.topologies.build import build


def test_a_lab_that_asks_for_nothing_is_ready() -> None:
    assert DeclaredPlace("mine").checks() == [Prerequisite("lab mine", True, "--backend mine: ready")]


def test_what_a_lab_lacks_is_told_with_the_option_that_chooses_it() -> None:
    class Lacking(DeclaredPlace):
        def check(self) -> None:
            raise MissingToolError("no cables", fix="buy some")

    told = Prerequisite("lab mine", False, "--inventory FILE: no cables", "buy some")
    assert Lacking("mine", takes_inventory=True).checks() == [told]


def test_a_lab_leaves_nothing_unless_it_says_so() -> None:
    assert DeclaredPlace("mine").leftovers() == ([], [])


@pytest.mark.parametrize("rate_bps", [9_999, 34_000_000_001])
def test_rates_have_limits(rate_bps: int) -> None:
    with pytest.raises(SpecError, match=r"cannot be emulated; the kernel's HTB does 10 kbit/s to 34 Gbit/s"):
        HTB.check_rate(rate_bps)
    HTB.check_rate(HTB.slowest_bps)
    HTB.check_rate(HTB.fastest_bps)


def test_networks_are_held_against_both() -> None:
    small = Limits("a toy", slowest_bps=1, fastest_bps=10**9, most_hosts=3, most_links=3)
    small.check(build("star(hosts=3)", rate_bps=10**9))
    for text, rate_bps, problem in (("star(hosts=4)", 1, "has 4 hosts"), ("star(hosts=3)", 2 * 10**9, "2 Gbit/s")):
        with pytest.raises(SpecError, match=problem):
            small.check(build(text, rate_bps=rate_bps))


def test_sizes_have_limits() -> None:
    small = Limits("a toy", slowest_bps=1, fastest_bps=10**9, most_hosts=3, most_links=3)
    small.check_size(build("star(hosts=3)", rate_bps=10**6))
    with pytest.raises(SpecError, match=r"star\(hosts=4\) has 4 hosts; a lab holds at most 3"):
        small.check_size(build("star(hosts=4)", rate_bps=10**6))
