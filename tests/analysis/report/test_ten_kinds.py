"""Headline, sections and tables of kinds of run say the same of the same trials, and lose no arm.

The tests change what was measured and look at which texts change with it. A text that changes with trials that it does
not name, and without a mark that they are not VALID, speaks of trials without saying so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import headline, markdown, page, tables, words
from testbed.analysis.report.cells import cells, names_of_networks
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import answered
from testbed.analysis.verdicts import NUMBERS
from testbed.api import results
from tests.analysis.conftest import schedule

from .helpers import judged
from .kinds_of_run import KINDS, Made, each, slowed

MARKS = (
    *("INVALID", "UNWATCHED", "SIMULATED", "not VALID"),
    *("Neither arm of the ratio is VALID", "Only one of the two arms is VALID"),
)
WHOLLY = ("None of this is VALID", "no arm is VALID", "All of this is SIMULATED", "all is SIMULATED")
"""Sentences at the end of a section if they hold of all of it."""
SUPERLATIVES = re.compile(
    r"finished first|fastest|longest|farthest|varies most|largest|first in|most stale|took \d|closest|most waited"
)
PER_ARM = ("Arm", "Trial", "Job")
"""First columns of tables with a row for each arm."""
A_ROW_FOR_EACH_ARM = ("links", "pairs", "critical-path", "search", "jobs")
"""Sections that show an arm at its first setting, and say so; others show it at each."""
SAYS_REST = re.compile(r"\d+ more arms? ha(s|ve) none|\d+ more trials?|Drawn are [a-z ]*\d+ of \d+")
SAYS_ROWS = re.compile(r"The table has \d+ of \d+ rows")
TOOK = re.compile(
    r"(?P<label>[^;,.]+?) took (?P<gst>[\d.]+)×(?: to (?P<most>[\d.]+)×)? the synchronisation time of [^,;.]+, and "
    r"(?P<jct>[\d.]+)×(?: to (?P<jct_most>[\d.]+)×)? its job completion time"
)


@pytest.fixture(scope="module")
def made(run: Run, sweep: Run, quickstart: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    planned = schedule(copytree(quickstart, tmp_path_factory.mktemp("kinds") / "planned"))
    return Made(run, sweep, load(planned))


@pytest.fixture(params=KINDS, scope="module")
def kind(request: pytest.FixtureRequest, made: Made) -> Run:
    found: Run = KINDS[request.param](made)
    return found


@pytest.fixture(scope="module")
def questions(kind: Run) -> Sequence[Question]:
    return answered(kind)


@pytest.fixture(scope="module")
def told(kind: Run, questions: Sequence[Question]) -> set[tuple[str, str]]:
    """The texts of the kind as it is."""
    return set(texts(kind, questions))


def texts(run: Run, questions: Sequence[Question]) -> Iterator[tuple[str, str]]:
    """Every sentence and every row of a table of what is seen, each with the section that it is in."""
    yield "headline", headline.lead(run)
    for question in questions:
        yield from ((question.name, told) for told in question.seen)
        yield from ((question.name, f"{panel.caption}: {panel.seen}") for panel in question.panels if panel.seen)
        yield from ((question.name, " | ".join(row.values())) for row in question.told)


def changed(before: set[tuple[str, str]], after: Run) -> list[tuple[str, str]]:
    """The texts of ``after`` that are not among those before."""
    return [told for told in texts(after, answered(after)) if told not in before]


def test_simulated_trials_are_compared_and_said_to_be_off(made: Made) -> None:
    run = KINDS["simulated"](made)
    text = markdown.render(run)
    assert "mean nothing" not in text
    assert "Not reliable" not in text
    assert "None of this is VALID" not in text
    assert text.splitlines()[2:5] == ["> **GST is SIMULATED.**", ">", f"> **{markdown.escape(words.simulated(run))}**"]
    assert words.simulated(run) == (
        "SIMULATED numbers are from a model and were not measured. GST was off by at most 1.3 % for ps, 1.3 % for bml "
        "in small trials that were also measured. The error of GST is not known for ring. The errors of other numbers "
        "are not known."
    )
    assert headline.finding(run) == headline.finding(made.sweep)
    header = page.render(run).partition("<main>")[0]
    assert words.simulated(run) in header
    assert f"{sum(trial.done for trial in run.trials)} of {len(run.trials)} SIMULATED" in header
    assert 'class="bad"' not in header
    assert [verdict for _, verdict, _ in tables.troubles(run)] == ["FAILED"]
    assert {row.state for row in tables.verdicts(run).rows} == {"simulated", "failed"}
    assert {value.note for row in tables.verdicts(run).rows for value in row.values if value.note} == {
        "off by at most 1.3 %"
    }


def with_slower(run: Run, is_slower: Callable[[Trial], bool], times: float) -> Run:
    return each(run, lambda trial: slowed(trial, times) if trial.done and is_slower(trial) else trial)


def doubtful(run: Run) -> set[tuple[str, object]]:
    """The cells that have nothing VALID."""
    return {cell.place for cell in cells(run) if cell.finished and not any(map(cell.valid_in, NUMBERS))}


@pytest.mark.parametrize("times", [0.25, pytest.param(4.0, marks=pytest.mark.rehearse)])
def test_what_is_not_valid_is_in_no_text_without_a_mark(
    kind: Run, questions: Sequence[Question], told: set[tuple[str, str]], times: float
) -> None:
    """A section may say at its end that none of it is VALID, and of a headline that is said after it."""
    places = doubtful(kind)
    if not places:
        return  # nothing to leave out
    other = with_slower(kind, lambda trial: (trial.label, trial.setting) in places, times)
    excused = {
        question.name for question in questions if any(said in text for text in question.seen for said in WHOLLY)
    }
    excused |= set() if headline.is_believable(kind) else {"headline"}
    found = changed(told, other)
    assert found, "what is not VALID is shown nowhere"
    assert [one for one in found if one[0] not in excused and not any(mark in one[1] for mark in MARKS)] == []


@pytest.mark.parametrize("times", [0.25, pytest.param(4.0, marks=pytest.mark.rehearse)])
def test_arms_of_another_network_are_in_no_ranking_of_this(kind: Run, told: set[tuple[str, str]], times: float) -> None:
    """They are made the fastest of all, and the slowest; a text with a superlative says then where that is so."""
    named = names_of_networks([cell for cell in cells(kind) if cell.finished])
    home = {cell.setting: cell.network for cell in cells(kind) if cell.label == kind.firsts[""] and cell.finished}
    away = {
        cell.place: named[cell.network]
        for cell in cells(kind)
        if cell.finished and cell.setting in home and cell.network != home[cell.setting]
    }
    if not away:
        return  # all are on one network
    other = with_slower(kind, lambda trial: (trial.label, trial.setting) in away, times)
    found = [text for _, text in changed(told, other) if SUPERLATIVES.search(text)]
    says = (*away.values(), "n another network", "n other networks", "workers in place of")
    assert [text for text in found if not any(name in text for name in says)] == []


def test_every_arm_has_a_row_in_each_section_or_is_counted(kind: Run, questions: Sequence[Question]) -> None:
    lacking = [
        (question.name, label)
        for label in kind.labels
        for sections in [_sections(kind, label)]
        for question in questions
        if question.name in sections and not _has_row(question, label)
    ]
    assert lacking == []
    assert [(question.name, told) for question in questions for told in _cells_without_row(question)] == []
    every = {(cell.label, cell.batch) for cell in cells(kind)}
    for table in (tables.summary(kind), tables.verdicts(kind)):
        place = table.columns.index("Batch") - 1
        assert {(row.label, int(row.values[place].text)) for row in table.rows} == every


def _sections(run: Run, label: str) -> set[str]:
    """The sections that an arm belongs to: those of a run of this arm alone, and speed-ups if it is compared."""
    own = tuple(trial for trial in run.trials if trial.label == label)
    compared = {"speed-up"} if any(pair.cell.label == label for pair in headline.pairs(run)) else set()
    return compared | {question.name for question in answered(replace(run, trials=own))}


def _has_row(question: Question, label: str) -> bool:
    said = " ".join((*question.seen, question.defined))
    if SAYS_REST.search(said):
        return True
    if question.told and next(iter(question.told[0])) in PER_ARM:
        firsts = [next(iter(row.values())) for row in question.told]
        arm, _, _ = label.partition(": ")  # tables of links are of the whole network of several jobs
        return any(text == name or text.startswith(f"{name} ") for text in firsts for name in (label, arm))
    drawn = set(question.frame["arm"]) if "arm" in question.frame else set()
    return label in drawn or label in said


def _cells_without_row(question: Question) -> list[str]:
    """The cells that a section has data of, and whose table has no row for them and does not count them."""
    if not question.told or next(iter(question.told[0])) not in PER_ARM or question.name in A_ROW_FOR_EACH_ARM:
        return []
    if not {"arm", "batch"} <= {*question.frame}:
        return []
    firsts = [next(iter(row.values())) for row in question.told]
    places = question.frame[["arm", "batch"]].drop_duplicates().itertuples(index=False)
    names = [f"{arm} at batch {batch}" for arm, batch in places]
    without = [name for name in names if not any(text.startswith(name) for text in firsts)]
    return [] if SAYS_ROWS.search(" ".join(question.seen)) else without


def test_headline_table_and_section_have_the_same_ratios(kind: Run, questions: Sequence[Question]) -> None:
    said = list(TOOK.finditer(headline.lead(kind)))
    summary = tables.summary(kind)
    for match in said:
        label = match["label"].removeprefix("On another network, ").removeprefix("On other networks, ").strip()
        assert label in kind.labels
        for number, least, most in (("gst", "gst", "most"), ("jct", "jct", "jct_most")):
            expected = sorted(_ratios(kind, label, number))
            assert match[least] == f"{expected[0]:.2f}"
            assert (match[most] or match[least]) == f"{expected[-1]:.2f}"
        place = summary.columns.index("Speed-up") - 1
        shown = {row.values[place].text for row in summary.rows if row.label == label}
        frame = next(question.frame for question in questions if question.name == "speed-up")
        drawn = {words.ratio(value) for value in frame.loc[frame["arm"] == label, "jct_speed_up"].dropna()}
        expected_speeds = {words.ratio(1 / value) for value in _ratios(kind, label, "jct")}
        assert expected_speeds <= shown
        assert expected_speeds <= drawn


def _ratios(run: Run, label: str, number: str) -> list[float]:
    """By setting, the median ratio of pairs of an arm's trials and the first arm's, of those that are VALID in it; from
    the trials alone."""
    metric = {"gst": "gst_median_s", "jct": "jct_s"}[number]
    is_any_valid = any(trial.valid_in(number) for trial in run.trials)
    job = next(trial.job for trial in run.trials if trial.label == label)
    found = []
    for setting in dict.fromkeys(trial.setting for trial in run.trials):
        at = [t for t in run.trials if t.setting == setting and t.done and (t.valid_in(number) or not is_any_valid)]
        first = {t.repeat: t.metric(metric) for t in at if t.label == run.firsts[job]}
        mine = {t.repeat: t.metric(metric) for t in at if t.label == label}
        pairs = [(mine[repeat] or 0) / (first[repeat] or 1) for repeat in mine if repeat in first]
        if pairs:
            found.append(float(np.exp(np.median(np.log(pairs)))))
    return found


def test_some_kinds_have_a_ratio_in_their_headline(made: Made) -> None:
    told = [name for name, make in KINDS.items() if TOOK.search(headline.lead(make(made)))]
    assert len(told) >= 5, told


def test_the_headline_is_one_plain_sentence(kind: Run) -> None:
    """A second one is about other networks, and follows only if an arm of the first network was faster."""
    first, second = headline.first_sentence(kind), headline.elsewhere(kind)
    assert re.sub(r"\d\.\d", "", first).count(".") == 1
    assert not re.search("[Nn]one of|that are compared", first)
    assert not second or TOOK.match(first)
    if "n another network" in first:
        assert first.startswith("On another network, ")


def test_every_format_has_the_same_sentences(
    kind: Run, questions: Sequence[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {id(kind): questions}  # as the formats would ask them again
    for form in (markdown, page):
        monkeypatch.setattr(form, "answered", lambda run: answers[id(run)])
    lead = headline.finding(kind)
    text, html = markdown.render(kind), page.render(kind)
    shown = results.Run(kind)._repr_html_()
    lead_of_page = headline.first_sentence(kind), headline.elsewhere(kind)
    assert headline.lead(kind) == " ".join(lead_of_page).strip()
    for told in (*lead_of_page, headline.left_out(kind), headline.unlike(kind)):
        assert markdown.escape(told) in text
        assert _escaped(told) in html
        assert _escaped(told) in shown
    assert markdown.escape(lead) in text
    for question in questions:
        for told in question.seen:
            assert markdown.escape(told) in text
            assert _escaped(told) in html


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;")


def test_a_calm_headline_says_of_how_many_settings_it_is(made: Made) -> None:
    """Two thirds of a sweep are INVALID."""
    at = made.sweep.trials[0].point
    run = each(
        made.sweep, lambda trial: trial if trial.point == at else judged(trial, "INVALID") if trial.done else trial
    )
    assert " at 1 of 6 settings" in headline.lead(run)
    left = headline.left_out(run)
    assert "Ring on fat-tree at 2 of 6 settings" in left
    assert "Ring on fat-tree at 3 of 6 settings, BML on BCube at 3 of 6 settings (PS on fat-tree failed)" in left
