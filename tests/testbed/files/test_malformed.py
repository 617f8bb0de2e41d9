"""Hundreds of specs that make no sense: each is refused with exit code 2 and a message, soon, with little memory, and
with nothing built."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from testbed.experiment.expand import trials
from testbed.spec import read

from .. import malformed
from ..conftest import SPEC, Called

SEED = 1
SOON_S = 6.0
"""CPU time of one refusal. The dearest takes 0.9 s on an idle machine, and up to three times that on a busy one."""
LITTLE_BYTES = 500 * 2**20
COMMAND = [sys.executable, "-m", "testbed", "run", "spec.yaml", "--out", "out"]


class BuiltError(Exception):
    """A lab was to be started."""


@pytest.fixture
def refuse(testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Run a spec whose lab cannot start; whether it was refused before."""

    def no_lab(**_: object) -> None:
        raise BuiltError

    monkeypatch.setattr("testbed.lab.netns.lab.NetnsLab", no_lab)
    malformed.surroundings(spec_file.parent)
    testbed("plan", "spec.yaml")  # imports take time, and memory

    def run(what: str, content: bytes) -> bool:
        spec_file.write_bytes(content)
        began_s, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            called = testbed("run", "spec.yaml", "--out", "out")
        except BuiltError:
            return False
        finally:
            taken_s = time.process_time() - began_s
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            assert taken_s < SOON_S, f"{what} took {taken_s:.1f} s"
            assert grown < LITTLE_BYTES, f"{what} took {grown >> 20} MiB"
            assert not (spec_file.parent / "out").exists(), what
        assert called.code == 2, f"{what}: {called}"
        assert called.err.startswith("error: "), f"{what}: {called}"
        assert "Traceback" not in called.err, what
        assert len(called.err) < 20_000, f"{what}: an error of {len(called.err)} characters"
        assert called.out == ""
        return True

    return run


def test_specs_derived_from_the_schema(refuse: Callable[..., bool]) -> None:
    every = malformed.specs()
    kinds = {kind for one in every for kind in malformed.SCHEMA["$defs"] if kind.lower() in str(one.value)}
    assert {"Straggle", "Background", "Command", "Profile"} <= kinds
    refused = 0
    for one in random.Random(SEED).sample(every, 150):
        was = refuse(one.what, yaml.safe_dump(one.value).encode())
        assert was or not one.certainly, f"{one.what} was accepted"
        refused += was
    assert refused >= 100


def test_topologies_and_schemes_of_absurd_size_and_from_elsewhere(refuse: Callable[..., bool]) -> None:
    refused = 0
    for topology, scheme in random.Random(SEED).sample(malformed.expressions(), 170):
        arms = [{"topology": topology, "scheme": scheme}]
        spec = yaml.safe_load(SPEC) | {"arms": arms}
        was = refuse(f"{topology:.60} {scheme:.60}", yaml.safe_dump(spec).encode())
        assert was or not {topology, scheme} & {*malformed.PATHS}
        refused += was
    assert refused >= 100


def test_files_that_hold_no_spec(refuse: Callable[..., bool]) -> None:
    for what, content in malformed.texts(SPEC).items():
        assert refuse(what, content), f"{what} was accepted"


def test_the_spec_without_a_mistake_would_be_run(refuse: Callable[..., bool]) -> None:
    assert not refuse("the right one", SPEC.encode())


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topology: star(hosts=3), scheme: ps", "topology: star(hosts=262000), scheme: ps"),
        ("topology: star(hosts=3), scheme: ps", "topology: './huge.py:f', scheme: ps"),
        pytest.param(
            "topology: star(hosts=3), scheme: ps", "topology: './pipe.py:f', scheme: ps", marks=pytest.mark.rehearse
        ),
        pytest.param("seed: 1", "seed: !!python/object/apply:os.system [touch built]", marks=pytest.mark.rehearse),
    ],
)
def test_a_process_of_its_own_refuses_it_with_a_gigabyte_of_addresses(old: str, new: str, spec_file: Path) -> None:
    malformed.surroundings(spec_file.parent)
    assert old in SPEC
    spec_file.write_text(SPEC.replace(old, new))
    before = {path.name for path in spec_file.parent.iterdir()}
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        COMMAND, cwd=spec_file.parent, env=environment, capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=_limited,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert {path.name for path in spec_file.parent.iterdir()} == before


def test_a_pipe_that_nobody_fills_is_not_waited_for(spec_file: Path, testbed: Callable[..., Called]) -> None:
    os.mkfifo(spec_file.parent / "pipe")
    began_s = time.monotonic()
    called = testbed("plan", "pipe")
    assert (called.code, called.err) == (2, "error: pipe: no spec has come for 5 s\n  fix: write it into a file\n")
    assert time.monotonic() - began_s < 15


def test_a_spec_may_come_through_a_pipe(spec_file: Path) -> None:
    script = f"cat spec.yaml | {sys.executable} -m testbed plan /dev/stdin"
    done = subprocess.run(
        ["sh", "-c", script], cwd=spec_file.parent, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["~/x.py:f", "$HOME/x.py:f", "${HOME}/x.py:f"])
def test_a_file_that_the_text_does_not_name_is_not_run(
    name: str, testbed: Callable[..., Called], spec_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "x.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setenv("HOME", str(home))
    spec_file.write_text(SPEC.replace("topology: star(hosts=3), scheme: ps", f"topology: '{name}', scheme: ps"))
    called = testbed("plan", "spec.yaml")
    assert called.code == 2
    assert "there is no file" in called.err or "cannot read" in called.err
    assert not (tmp_path / "ran").exists()


def test_words_of_a_command_are_not_expanded(tmp_path: Path) -> None:
    text = "{name: a, links: {rate: 1 Mbit/s}, workload: {kind: command, command: \"echo ~ *.py `id` '$(id)'\"}}"
    spec = yaml.safe_load(text) | {"arms": [{"topology": "star(hosts=2)"}]}
    (trial,) = trials(read(yaml.safe_dump(spec), "spec.yaml", tmp_path))
    assert trial.spec.workload.program.words == ("echo", "~", "*.py", "`id`", "$(id)")
