"""Parts of a sweep that run on several machines, and are merged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from testbed.analysis.cell import Cell
from testbed.analysis.load import load as load_run
from testbed.analysis.report import write as write_report
from testbed.base.errors import OutputError, SpecError, UsageError
from testbed.comparison.merge import merged
from testbed.experiment.duration import expected_s
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment
from testbed.run_directory.directory import RunDirectory

from ..conftest import SPEC, Called
from ..runner import go, in_memory
from ..sweeps import CELLS, SWEEP, UNTIL, Made, measured, parts_of, records, source


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
    trial_id = next(iter(ids[0]))
    for folder in ("queues", "transfers"):
        (parts[0] / folder / f"{trial_id}.parquet").write_bytes(folder.encode())
    assert all(len(places) == 1 for places in points.values())  # both arms of a point, and all repeats
    length = {trial.id: expected_s(trial) for trial in trials(source())}
    loads = [sum(length[one] for one in own) for own in ids]
    assert max(loads) < 1.5 * min(loads)
    done = merged(parts, tmp_path / "all")
    assert (done.missing, done.kept) == ([], {})
    for folder in ("queues", "transfers"):
        assert (tmp_path / "all" / folder / f"{trial_id}.parquet").read_bytes() == folder.encode()
        (tmp_path / "all" / folder / f"{trial_id}.parquet").unlink()
    made_up(measured)
    whole = go(Experiment.new(source(), tmp_path / "whole", in_memory))
    assert [one["id"] for one in done.run.records] == [one["id"] for one in whole.records]
    assert records(tmp_path / "all").keys() == records(tmp_path / "whole").keys()
    loaded = load_run(tmp_path / "all")
    assert (loaded.planned, len(loaded.trials)) == (2 * CELLS, 2 * CELLS)
    assert write_report(tmp_path / "all").exists()
    assert "part" not in loaded.resolved
    assert loaded.environment["lab"].keys() == records(tmp_path / "all").keys()


def test_parts_of_an_older_version_keep_their_ids(made_up: Made, tmp_path: Path) -> None:
    (part,) = parts_of(made_up, source(SPEC), tmp_path, 1)
    path = part / "trials" / "ring-b2.json"
    path.with_name("ring-star3-b2.json").write_text(path.read_text().replace('"ring-b2"', '"ring-star3-b2"'))
    path.unlink()
    (part / "samples" / "ring-b2.parquet").rename(part / "samples" / "ring-star3-b2.parquet")
    done = merged([part], tmp_path / "all")
    assert (done.missing, set(records(tmp_path / "all"))) == ([], {"PS-b2", "ring-star3-b2"})


def test_a_part_goes_on_as_the_part_it_was(made_up: Made, tmp_path: Path) -> None:
    first = made_up(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(), tmp_path / "run", in_memory, (2, 3)))
    second = made_up()
    done = go(Experiment.resumed(tmp_path / "run", None, in_memory))
    assert len(done.records) == len(first.ids) + len(second.ids) < 2 * CELLS


def test_parts_decide_by_themselves_when_it_is_enough(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    parts = parts_of(made_up, spec, tmp_path, 2)
    done = merged(parts, tmp_path / "all")
    assert (len(done.run.records), done.missing) == (2 * 3 + 2 * 6, [])
    assert [str(one) for one in done.run.loose] == ["PS, batch 4: ±12.9% after 6 VALID trials"]


def test_parts_to_which_a_gate_added_rounds_are_merged(made_up: Made, tmp_path: Path) -> None:
    """One more, of what has batch 4."""
    spec = source(SPEC + "repeats: 2\n", "workload.batch=[2, 4]")
    short = {Cell(label, 4): 1 for label in ("PS", "ring")}
    parts = []
    for number in (1, 2):
        made_up()
        parts.append(tmp_path / f"machine{number}")
        go(
            Experiment.new(
                spec, parts[-1], in_memory, (number, 2), lacking=lambda run: {4: short}.get(len(records(run)), {})
            )
        )
    assert sorted(len(records(part)) for part in parts) == [4, 6]
    done = merged(parts, tmp_path / "all")
    assert (len(done.run.records), done.missing) == (10, [])
    assert go(Experiment.resumed(tmp_path / "all", None, in_memory)).records == done.run.records


def test_of_a_part_that_is_missing_only_what_is_certain_is_missed(made_up: Made, tmp_path: Path) -> None:
    spec = source(UNTIL, "workload.batch=[2, 4]")
    steady, noisy = parts_of(made_up, spec, tmp_path, 2)
    if len(records(steady)) > len(records(noisy)):
        steady, noisy = noisy, steady
    done = merged([noisy], tmp_path / "all")
    assert (len(done.run.records), sorted(done.missing)) == (2 * 6, sorted(records(steady)))
    ran = made_up(measured)
    assert len(go(Experiment.resumed(tmp_path / "all", None, in_memory)).records) == 2 * 6 + 2 * 3
    assert sorted(ran.ids) == sorted(records(steady))


def test_a_merged_run_knows_what_is_missing_and_runs_only_that(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 3)
    done = merged(parts[:2], tmp_path / "all")
    missing = set(records(parts[2]))
    assert set(done.missing) == missing
    assert load_run(tmp_path / "all").planned == 2 * CELLS
    ran = made_up()
    after = go(Experiment.resumed(tmp_path / "all", None, in_memory))
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
    go(Experiment.resumed(tmp_path / "all", None, in_memory))
    found = json.loads((tmp_path / "all" / "env.json").read_text())
    assert list(found["parts"]) == ["machine1", "machine2", "resumed"]
    assert found["parts"]["machine2"] == {"kernel": "6.1.0"}
    assert found["lab"].keys() == records(tmp_path / "all").keys()


def test_a_trial_that_was_done_is_taken_before_one_that_failed(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda _: float("nan"))
    go(Experiment.new(source(), tmp_path / "failed", in_memory))
    made_up()
    go(Experiment.new(source(), tmp_path / "done", in_memory))
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
        "HERE: not a run directory (it has no resolved.json)\n"
        "  fix: give the directory that testbed run wrote, such as HERE/machine1"
    )
    with closing(RunDirectory.reopen(two)):
        assert refused(OutputError, one, two) == (
            f"HERE/machine2: a run is writing into it (process {os.getpid()})\n  fix: wait for its end, or end it"
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
        f"missing: {missing} trials; go on with:",
        "  testbed run --resume all",
        "report: all/report.html",
    ]
    found = json.loads(testbed("merge", "machine1", "machine2", "machine3", "--out", "b", "--json").out)
    assert found == {"run": "b", "report": "b/report.html", "missing": [], "kept": {}}
    assert testbed("merge", "machine1", "--out", "all").err.startswith("error: all: is not empty")


def with_failed_log(part: Path, what: str) -> None:
    """A log of the part's first trial that is none."""
    logs = part / "logs" / next(iter(sorted(records(part))))
    logs.mkdir(parents=True, exist_ok=True)
    if what == "fifo":
        os.mkfifo(logs / "h0.log")
    else:
        (part.parent / "secret").write_text("secret")
        (logs / "h0.log").symlink_to(part.parent / "secret")


@pytest.mark.parametrize("what", ["fifo", "link"])
def test_what_is_no_log_is_not_copied(made_up: Made, tmp_path: Path, what: str) -> None:
    parts = parts_of(made_up, source(), tmp_path, 2)
    with_failed_log(parts[1], what)
    with pytest.raises(OutputError, match=r"h0\.log: is "):
        merged(parts, tmp_path / "all")
    assert not list((tmp_path / "all" / "logs").rglob("h0.log"))


def test_a_folder_of_logs_that_is_a_link_is_not_copied(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 2)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    logs = parts[1] / "logs" / next(iter(sorted(records(parts[1]))))
    logs.symlink_to(tmp_path / "secret")
    with pytest.raises(OutputError, match=r"key: is a symbolic link, or in one"):
        merged(parts, tmp_path / "all")


def test_merging_runs_no_code_that_a_part_names(made_up: Made, tmp_path: Path) -> None:
    parts = parts_of(made_up, source(), tmp_path, 2)
    evil = tmp_path / "evil.py"
    evil.write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef net(rate_bps, delay_s): ...\n"
    )
    for part in parts:
        spec = part / "spec.yaml"
        spec.write_text(spec.read_text().replace('"star(hosts=2..4)"', f"'{evil}:net'", 1))
    with pytest.raises(SpecError, match="names code in a file, which testbed merge does not run") as refused:
        merged(parts, tmp_path / "all")
    assert not (tmp_path / "ran").exists()
    assert (refused.value.fix or "").startswith("add --run-code if you trust")
    with pytest.raises(SpecError):  # it makes no topology
        merged(parts, tmp_path / "all", run_code=True)
    assert (tmp_path / "ran").exists()


def test_parts_with_a_network_of_ones_own_are_merged(made_up: Made, tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    made = "def net(rate_bps, delay_s): return star(rate_bps, delay_s, hosts=2)"
    net.write_text(f"from testbed.topologies.star import star\n{made}\n")
    own = SPEC.replace("star(hosts=3)", f"'{net}:net'").replace("200 Mbit/s", "[100 Mbit/s, 200 Mbit/s]")
    parts = parts_of(made_up, source(own), tmp_path, 2)
    assert merged(parts, tmp_path / "all", run_code=True).missing == []


@pytest.mark.parametrize("name", ["trials", "samples", "queues", "transfers", "logs", ".lock"])
def test_a_run_whose_folders_are_elsewhere_is_not_gone_on_with(made_up: Made, tmp_path: Path, name: str) -> None:
    """What is written there would land where whoever made the directory wants it."""
    (part,) = parts_of(made_up, source(SPEC), tmp_path, 1)
    (part / name).rename(tmp_path / "elsewhere")
    (part / name).symlink_to(tmp_path / "elsewhere")
    unfinished = tmp_path / "elsewhere" / ".x.tmp"
    if name != ".lock":
        unfinished.touch()
    with pytest.raises(OutputError, match="is a symbolic link, and links are not followed there"):
        Experiment.resumed(part, None, in_memory)
    assert name == ".lock" or unfinished.exists()


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("resolved.json", {"folder": None}, "damaged, 'folder' is missing"),
        ("resolved.json", {"overrides": 5}, r"damaged \(overrides is 5, no list\)"),
        ("resolved.json", {"part": [1]}, r"damaged \(part is \[1\], no pair of whole numbers\)"),
        ("resolved.json", {"fitted": {"workload.scale": "x"}}, r"damaged \(fitted\.workload\.scale is 'x'"),
        ("env.json", {"lab": 5}, r"damaged \(lab is 5, no object\)"),
    ],
)
def test_a_run_that_was_made_to_hurt_is_not_gone_on_with(
    made_up: Made, tmp_path: Path, name: str, change: dict[str, object], why: str
) -> None:
    (part,) = parts_of(made_up, source(SPEC), tmp_path, 1)
    path = part / name
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(OutputError, match=why):
        go(Experiment.resumed(part, None, in_memory))
