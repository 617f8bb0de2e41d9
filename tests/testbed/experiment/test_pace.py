"""``pace: fit``: which paces it stands for, where they are kept, and where there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from testbed.base.errors import SpecError, UsageError
from testbed.capacity import cache
from testbed.experiment import fit, planning
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.run import Experiment
from testbed.files.writing import read_json
from testbed.run_directory.stored import source_of
from testbed.spec import Source, read
from testbed.workloads.job import Training
from testbed.workloads.learning.gradient_time import measured_s

from ..conftest import Called
from ..runner import in_memory

TRAINED = """\
name: trained
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: [16, 64], iterations: 3, compute: {mode: paced, pace: fit}}
arms:
  - {topology: star(hosts=4), scheme: ring}
  - {topology: "bcube(n=3,k=2)", scheme: bml}
"""
CORES = 2.0
TIMES_S = {16: 0.026, 64: 0.081}


def spec(text: str = TRAINED, *overrides: str) -> Source:
    return read(text, "spec.yaml", Path(), overrides)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine whose gradients take :data:`TIMES_S`; the batches that were measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[int] = []

    def times_s(trainings: Sequence[Training], own: object) -> list[float]:
        assert own is None
        asked.extend(training.batch for training in trainings)
        return [TIMES_S[training.batch] for training in trainings]

    monkeypatch.setattr("testbed.experiment.fit.gradient_times_s", times_s)
    return asked


def paces_s(source: Source) -> Mapping[int, float]:
    return source.spec.workload.compute.pace_s  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("gradient_s", "workers", "cores", "expected_s"),
    [
        (0.026, 9, 2, 0.3),  # 2 * 0.026 * 4.5 + 0.03
        (0.081, 9, 2, 0.8),
        (0.026, 4, 64, 0.1),  # as if each worker had a core: 0.082
        (0.026, 9, 0.5, 1.0),  # a quota
        (0.0001, 1, 1, 0.04),  # the rest after a synchronisation
        (4.0, 100, 1, 1000.0),
    ],
)
def test_it_is_twice_what_the_cores_take(gradient_s: float, workers: int, cores: float, expected_s: float) -> None:
    assert fit.pace_s(gradient_s, workers, cores) == expected_s


@pytest.mark.parametrize(("value_s", "expected_s"), [(0.1, 0.1), (0.101, 0.15), (0.81, 1.0), (0.0799, 0.08), (7, 8.0)])
def test_paces_are_rounded_up_coarsely(value_s: float, expected_s: float) -> None:
    assert fit.rounded_up(value_s) == expected_s


def test_it_is_that_of_the_largest_arm_in_all_arms(measured: list[int]) -> None:
    found = fit.fit_pace(spec(), CORES)
    assert paces_s(found) == found.chosen.pace_s == {16: 0.3, 64: 0.8}
    assert not found.wants_pace
    assert {(trial.job.batch, trial.job.compute.pace_s) for trial in trials(found)} == {(16, 0.3), (64, 0.8)}
    assert measured == [16, 64]


def test_a_sweep_has_the_pace_of_its_slowest_model(measured: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = {"lenet5": 0.01, "resnet8": 0.05}
    monkeypatch.setattr(
        "testbed.experiment.fit.gradient_times_s", lambda trainings, _own: [times_s[each.model] for each in trainings]
    )
    swept = spec(TRAINED.replace("lenet5", "[lenet5, resnet8]").replace("[16, 64]", "16"))
    assert paces_s(fit.fit_pace(swept, CORES)) == {16: fit.pace_s(0.05, 9, CORES)}
    assert measured == []


def test_all_jobs_of_a_network_compute_at_once(measured: list[int]) -> None:
    assert measured == []
    jobs = "[{name: a, scheme: ring, hosts: [h0, h1, h2, h3]}, {name: b, scheme: ps, hosts: [h4, h5, h6]}]"
    arm = f"{{topology: star(hosts=8), jobs: {jobs}}}"
    shared = spec(f"{TRAINED.partition('arms:')[0].replace('[16, 64]', '16')}arms: [{arm}]")
    assert paces_s(fit.fit_pace(shared, CORES)) == {16: fit.pace_s(0.026, 7, CORES)}


def test_written_paces_stay_what_they_are(measured: list[int]) -> None:
    source = spec(TRAINED.replace("pace: fit", "pace: {16: 0.3 s, 64: 1 s}"))
    assert fit.fit_pace(source) is source
    assert measured == []


def test_a_gradient_is_measured_once(measured: list[int]) -> None:
    first = fit.fit_pace(spec(), CORES)
    assert paces_s(fit.fit_pace(spec(), CORES)) == paces_s(first)
    assert measured == [16, 64]


def test_no_part_of_an_experiment_is_fitted(measured: list[int]) -> None:
    with pytest.raises(UsageError) as refused:
        settled(spec(), part=(1, 2))
    assert str(refused.value) == (
        "--part: each machine would fit another pace, and their parts would be of different experiments\n"
        "  fix: give times in place of pace: fit"
    )
    assert measured == []


def test_machines_of_a_labs_own_keep_the_same(measured: list[int]) -> None:
    assert paces_s(fit.fit_pace(spec(TRAINED + "lab: baremetal\n"), CORES)) == {16: 0.3, 64: 0.8}
    assert measured == [16, 64]


def test_a_profile_has_no_gradient_to_measure() -> None:
    played = TRAINED.replace("model: lenet5, dataset: digits", "kind: profile, model: vgg19")
    with pytest.raises(SpecError, match=r"workload\.compute\.pace: 'fit' is not keys and values"):
        spec(played)


def test_mistakes_beside_it_are_told(measured: list[int]) -> None:
    with pytest.raises(SpecError, match=r"workload\.batch\.1: 'x' is not a whole number"):
        spec(TRAINED.replace("[16, 64]", "[16, x]"))
    with pytest.raises(SpecError, match="mode 'real' takes no pace"):
        spec(TRAINED.replace("mode: paced", "mode: real"))
    assert measured == []


def test_a_run_keeps_the_paces_and_goes_on_with_them(measured: list[int], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Experiment.new(spec(), out, in_memory) as begun:
        first = paces_s(begun.source)
    meta = read_json(out / "resolved.json")
    assert meta["fitted"] == {f"workload.compute.pace_s.{batch}": pace_s for batch, pace_s in first.items()}
    assert {int(batch): pace_s for batch, pace_s in meta["workload"]["compute"]["pace_s"].items()} == first
    cache.place().unlink()
    slower_s = {batch: 3 * time_s for batch, time_s in TIMES_S.items()}
    for batch, time_s in slower_s.items():
        cache.keep_gradient_times_s({f"lenet5 digits batch {batch}": time_s})
    for asked in (None, spec()):
        with Experiment.resumed(out, asked, in_memory) as resumed:
            assert paces_s(resumed.source) == first
    assert paces_s(source_of(out)) == first
    assert measured == [16, 64]
    with pytest.raises(SpecError, match=r"pace_s\.16 was"):
        Experiment.resumed(out, spec(TRAINED.replace("pace: fit", "pace: {16: 9 s, 64: 9 s}")), in_memory)


def test_plan_says_what_was_fitted(measured: list[int], testbed: Callable[..., Called], tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(TRAINED)
    found = planning.plan(spec())
    assert found["fitted_pace_s"] == {str(batch): s for batch, s in settled(spec()).chosen.pace_s.items()}
    assert "fitted to this machine" in testbed("plan", "spec.yaml").out
    assert measured == [16, 64]


def test_times_of_gradients_and_steps_of_the_ladder_are_kept_beside_each_other(tmp_path: Path) -> None:
    from ..capacity.made_up import steps

    path, of = tmp_path / "capacity.json", {"cpu": "x"}
    assert cache.gradient_times_s(path, of) == {}
    assert cache.keep_gradient_times_s({"a": 0.5}, path, of) == {"a": 0.5}
    assert cache.known(path, of) == cache.Known()
    cache.keep(steps(), "2026-11-22", path, of)
    assert cache.keep_gradient_times_s({"b": 0.25}, path, of) == {"a": 0.5, "b": 0.25}
    assert cache.gradient_times_s(path, of) == {"a": 0.5, "b": 0.25}
    assert cache.gradient_times_s(path, {"cpu": "y"}) == {}
    known = cache.known(path, of)
    assert known.capacity is not None
    assert not known.trouble
    path.write_text(path.read_text().replace("0.25", '"x"').replace("0.5,", "NaN,"))
    assert cache.gradient_times_s(path, of) == {}


def test_only_so_many_times_are_kept(tmp_path: Path) -> None:
    path, of = tmp_path / "capacity.json", {"cpu": "x"}
    for number in range(cache.MOST_GRADIENTS + 2):
        cache.keep_gradient_times_s({str(number): 1.0}, path, of)
    assert [*cache.gradient_times_s(path, of)] == [str(number) for number in range(2, cache.MOST_GRADIENTS + 2)]


def test_more_samples_take_more_processor_time() -> None:
    few, many = (measured_s(Training("lenet5", "digits", batch, 1, 0.1, 0.9, 1)) for batch in (1, 128))
    assert 0 < few < many < 10


def test_a_model_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\nclass Net(torch.nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
    )
    text = TRAINED.replace("lenet5", "./net.py:Net()").replace("[16, 64]", "4")
    own = read(text, "spec.yaml", tmp_path)
    found = fit.fit_pace(own, CORES)
    assert 0.03 < paces_s(found)[4] < 1
