"""``scale: fit``: which scale it stands for, where that is kept, and where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.base.errors import SpecError, UsageError
from testbed.capacity import cache
from testbed.capacity.cache import Known
from testbed.capacity.model import Load, load_of
from testbed.experiment import planning
from testbed.experiment.expand import trials
from testbed.experiment.fit import ROOM, enlarged, fit
from testbed.experiment.run import Experiment
from testbed.files.writing import read_json
from testbed.run_directory.directory import RunDirectory
from testbed.run_directory.resolved import fitted_scale
from testbed.run_directory.stored import source_of
from testbed.spec import Source, read
from testbed.trial.model import Trial

from ..capacity.made_up import known, steps
from ..conftest import Called
from ..runner import in_memory

PLAYED = """\
name: played
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: fit}
arms:
  - {topology: star(hosts=4), scheme: ring}
  - {topology: "bcube(n=3,k=2)", scheme: bml}
"""
SMALL = """\
name: small
links: {rate: 8 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 1, iterations: 3, scale: fit, compute: none}
arms: [{label: BML, topology: "bcube(n=3,k=2)", scheme: bml}]
"""
SLOW = known(limit=0.5)
"""A machine with a fifth of the usual limit."""


def spec(text: str = PLAYED, *overrides: str) -> Source:
    return read(text, "spec.yaml", Path(), overrides)


def rooms(source: Source, of: Known) -> list[float]:
    assert of.capacity is not None
    return [of.capacity.room(load) for trial in trials(source) if (load := load_of(trial)) is not None]


def scale_of(source: Source) -> float:
    return source.spec.workload.scale  # type: ignore[union-attr]


@pytest.mark.parametrize("of", [known(), SLOW, known(limit=30.0)])
def test_it_is_the_least_scale_that_carries_every_arm(of: Known) -> None:
    found = fit(spec(), of)
    assert found.fitted == scale_of(found)
    assert ROOM <= min(rooms(found, of)) < 1.15 * ROOM


def test_it_is_the_same_in_all_arms_and_points() -> None:
    swept = fit(spec(PLAYED.replace("40 Gbit/s", "[10 Gbit/s, 40 Gbit/s]")), known())
    assert swept.fitted == fit(spec(), known()).fitted
    assert {trial.job.work.scale for trial in trials(swept)} == {swept.fitted}


def test_it_is_at_least_1() -> None:
    assert fit(spec(PLAYED.replace("40 Gbit/s", "10 Mbit/s") + "timeout: 1000 s\n"), known()).fitted == 1


def test_a_number_stays_what_it_is() -> None:
    source = spec(PLAYED.replace("fit", "200"))
    assert fit(source, SLOW) is source
    assert fit(spec(PLAYED, "workload.scale=200"), Known()).fitted is None


def test_set_can_ask_for_it() -> None:
    assert fit(spec(PLAYED.replace("fit", "200"), "workload.scale=fit"), known()).fitted == fit(spec(), known()).fitted


def test_nothing_measured_says_how() -> None:
    with pytest.raises(SpecError) as caught:
        fit(spec(), Known())
    assert str(caught.value) == (
        "spec.yaml: workload.scale: fit needs to know what this machine carries\n"
        "  fix: testbed doctor --capacity, or give a number"
    )
    with pytest.raises(SpecError, match="carries, and FILE is not used: it is damaged"):
        fit(spec(), Known(trouble="FILE is not used: it is damaged"))


def test_no_part_of_an_experiment_is_fitted() -> None:
    with pytest.raises(UsageError, match="each machine would fit another scale"):
        fit(spec(), known(), part=True)


@pytest.mark.parametrize(
    ("text", "of", "problem"),
    [
        (PLAYED + "lab: baremetal\n", SLOW, "the lab baremetal does not run on this machine"),
        (
            PLAYED.replace("scale: fit", "scale: fit, overlap: layer").replace("40 Gbit/s", "4000 Gbit/s"),
            SLOW,
            "of 19 layers that leave by themselves have nothing left",
        ),
        (SMALL, SLOW, "where a chunk of BML is 606 B on average, less than a packet"),
        (PLAYED.replace("vgg19", "lenet5").replace("fit", "fit, compute: none"), SLOW, "18 chunk classes"),
    ],
)
def test_where_no_scale_fits_it_says_why(text: str, of: Known, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        fit(spec(text), of)
    assert problem in caught.value.problem
    assert "give a number" in str(caught.value.fix)


def test_a_written_scale_is_enlarged_only_where_the_machine_does_not_carry_it() -> None:
    source = spec(PLAYED.replace("fit", "200"))
    assert enlarged(source, known()) is source
    assert enlarged(source, Known()) is source
    larger = enlarged(source, SLOW)
    assert larger.fitted == scale_of(larger)
    assert scale_of(larger) == pytest.approx(scale_of(fit(spec(), SLOW)), rel=0.05)
    assert scale_of(larger) > 200


def test_a_scale_that_is_carried_takes_one_look_at_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def noted(trial: Trial) -> Load | None:
        looked_at.append(trial.id)
        return load_of(trial)

    monkeypatch.setattr("testbed.experiment.fit.load_of", noted)
    source = spec(PLAYED.replace("fit", "200"))
    assert enlarged(source, known()) is source
    assert len(looked_at) == len({*looked_at}) > 0


def test_a_written_scale_stays_where_nothing_is_predicted() -> None:
    arms = '{topology: star(hosts=5), scheme: "mlfabric_a(delay_bound=4)"}'
    source = spec(f"{PLAYED.replace('fit', '200').partition('arms:')[0]}arms: [{arms}]")
    assert enlarged(source, SLOW) is source


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets this machine have been measured, with a limit."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def measured(limit: float) -> None:
        cache.keep(steps(limit=limit), "2026-11-22")

    return measured


def test_a_run_keeps_the_scale_and_goes_on_with_it(here: Callable[[float], None], tmp_path: Path) -> None:
    here(2.6)
    out = tmp_path / "out"
    with Experiment.new(spec(), out, in_memory) as begun:
        first = begun.source.fitted
    meta = read_json(out / "resolved.json")
    assert meta["workload"]["scale"] == meta["fitted"]["workload.scale"] == fitted_scale(meta) == first
    here(0.5)  # another day, on which the machine carries less
    with Experiment.resumed(out, None, in_memory) as resumed:
        assert resumed.source.fitted == scale_of(resumed.source) == first
    with Experiment.resumed(out, spec(), in_memory) as resumed:
        assert resumed.source.fitted == first
    assert source_of(out).fitted == first
    with pytest.raises(SpecError, match=r"fitted\.workload\.scale was|workload\.scale was"):
        Experiment.resumed(out, spec(PLAYED.replace("fit", "10")), in_memory)


def test_plan_says_what_was_fitted(
    here: Callable[[float], None], testbed: Callable[..., Called], tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(PLAYED)
    done = testbed("plan", "spec.yaml")
    assert done.code == 2
    assert "testbed doctor --capacity" in done.err
    here(2.6)
    found = planning.plan(spec())
    assert found["fitted_scale"] == fit(spec(), cache.known()).fitted
    assert found["capacity"]["expected_invalid"] == []
    assert "fitted to this machine" in testbed("plan", "spec.yaml").out


def test_a_run_of_a_number_is_not_taken_for_a_fitted_one(tmp_path: Path) -> None:
    source = spec(PLAYED.replace("fit", "200"))
    RunDirectory.create(tmp_path / "out", source).close()
    assert "fitted" not in read_json(tmp_path / "out" / "resolved.json")
