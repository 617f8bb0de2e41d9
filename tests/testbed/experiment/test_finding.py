"""What arms leave to be found: after all checks, the same each time, kept by a run and not found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.base.errors import SpecError, UsageError
from testbed.experiment import finding
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.resume import as_began, with_found_of
from testbed.run_directory.resolved import chosen, resolved
from testbed.spec import Source, read
from testbed.spec.sought import Chosen

SPEC = """
name: found
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: dlrm_tiny, batch: 16, iterations: 4, compute: {pace: {16: 50 ms}}}
arms:
  - {topology: "topoopt(servers=6,degree=3)", strategy: search(steps=60)}
  - {topology: "topoopt(servers=6,degree=3)", strategy: {e0: [0], e1: [1, 2, 4], rest: all}}
  - {topology: star(hosts=4), scheme: ring, strategy: "search(steps=20,seed=3)"}
  - {topology: star(hosts=4), scheme: ring}
"""


def source(text: str = SPEC) -> Source:
    return read(text, "spec.yaml", Path())


def test_arms_become_plain_and_are_the_same_each_time() -> None:
    found = settled(source())
    assert found.sought == {}
    assert sorted(found.chosen.arms) == [0, 1, 2]
    assert found.chosen == settled(source()).chosen
    panel, given, star, untouched = (cell.arm for cell in found.grid.cells)
    assert panel.topology.startswith("patch_panel(servers=6,degree=3,rings=[")
    assert panel.scheme.startswith("multi_ring(permutations=[[")
    assert panel.title == "topoopt(servers=6,degree=3) with strategy search(steps=60)"
    assert isinstance(given.strategy, dict)
    assert given.strategy["e1"] == [1, 2, 4]
    assert {tuple(given.strategy["e0"]), given.strategy["e2"]} == {(0,), "all"}
    assert star.topology == "star(hosts=4)"
    assert star.strategy not in (None, "search(steps=20,seed=3)")
    assert untouched.strategy is None


def test_what_was_found_is_at_least_as_good_as_where_the_search_begins() -> None:
    plain = SPEC.replace("search(steps=60)", "data").replace('"search(steps=20,seed=3)"', "data")
    searched, started = (
        [trial.job.iteration_predicted_s for trial in trials(settled(source(text)))] for text in (SPEC, plain)
    )
    for place in (0, 2):
        assert searched[place] is not None
        assert started[place] is not None
        assert searched[place] <= started[place]


def test_a_run_goes_on_with_what_it_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = settled(source())
    kept = json.loads(json.dumps(resolved(found)))
    (tmp_path / "resolved.json").write_text(json.dumps(kept))

    def again(*_: object) -> None:
        raise AssertionError("it is found again")

    monkeypatch.setattr(finding, "_KNOWN", {})
    monkeypatch.setattr(finding, "alternate", again)
    monkeypatch.setattr(finding, "search_on", again)
    assert chosen(kept) == found.chosen
    resumed = settled(as_began(tmp_path, source()))
    assert [trial.identity for trial in trials(resumed)] == [trial.identity for trial in trials(found)]
    with pytest.raises(AssertionError, match="it is found again"):
        settled(source())


def test_the_first_part_searches_and_the_others_take_what_it_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = settled(source(), part=(1, 2))
    (tmp_path / "resolved.json").write_text(json.dumps(resolved(first, part=(1, 2))))
    with pytest.raises(UsageError, match="--part 2/2: what search and topoopt find is found once, in part 1"):
        settled(source(), part=(2, 2))
    monkeypatch.setattr(finding, "_found", None)  # nothing is found again
    second = settled(with_found_of(tmp_path, source()), part=(2, 2))
    assert [trial.identity for trial in trials(second)] == [trial.identity for trial in trials(first)]
    with pytest.raises(SpecError, match=r"of another experiment than spec.yaml: workload.iterations was 4, and 5 is"):
        with_found_of(tmp_path, source(SPEC.replace("iterations: 4", "iterations: 5")))


def test_a_spec_that_is_checked_before_it_runs_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = settled(source())
    monkeypatch.setattr(finding, "alternate", None)
    monkeypatch.setattr(finding, "search_on", None)
    assert settled(source()).chosen == first.chosen


def test_a_search_predicts_what_the_trial_is_told_to_expect_and_keeps_its_course(delayed: Source) -> None:
    """With the goodput and the delay of the trial's links, on the network and with the rings that the trial has."""
    found = settled(delayed)
    for number in (0, 2):
        course = found.chosen.arms[number]["search"]
        steps, costs = zip(*course["costs_s"], strict=True)
        assert list(steps) == sorted(steps)
        assert list(costs) == sorted(costs, reverse=True)
        assert steps[-1] <= course["steps"] == (60, 0, 20)[number]
        assert trials(found)[number].job.iteration_predicted_s == pytest.approx(costs[-1], rel=1e-9)


@pytest.fixture
def delayed() -> Source:
    return source(SPEC.replace("100 Mbit/s}", "100 Mbit/s, delay: 2 ms}"))


def test_tables_that_are_cut_are_placed_part_by_part() -> None:
    arms = SPEC.partition("arms:\n")[0] + "arms:\n"
    searched = '  - {topology: "topoopt(servers=6,degree=3)", strategy: search(steps=20), cut: 4}\n'
    written = "  - {topology: star(hosts=4), scheme: ring, strategy: {e0.0: [0], e0.3: [1, 2], rest: all}, cut: 4}\n"
    one, two = trials(settled(source(arms + searched + written)))
    assert isinstance(one.network.arm.strategy, dict)
    assert "e7.3" in one.network.arm.strategy
    plan = two.job.plan
    table = next(operator for operator in plan.model.operators if operator.name == "e0.3")
    assert (table.columns, table.output_floats) == (8, 8)
    assert {len(members) for members in plan.layout.groups} == {2, 4}


def test_nothing_is_chosen_where_nothing_is_to_be_found() -> None:
    head, _, last = SPEC.partition("arms:\n")
    plain = source(f"{head}arms:\n{last.splitlines()[-1]}")
    assert settled(plain) is plain
    assert plain.chosen == Chosen()
    assert "found" not in resolved(plain)


def test_checks_come_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> None:
        raise AssertionError("it is searched")

    monkeypatch.setattr(finding, "alternate", search)
    with pytest.raises(SpecError, match=r"strategy\.e9: dlrm_tiny has no such operator"):
        settled(source(SPEC.replace("e0: [0]", "e9: [0]")))
    with pytest.raises(SpecError, match="search: steps is 2,000,000"):
        settled(source(SPEC.replace("steps=20,", "steps=2000000,")))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("batch: 16", "batch: [16, 32]", "search and topoopt take one batch and one point"),
        ('degree=3)", strat', 'degree=3)", scheme: ring, strat', "topoopt finds the scheme"),
        ('degree=3)", strat', 'degree=3)", jobs: [{name: a, scheme: ring, hosts: 2}], strat', "and this arm has jobs"),
        ("servers=6,degree=3)\", strategy: search", "servers=6)\", strategy: search", "topoopt needs"),
        ("steps=60", "step=60", "search has no parameter 'step'"),
        ("compute: {pace: {16: 50 ms}}", "scale: fit, compute: {pace: {16: 50 ms}}", "scale: fit"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_refused(old: str, new: str, told: str) -> None:
    assert old in SPEC
    text = SPEC.replace(old, new, 1)
    if "16, 32" in new:
        text = text.replace("{16: 50 ms}", "{16: 50 ms, 32: 60 ms}")
    with pytest.raises(SpecError, match=told):
        settled(source(text))
