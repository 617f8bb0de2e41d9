"""The report as a LaTeX table."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.recorded import Run
from testbed.analysis.report import latex

PDFLATEX = shutil.which("pdflatex")
EVERYTHING = "\\ { } $ & # % _ ^ ~ < > | \" ' ` -- [x] * × ± µ – \u00a0 é ﬁ 漢 \n\t \u200b \\input{x} %"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50 % of $x_1 & #2", r"50 \% of \$x\_1 \& \#2"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        ("1.60×", r"1.60$\times$"),
        ("– é ﬁ 漢", "-- é fi ?"),
        ("[2pt]", "{[}2pt{]}"),
    ],
)
def test_nothing_in_a_text_is_a_command(text: str, shown: str) -> None:
    assert latex.escape(text) == shown


def test_a_row_for_each_arm_with_intervals(sweep: Run) -> None:
    text = latex.render(sweep)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 3 * 2 * 3
    assert len({row.replace(r"\&", "").count("&") for row in rows}) == 1
    assert re.search(r"BML on BCube & 16 & 50~Mbit/s & [\d.]+ \{\\scriptsize \([\d.]+ to [\d.]+\)\} & ", text)
    assert "95 \\% intervals" in text


def test_what_is_not_valid_is_marked(run: Run) -> None:
    text = latex.render(run)
    assert r"Ring on fat-tree\textsuperscript{INVALID} & 64" in text
    assert r"PS on fat-tree\textsuperscript{FAILED} & 64" in text
    assert "1 of 6 trials failed." in text


def test_an_incomplete_run_says_so(run: Run) -> None:
    assert "planned" not in latex.render(run)
    some = latex.render(replace(run, trials=run.trials[:4]))
    assert "1 of 4 trials failed. 2 of 6 planned trials have not run.}" in some


@pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex (Debian's texlive-latex-recommended)")
def test_it_compiles(sweep: Run, tmp_path: Path) -> None:
    evil = {label: f"{EVERYTHING}{i}" for i, label in enumerate(sweep.labels)}
    trials = tuple(replace(trial, label=evil[trial.label]) for trial in sweep.trials)
    table = latex.render(replace(sweep, name=EVERYTHING, trials=trials, labels=tuple(evil.values())))
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "table.tex").write_text(document)
    command = [str(PDFLATEX), "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout
