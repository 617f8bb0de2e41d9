"""``testbed.run()``: an experiment, run in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from testbed.api.process import call
from testbed.api.results import Run, load
from testbed.api.spec import Spec, words_of
from testbed.base.errors import UsageError

Path: TypeAlias = str | os.PathLike[str]


def run(
    spec: Spec | None = None,
    *,
    set: Mapping[str, object] | None = None,  # the command line's word
    out: Path | None = None,
    resume: Path | None = None,
    inventory: Path | None = None,
    part: str | None = None,
    found: Path | None = None,
    only: Sequence[str] = (),
    on: str | None = None,
) -> Run:
    """Run an experiment as ``testbed run`` does, show its progress, and return what it left.

    Trials that failed do not raise: :attr:`Run.failed` names them. KeyboardInterrupt (a notebook's stop button, too)
    ends the run as Ctrl-C does; finished trials are kept, and ``resume`` goes on.

    Args:
        spec: a file, or a dict of what would be in it; relative paths in a dict start at the current directory.
        set: changes to the spec, such as ``{"links.rate": "100 Mbit/s", "workload.iterations": 5}``.
        out: the new run directory; by default one in ``runs/``.
        resume: the directory of a run that was cut off; needs no spec.
        inventory: an Ansible inventory, for the lab ``baremetal``.
        part: ``2/3`` for the second of three parts, which ``testbed merge`` puts together.
        found: the directory of a run of the spec that has found what its arms leave to be found.
        only: ids of the trials to run, as ``testbed plan`` lists them, if not all.
        on: the machines that run it, as after ``--on``.

    Raises:
        SpecError: the spec makes no sense.
        TestbedError: another error of the command line (:mod:`testbed.base.errors`).
    """
    if spec is None and set:
        raise UsageError("set needs the spec that it changes", fix="give it, or resume without set")
    options = {"--out": out, "--resume": resume, "--inventory": inventory}
    options |= {"--part": part, "--found": found, "--on": on}
    words = ["run", "--json", *(f"{name}={os.fspath(value)}" for name, value in options.items() if value is not None)]
    words += [f"--only={one}" for one in only]
    if spec is None:
        return load(call(*words)["run"])
    with words_of(spec, set) as named:
        return load(call(*words, *named)["run"])
