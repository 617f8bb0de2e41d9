"""What must be the same on both sides, and how a difference is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.analysis.comparing.conditions import NEEDED, check
from testbed.analysis.comparing.measured import SWEPT
from testbed.base.errors import IncomparableError, OutputError, UsageError

from ..sides import CONDITIONS, RING, about, side

ARMS = [("ring", "ring")]
BASE = side("a", {RING: about(0.2)})


def test_the_same_conditions_differ_in_nothing() -> None:
    assert check(BASE, side("b", {RING: about(0.2)}), ARMS, []) == []


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_every_condition_is_looked_at(name: str) -> None:
    new = replace(BASE, name="b", conditions={**CONDITIONS, name: "another"})
    with pytest.raises(IncomparableError, match=r"the conditions of .* differ") as error:
        check(BASE, new, ARMS, [])
    shown = name.removesuffix("_bps").removesuffix("_s")
    before = {"links.delay_s": "0 s", "links.rate_bps": "200 Mbit/s"}.get(name, CONDITIONS[name])
    assert f"\n  {shown}: {before} in a, another in b" in error.value.problem
    assert (error.value.fix or "").endswith(f"--allow {shown}")
    assert [one.name for one in check(BASE, new, ARMS, [shown])] == [shown]
    assert len(check(BASE, new, ARMS, [name.split(".")[0]])) == 1


def test_values_are_told_as_people_write_them_unless_they_look_the_same() -> None:
    for rate, told in (
        (190_000_000, "200 Mbit/s in a, 190 Mbit/s in b"),
        (200_000_001, "200000000 in a, 200000001 in b"),
    ):
        new = replace(BASE, name="b", conditions=CONDITIONS | {"links.rate_bps": rate})
        with pytest.raises(IncomparableError, match=told):
            check(BASE, new, ARMS, [])


def test_every_difference_is_named_at_once() -> None:
    new = replace(BASE, name="b", conditions=CONDITIONS | {"kernel": "7.0", "cpu.cores": 4, "python": "3.13.1"})
    with pytest.raises(IncomparableError) as error:
        check(BASE, new, ARMS, ["python"])
    assert (error.value.fix or "").endswith("--allow cpu.cores --allow kernel")


def test_another_quota_is_another_condition_but_not_one_that_only_a_newer_version_knows() -> None:
    none = {"limits.quota_cores": None, "limits.memory_bytes": None, "limits.processes": None}
    free = replace(BASE, conditions=CONDITIONS | none)
    half = replace(
        BASE, name="b", conditions=free.conditions | {"limits.quota_cores": 0.5, "limits.memory_bytes": 2**30}
    )
    with pytest.raises(IncomparableError) as error:
        check(free, half, ARMS, [])
    assert "limits.quota_cores: not set in a, 0.5 in b" in str(error.value)
    assert "limits.memory: not set in a, 1 GiB in b" in str(error.value)
    assert [one.name for one in check(free, half, ARMS, ["limits"])] == ["limits.memory", "limits.quota_cores"]
    assert check(BASE, half, ARMS, []) == []


def test_an_arm_on_another_topology_is_another_arm_but_another_scheme_is_what_is_compared() -> None:
    new = replace(BASE, name="b", arms={"ring": {"topology": "star(hosts=4)", "perturb": [], "scheme": "tree"}})
    with pytest.raises(IncomparableError, match=r"topology of arm ring: star\(hosts=3\) in a, star\(hosts=4\) in b"):
        check(BASE, new, ARMS, [])
    assert [one.name for one in check(BASE, new, ARMS, ["topology"])] == ["topology"]
    other = replace(new, arms={"PS": new.arms["ring"]})
    assert check(BASE, other, [("ring", "PS")], []) == []  # somebody asked for just these two


def test_what_only_one_side_knows_is_no_difference() -> None:
    new = replace(BASE, conditions=CONDITIONS | {"links.colour": "green"})
    assert check(BASE, new, ARMS, []) == check(new, BASE, ARMS, []) == []


def test_what_is_swept_may_differ_from_cell_to_cell_and_only_a_sweep_is_like_a_sweep() -> None:
    swept = replace(BASE, name="b", conditions=CONDITIONS | {"links.rate_bps": SWEPT})
    assert check(swept, swept, ARMS, []) == []
    with pytest.raises(IncomparableError, match=f"links.rate: 200 Mbit/s in {BASE.name}, swept in b\n"):
        check(BASE, swept, ARMS, [])


@pytest.mark.parametrize("name", NEEDED)
def test_a_side_must_say_what_matters_most(name: str) -> None:
    new = replace(BASE, name="b", conditions={key: value for key, value in CONDITIONS.items() if key != name})
    with pytest.raises(OutputError, match=f"b: damaged, does not say its {name}"):
        check(BASE, new, ARMS, [])


@pytest.mark.parametrize("name", ["kernal", "cp", "links.", ""])
def test_what_is_allowed_must_exist(name: str) -> None:
    with pytest.raises(UsageError, match=f"--allow {name}: there is no such condition"):
        check(BASE, BASE, ARMS, [name])


def test_links_that_differ_on_one_side_only_are_a_difference() -> None:
    new = replace(BASE, name="b", conditions=CONDITIONS | {"links.h0.rate_bps": 20_000_000})
    for one, other, told in ((BASE, new, "not set in a, 20 Mbit/s in b"), (new, BASE, "20 Mbit/s in b, not set in a")):
        with pytest.raises(IncomparableError, match=rf"links\.h0\.rate: {told}"):
            check(one, other, ARMS, [])
    assert [one.name for one in check(BASE, new, ARMS, ["links.h0"])] == ["links.h0.rate"]
