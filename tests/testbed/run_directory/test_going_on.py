"""A run that goes on: after Ctrl-C and kill -9, with more rounds, and not with what it is not."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from testbed.base.errors import SpecError
from testbed.comparison.merge import merged
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment
from testbed.run_directory.directory import RunDirectory
from testbed.spec import read
from tests.patience import until

from ..conftest import SPEC
from ..runner import go, in_memory
from ..sweeps import CELLS, SWEEP, UNTIL, Made, measured, parts_of, records, source


def test_ctrl_c_and_going_on(made_up: Made, tmp_path: Path) -> None:
    first = made_up(stop_after=9)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(), tmp_path / "run", in_memory))
    kept = {path: path.read_bytes() for path in (tmp_path / "run" / "trials").iterdir()}
    assert len(kept) == 9
    second = made_up()
    done = go(Experiment.resumed(tmp_path / "run", None, in_memory))
    assert first.ids + second.ids == [trial.id for trial in trials(source())]
    assert {path: path.read_bytes() for path in kept} == kept
    assert len(done.records) == 2 * CELLS


@pytest.mark.parametrize("table", ["queues", "transfers"])
def test_a_run_of_a_version_without_a_table_goes_on(tmp_path: Path, table: str) -> None:
    RunDirectory.create(tmp_path / "run", source()).close()
    shutil.rmtree(tmp_path / "run" / table, ignore_errors=True)
    directory = RunDirectory.reopen(tmp_path / "run")
    directory.save_table_of("one", table, pd.DataFrame({"link": [1]}))
    directory.close()
    assert pd.read_parquet(tmp_path / "run" / table / "one.parquet")["link"].tolist() == [1]


COMMAND = """\
name: order
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python train.py}
quiet: 0 s
arms: [ARMS]
repeats: 2
"""
ALIKE = (
    "{topology: star(hosts=2)}, {label: down, topology: star(hosts=2), perturb: {kind: down, links: h0, until: 1 s}}"
)


@pytest.mark.parametrize("arms", ["{topology: star(hosts=2)}", ALIKE], ids=["one", "with_a_mark"])
def test_a_run_does_not_go_on_with_another_script(made_up: Made, tmp_path: Path, arms: str) -> None:
    """Its trials would be mixed with those of the old one, in one VALID cell."""
    folder, run = tmp_path / "spec", tmp_path / "run"
    folder.mkdir()
    for name in ("train.py", "model.py"):
        (folder / name).write_text("")
    text = COMMAND.replace("ARMS", arms)
    first = made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(read(text, "spec.yaml", folder), run, in_memory))
    kept = contents(run)
    (folder / "train.py").write_text("import time; time.sleep(2)")
    (folder / "new.py").write_text("")
    for asked in (None, read(text, "spec.yaml", folder)):
        with pytest.raises(SpecError) as error:
            go(Experiment.resumed(run, asked, in_memory))
        assert error.value.problem == (
            f"{run} holds {first.ids[0]}, run with other settings than the spec has now: "
            "train.py was changed, new.py was added"
        )
        assert error.value.fix == "put that back, or run into a new directory, without --resume"
    assert contents(run) == kept
    (folder / "train.py").write_text("")
    (folder / "new.py").unlink()
    second = made_up()
    go(Experiment.resumed(run, None, in_memory))
    assert len(first.ids + second.ids) == 2 * text.count("topology")


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
            (TWICE,),
            None,
            (SPEC,),
            "RUN holds PS-b2-r2, ring-b2-r2, which the spec does not have with repeats: 1",
        ),
        (
            (SPEC, "repeats=3"),
            None,
            (TWICE,),
            "RUN holds PS-b2-r3, ring-b2-r3, which the spec does not have with repeats: 2",
        ),
    ],
    ids=["another", "fewer_batches", "fewer_arms", "one_round", "fewer_rounds"],
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
    go(Experiment.new(source(*before), run, in_memory, part))
    kept = contents(run)
    with pytest.raises(SpecError) as error:
        go(Experiment.resumed(run, source(*asked), in_memory))
    assert error.value.problem.replace(str(run), "RUN") == told
    assert error.value.fix.startswith("start a new run with --out DIR, or ")
    assert contents(run) == kept
    ran = made_up()
    go(Experiment.resumed(run, None, in_memory))
    assert ran.ids == []


def renamed(run: Path, names: dict[str, str]) -> None:
    """Give trials of a run other ids, as another version of testbed would have chosen them."""
    for now, then in names.items():
        path = run / "trials" / f"{now}.json"
        path.with_name(f"{then}.json").write_text(path.read_text().replace(f'"id": "{now}"', f'"id": "{then}"'))
        path.unlink()
        (run / "samples" / f"{now}.parquet").rename(run / "samples" / f"{then}.parquet")


@pytest.mark.parametrize("asked", [None, TWICE.replace("2\n", "3\n")], ids=["as_it_was", "with_another_round"])
def test_trials_whose_ids_an_older_version_chose_are_found_again(
    made_up: Made, tmp_path: Path, asked: str | None
) -> None:
    run = tmp_path / "run"
    made_up(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(TWICE), run, in_memory))
    renamed(run, {"PS-b2-r1": "ps-star3-b2-r1", "ring-b2-r1": "ring-star3-b2-r1"})
    second = made_up()
    done = go(Experiment.resumed(run, source(asked) if asked else None, in_memory))
    assert second.ids == ["PS-b2-r2", "ring-b2-r3", "PS-b2-r3"][: 3 if asked else 1]
    ids = [record["id"] for record in done.records]
    assert ids[:4] == ["ps-star3-b2-r1", "ring-star3-b2-r1", "PS-b2-r2", "ring-b2-r2"]
    go(Experiment.resumed(run, None, in_memory))
    assert {path.stem for path in (run / "samples").iterdir()} == set(ids)


def test_a_run_of_one_round_goes_on_with_a_second(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(SPEC), tmp_path / "run", in_memory))
    ran = made_up()
    done = go(Experiment.resumed(tmp_path / "run", source(SPEC, "repeats=2"), in_memory))
    assert ran.ids == ["ring-b2-r2", "PS-b2-r2"]
    assert [record["id"] for record in done.records] == ["PS-b2", "ring-b2", "PS-b2-r2", "ring-b2-r2"]


def test_an_id_of_an_older_version_does_not_hide_other_settings(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up()
    go(Experiment.new(source(SPEC), run, in_memory))
    renamed(run, {"PS-b2": "ps-star3-b2"})
    record = run / "trials" / "ps-star3-b2.json"
    record.write_text(record.read_text().replace(source_identity(), "0" * 64))
    told = r"holds ps-star3-b2, run with other settings than the spec has now, or by an earlier version of testbed"
    with pytest.raises(SpecError, match=told):
        Experiment.resumed(run, None, in_memory)


def source_identity() -> str:
    return trials(source(SPEC))[0].identity


def test_trials_of_another_run_are_named_without_a_spec_too(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(SPEC), tmp_path / "run", in_memory))
    trial = tmp_path / "run" / "trials" / "ring-b2.json"
    trial.with_name("odd-star3-b2.json").write_bytes(trial.read_bytes())
    with pytest.raises(SpecError, match=r"run holds odd-star3-b2, which the spec does not have") as error:
        Experiment.resumed(tmp_path / "run", None, in_memory)
    assert "remove from" in error.value.fix
    trial.with_name("odd-star3-b2.json").unlink()
    go(Experiment.resumed(tmp_path / "run", None, in_memory))


@pytest.mark.parametrize("more", ["4", "{until: 1 %, least: 4, most: 5}"])
def test_more_rounds_are_asked_for(made_up: Made, tmp_path: Path, more: str) -> None:
    """They are the same as if they had been asked for at first, and the run knows of them from then on."""
    run, longer = tmp_path / "run", source(SPEC, f"repeats={more}", "timeout=30 s")
    whole = made_up()
    go(Experiment.new(longer, tmp_path / "whole", in_memory))
    first = made_up()
    go(Experiment.new(source(TWICE), run, in_memory))
    second = made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.resumed(run, longer, in_memory))
    third = made_up()
    done = go(Experiment.resumed(run, None, in_memory))
    assert first.ids + second.ids + third.ids == whole.ids
    assert [one["id"] for one in done.records] == rows_of(run)
    for name in ("spec.yaml", "resolved.json"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_spec_that_was_kept_by_halves_is_kept_whole(made_up: Made, tmp_path: Path) -> None:
    """Somebody asked for more rounds, and the run was killed between its two files."""
    run = tmp_path / "run"
    made_up()
    go(Experiment.new(source(TWICE), run, in_memory))
    (run / "spec.yaml").write_text(SPEC + "repeats: 4\n")
    made_up()
    done = go(Experiment.resumed(run, None, in_memory))
    planned = json.loads((run / "resolved.json").read_text())["planned"]
    assert planned == len(done.records) == 2 * 4


def rows_of(run: Path) -> list[str]:
    return [row["trial"] for row in csv.DictReader((run / "results.csv").open())]


def test_rounds_that_ran_because_they_were_needed_are_the_experiments(made_up: Made, tmp_path: Path) -> None:
    """A number of rounds in place of ``until`` takes them, if it is large enough."""
    made_up(measured)
    spec = source(UNTIL, "workload.batch=4")
    go(Experiment.new(spec, tmp_path / "run", in_memory))
    ran = made_up(measured)
    go(Experiment.resumed(tmp_path / "run", spec, in_memory))
    assert ran.ids == []
    with pytest.raises(SpecError, match=r"-r6, .* which the spec does not have with repeats: \{most: 5\}"):
        Experiment.resumed(tmp_path / "run", source(UNTIL.replace("6}", "5}"), "workload.batch=4"), in_memory)
    made_up()
    go(Experiment.resumed(tmp_path / "run", source(SPEC, "repeats=7", "workload.batch=4"), in_memory))
    assert len(records(tmp_path / "run")) == 2 * 7


def test_a_part_of_more_rounds_is_the_same_part(made_up: Made, tmp_path: Path) -> None:
    one, two = parts_of(made_up, source(), tmp_path, 2)
    longer = source(SWEEP, "repeats=4")
    for part in (one, two):
        made_up()
        go(Experiment.resumed(part, longer, in_memory))
        resolved = json.loads((part / "resolved.json").read_text())
        assert resolved["planned"] == len(records(part))
        assert resolved["part"][1] == 2
    done = merged([one, two], tmp_path / "all")
    assert (len(done.run.records), done.missing) == (4 * CELLS, [])


def test_kill_9_and_going_on(made_up: Made, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SWEEP)
    root = Path(__file__).parents[3]
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
    done = go(Experiment.resumed(tmp_path / "run", None, in_memory))
    assert {path: path.read_bytes() for path in kept} == kept
    assert sorted([*ran.ids, *(path.stem for path in kept)]) == sorted(trial.id for trial in trials(source()))
    assert len(done.records) == 2 * CELLS


def test_until_it_is_enough_goes_on_after_an_interruption(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    whole = made_up(measured)
    go(Experiment.new(spec, tmp_path / "whole", in_memory))
    for after in range(0, len(whole.ids), 3):
        out = tmp_path / f"cut{after}"
        first = made_up(measured, stop_after=after)
        with pytest.raises(KeyboardInterrupt):
            go(Experiment.new(spec, out, in_memory))
        second = made_up(measured)
        done = go(Experiment.resumed(out, None, in_memory))
        assert first.ids + second.ids == whole.ids
        assert len(done.records) == len(whole.ids)


def test_a_run_whose_scripts_told_no_samples_goes_on(made_up: Made, tmp_path: Path) -> None:
    made_up()
    run = tmp_path / "run"
    go(Experiment.new(source(SPEC), run, in_memory))
    for path in (run / "trials").iterdir():
        found = json.loads(path.read_text())
        found["metrics"]["throughput_sps"] = None
        path.write_text(json.dumps(found))
    again = made_up()
    go(Experiment.resumed(run, None, in_memory))
    assert again.ids == []
