"""A sweep from first trial to report: order, Ctrl-C and kill -9, repeating until it is enough, parts, merging."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from analysis.load import load as load_run
from analysis.report import write as write_report
from analysis.report.points import apart
from testbed.errors import OutputError, SpecError, UsageError
from testbed.estimate import expected_s
from testbed.merge import merged
from testbed.run import Experiment
from testbed.rundir import RunDirectory
from testbed.spec import Source, read
from testbed.trial import Trial
from testbed.trials import trials
from tests.patience import until

from .conftest import SPEC, Called
from .fake_lab import FakeLab
from .runner import Ran, go

SWEEP = SPEC.replace("200 Mbit/s", "[100 Mbit/s, 200 Mbit/s]").replace("hosts=3)", "hosts=2..4)")
SWEEP = SWEEP.replace("star(hosts=2..4), scheme: ps", '"star(hosts=2..4)", scheme: "ps(servers=[1,4])"') + (
    "where: servers <= hosts\nrepeats: 2\n"
)
CELLS = 2 * (3 + 1 + 3)
Made = Callable[..., Ran]


def source(text: str = SWEEP, *overrides: str) -> Source:
    return read(text, "spec.yaml", Path(), overrides)


def records(path: Path) -> dict[str, dict]:
    return {one.stem: json.loads(one.read_text()) for one in (path / "trials").glob("*.json")}


def test_every_trial_runs_once_in_order_and_says_where_it_was(made_up: Made, tmp_path: Path) -> None:
    ran = made_up()
    done = go(Experiment.new(source(), tmp_path / "run", FakeLab))
    assert ran.ids == [trial.id for trial in trials(source())]
    assert len(set(ran.ids)) == len(ran.ids) == 2 * CELLS
    assert ran.ids[CELLS:] == [one.replace("-r1", "-r2") for one in reversed(ran.ids[:CELLS])]
    assert ran.ids[0] == "ps1-star2-b2-rate100Mbit-s-r1"
    found = records(tmp_path / "run")
    assert found["ps4-star4-b2-rate200Mbit-s-r2"]["point"] == {
        "links.rate": 200_000_000,
        "topology.hosts": 4,
        "scheme.servers": 4,
    }
    assert found["ps4-star4-b2-rate200Mbit-s-r2"]["at"] == "rate=200 Mbit/s, hosts=4, servers=4"
    assert [record["repeat"] for record in done.records] == [0] * CELLS + [1] * CELLS
    resolved = json.loads((tmp_path / "run" / "resolved.json").read_text())
    assert resolved["sweep"] == {
        "links.rate": [100_000_000, 200_000_000],
        "topology.hosts": [2, 3, 4],
        "scheme.servers": [1, 4],
    }
    assert (resolved["planned"], resolved["where"]) == (2 * CELLS, ["servers <= hosts"])
    assert "part" not in resolved


def test_results_have_a_column_for_each_swept_field(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(), tmp_path / "run", FakeLab))
    rows = list(csv.DictReader((tmp_path / "run" / "results.csv").open()))
    assert list(rows[0])[-4:] == ["repeat", "links.rate", "topology.hosts", "scheme.servers"]
    assert [(row["label"], row["topology.hosts"], row["scheme.servers"]) for row in rows[:7]] == [
        ("PS", "2", "1"),
        ("ring", "2", ""),
        ("PS", "3", "1"),
        ("ring", "3", ""),
        ("PS", "4", "1"),
        ("PS", "4", "4"),
        ("ring", "4", ""),
    ]


def test_a_report_tells_points_apart(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: 1.0 + trial.network.world / 10)
    go(Experiment.new(source(), tmp_path / "run", FakeLab))
    run = load_run(tmp_path / "run")
    assert (run.planned, len(run.trials)) == (2 * CELLS, 2 * CELLS)
    ring = next(one for one in run.trials if one.id == "ring-star4-b2-rate200Mbit-s-r1")
    assert (ring.point, ring.at) == ({"links.rate": 200_000_000, "topology.hosts": 4}, "rate=200 Mbit/s, hosts=4")
    told = apart(run)
    assert told.labels == ("PS, servers 1", "PS, servers 4", "ring")
    smaller = next(one for one in told.trials if one.id == "ring-star3-b2-rate100Mbit-s-r2")
    partner = told.first_arm(smaller)
    assert partner is not None
    assert partner.id == "ps1-star3-b2-rate100Mbit-s-r2"
    page = write_report(tmp_path / "run").read_text()
    assert "PS, servers 4" in page
    assert "100 Mbit/s" in page


def test_ctrl_c_and_going_on(made_up: Made, tmp_path: Path) -> None:
    first = made_up(stop_after=9)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(), tmp_path / "run", FakeLab))
    kept = {path: path.read_bytes() for path in (tmp_path / "run" / "trials").iterdir()}
    assert len(kept) == 9
    second = made_up()
    done = go(Experiment.resumed(tmp_path / "run", None, FakeLab))
    assert first.ids + second.ids == [trial.id for trial in trials(source())]
    assert {path: path.read_bytes() for path in kept} == kept
    assert len(done.records) == 2 * CELLS


def contents(path: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}


TWICE = SPEC + "repeats: 2\n"
ANOTHER = "RUN is a run of another experiment than spec.yaml: "


@pytest.mark.parametrize(
    ("before", "part", "asked", "told"),
    [
        (
            (SWEEP,),
            (1, 2),
            (SPEC.replace("name: small", "name: odd").replace("label: ring", "label: odd"),),
            ANOTHER + "name was small, and odd is asked for; links.rate_bps was 100000000, and 200000000 is asked for; "
            "arms.0.topology was star(hosts=2), and star(hosts=3) is asked for; and 7 more settings",
        ),
        (
            (SPEC, "workload.batch=[2, 4]"),
            None,
            (SPEC, "workload.batch=2"),
            ANOTHER + "workload.batch was [2, 4], and [2] is asked for",
        ),
        (
            (SPEC,),
            None,
            (SPEC.replace("- {label: ring, topology: star(hosts=3), scheme: ring}", ""),),
            ANOTHER + "arms.1.label was ring, and nothing is asked for; arms.1.topology was star(hosts=3), and nothing "
            "is asked for; arms.1.scheme was ring, and nothing is asked for",
        ),
        (
            (SPEC,),
            None,
            (SPEC, "repeats=2"),
            "RUN holds ps-star3-b2, ring-star3-b2, which the spec does not have with repeats: 2",
        ),
        (
            (TWICE,),
            None,
            (SPEC,),
            "RUN holds ps-star3-b2-r1, ps-star3-b2-r2, ring-star3-b2-r1 and 1 more, which the spec does not have with "
            "repeats: 1",
        ),
        (
            (SPEC, "repeats=3"),
            None,
            (TWICE,),
            "RUN holds ps-star3-b2-r3, ring-star3-b2-r3, which the spec does not have with repeats: 2",
        ),
    ],
    ids=["another", "fewer_batches", "fewer_arms", "ids_get_a_suffix", "ids_lose_it", "fewer_rounds"],
)
def test_a_run_does_not_go_on_with_what_it_is_not(
    made_up: Made,
    tmp_path: Path,
    before: tuple[str, ...],
    part: tuple[int, int] | None,
    asked: tuple[str, ...],
    told: str,
) -> None:
    run = tmp_path / "run"
    made_up()
    go(Experiment.new(source(*before), run, FakeLab, part))
    kept = contents(run)
    with pytest.raises(SpecError) as error:
        go(Experiment.resumed(run, source(*asked), FakeLab))
    assert error.value.problem.replace(str(run), "RUN") == told
    assert error.value.fix.startswith("start a new run with --out DIR, or ")
    assert contents(run) == kept
    ran = made_up()
    go(Experiment.resumed(run, None, FakeLab))
    assert ran.ids == []


def test_trials_of_another_run_are_named_without_a_spec_too(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(SPEC), tmp_path / "run", FakeLab))
    trial = tmp_path / "run" / "trials" / "ring-star3-b2.json"
    trial.with_name("odd-star3-b2.json").write_bytes(trial.read_bytes())
    with pytest.raises(SpecError, match=r"run holds odd-star3-b2, which the spec does not have") as error:
        Experiment.resumed(tmp_path / "run", None, FakeLab)
    assert "remove from" in error.value.fix
    trial.with_name("odd-star3-b2.json").unlink()
    go(Experiment.resumed(tmp_path / "run", None, FakeLab))


@pytest.mark.parametrize("more", ["4", "{until: 1 %, least: 4, most: 5}"])
def test_more_rounds_are_asked_for(made_up: Made, tmp_path: Path, more: str) -> None:
    """They are the same as if they had been asked for at first, and the run knows of them from then on."""
    run, longer = tmp_path / "run", source(SPEC, f"repeats={more}", "timeout=30 s")
    whole = made_up()
    go(Experiment.new(longer, tmp_path / "whole", FakeLab))
    first = made_up()
    go(Experiment.new(source(TWICE), run, FakeLab))
    second = made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.resumed(run, longer, FakeLab))
    third = made_up()
    done = go(Experiment.resumed(run, None, FakeLab))
    assert first.ids + second.ids + third.ids == whole.ids
    assert [one["id"] for one in done.records] == rows_of(run)
    for name in ("spec.yaml", "resolved.json"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_spec_that_was_kept_by_halves_is_kept_whole(made_up: Made, tmp_path: Path) -> None:
    """Somebody asked for more rounds, and the run was killed between its two files."""
    run = tmp_path / "run"
    made_up()
    go(Experiment.new(source(TWICE), run, FakeLab))
    (run / "spec.yaml").write_text(SPEC + "repeats: 4\n")
    made_up()
    done = go(Experiment.resumed(run, None, FakeLab))
    planned = json.loads((run / "resolved.json").read_text())["planned"]
    assert planned == len(done.records) == 2 * 4


def rows_of(run: Path) -> list[str]:
    return [row["trial"] for row in csv.DictReader((run / "results.csv").open())]


def test_rounds_that_ran_because_they_were_needed_are_the_experiments(made_up: Made, tmp_path: Path) -> None:
    """A number of rounds in place of ``until`` takes them, if it is large enough."""
    made_up(measured)
    spec = source(UNTIL, "workload.batch=4")
    go(Experiment.new(spec, tmp_path / "run", FakeLab))
    ran = made_up(measured)
    go(Experiment.resumed(tmp_path / "run", spec, FakeLab))
    assert ran.ids == []
    with pytest.raises(SpecError, match=r"-r6, .* which the spec does not have with repeats: \{most: 5\}"):
        Experiment.resumed(tmp_path / "run", source(UNTIL.replace("6}", "5}"), "workload.batch=4"), FakeLab)
    made_up()
    go(Experiment.resumed(tmp_path / "run", source(SPEC, "repeats=7", "workload.batch=4"), FakeLab))
    assert len(records(tmp_path / "run")) == 2 * 7


def test_a_part_of_more_rounds_is_the_same_part(made_up: Made, tmp_path: Path) -> None:
    one, two = parts_of(made_up, source(), tmp_path, 2)
    longer = source(SWEEP, "repeats=4")
    for part in (one, two):
        made_up()
        go(Experiment.resumed(part, longer, FakeLab))
        resolved = json.loads((part / "resolved.json").read_text())
        assert resolved["planned"] == len(records(part))
        assert resolved["part"][1] == 2
    done = merged([one, two], tmp_path / "all")
    assert (len(done.run.records), done.missing) == (4 * CELLS, [])


def test_kill_9_and_going_on(made_up: Made, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SWEEP)
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.testbed.runner", str(tmp_path / "spec.yaml"), str(tmp_path / "run")],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    until(lambda: child.poll() is not None or len(list((tmp_path / "run").glob("trials/*.json"))) >= 5, 60)
    assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = {path: path.read_bytes() for path in (tmp_path / "run").glob("trials/*.json")}
    assert 5 <= len(kept) < 2 * CELLS
    ran = made_up()
    done = go(Experiment.resumed(tmp_path / "run", None, FakeLab))
    assert {path: path.read_bytes() for path in kept} == kept
    assert sorted([*ran.ids, *(path.stem for path in kept)]) == sorted(trial.id for trial in trials(source()))
    assert len(done.records) == 2 * CELLS


UNTIL = SPEC + "repeats: {until: 5 %, least: 3, most: 6}\n"
NOISE = [1.0, 1.2, 0.8, 1.0, 1.0, 1.0]


def measured(trial: Trial) -> float:
    """PS is the same each time at batch 2; at batch 4 one of its first three is far off, so that more are needed."""
    steady = trial.batch == 2 or trial.label == "ring"
    return 1.0 + trial.repeat * 1e-4 if steady else NOISE[trial.repeat]


def test_repeating_ends_where_intervals_are_narrow_enough(made_up: Made, tmp_path: Path) -> None:
    ran = made_up(measured)
    done = go(Experiment.new(source(UNTIL, "workload.batch=[2, 4]"), tmp_path / "run", FakeLab))
    count = {(one["label"], one["batch"]): 0 for one in done.records}
    for one in done.records:
        count[one["label"], one["batch"]] += 1
    assert count == {("PS", 2): 3, ("ring", 2): 3, ("PS", 4): 6, ("ring", 4): 6}  # what is compared goes on together
    assert [str(one) for one in done.loose] == ["PS, batch 4: ±10.0% after 6 VALID trials"]
    assert ran.ids[-2:] == ["ring-star3-b4-r6", "ps-star3-b4-r6"] or ran.ids[-2:] == [
        "ps-star3-b4-r6",
        "ring-star3-b4-r6",
    ]


def test_until_it_is_enough_goes_on_after_an_interruption(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    whole = made_up(measured)
    go(Experiment.new(spec, tmp_path / "whole", FakeLab))
    for after in range(len(whole.ids)):
        out = tmp_path / f"cut{after}"
        first = made_up(measured, stop_after=after)
        with pytest.raises(KeyboardInterrupt):
            go(Experiment.new(spec, out, FakeLab))
        second = made_up(measured)
        done = go(Experiment.resumed(out, None, FakeLab))
        assert first.ids + second.ids == whole.ids
        assert len(done.records) == len(whole.ids)


def test_invalid_trials_make_no_interval_narrower(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: -1.0 if trial.label == "PS" else 1.0)
    done = go(Experiment.new(source(UNTIL), tmp_path / "run", FakeLab))
    assert len(done.records) == 2 * 6
    assert [str(one) for one in done.loose] == ["PS, batch 2: 0 VALID trials"]


def test_a_failed_trial_that_runs_again_loses_no_later_round(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: float("nan") if trial.repeat == 0 and trial.label == "PS" else measured(trial))
    spec = source(UNTIL, "workload.batch=4")
    before = go(Experiment.new(spec, tmp_path / "run", FakeLab))
    assert before.failed
    made_up(lambda _: 1.0)
    after = go(Experiment.resumed(tmp_path / "run", None, FakeLab))
    assert not after.failed
    assert len(after.records) == len(before.records)


def parts_of(made_up: Made, spec: Source, folder: Path, count: int) -> list[Path]:
    found = []
    for number in range(1, count + 1):
        made_up(measured)
        found.append(folder / f"machine{number}")
        go(Experiment.new(spec, found[-1], FakeLab, (number, count)))
    return found


def test_parts_make_the_whole(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 3)
    ids = [set(records(part)) for part in parts]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 2 * CELLS
    points: dict[tuple[int, int], set[Path]] = {}
    for part, own in zip(parts, ids, strict=True):
        resolved = json.loads((part / "resolved.json").read_text())
        assert resolved["part"][1] == 3
        assert resolved["planned"] == len(own)
        for one in records(part).values():
            points.setdefault((one["point"]["links.rate"], one["point"]["topology.hosts"]), set()).add(part)
    assert all(len(places) == 1 for places in points.values())  # both arms of a point, and all repeats
    length = {trial.id: expected_s(trial) for trial in trials(source())}
    loads = [sum(length[one] for one in own) for own in ids]
    assert max(loads) < 1.5 * min(loads)
    done = merged(parts, tmp_path / "all")
    assert (done.missing, done.kept) == ([], {})
    made_up(measured)
    whole = go(Experiment.new(source(), tmp_path / "whole", FakeLab))
    assert [one["id"] for one in done.run.records] == [one["id"] for one in whole.records]
    assert records(tmp_path / "all").keys() == records(tmp_path / "whole").keys()
    loaded = load_run(tmp_path / "all")
    assert (loaded.planned, len(loaded.trials)) == (2 * CELLS, 2 * CELLS)
    assert write_report(tmp_path / "all").exists()
    assert "part" not in loaded.resolved
    assert loaded.environment["lab"].keys() == records(tmp_path / "all").keys()


def test_a_part_goes_on_as_the_part_it_was(made_up: Made, tmp_path: Path) -> None:
    first = made_up(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(), tmp_path / "run", FakeLab, (2, 3)))
    second = made_up()
    done = go(Experiment.resumed(tmp_path / "run", None, FakeLab))
    assert len(done.records) == len(first.ids) + len(second.ids) < 2 * CELLS


def test_parts_decide_by_themselves_when_it_is_enough(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    parts = parts_of(made_up, spec, tmp_path, 2)
    done = merged(parts, tmp_path / "all")
    assert (len(done.run.records), done.missing) == (2 * 3 + 2 * 6, [])
    assert [str(one) for one in done.run.loose] == ["PS, batch 4: ±10.0% after 6 VALID trials"]


def test_of_a_part_that_is_missing_only_what_is_certain_is_missed(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    steady, noisy = parts_of(made_up, spec, tmp_path, 2)
    if len(records(steady)) > len(records(noisy)):
        steady, noisy = noisy, steady
    done = merged([noisy], tmp_path / "all")
    assert (len(done.run.records), sorted(done.missing)) == (2 * 6, sorted(records(steady)))
    ran = made_up(measured)
    assert len(go(Experiment.resumed(tmp_path / "all", None, FakeLab)).records) == 2 * 6 + 2 * 3
    assert sorted(ran.ids) == sorted(records(steady))


def test_a_merged_run_knows_what_is_missing_and_runs_only_that(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 3)
    done = merged(parts[:2], tmp_path / "all")
    missing = set(records(parts[2]))
    assert set(done.missing) == missing
    assert load_run(tmp_path / "all").planned == 2 * CELLS
    ran = made_up()
    after = go(Experiment.resumed(tmp_path / "all", None, FakeLab))
    assert set(ran.ids) == missing
    assert len(after.records) == 2 * CELLS
    again = merged([tmp_path / "all", parts[2]], tmp_path / "again")
    assert set(again.kept) == missing
    assert set(again.kept.values()) == {tmp_path / "all"}


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_environments_that_differ_are_named_by_part(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 2)
    edit(parts[1] / "env.json", kernel="6.1.0", cpu={"model": "other", "cores": 64})
    merged(parts, tmp_path / "all")
    found = json.loads((tmp_path / "all" / "env.json").read_text())
    ours = json.loads((parts[0] / "env.json").read_text())
    assert found["parts"] == {
        "machine1": {"kernel": ours["kernel"], "cpu": ours["cpu"]},
        "machine2": {"kernel": "6.1.0", "cpu": {"model": "other", "cores": 64}},
    }
    assert "kernel" not in found
    assert found["python"] == ours["python"]
    assert write_report(tmp_path / "all").exists()


def test_a_merged_run_that_goes_on_keeps_the_environments_of_its_parts(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 3)
    edit(parts[1] / "env.json", kernel="6.1.0")
    merged(parts[:2], tmp_path / "all")
    made_up()
    go(Experiment.resumed(tmp_path / "all", None, FakeLab))
    found = json.loads((tmp_path / "all" / "env.json").read_text())
    assert list(found["parts"]) == ["machine1", "machine2", "resumed"]
    assert found["parts"]["machine2"] == {"kernel": "6.1.0"}
    assert found["lab"].keys() == records(tmp_path / "all").keys()


def test_a_trial_that_was_done_is_taken_before_one_that_failed(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda _: float("nan"))
    go(Experiment.new(source(), tmp_path / "failed", FakeLab))
    made_up()
    go(Experiment.new(source(), tmp_path / "done", FakeLab))
    found = merged([tmp_path / "failed", tmp_path / "done"], tmp_path / "all")
    assert found.missing == []
    assert set(found.kept.values()) == {tmp_path / "done"}
    assert not found.run.failed


def test_what_is_not_merged(made_up: Made, tmp_path: Path) -> None:
    one, two = parts_of(made_up, source(), tmp_path, 2)
    (other,) = parts_of(made_up, source(SWEEP, "seed=7"), tmp_path / "other", 1)

    def refused(kind: type[Exception], *parts: Path) -> str:
        with pytest.raises(kind) as error:
            merged(parts, tmp_path / "all")
        assert not (tmp_path / "all").exists()
        return str(error.value).replace(str(tmp_path), "HERE")

    assert refused(OutputError, one, other) == (
        "HERE/machine1 and HERE/other/machine1 are of different experiments: seed is 1 and 7\n"
        "  fix: give parts of one spec; testbed report RUN RUN --out FILE puts others side by side"
    )
    assert refused(UsageError, one, two, one) == "HERE/machine1 is given twice\n  fix: give each part once"
    assert refused(OutputError, tmp_path) == (
        "HERE: is not a run directory (it has no resolved.json)\n  fix: give what testbed run wrote"
    )
    with closing(RunDirectory.reopen(two)):
        assert refused(OutputError, one, two) == (
            "HERE/machine2: a run is writing into it\n  fix: wait for its end, or end it"
        )
    trial = next((two / "trials").iterdir())
    edit(trial, identity="0" * 64)
    assert refused(OutputError, one, two) == (
        f"HERE/machine2 holds {trial.stem}, run with other settings than the spec gives here\n"
        "  fix: have the same version of testbed, and of files that the spec names, on all machines"
    )
    copy = one / "trials" / trial.name
    copy.write_text(trial.read_text())
    edit(copy, identity="1" * 64)
    assert refused(OutputError, one, two) == (
        f"HERE/machine1 and HERE/machine2 both hold {trial.stem}, run with different settings\n"
        "  fix: see what differs in files that the spec names, and remove the one that is wrong"
    )
    copy.unlink()
    trial.rename(trial.with_name("stranger.json"))
    edit(trial.with_name("stranger.json"), id="stranger")
    assert "holds stranger, which the spec does not have" in refused(OutputError, one, two)


def test_merging_on_the_command_line(made_up: Made, tmp_path: Path, testbed: Callable[..., Called]) -> None:
    parts_of(made_up, source(), tmp_path, 3)
    called = testbed("merge", "machine1", "machine2", "--out", "all")
    missing = len(records(tmp_path / "machine3"))
    assert (called.code, called.err) == (0, "")
    assert called.out.splitlines() == [
        f"{2 * CELLS - missing} trials of 2 parts in all",
        f"{missing} trials are missing; run them: testbed run --resume all",
        "report: all/report.html",
    ]
    found = json.loads(testbed("merge", "machine1", "machine2", "machine3", "--out", "b", "--json").out)
    assert found == {"run": "b", "report": "b/report.html", "missing": [], "kept": {}}
    assert testbed("merge", "machine1", "--out", "all").err.startswith("error: all: is not empty")
