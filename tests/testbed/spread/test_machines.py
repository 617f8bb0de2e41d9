"""Machines as they answer, and blocks as they come back; what a user reads is in golden/spread/NAME.txt.

The engine is made up: its machines answer what a test says, and run blocks at once, in the ideal place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from testbed.api import experiment
from testbed.base.errors import HostError, MissingToolError, SpecError, as_json
from testbed.capacity.cache import Known
from testbed.experiment.fit import fit
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.run_directory.layout import files_of
from testbed.run_directory.resolved import fitted_scale
from testbed.run_directory.stored import source_of
from testbed.spec import Source, read
from testbed.spread import block, bundle, dask
from testbed.spread.bundle import pack
from testbed.spread.gather import Spread
from testbed.spread.machines import Machines, opened
from tests.patience import until

from ..capacity.made_up import known
from ..conftest import PROFILE, Called
from ..experiment.test_fit import SLOW
from ..spec.test_bad_input import GOLDEN, check
from . import test_spread

SPEC = test_spread.SPEC.replace("lab: waiting\n", "")
FITS = {**block.answer("netns"), "host": "left", "cores": 2.0, "cpu": "a processor", "kernel": "6.1", "error": None}


def unfit(fix: str) -> dict[str, Any]:
    return FITS | {"error": as_json(MissingToolError("no tc here", fix=fix))}


@dataclass
class MadeUp:
    """An engine whose machines say ``answers``, and carry ``capacities``; what an error is raised. ``sends`` makes what
    a machine sends of its block of what it has."""

    answers: Mapping[str, Any]
    capacities: Mapping[str, Any] = field(default_factory=dict)
    sends: Callable[[str, list[Any]], list[Any]] = lambda _, packed: packed
    holds_machine = True
    asked: list[tuple[str, str]] = field(default_factory=list)
    folder: Path = Path()

    def workers(self) -> list[str]:
        return list(self.answers)

    def send(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.asked.append((worker, function.__name__))
        future: Future[Any] = Future()
        try:
            future.set_result(self._said(worker, function, arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def _said(self, worker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if function is block.following:
            return self._block(worker, self.folder / arguments[0] / worker, arguments[1])
        said = {block.answer: self.answers, block.capacity: self.capacities, block.end: {}}[function].get(worker)
        if isinstance(said, Exception):
            raise said
        return said

    def _block(self, worker: str, folder: Path, order: block.Order) -> dict[str, Any]:
        folder.mkdir(parents=True)
        bundle.unpack(order.packed, folder)
        run = folder / bundle.OUT
        with Experiment.new(source_of(folder / bundle.RUN), run, only=lambda _: order.ids) as begun:
            begun.go(silent)
        for trial in begun.planned:
            (run / "outputs" / trial.id / "rank0").mkdir(parents=True)
            (run / "outputs" / trial.id / "rank0" / "notes.txt").write_text(trial.id)
        packed = [pack({n: (run / n).read_bytes() for n in files_of(run, trial.id)}) for trial in begun.planned]
        environment = pack({"env.json": (run / "env.json").read_bytes()})
        return {"trials": self.sends(worker, packed), "code": 0, "environment": environment}

    def close(self) -> None:
        self.asked.append(("all", "close"))


def silent(left: Any) -> Lines:
    return Lines(left, Console(file=io.StringIO()))


def spec(text: str = SPEC) -> Source:
    return read(text, "spec.yaml", Path())


def spread(engine: MadeUp, folder: Path) -> tuple[str, Experiment]:
    """Run the spec on an engine's machines; return what was said, and the run."""
    engine.folder = folder / "machines"
    machines = Machines(engine, "netns")
    machines.ask()
    said = io.StringIO()
    with Spread.new(spec(), folder / "run", lambda: machines) as begun:
        begun.go(lambda left: Lines(left, Console(file=said, width=10_000)))
    return said.getvalue(), begun


@pytest.mark.usefixtures("ideal")
def test_a_machine_without_a_block_is_idle_and_named(tmp_path: Path) -> None:
    engine = MadeUp(dict.fromkeys(["a", "b", "c"], FITS) | {"d": unfit("install it")})
    said, run = spread(engine, tmp_path)
    assert "2 blocks of trials that are compared to run on them" in said
    assert "idle, for there are more machines than blocks: c" in said
    assert "d is left out: no tc here" in said
    assert {record["machine"] for record in run.records.values()} == {"a", "b"}
    assert ("c", "following") not in engine.asked


class Unanswered(Future[Any]):
    """An answer that does not come while others run."""

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002  # it takes no time
        raise AssertionError("nobody may wait for it")


class Joined(MadeUp):
    """An engine to which machines come once blocks run: one of another version, one that says nothing, and one that
    fits."""

    def workers(self) -> list[str]:
        runs = any(task == "following" for _, task in self.asked)
        return [*self.answers, *(("other", "silent", "late") if runs else ())]

    def send(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return Unanswered() if worker == "silent" else super().send(worker, function, *arguments)

    def _said(self, worker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if function is block.answer and worker not in self.answers:
            return OTHER if worker == "other" else FITS
        return super()._said(worker, function, arguments)


@pytest.mark.usefixtures("ideal")
def test_machines_that_come_later_are_not_waited_for_and_named(tmp_path: Path) -> None:
    said, run = spread(Joined({"a": FITS}), tmp_path)
    assert {record["status"] for record in run.records.values()} == {"done"}
    assert "late: left, 2 cores, a processor, Linux 6.1" in said
    assert "other is left out: worker other has testbed 0.2 (0123456789abcdef), here is " in said
    assert "silent" not in said


def test_machines_that_may_run_blocks_prepare_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    engine = MadeUp({"d": unfit("install it")} | dict.fromkeys(["a", "b", "c"], FITS))
    opened(lambda: engine, spec().spec)
    assert [machine for machine, task in engine.asked if task == "prepare"] == ["a", "b"]


def test_a_process_that_gets_no_order_ends_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(block, "LEASE_S", 0.5)
    block.prepare()
    (process,) = block._idle
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["blocks"]
    until(lambda: process.code is not None and not block._idle and not [*tmp_path.iterdir()])
    assert not process.fits(b"")


@pytest.mark.usefixtures("ideal")
def test_files_that_programs_wrote_come_along(tmp_path: Path) -> None:
    _, run = spread(MadeUp({"a": FITS}), tmp_path)
    written = {path.parents[1].name: path.read_text() for path in (tmp_path / "run/outputs").rglob("notes.txt")}
    assert written == {name: name for name in run.records}
    assert len(written) == 4


def outside() -> bytes:
    return pack({"trials/../../../outside.json": b"{}"})


@pytest.mark.usefixtures("ideal")
@pytest.mark.parametrize(
    ("tampered", "why"),
    [
        (lambda _: [bytes(3_000_000_000)], "sent 3,000,000,000 bytes, and "),
        (lambda packed: [*packed, outside()], "sent a file outside of its folder: "),
        (lambda packed: packed[1:], "PS-b32-rate2Gbit-s has not come back"),
        (lambda _: "none", "sent no archive"),
    ],
    ids=["too_large", "outside", "too_few", "no_archive"],
)
def test_a_block_whose_answer_is_unfit_is_done_again_elsewhere(
    tmp_path: Path, tampered: Callable[[list[Any]], list[Any]], why: str
) -> None:
    engine = MadeUp({"a": FITS, "b": FITS}, sends=lambda machine, sent: tampered(sent) if machine == "a" else sent)
    said, run = spread(engine, tmp_path)
    assert f"a is lost to PS-b32-rate2Gbit-s and what is compared with it: its answer is not taken: {why}" in said
    assert {record["machine"] for record in run.records.values()} == {"b"}
    assert {record["status"] for record in run.records.values()} == {"done"}
    assert not [*tmp_path.glob("*outside*"), *(tmp_path / "run").glob("*outside*")]


@pytest.mark.usefixtures("ideal")
def test_the_scale_that_fits_is_that_of_the_weakest_machine(tmp_path: Path) -> None:
    fitting = spec(PROFILE.replace("scale: 200", "scale: fit"))
    machines = Machines(MadeUp({"a": FITS, "b": FITS}, {"a": known(), "b": SLOW}), "netns")
    machines.ask()
    settled = machines.settled(fitting)
    least = fit(fitting, SLOW).fitted
    assert settled.fitted == least
    assert least != fit(fitting, known()).fitted
    Spread.new(settled, tmp_path / "run", lambda: machines).close()
    assert fitted_scale(json.loads((tmp_path / "run/resolved.json").read_text())) == least


@pytest.mark.parametrize(
    ("of_b", "error", "said"),
    [
        (Known(), SpecError, "b: spec.yaml: workload.scale: fit needs to know what this machine carries"),
        (OSError("gone"), HostError, "b does not say what it carries: OSError: gone"),
    ],
)
def test_a_machine_of_which_nothing_is_known_fits_no_scale(of_b: Any, error: type[Exception], said: str) -> None:
    machines = Machines(MadeUp({"a": FITS, "b": FITS}, {"a": known(), "b": of_b}), "netns")
    machines.ask()
    with pytest.raises(error, match=said):
        machines.settled(spec(PROFILE.replace("scale: 200", "scale: fit")))


OTHER = FITS | {"version": "0.2", "digest": "0123456789abcdef"}
MACHINES: dict[str, dict[str, Any]] = {
    "another_version": {"a": FITS, "b": OTHER},
    "no_machine_can_have_the_lab": {
        **{"a": unfit("sudo apt-get install iproute2"), "b": OSError("gone")},
        **{name: unfit("another fix") for name in "cd"},
    },
    "no_machine": {},
}
CALLS: dict[str, list[str]] = {
    "nowhere": ["--on", "dask://localhost:1"],
    "nowhere_known": ["--on", "dask://nowhere.invalid:1", "--trust-network"],
    "no_port": ["--on", "dask://localhost"],
    "no_tls": ["--on", "dask://10.0.0.1:8786"],
    "no_address": ["--on", "dask://"],
    "no_inventory": ["--on", "ssh://nowhere.yml"],
    "no_workers": ["--on", "local://0"],
    "half_a_worker": ["--on", "local://0.5"],
    "no_engine": ["--on", "slurm://2"],
    "no_mark": ["--on", "local"],
    "part": ["--on", "local://1", "--part", "1/2"],
    "baseline": ["--on", "local://1", "--baseline", "spec.yaml"],
    "machines_of_its_own": ["--on", "local://1", "--backend", "baremetal"],
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines_that_are_refused(
    name: str, testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = MadeUp(MACHINES[name])
    monkeypatch.setattr(experiment, "engine", lambda *_: engine)
    monkeypatch.setattr(block, "digest", lambda: "fedcba9876543210")
    for answer in (one for one in engine.answers.values() if isinstance(one, dict) and one is not OTHER):
        answer["digest"] = "fedcba9876543210"
    called = testbed("run", "spec.yaml", "--on", "made_up://")
    check(f"spread/{name}", called)
    assert called.code == 2
    assert engine.asked[-1] == ("all", "close")
    assert not (spec_file.parent / "runs").exists()


@pytest.mark.parametrize("name", CALLS)
def test_engines_that_are_refused(
    name: str, testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "ANSWER_S", 1)
    called = testbed("run", "spec.yaml", *CALLS[name])
    check(f"spread/{name}", called)
    assert called.code == 2
    assert not (spec_file.parent / "runs").exists()


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "spread").glob("*.txt")} == MACHINES.keys() | CALLS.keys()
