"""How long what a page shows takes: at most five minutes, or the time stands beside it, and is about right.

``testbed plan`` estimates it, as it would on two cores on which a gradient takes
:data:`tests.docs.conftest.GRADIENT_S`. Nothing is built. A time beside a command is in parentheses, ``(8 minutes)``, in
its comment or in the one above. One beside a spec is in the paragraph before it or behind it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.api.keys import begin
from testbed.api.reproduction import choose, expected_s
from testbed.comparison.gate import REPEATS
from testbed.experiment import fit
from testbed.experiment.duration import Estimate
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.selection import Wanted
from testbed.spec import Source, load, read
from testbed.spec.json_schema import TEMPLATE_NAMES
from tests.docs.markdown import ROOT, Block, blocks, pages
from tests.docs.test_commands import command
from tests.shipped import PLAYED, STEPS_OF_A_GUESS

pytestmark = pytest.mark.usefixtures("without_measuring")
LONGEST_S = 300.0
"""Longest time (s) of a snippet that is shown without its time."""
ABOUT = 2.0
"""So many times longer or shorter a time may be than the estimate."""
CORES = 2
UNIT_S = {"second": 1, "minute": 60, "hour": 3600}
TIME = re.compile(r"\((\d+(?:\.\d+)?) (second|minute|hour)s?\b[^)]*\)")


@dataclass(frozen=True)
class Shown:
    """Something that a reader can run: where it stands, what it is, and the text in which its time may stand."""

    where: str
    line: str
    beside: str

    def __str__(self) -> str:
        return f"{self.where} {self.line}"


def commands(like: str) -> list[Shown]:
    """The commands that match a pattern."""
    return list(_commands(re.compile(like)))


def _commands(like: re.Pattern[str]) -> Iterator[Shown]:
    for page in pages():
        for block in blocks(page, "sh"):
            before = ""
            for line in block.text.replace("\\\n", " ").splitlines():
                if like.search(line):
                    yield Shown(str(block), line, f"{before}\n{line.partition(' # ')[2]}")
                before = line if line.startswith("#") else ""


def specs() -> list[tuple[Block, Shown]]:
    """Each experiment that is shown whole."""
    shown = []
    for page in pages():
        text = page.read_text()
        for block in blocks(page, "yaml"):
            if block.words == ("yaml",):
                before, _, behind = text.partition(f"```yaml\n{block.text}```")
                beside = f"{before.strip().rpartition(chr(10) * 2)[2]}\n{behind.strip().partition(chr(10) * 2)[0]}"
                shown.append((block, Shown(str(block), "", beside)))
    return shown


RUNS = commands(r"testbed run .*\bexperiments/\S+\.yaml")
"""Commands that run a spec which comes with testbed."""
CLAIMS = commands(r"testbed reproduce (?!--list)")
SPECS = specs()


def estimated(source: Source, wanted: Wanted) -> tuple[float, bool]:
    """How long an experiment takes (s), and whether that is known: of programs it is a guess."""
    source = settled(fit.fit_pace(source, CORES), most_steps=STEPS_OF_A_GUESS)
    planned, only = trials(source), wanted.of(source)
    if only:
        firsts = [trial for trial in planned if not trial.repeat]
        cells = {trial.cell for trial in firsts if trial.id in only(firsts)}
        planned = [trial for trial in planned if trial.cell in cells]
    return Estimate(PLAYED).left_s(planned), all(trial.jct_theory_s is not None for trial in planned)


def check(shown: Shown, seconds: float, *, known: bool) -> None:
    told = TIME.search(shown.beside)
    assert told or seconds <= LONGEST_S, f"{shown}: takes {seconds / 60:.1f} minutes, and does not say so"
    if told and known:
        said_s = float(told[1]) * UNIT_S[told[2]]
        assert said_s / ABOUT <= seconds <= said_s * ABOUT, f"{shown}: says {told[0]}, takes {seconds:.0f} s"


def given_to(line: str) -> dict[str, Any]:
    """The values of a command's arguments and options."""
    words = shlex.split(line, comments=True)
    called, rest = command(words[next(i for i, word in enumerate(words) if word.endswith("testbed")) + 1 :])
    values: dict[str, Any] = called.make_context(called.name, rest).params
    return values


def asked(line: str) -> tuple[Source, Wanted]:
    """The experiment that a command runs, and which part of it."""
    given = given_to(line)
    (spec,) = given["specs"]
    source = load(ROOT / spec, given["overrides"])
    if given["baseline"] and "repeats" not in source.spec.model_fields_set:
        source = load(ROOT / spec, [*given["overrides"], f"repeats={REPEATS}"])
    return source, Wanted(given["arms"], given["points"], given["only"])


@pytest.mark.parametrize("shown", RUNS, ids=str)
def test_a_command_takes_five_minutes_or_says_how_long(shown: Shown) -> None:
    seconds, known = estimated(*asked(shown.line))
    check(shown, seconds, known=known)


@pytest.mark.parametrize("shown", CLAIMS, ids=str)
def test_claims_take_five_minutes_or_say_how_long(shown: Shown) -> None:
    given = given_to(shown.line)
    _, claims = choose(given["paper"], given["claim"])
    check(shown, expected_s(claims, given["full"]), known=given["backend"] is None)


@pytest.mark.parametrize(("block", "shown"), SPECS, ids=lambda shown: str(shown) if isinstance(shown, Block) else "")
def test_a_spec_takes_five_minutes_or_says_how_long(block: Block, shown: Shown, folder: Path) -> None:
    seconds, known = estimated(read(block.text, "block", folder), Wanted())
    check(shown, seconds, known=known)


@pytest.mark.parametrize("template", TEMPLATE_NAMES)
def test_what_new_writes_takes_five_minutes(template: str, tmp_path: Path) -> None:
    path, *_ = begin("mine", template, tmp_path)
    seconds, _ = estimated(load(path), Wanted())
    assert seconds <= LONGEST_S


def test_the_demo_says_how_long_it_takes() -> None:
    shown = [line for page in pages() for block in blocks(page, "sh") for line in block.text.splitlines()]
    demo = [line for line in shown if line.startswith("make demo")]
    assert len(demo) >= 3
    seconds, known = estimated(load(ROOT / "experiments" / "quickstart.yaml"), Wanted())
    for line in demo:
        check(Shown("make demo", line, line), seconds, known=known)


def test_a_time_that_is_lacking_or_wrong_is_found() -> None:
    long = Shown("page", "testbed run long.yaml", "# (20 minutes, on two cores)")
    check(long, 1000.0, known=True)
    for seconds in (500.0, 3000.0):
        with pytest.raises(AssertionError, match="says"):
            check(long, seconds, known=True)
    with pytest.raises(AssertionError, match="does not say so"):
        check(Shown("page", "testbed run long.yaml", "# some minutes"), 301.0, known=False)
