"""``run --arm``, ``--point`` and ``--only``: which trials they leave, and what they say of what there is not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from testbed.base.errors import UsageError
from testbed.experiment.expand import first_trials
from testbed.experiment.run import Experiment
from testbed.experiment.selection import Wanted

from ..conftest import SPEC, Called
from ..fake_lab import FakeLab
from ..runner import go, in_memory
from ..sweeps import CELLS, Made, source

RATE = {
    "rate=100 Mbit/s": 7,
    "rate='100 Mbit/s'": 7,
    "links.rate=0.1 Gbit/s": 7,
    "hosts=4": 6,
    "servers=4": 8,
    "batch=2": CELLS,
}
"""By a point, how many cells it leaves: those of arms that do not have the field, too."""


def ids(wanted: Wanted) -> Collection[str]:
    select = wanted.of(source())
    assert select is not None
    return select(first_trials(source()))


@pytest.mark.parametrize(("point", "count"), RATE.items(), ids=list(RATE))
def test_a_point_leaves_what_is_there(point: str, count: int) -> None:
    assert len(ids(Wanted(points=[point]))) == count


def test_several_of_a_kind_add_up_and_kinds_narrow_down() -> None:
    assert len(ids(Wanted(arms=["PS", "1"]))) == CELLS
    assert len(ids(Wanted(points=["hosts=2", "hosts=3"]))) == 8
    found = ids(Wanted(["ring"], ["hosts=3", "rate=200 Mbit/s"]))
    assert found == ["ring-b2-rate200Mbit-s-hosts3-r1"]
    assert ids(Wanted(ids=["ring-b2-rate200Mbit-s-hosts3"])) == found  # of all its repeats
    assert Wanted().of(source()) is None


@pytest.mark.parametrize(
    ("wanted", "problem", "fix"),
    [
        (Wanted(["rin"]), "--arm rin: there is no such arm", "did you mean 'ring'?"),
        (Wanted(["2"]), "--arm 2: there is no such arm", "use one of: PS, ring"),
        (
            Wanted(points=["host=4"]),
            "--point host=4: no field 'host' is swept (did you mean 'hosts'?)",
            "use one of: links.rate, topology.hosts, scheme.servers, workload.batch",
        ),
        (Wanted(points=["hosts=5"]), "--point hosts=5: topology.hosts has no such value", "use one of: 2, 3, 4"),
        (Wanted(points=["hosts"]), "--point hosts: not NAME=VALUE", "write it as rate='100 Mbit/s' or batch=16"),
        (
            Wanted(ids=["ring-b2-rate200Mbit-hosts3"]),
            "--only ring-b2-rate200Mbit-hosts3: there is no such trial",
            "did you mean 'ring-b2-rate200Mbit-s-hosts3'?",
        ),
        (Wanted(ids=["?"]), "--only ?: there is no such trial", "testbed plan SPEC lists them"),
        (
            Wanted(["ring"], ids=["PS-b2-rate200Mbit-s-hosts3-servers1"]),
            "--arm, --point and --only together leave no trial",
            "leave one of them out",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("-") else "",
)
def test_what_there_is_not_is_refused(wanted: Wanted, problem: str, fix: str) -> None:
    with pytest.raises(UsageError) as error:
        ids(wanted)
    assert (error.value.problem, error.value.fix) == (problem, fix)


def test_a_run_of_some_goes_on_with_the_rest(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = made_up()
    go(Experiment.new(source(SPEC), run, in_memory, only=Wanted(["ring"]).of(source(SPEC))))
    assert first.ids == ["ring-b2"]
    second = made_up()
    go(Experiment.resumed(run, None, in_memory))
    assert second.ids == ["PS-b2"]


@pytest.fixture
def specs(made_up: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``a.yaml`` and ``b.yaml``, without names; of the second, one trial fails."""
    from testbed.api import labs

    monkeypatch.setattr(labs, "opener", lambda *_: FakeLab)
    text = SPEC.partition("\n")[2]
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(text.replace("label: ring", "label: odd"))
    made_up(lambda trial: float("nan") if trial.label == "odd" else 1.0)
    return tmp_path


def test_several_specs_run_one_after_another(testbed: Callable[..., Called], specs: Path) -> None:
    called = testbed("run", "a.yaml", "b.yaml")
    assert called.code == 1
    assert called.out.count("report\truns/") + called.out.count("report: runs/") == 2
    runs = sorted(path for path in (specs / "runs").iterdir() if path.is_dir())
    assert [path.name[:2] for path in runs] == ["a-", "b-"]
    (page,) = (specs / "runs").glob("*.html")
    assert page.name == f"{runs[1].name}-and-1-more.html"
    assert "odd" in page.read_text()


def test_several_specs_are_checked_before_the_first_runs(testbed: Callable[..., Called], specs: Path) -> None:
    (specs / "b.yaml").write_text(SPEC.replace("scheme: ring", "scheme: rin"))
    called = testbed("run", "a.yaml", "b.yaml")
    assert (called.code, called.err.splitlines()[0].partition(": arms")[0]) == (2, "error: b.yaml")
    assert not (specs / "runs").exists()
    refused = testbed("run", "a.yaml", "b.yaml", "--out", "here")
    assert refused.err == "error: --out is about one run, and 2 specs are given\n  fix: give them one by one\n"


def test_arms_of_the_command_line(testbed: Callable[..., Called], specs: Path) -> None:
    called = testbed("run", "b.yaml", "--arm", "PS", "--out", "run")
    assert called.code == 0
    assert [path.stem for path in (specs / "run" / "trials").iterdir()] == ["PS-b2"]
