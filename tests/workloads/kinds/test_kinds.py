"""A kind of trial is known to its own folder and to the registry, and says all that a kind can say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import testbed
from testbed.base.errors import OutputError, UsageError
from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.kinds.measures import Measures
from testbed.workloads.kinds.parts import OwnSamples
from testbed.workloads.sync.schemes import build, build_plan
from tests.sources import parsed

ROOT = Path(testbed.__file__).parents[1]
FOLDERS = tuple(f"testbed.workloads.kinds.{place.split('.')[0]}." for place in kinds.BUILT_IN.values())
REGISTRATION = {
    "workloads/sync/schemes/registry.py": "schemes of all kinds are registered there",
    "workloads/sync/schemes/two_level.py": "its parameter tune marks a plan for that kind",
    "analysis/papers/mlfabric/learning.py": "what the paper states is about that kind",
    "analysis/papers/mlfabric/speed.py": "the same",
    "analysis/papers/mlfabric/scheduler.py": "the same",
    "analysis/papers/mlfabric/ideals.py": "the same",
    "analysis/papers/mlfabric/replication.py": "the same",
    "analysis/theory/schedule_cases.py": "cases for that kind's scheduler",
    "analysis/theory/scheduler_batches.py": "how long that kind's scheduler takes",
    "analysis/theory/schedule_optimum.py": "the best schedule of what that kind's scheduler is asked",
    "testbed/api/schedule.py": "testbed schedule runs that kind's scheduler, and nothing else",
    "testbed/experiment/finding.py": "what a hybrid trial's strategy and network are found for",
    "testbed/experiment/placing.py": "a strategy in an arm makes a hybrid plan",
    "testbed/experiment/batch_file.py": "what testbed schedule reads",
}


def outside() -> Iterator[Path]:
    """Our modules without the kinds' own."""
    for package in ("testbed", "topologies", "workloads", "analysis"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith("workloads/kinds/") and name not in REGISTRATION:
                yield path


def test_nothing_else_imports_a_kind() -> None:
    found = [f"{path}: {name}" for path, tree in parsed(outside(), "kinds") for name in _imported(tree)]
    assert [one for one in found if one.split(": ")[1].startswith(FOLDERS)] == []


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_else_asks_for_a_kind_by_its_name() -> None:
    quoted = f"[\"'](?:{'|'.join(kinds.BUILT_IN)})[\"']"
    asked = [f"{path}:{line}" for path, tree in parsed(outside(), quoted) for line in _compared(tree)]
    assert asked == []


def _compared(tree: ast.Module) -> Iterator[int]:
    """Lines in which something is compared with a kind's name, or matched against it."""
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        texts = [one for part in parts for one in ast.walk(part) if isinstance(one, ast.Constant)]
        yield from (text.lineno for text in texts if text.value in kinds.BUILT_IN)


def test_the_folders_are_the_kinds() -> None:
    folders = {path.parent.name for path in (ROOT / "workloads/kinds").glob("*/__init__.py")}
    assert folders == {place.split(".")[0] for place in kinds.BUILT_IN.values()}
    assert set(kinds.BUILT_IN) == {kinds.named(name).name for name in kinds.BUILT_IN}


def test_a_kind_that_nobody_has_is_named() -> None:
    with pytest.raises(OutputError, match="there is no kind of trial 'gossip'; there is forest, library, asynchronous"):
        kinds.named("gossip")


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"moves": "library"}, "library"),
        ({"kind": "command", "metrics": {"jct_s": 1.0}}, "command"),
        ({"kind": "train", "metrics": {"staleness_max": 3.0}}, "asynchronous"),
        ({"kind": "train", "metrics": {"staleness_max": None}}, "forest"),
        ({"kind": "profile", "metrics": None}, "forest"),
    ],
)
def test_older_records_are_known_by_what_is_in_them(record: dict[str, object], name: str) -> None:
    assert kinds.of_record(record).name == name


@pytest.mark.parametrize(
    ("scheme", "roles"),
    [
        ("ring", {"h0": "worker", "h3": "worker"}),
        ("async_ps", {"h0": "worker", "h3": "server"}),
        ("async_ps(replication=chain)", {"h1": "worker", "h2": "server", "h3": "replica"}),
        ("mlfabric_a", {"h0": "worker", "h0.daemon": "daemon", "h2": "server", "h3": "scheduler"}),
        ("mlfabric_a(divergence_updates=2)", {"h0": "worker", "h1": "server", "h2": "replica", "h3": "scheduler"}),
    ],
)
def test_what_each_process_is_for(scheme: str, roles: dict[str, str]) -> None:
    plan = build_plan(scheme, build_topology("star(hosts=4)", rate_bps=10**9), [100])
    found = {process.name: process.parts[0].role for process in kinds.of(plan).processes(plan)}
    assert {process: found[process] for process in roles} == roles


@pytest.mark.parametrize(
    ("scheme", "name"), [("ring", "forest"), ("gloo", "library"), ("ssp(staleness=2)", "asynchronous")]
)
def test_a_plan_comes_back_from_its_file_as_the_kind_that_it_is_of(scheme: str, name: str, tmp_path: Path) -> None:
    plan = build(scheme, build_topology("star(hosts=4)", rate_bps=10**9), [])
    kinds.save(plan, tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert (again.kind, again.run_by) == (name, plan.run_by)
    assert kinds.of(again) is kinds.named(name)


def test_the_same_columns_mean_the_same_in_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or numbers would be computed with the meaning of whichever kind comes first."""

    class Other(Measures):
        noun = "turn"

    class Samples(OwnSamples):
        measures = Other()

    class Turns(type(kinds.named("forest"))):  # type: ignore[misc]
        name = "turns"
        own_samples = Samples()

    known = {**kinds.kinds(), "turns": Turns()}
    monkeypatch.setattr(kinds, "kinds", lambda: known)
    with pytest.raises(UsageError, match="the kinds of trial forest and turns give the same columns"):
        kinds.measures_of(["iteration", "rank"])
    assert kinds.measures_of(["iteration", "rank", "update"]).noun == "round"
