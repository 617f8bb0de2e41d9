"""The report as Markdown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.analysis.recorded import Run
from testbed.analysis.report import markdown, page
from testbed.analysis.strikes import Strikes

from .helpers import judged


def test_doubts_come_first_then_the_finding_and_the_table(run: Run) -> None:
    text = markdown.render(run)
    places = [
        text.index(words)
        for words in (
            "# quickstart",
            "> **Ring on fat-tree at batch 64 is INVALID: comparisons with it mean nothing.**",
            "- PS on fat-tree at batch 64: FAILED. h3: worker ended with status -9",
            "- Ring on fat-tree at batch 64: INVALID. cpu: share of both cores",
            "**On another network, BML on BCube took ",
            "| Arm | Batch | GST, s | JCT, s | Fidelity |",
            "## How long did the jobs take?",
            "- At batch 16 on star(hosts=9) with 9 workers, the only setting where several arms are ranked, the "
            "fastest show no difference.",
            "| Setting | Network | Fastest arm | Its JCT |",
            "| batch 16 | star(hosts=9) with 9 workers | PS on fat-tree and Ring on fat-tree (no difference shown) |",
            "| batch 16 | bcube(n=3,k=2) with 9 workers | BML on BCube (the only one) |",
        )
    ]
    assert places == sorted(places)


def test_the_table_is_one_that_github_shows(sweep: Run) -> None:
    first = markdown.render(sweep).partition("\n## How long")[0]
    lines = [line for line in first.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert set(lines[1]) == set("|:- ")
    assert len(lines) == 2 + 3 * 2 * 3


def test_intervals_follow_medians(sweep: Run) -> None:
    lines = markdown.render(sweep).splitlines()
    row = next(line for line in lines if line.startswith("| BML on BCube | 16 | 100 Mbit/s"))
    jct = row.split("|")[5].strip()
    value, low, high = (float(word) for word in jct.replace("(", "").replace(")", "").replace("to ", "").split())
    assert low <= value <= high


def test_a_finding_that_is_not_reliable_says_so_first(run: Run) -> None:
    trials = tuple(judged(trial, "INVALID") for trial in run.trials)
    text = markdown.render(replace(run, trials=trials))
    assert text.splitlines()[2:5] == [
        "> **No finished trial is VALID: comparisons mean nothing.**",
        ">",
        "> **Not reliable: GST is INVALID.**",
    ]


def test_a_perturbation_that_struck_nobody_is_told_first_on_both_pages(run: Run) -> None:
    missed = Strikes("straggle", 0, 4, "iterations of h1")
    late = replace(run, trials=tuple(replace(trial, strikes=(missed,)) for trial in run.trials))
    told = "all trials: straggle strikes 0 of 4 iterations of h1, so it changes nothing"
    assert f"> **Warning: {told}" in markdown.render(late).partition("\n## ")[0]
    header = page.render(late).partition("<main>")[0]
    assert f"Warning: {told}" in header
    assert "Warning" not in page.render(run).partition("<main>")[0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b*c_d`e", r"a\|b\*c\_d\`e"),
        ("[link](http://x)", r"\[link\](http://x)"),
        ("<script>&amp;", r"\<script\>\&amp;"),
        ("two\nlines\r\nand  spaces", "two lines and spaces"),
        ("- no list", r"\- no list"),
        ("12. no list", r"12\. no list"),
        ("12.5 s, -3, 1-2", "12.5 s, -3, 1-2"),
        ("---", r"\---"),
        ("@somebody #12 $x$ ~~no~~", r"\@somebody \#12 \$x\$ \~\~no\~\~"),
    ],
)
def test_nothing_in_a_text_is_markup(text: str, shown: str) -> None:
    assert markdown.escape(text) == shown
