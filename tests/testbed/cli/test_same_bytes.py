"""What the command line prints for programs stays the same, byte for byte, whatever its parts are rewritten into.

``same_bytes.txt`` has a line for each command: the SHA-256 of its output and its words, to which ``--json`` is added.
Left out is what depends on the machine: of a plan what this one carries, how many cores it has, and its default
congestion control; of a schedule how long the scheduler took. Left out of the list are ``theory bml.fig5`` and
``theory coll.costs``, which take seven seconds and more, and ``theory plink.embedding``, which processors may round in
other ways.
Searches end after the few steps of a guess, which tests of claims take as well: in the same process each is searched
once for both.

``python -m tests.testbed.cli.test_same_bytes --show WORDS`` prints what is compared, to hold it against that of another
commit. ``--write`` writes the digests anew, of the commands that the file lists.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests import own
from tests.shipped import BATCHES, GUESSING, LARGE, SPECS, STEPS_OF_A_GUESS

ROOT = Path(__file__).parents[3]
FILE = Path(__file__).with_name("same_bytes.txt")
MODULE = "tests.testbed.cli.test_same_bytes"
OF_THE_MACHINE = {
    "plan": ("capacity", "advice", "warnings", "machine_congestion_control", "fitted_pace_s"),
    "schedule": ("scheduler_s",),
}
"""By command, what it says of the machine that it runs on."""


OF_PYTHON = {"plan experiments/mlfabric/lda.yaml", "plan experiments/mlfabric/lda_small.yaml"}
"""What depends on the version of Python: the sizes of its texts are in that plan."""
OF_THE_CORES = {"plan experiments/quickstart.yaml"}
"""What depends on how fast the machine computes: the paces of that plan are fitted to it."""


def listed() -> dict[str, str]:
    """The digest that each command's output has, by its words."""
    return {words: digest for digest, words in (line.split(maxsplit=1) for line in FILE.read_text().splitlines())}


def printed(words: str) -> str:
    """What a command prints with ``--json``, without what depends on the machine."""
    from testbed.cli import app
    from testbed.experiment import planning

    short = partial(planning.settled, most_steps=STEPS_OF_A_GUESS)
    searches = mock.patch.object(planning, "settled", short)
    with chdir(ROOT), searches, redirect_stdout(io.StringIO()) as out:
        app([*shlex.split(words), "--json"], standalone_mode=False)
    text = out.getvalue()
    left_out = OF_THE_MACHINE.get(words.split()[0])
    return _without(left_out, text) if left_out else text


def _without(keys: Sequence[str], printed: str) -> str:
    found = json.loads(printed)
    return json.dumps({key: value for key, value in found.items() if key not in keys}, indent=2) + "\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def can_be_run(plan: dict[str, Any]) -> None:
    """A plan has trials, and there is a theory for each whose work is known. Jobs that share a network have one of JCT
    together."""
    assert plan["trials"]
    for trial in plan["trials"]:
        assert trial["command"] or trial["jct_theory_s" if trial["gst_theory_s"] is None else "gst_theory_s"] > 0


def in_one_process(words: str) -> object:
    """Plans that search for networks or strategies."""
    command, *files = words.split()
    searches = command == "plan" and any(one in (ROOT / files[0]).read_text() for one in ("search(", "topoopt("))
    return pytest.param(words, marks=pytest.mark.xdist_group(GUESSING) if searches else ())


@pytest.mark.parametrize("words", [in_one_process(words) for words in listed()])
def test_a_command_prints_what_it_did(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own.in_this_process(monkeypatch)
    text = printed(words)
    assert str(ROOT) not in text
    if words.startswith("plan "):
        can_be_run(json.loads(text))
    assert digest(text) == listed()[words], (
        f"`testbed {words} --json` prints something else than when {FILE.name} was written. To see what, run\n"
        f"  python -m {MODULE} --show {shlex.quote(words)} > after.json\n"
        f"here, and into before.json in a checkout of the commit that this names:\n"
        f"  git log -1 --format=%h -- {FILE.relative_to(ROOT)}\n"
        f"Then diff the two. If the change is meant: python -m {MODULE} --write"
    )


def test_every_experiment_is_listed() -> None:
    plans = {f"plan {path.relative_to(ROOT)}" for path in set(SPECS) - LARGE}
    schedules = {f"schedule {path.relative_to(ROOT)}" for path in BATCHES}
    assert (plans | schedules) - OF_PYTHON - OF_THE_CORES <= set(listed()), (
        f"add lines for the new ones to {FILE.name}, and write the digests"
    )


def main() -> None:
    """``--show WORDS`` or ``--write``."""
    match sys.argv[1:]:
        case ["--show", words]:
            sys.stdout.write(printed(words))
        case ["--write"]:
            FILE.write_text("".join(f"{digest(printed(words))}  {words}\n" for words in listed()))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
