"""``testbed spec``: every key, a part of them, and what was probably meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from testbed.base.errors import UsageError
from testbed.spec.lookup import shown
from testbed.spec.perturb import NAMED

from ..conftest import Called


def titles(asked: str) -> list[str]:
    return [one.title.replace("`", "") for one in shown(asked)]


def test_all_of_it_has_every_named_setting() -> None:
    text = "\n".join(map(str, shown()))
    assert all(f"{name} is {{" in text for name in NAMED)
    assert (
        "links.rate\n  takes a rate in bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s. Default: none, it is required." in text
    )


def test_a_part_is_shown_with_what_is_below_it() -> None:
    assert titles("workload.compute") == [
        "workload.compute",
        "workload.compute of kind train",
        "workload.compute of kind profile",
        "workload.compute of kind lda",
    ]
    (mode, played, sampled) = shown("workload.compute.mode")[0].keys
    assert (mode.default, played.default, sampled.default) == ("`real`", "`paced`", "`real`")
    assert titles("arms.0.scheme") == ["arms.scheme"]
    assert titles("perturb.straggle") == ["perturb, kind straggle"]
    assert titles("C2") == ["C2 of perturb"]
    assert titles("perturb")[-1] == "Named settings of perturb"
    assert titles("docker") == ["docker", "docker"]


def test_a_key_that_kinds_mean_differently_says_of_which_kind() -> None:
    text = str(shown("workload.compute.mode")[0])
    assert text.count("workload.compute.mode\n") == text.count("\n  Of kind ") == 3
    assert "  Of kind train: real: the processor's own time." in text
    assert "Of kind" not in str(shown("links.mtu")[0])
    assert "  Of kind trace: Each host plays a rank of an execution trace" in str(shown("workload.kind")[0])


def test_words_for_types_are_those_of_people() -> None:
    text = "\n".join(map(str, shown()))
    assert "a length of" not in text
    assert "a scheme, at least" not in text
    assert "mean_on\n  takes a time in s, ms, us or min, at least 50 ms. Default" in text
    assert "arms.label\n  takes text, at most 80 characters.\n" in text
    assert "workload.compute.pace\n  takes a mapping from a whole number to a time in s, ms, us or min. Default" in text
    assert "links.ecn\n  takes a group of keys (testbed spec links.ecn). Example: true.\n" in text


def test_a_default_is_said_once() -> None:
    """Not "Default: nothing" before a text that says what happens without the key."""
    every = [key for section in shown() for key in section.keys]
    said = [key for key in every if re.search(r"\b(The|By) default", key.text)]
    assert len(said) > 50
    assert not [key.name for key in said if key.default in ("nothing", "the defaults of its keys")]
    assert [key.text for key in every if not key.default and key not in said] == []


@pytest.mark.parametrize(
    ("asked", "fix"),
    [
        ("links.ratee", "did you mean links.rate or links.reorder?"),
        ("links.speed", "testbed spec links lists the keys there"),
        ("links.batch", "did you mean workload.batch or arms.jobs.batch?"),
        ("LINKS", "did you mean links?"),
        ("queue", "did you mean links.queue or perturb.queue?"),
        ("compute", "did you mean workload.compute?"),
        ("warmpu", "did you mean workload.warmup?"),
        ("links.rate.unit", "did you mean links.rate?"),
        ("xyzzy", "testbed spec lists all keys"),
    ],
)
def test_what_there_is_not_is_answered_with_what_is_near(asked: str, fix: str) -> None:
    with pytest.raises(UsageError) as error:
        shown(asked)
    assert (error.value.problem, error.value.fix) == (f"a spec has no key {asked}", fix)


def test_the_command_shows_it(testbed: Callable[..., Called]) -> None:
    assert testbed("spec", "links.mtu").out.startswith("links.mtu\n  takes a whole number, at least 576")
    (mtu,) = json.loads(testbed("spec", "links.mtu", "--json").out)
    assert (mtu["key"], mtu["default"]) == ("links.mtu", "`1500`")
    assert json.loads(testbed("spec", "--json-schema").out)["title"] == "A spec of testbed"
    assert testbed("spec", "links", "--json-schema").code == 2


def test_a_key_that_some_kinds_have_says_which() -> None:
    (only,) = shown("workload.pace")
    assert only.keys[0].text.startswith("Of kind command: In arms with a scheme")
    texts = [key.text for key in shown("perturb.at")[0].keys]
    assert texts[0].startswith("Of kind hog, rate, queue, impair, down, background and freeze: ")
    (seed,) = shown("seed")
    assert not seed.keys[0].text.startswith("Of kind")


def test_a_moment_is_one_value_and_has_no_keys() -> None:
    assert [key.name for part in shown("perturb.at") for key in part.keys] == ["at"] * 3
    with pytest.raises(UsageError):
        shown("perturb.at.time_s")
