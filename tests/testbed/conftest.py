"""A small experiment to change and break, and the command line as a user calls it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from testbed.capacity import cache
from testbed.capacity.model import Load, Step
from testbed.experiment import provenance, run
from testbed.experiment.expand import trials
from testbed.lab import choice
from testbed.spec import Source, read
from testbed.testing import IdealPlace
from testbed.trial import packages
from testbed.trial.model import Trial

from .bench import Bench, HastyReferee

SPEC = """\
name: small
seed: 1
links: {rate: 200 Mbit/s}
workload:
  model: lenet5
  dataset: digits
  batch: [2]
  iterations: 3
  compute: none
arms:
  - {label: PS, topology: star(hosts=3), scheme: ps}
  - {label: ring, topology: star(hosts=3), scheme: ring}
timeout: 20 s
retries: 0
quiet: 0 s
"""
"""Tests do not wait until others leave the cores, and take what was measured at first."""

PROFILE = """\
name: played
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: 200}
arms:
  - {topology: star(hosts=5), scheme: ring}
retries: 0
quiet: 0 s
"""


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    """``spec.yaml`` in the test's own directory."""
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def source() -> Source:
    """The same, read."""
    return read(SPEC, "spec.yaml", Path())


@pytest.fixture
def trial(source: Source) -> Trial:
    """The first trial: PS on three hosts."""
    return trials(source)[0]


@dataclass(frozen=True)
class Called:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def testbed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Called]:
    """Run the command line in this process, in the test's own directory unless another ``folder`` is given."""
    from testbed.cli import main

    def call(*arguments: str, folder: Path = tmp_path) -> Called:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TESTBED_UP", tmp_path.name + str(os.getpid()))  # not the lab that this user may hold
        monkeypatch.setattr(sys, "argv", ["testbed", *arguments])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    return call


@pytest.fixture(scope="session", autouse=True)
def roomy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """This machine is known to carry whatever tests ask for, whatever its user has measured."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    load = Load(1e12, 2e12, 1e9, 1e8, 65_536, 1e7, 1, 1, 10**12, 8e12)
    cache.keep([Step("all", load, certified=True, ratio=1.0, idle=0.5)], "2026-11-22")


@pytest.fixture(scope="session", autouse=True)
def once() -> Iterator[None]:
    """What each command makes anew, and is the same for all of a process: the parser of the command line, which
    packages are installed, and what git says of the code. Each takes longer than most commands that tests call."""
    same = (typer.main, "get_command"), (provenance, "packages"), (provenance, "git"), (packages, "entry_points")
    with pytest.MonkeyPatch.context() as patch:
        for module, name in same:
            patch.setattr(module, name, functools.cache(getattr(module, name)))
        yield


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """Where trials run that need no run around them."""
    with HastyReferee() as referee:
        one = Bench(referee)
        yield one
        one.close()


@pytest.fixture
def ideal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all trials run in the place for tests, whatever lab their spec names."""
    for module in (choice, run):
        monkeypatch.setattr(module, "opener", lambda *_: IdealPlace)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Have trials measure what a function says (:data:`tests.testbed.runner.Measure`); after so many trials somebody
    presses Ctrl-C. Gives what ran."""
    from testbed.experiment import runner

    from .runner import Ran

    def make(measure: Callable[[Trial], float] = lambda _: 1.0, stop_after: int | None = None) -> Ran:
        ran = Ran(measure, stop_after)
        monkeypatch.setattr(runner, "execute", ran.execute)
        return ran

    return make
