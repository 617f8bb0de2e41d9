"""The whole way in a real lab: spec, trials, workers, samples, run directory, report; and each way it can break off."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from testbed.analysis.record.columns import COLUMNS
from testbed.base.errors import MissingToolError
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.machine.cgroups import limits
from testbed.spec import Source
from testbed.topologies.model import Topology
from tests.patience import until

from ..conftest import PROFILE, SPEC, Called
from ..records import carried_what_the_forest_says

pytestmark = pytest.mark.lab

FAST = SPEC.replace("200 Mbit/s", "1 Gbit/s")
LONG = """\
name: long
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: resnet50, batch: 32, iterations: 20, scale: 200, compute: {pace: {32: 0.1 s}}}
arms:
  - {label: PS, topology: star(hosts=3), scheme: ps}
  - {label: ring, topology: star(hosts=3), scheme: ring}
timeout: 20 s
retries: 0
quiet: 0 s
"""
"""Takes its time without taking the CPU's."""
COMMAND = [sys.executable, "-c", "from testbed.cli import main; main()"]
PATIENCE_S = 180.0
CLI = Callable[..., Called]


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


class Started:
    """A run that goes on beside the test, ended with it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.out = folder / "out"
        self.process = subprocess.Popen(
            [*COMMAND, "run", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something that the run does."""

        def there() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return reached()

        until(there, PATIENCE_S, 0.05)

    def lines(self, trial: str, host: str) -> list[dict]:
        """What a worker has written so far."""
        path = self.out / "work" / trial / host / "samples.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]]

    def trains(self, trial: str) -> bool:
        """Whether a trial has got past its first iterations."""
        return sum(line["kind"] == "iteration" for line in self.lines(trial, "h0")) > 2

    def worker(self, trial: str, host: str) -> int:
        """PID, as we see it, of a worker, which writes to its log."""
        log = self.out.resolve() / "logs" / trial / f"{host}.log"
        (pid,) = [pid for pid in family(self.process.pid) if Path(f"/proc/{pid}/fd/1").readlink() == log]
        return pid

    def press_ctrl_c(self) -> None:
        """As at a terminal: all processes of the foreground are told."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Exit code and output, once it has ended."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = dict(
                    line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line
                )
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(status["PPid"])
    found = {pid} & parents.keys()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def all_gone(pids: list[int]) -> bool:
    """Whether none of the processes is left, other than as a zombie that somebody else must reap."""
    return not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start runs of ``spec.yaml`` in the test's own directory."""
    running: list[Started] = []

    def begin(spec: str, *arguments: str) -> Started:
        (tmp_path / "spec.yaml").write_text(spec)
        running.append(Started(tmp_path, "spec.yaml", "--out", "out", *arguments))
        return running[-1]

    yield begin
    for one in running:
        one.process.kill()
        one.process.communicate()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A run of both arms, to look at."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "spec.yaml").write_text(FAST)
    done = call(folder, "run", "spec.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out", done


def test_the_run_says_what_came_out_and_where_the_report_is(finished) -> None:
    out, done = finished
    lines = done.stdout.splitlines()
    assert lines[0] == "2 trials to run, about 7 s"
    assert lines[1].startswith("[1/2] PS-b2: GST ")
    assert lines[2].startswith("[2/2] ring-b2: GST ")
    assert lines[4].split("\t")[:5] == ["arm", "batch", "GST", "p95", "p99"]
    assert lines[-1] == "report: out/report.html"
    assert (out / "report.html").stat().st_size > 100_000
    assert done.stderr == ""


def test_the_run_directory_holds_what_it_should_and_no_more(finished) -> None:
    out, _ = finished
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {
        *(".lock", "spec.yaml", "resolved.json", "env.json", "results.csv", "report.html"),
        *(
            f"{folder}/{trial}.{end}"
            for trial in ("PS-b2", "ring-b2")
            for folder, end in (("trials", "json"), ("samples", "parquet"), ("queues", "parquet"))
        ),
        *(f"logs/{trial}/h{i}.log" for trial in ("PS-b2", "ring-b2") for i in range(3)),
    }
    assert (out / "spec.yaml").read_text() == FAST


def test_a_trial_has_its_metrics_and_the_weights_of_single_process_sgd(finished) -> None:
    out, _ = finished
    record = json.loads((out / "trials" / "ring-b2.json").read_text())
    assert (record["status"], record["error"], record["world"], record["schema"]) == ("done", None, 3, 1)
    assert record["accuracy"]["weights_equal"] is True
    assert record["accuracy"]["weights_error"] <= 1e-4
    assert 0 <= record["accuracy"]["test_accuracy"] <= 1
    found = record["metrics"]
    assert found["gst_ratio"] == pytest.approx(found["gst_median_s"] / found["gst_theory_s"])
    assert found["compute_s"] + found["sync_s"] == pytest.approx(found["jct_s"])
    assert found["throughput_sps"] == pytest.approx(3 * 2 * 3 / found["jct_s"])
    assert found["wire_bytes"] == pytest.approx(found["wire_bytes_theory"], rel=0.03)
    assert record["fidelity"]["verdict"] in ("VALID", "INVALID")


def test_the_kernel_counts_the_bytes_of_the_forest(finished) -> None:
    out, _ = finished
    for path in (out / "trials").iterdir():
        record = json.loads(path.read_text())
        assert len(record["links"]) == 6
        carried_what_the_forest_says(record)


def test_samples_are_a_row_for_each_rank_and_iteration(finished) -> None:
    out, _ = finished
    samples = pd.read_parquet(out / "samples" / "PS-b2.parquet")
    assert list(zip(samples["rank"], samples["iteration"], strict=True)) == [(r, i) for r in range(3) for i in range(3)]
    assert samples["start_s"].min() == 0
    assert (samples["start_s"] <= samples["ready_s"]).all()
    assert (samples["ready_s"] < samples["sum_s"]).all()
    assert (samples["sum_s"] <= samples["end_s"]).all()


def test_results_are_a_row_a_trial(finished) -> None:
    out, _ = finished
    with (out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["trial"], row["status"]) for row in rows] == [("PS-b2", "done"), ("ring-b2", "done")]
    assert float(rows[0]["gst_median_s"]) > 0


def test_the_environment_is_recorded_and_no_variable_of_it(finished) -> None:
    out, _ = finished
    text = (out / "env.json").read_text()
    found = json.loads(text)
    assert found["kernel"] == os.uname().release
    assert found["cpu"]["cores"] >= 1
    assert found["limits"] == limits().as_json()
    assert found["packages"]["torch"]
    assert found["lab"].keys() == {"PS-b2", "ring-b2"}
    shapes = found["lab"]["PS-b2"]["shapes"]
    assert [(shape["rate_bps"], shape["directed_links"]) for shape in shapes] == [(10**9, 6)]
    assert os.environ["PATH"] not in text


def test_a_run_that_is_complete_is_not_run_again(finished, testbed: CLI, tmp_path: Path) -> None:
    out, _ = finished
    copy = shutil.copytree(out, tmp_path / "copy")
    before = {path: path.read_bytes() for path in (copy / "trials").iterdir()}
    called = testbed("run", "--resume", "copy", "--json")
    assert called.code == 0, called.err
    assert {path: path.read_bytes() for path in (copy / "trials").iterdir()} == before
    printed = json.loads(called.out)
    assert [trial["id"] for trial in printed["trials"]] == ["PS-b2", "ring-b2"]
    assert printed["run"] == "copy"


def test_a_run_does_not_go_on_with_another_spec(finished, testbed: CLI, tmp_path: Path) -> None:
    out, _ = finished
    shutil.copytree(out, tmp_path / "copy")
    (tmp_path / "spec.yaml").write_text(FAST.replace("iterations: 3", "iterations: 4"))
    called = testbed("run", "spec.yaml", "--resume", "copy")
    assert called.code == 2
    assert called.err == (
        "error: copy is a run of another experiment than spec.yaml: workload.iterations was 3, and 4 is asked for\n"
        "  fix: start a new run with --out DIR, or go on without a spec: testbed run --resume copy\n"
    )


def test_a_worker_that_dies_fails_its_trial_and_the_next_goes_on(start) -> None:
    run = start(LONG)
    run.until(lambda: run.trains("PS-b32"))
    os.kill(run.worker("PS-b32", "h1"), signal.SIGKILL)
    code, out, _ = run.end()
    assert code == 1
    assert "[1/2] PS-b32: FAILED: the worker on h1 was killed by SIGKILL" in out
    assert "[2/2] ring-b32: GST " in out
    records = {path.stem: json.loads(path.read_text()) for path in (run.out / "trials").iterdir()}
    assert records["PS-b32"]["status"] == "failed"
    assert "h1.log" in records["PS-b32"]["error"]
    assert records["ring-b32"]["status"] == "done"
    assert not (run.out / "work").exists()
    assert (run.out / "logs" / "PS-b32" / "h1.log").exists()
    with (run.out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["failed", "done"]
    assert "SIGKILL" in rows[0]["reasons"]


def test_two_ctrl_c_keep_what_is_finished_and_resume_goes_on(start, testbed: CLI) -> None:
    run = start(LONG)
    run.until(lambda: run.trains("ring-b32"))
    others = list(family(run.process.pid))
    run.press_ctrl_c()
    time.sleep(0.02)
    run.press_ctrl_c()  # while it ends
    code, _, err = run.end()
    assert code == 130
    assert err == ("interrupted: 1 of 2 trials finished and kept in out\n  go on with: testbed run --resume out\n")
    assert all_gone(others)
    first = (run.out / "trials" / "PS-b32.json").read_bytes()
    called = testbed("run", "--resume", "out")
    assert called.code == 0, called.err
    assert (run.out / "trials" / "PS-b32.json").read_bytes() == first
    assert json.loads((run.out / "trials" / "ring-b32.json").read_text())["status"] == "done"
    assert "[1/1] ring-b32" in called.out
    assert not (run.out / "work").exists()


def test_nothing_is_left_after_kill_9(start) -> None:
    run = start(LONG)
    run.until(lambda: run.trains("PS-b32"))
    others = list(family(run.process.pid))
    assert len(others) > 5
    run.process.kill()
    run.process.communicate()
    until(lambda: all_gone(others))


def test_a_full_disk_ends_the_run_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(FAST)
    (tmp_path / "small").mkdir()
    mount = 'mount -t tmpfs -o size=4m none small && exec "$@"'
    script = ["unshare", "-Urm", "sh", "-c", mount, "sh", *COMMAND, "run", "spec.yaml", "--out", "small/out"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    problem, fix = done.stderr.splitlines()
    assert problem.startswith("error: small/out: ")
    assert "are left on the disk, the next trial needs" in problem
    assert fix == "  fix: free some space, then go on with testbed run --resume; finished trials are kept"


def test_a_place_that_cannot_emulate_the_links_leaves_nothing(source: Source, tmp_path: Path) -> None:
    class Refusing:
        closed = False

        def require(self, topology: Topology, _settings: object) -> None:
            raise MissingToolError(f"{topology.expression} cannot be here", fix="go elsewhere")

        def close(self) -> None:
            self.closed = True

    place = Refusing()
    with pytest.raises(MissingToolError, match=r"^star\(hosts=3\) cannot be here"):
        Experiment.new(source, tmp_path / "out", lambda: Here(lambda: place))  # type: ignore[arg-type,return-value]
    assert place.closed
    assert not (tmp_path / "out").exists()


def test_a_profile_is_played_and_its_sums_are_counted(testbed: CLI, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(PROFILE)
    few = ["arms.0.topology=star(hosts=3)", "workload.overlap=both", "workload.priority=layer"]
    sets = [word for change in few for word in ("--set", change)]
    called = testbed("run", "spec.yaml", "--out", "out", *sets)
    assert called.code == 0, called.err
    (row,) = csv.DictReader((tmp_path / "out" / "results.csv").open())
    assert (row["kind"], row["model"], float(row["scale"])) == ("profile", "vgg19", 200)
    assert (row["wrong_elements"], row["test_accuracy"]) == ("0", "")
    (path,) = (tmp_path / "out" / "trials").glob("*.json")
    record = json.loads(path.read_text())
    assert record["sums"] == {"checked_elements": 3 * 3 * round(143_667_240 / 200), "wrong_elements": 0}
    assert record["metrics"]["jct_s"] >= 3 * 0.268
    assert {round(link["rate_bps"]) for link in record["links"]} == {200_000_000}
    assert "No model was trained" in (tmp_path / "out" / "report.html").read_text()
