"""``testbed schedule``: the paper's figures, what a batch may hold, and what a user reads after a mistake in one.

The texts are in golden/schedule/NAME.txt; set GOLDEN=write to write them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.api.schedule import schedule
from tests.shipped import BATCHES

from ..conftest import Called
from ..spec.test_bad_input import GOLDEN, check

BATCH = """\
topology: star(hosts=6)
links: {rate: 100 Mbit/s}
rates: {h0: {out: {0 s: 10 Mbit/s}}}
server: h5
aggregators: [h4]
replica: h3
delay_bound: 5
version: 10
divergence_bound: 9
updates:
  - {worker: h0, size: 12.5 MB, version: 7, norm: 2, ready: 0 s}
  - {worker: h1, size: 12.5 MB, version: 9, norm: 3}
"""
CHANGES: dict[str, tuple[str, str]] = {
    "unknown_key": ("delay_bound:", "delay_bnd:"),
    "unknown_key_of_an_update": ("norm: 3", "nrom: 3"),
    "update_without_size": ("size: 12.5 MB, version: 9, ", "version: 9, "),
    "updates_empty": (BATCH[BATCH.index("updates:") :], "updates: []\n"),
    "unknown_worker": ("worker: h1", "worker: h9"),
    "worker_is_a_switch": ("worker: h1", "worker: s0"),
    "unknown_server": ("server: h5", "server: h7"),
    "unknown_aggregator": ("[h4]", "[h44]"),
    "unknown_host_with_a_rate": ("{h0: {out", "{h8: {out"),
    "size_0": ("size: 12.5 MB, version: 9", "size: 0 MB, version: 9"),
    "size_nan": ("size: 12.5 MB, version: 9", "size: .nan, version: 9"),
    "size_without_unit": ("size: 12.5 MB, version: 9", "size: 12.5, version: 9"),
    "sizes_for_other_servers": ("size: 12.5 MB, version: 9", "size: [1 MB, 2 MB], version: 9"),
    "norm_nan": ("norm: 3", "norm: .nan"),
    "norm_missing": (", norm: 3", ""),
    "version_not_there_yet": ("version: 9", "version: 11"),
    "rate_above_the_links": ("{0 s: 10 Mbit/s}", "{0 s: 10 Mbit/s, 3 s: 200 Mbit/s}"),
    "rate_twice": ("{0 s: 10 Mbit/s}", "{1 s: 10 Mbit/s, 1000 ms: 20 Mbit/s}"),
    "rate_from_no_moment": ("{0 s: 10 Mbit/s}", "{soon: 10 Mbit/s}"),
    "rate_without_direction": ("{out: {0 s: 10 Mbit/s}}", "10 Mbit/s"),
    "delay_bound_0": ("delay_bound: 5", "delay_bound: 0"),
    "too_many_aggregators": ("[h4]", "[h4, h0, h1]"),
    "divergence_bound_without_replica": ("replica: h3\n", ""),
    "divergence_bound_0_without_replica": (
        "replica: h3\ndelay_bound: 5\nversion: 10\ndivergence_bound: 9",
        "version: 10\ndivergence_bound: 0",
    ),
    "divergence_bound_unreadable": ("divergence_bound: 9", "divergence_bound: 20 iterations"),
    "divergence_bound_of_no_updates": ("divergence_bound: 9", "divergence_bound: 0 updates"),
    "momentum_1": ("version: 10", "version: 10\nmomentum: 1"),
    "worker_twice": ("worker: h1", "worker: h0"),
    "worker_is_the_server": ("worker: h1", "worker: h5"),
    "server_among_aggregators": ("[h4]", "[h5]"),
    "aggregator_of_both": ("replica: h3", "replica: h3\nreplica_aggregators: h4"),
    "several_paths": ("star(hosts=6)", '"fat_tree(k=4,routing=ecmp)"'),
    "link_with_a_delay": ("100 Mbit/s}", "100 Mbit/s, h1: {delay: 5 ms}}"),
    "link_with_a_loss": ("100 Mbit/s}", "100 Mbit/s, loss: 1 %}"),
    "too_many_updates": (BATCH[BATCH.index("updates:") :], f"updates: [{'{},' * 5001}]\n"),
    "not_yaml": ("[h4]", "[h4"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_batch_with_a_mistake(name: str, testbed: Callable[..., Called], tmp_path: Path) -> None:
    old, new = CHANGES[name]
    assert old in BATCH
    (tmp_path / "batch.yaml").write_text(BATCH.replace(old, new, 1))
    called = testbed("schedule", "batch.yaml")
    check(f"schedule/{name}", called)
    assert called.code == 2


CALLS: dict[str, list[str]] = {
    "no_such_file": ["schedule", "absent.yaml"],
    "a_spec": ["schedule", "spec.yaml", "--json"],
}


@pytest.mark.parametrize("name", CALLS)
def test_no_batch(name: str, testbed: Callable[..., Called], spec_file: Path) -> None:
    assert spec_file.exists()
    called = testbed(*CALLS[name])
    check(f"schedule/{name}", called)
    assert called.code == 2


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "schedule").glob("*.txt")} == CHANGES.keys() | CALLS.keys()


def facts(name: str) -> dict[str, Any]:
    (path,) = (one for one in BATCHES if one.stem == name)
    return schedule(path).facts


def times(found: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    return [(one["from"], one["to"], one["start_s"], one["end_s"]) for one in found["transfers"]]


def test_figure_2() -> None:
    found = facts("figure2")
    assert found["direct"] == ["h0", "h1"]
    assert found["groups"] == [{"aggregator": "h4", "members": ["h2", "h3"]}]
    assert (found["average_s"], found["total_s"]) == (2.25, 3)
    assert sorted(times(found)) == [
        ("h0", "h5", 0, 1),
        ("h1", "h5", 1, 2),
        ("h2", "h4", 0, 1),
        ("h3", "h4", 1, 2),
        ("h4", "h5", 2, 3),
    ]
    assert found["divergence"] is found["breaches"] is None


def test_figure_3() -> None:
    found = facts("figure3")
    assert times(found) == [("h0", "h3", 0, 1), ("h0", "h2", 1, 3), ("h1", "h3", 3, 4)]
    assert found["divergence"] == pytest.approx(5.61)
    assert found["breaches"] == 0
    assert found["punted"] == ["h1"]


def test_figure_5() -> None:
    found = facts("figure5")
    assert found["order"] == ["h1"]
    assert found["dropped"] == [{"worker": "h0", "reason": "the next update would end first"}]
    assert found["total_s"] == 1


def test_figure_6() -> None:
    found = facts("figure6")
    assert found["direct"] == ["h0", "h1"]
    assert [one["members"] for one in found["groups"]] == [["h2", "h3"], ["h4", "h5"]]
    assert found["total_s"] == 4


def written(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "batch.yaml"
    path.write_text(text)
    return schedule(path).facts


def test_rates_hold_from_their_moments_on(tmp_path: Path) -> None:
    """30 MB at 16 Mbit/s for a second, at 32 for two, then at 40: 2 + 8 + 20 MB in 7 s (fig. 4)."""
    found = written(
        tmp_path,
        "topology: star(hosts=2)\nlinks: {rate: 100 Mbit/s}\nserver: h1\n"
        "rates: {h0: {out: {0 s: 16 Mbit/s, 1 s: 32 Mbit/s, 3 s: 40 Mbit/s}}}\n"
        "updates: [{worker: h0, size: 30 MB}]\n",
    )
    assert found["total_s"] == pytest.approx(7)


def test_before_its_first_moment_a_link_has_its_whole_rate(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "topology: star(hosts=2)\nlinks: {rate: 100 Mbit/s}\nserver: h1\n"
        "rates: {h1: {in: {1 s: 50 Mbit/s}}}\nupdates: [{worker: h0, size: 25 MB}]\n",
    )
    assert found["total_s"] == pytest.approx(3)


def test_one_size_is_divided_among_shards_and_a_list_is_not(tmp_path: Path) -> None:
    head = "topology: star(hosts=3)\nlinks: {rate: 100 Mbit/s}\nserver: [h1, h2]\n"
    even = written(tmp_path, f"{head}updates: [{{worker: h0, size: 25 MB}}]\n")
    assert sorted(times(even)) == [("h0", "h1", 0, 1), ("h0", "h2", 1, 2)]
    given = written(tmp_path, f"{head}updates: [{{worker: h0, size: [25 MB, 12.5 MB]}}]\n")
    assert sorted(times(given)) == [("h0", "h1", 0, 2), ("h0", "h2", 2, 3)]


def test_the_keys_of_the_answer(testbed: Callable[..., Called], tmp_path: Path) -> None:
    (tmp_path / "batch.yaml").write_text(BATCH)
    found = json.loads(testbed("schedule", "batch.yaml", "--json").out)
    assert " ".join(found) == (
        "order dropped direct groups transfers average_s total_s divergence breaches punted scheduler_s"
    )
    assert {*found["transfers"][0]} == {"from", "to", "start_s", "end_s", "members"}
    assert 0 < found["scheduler_s"] < 60


def test_a_batch_of_which_everything_is_dropped(testbed: Callable[..., Called], tmp_path: Path) -> None:
    late = BATCH.replace("version: 7", "version: 1").replace("version: 9", "version: 2")
    (tmp_path / "batch.yaml").write_text(late)
    said = testbed("schedule", "batch.yaml").out
    assert said.startswith("Nothing is sent: all 2 updates are dropped.")
    assert "h0\tits deadline has passed" in said


@pytest.mark.parametrize(
    ("bound", "breaches", "text"),
    [
        ("2.5", 1, "after the last commit. 1 commit is beyond the bound."),
        ("1", 2, "after the last commit. 2 commits are beyond the bound."),
        ("3", 0, "after the last commit.\n"),
    ],
)
def test_commits_that_go_beyond_the_bound_are_counted(bound: str, breaches: int, text: str, tmp_path: Path) -> None:
    """The norms of the updates are 2 and 3, and each may go through alone."""
    path = tmp_path / "batch.yaml"
    path.write_text(BATCH.replace("divergence_bound: 9", f"divergence_bound: {bound}"))
    found = schedule(path)
    assert found.facts["breaches"] == breaches
    assert text in f"{found.text()}\n"


def test_what_is_punted_can_be_given_to_the_next_batch(tmp_path: Path) -> None:
    """As ``behind``, in their order, and counted for the bound."""
    text = BATCH.replace("replica: h3", "replica: h3\nbehind: [{worker: h2, size: 12.5 MB, version: 8, norm: 5}]")
    found = written(tmp_path, text)
    assert next(one["members"] for one in found["transfers"] if one["to"] == "h3") == ["h2"]
    assert found["divergence"] <= 9
