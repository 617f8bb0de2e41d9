"""Which links carried how much?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.trial import LinkCount
from testbed.analysis.recorded import Trial
from testbed.analysis.report import room, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.networks import network
from testbed.analysis.report.question import Panel, Question
from testbed.base.errors import TestbedError
from testbed.base.units import size_text
from testbed.topologies.draw import svg

MOST_PANELS = 12
MOST_LINKS = 6000
"""Directed links in all drawings together: a drawing of a link takes 300 bytes of the page."""
DEFINED = (
    "Bytes are those that the kernel counted at the egress of each direction of each link while the trial trained, "
    "headers included. A row of the table is an arm: its trial with the median JCT at its first setting. There is one "
    "drawing for each network and scheme. All drawings have the same scale of colours."
)


def bytes_per_link(study: Study) -> Question | None:
    """One drawing for each network and scheme, all on one scale of colours."""
    found: dict[tuple[str, str], Trial] = {}
    arms: dict[str, tuple[MeasuredCell, Trial]] = {}
    for cell in study.apart(study.cells):
        if cell.typical and cell.typical.links:
            trial = study.run.whole(cell.typical)
            found.setdefault((trial.topology, trial.scheme), trial)
            arms.setdefault(trial.label, (cell, trial))
    if not found:
        return None
    every = [*arms.values()]
    shown = _fitting(list(found.values()))
    highest = max(link.bytes or 0 for trial in shown for link in trial.links)
    has_silent = any(link.bytes is None for _, trial in every for link in trial.links)
    told = tuple(_row(*one, has_silent) for one in room.chosen(every, _label)) if len(every) > 1 else ()
    panels = [_panel(i, trial, highest, said=not told) for i, trial in enumerate(shown)]
    has_others = any(all(trial is not first for _, first in every) for trial in shown)
    where = (
        f"{'Each network' if has_others else 'Each arm'} is shown at its first setting; all are in the trials' JSON."
    )
    if told:
        where = "The table has each arm at its first setting. All settings are in the trials' JSON."
    more = f" Drawn are the first {len(shown)} of {len(found)}." if len(found) > len(shown) else ""
    more += " Networks are drawn at other settings, too." if told and has_others else ""
    rows: list[dict[str, Any]] = [
        {
            **{"arm": trial.label, "topology": trial.topology, "scheme": trial.scheme, "batch": trial.batch},
            **{"from": link.source, "to": link.target, "rate_bps": link.rate_bps, "bytes": link.bytes},
            **{"theory_bytes": link.theory_bytes, "drops": link.drops},
        }
        for trial in shown
        for link in trial.links
    ]
    return Question(
        "links",
        "Which links carried how much?",
        pd.DataFrame(rows).astype({"bytes": "Int64", "drops": "Int64", "theory_bytes": float}),
        tuple(panels),
        (*room.rest(every, _label, where="the trials' JSON"), *([where] if len(study.settings) > 1 else [])),
        DEFINED + more,
        told=told,
    )


def _label(one: tuple[MeasuredCell, Trial]) -> str:
    return one[1].label


def _fitting(trials: Sequence[Trial]) -> list[Trial]:
    """Choose as many trials as there is room for, the first always."""
    links = accumulate(len(trial.links) for trial in trials)
    fitting = [trial for trial, total in zip(trials, links, strict=True) if total <= MOST_LINKS]
    return fitting[:MOST_PANELS] or [trials[0]]


def _panel(i: int, trial: Trial, highest: int, *, said: bool) -> Panel:
    title = words.title(trial, JCT) + (f": {trial.means}" if trial.means else "")
    picture, problem = "", ""
    try:
        topology = network(trial)
        values: dict[int, float] = {link.link: link.bytes for link in trial.links if link.bytes is not None}
        picture = svg(topology, values, label="bytes per link", as_text=size_text, highest=highest)
    except TestbedError as error:  # links that cannot be, or a network too large to draw
        problem = f"Not drawn: {error.problem}."
    return Panel(f"links-{i}", title, picture=picture, problem=problem, seen=seen(trial.links) if said else "")


class _Load:
    """Load of those links that are counted: the busiest with its bytes, all bytes, and what was dropped."""

    def __init__(self, counted: Sequence[LinkCount]) -> None:
        self.busiest = max(counted, key=lambda link: link.bytes or 0)
        self.most, self.total = self.busiest.bytes or 0, sum(link.bytes or 0 for link in counted)
        self.drops = sum(link.drops or 0 for link in counted)
        theory = self.busiest.theory_bytes
        self.over_theory = words.ratio(self.most / theory) if theory else ""
        self.over_mean = words.ratio(self.most * len(counted) / self.total) if self.total else ""


def _load(links: Sequence[LinkCount]) -> tuple[_Load | None, int]:
    """The load of the links, None where no link is counted; and how many are not."""
    counted = [link for link in links if link.bytes is not None]
    return _Load(counted) if counted else None, len(links) - len(counted)


def seen(links: Sequence[LinkCount]) -> str:
    """Busiest link, how even the load is, the whole, what was dropped, and what was not counted."""
    load, others = _load(links)
    silent = f" Links between switches, {others} of {len(links)}, are not counted in this lab." if others else ""
    if load is None:
        return silent.strip()
    against = f", {load.over_theory} the bytes by theory" if load.over_theory else ""
    mean = f"; that is {load.over_mean} the mean of all links" if load.over_mean else ""
    dropped = f"{load.drops:,} packets were dropped" if load.drops else "nothing was dropped"
    return (
        f"The busiest link, {load.busiest.source} to {load.busiest.target}, carried {words.amount(load.most)}{against}"
        f"{mean}. All links together carried {words.amount(load.total)}; {dropped}.{silent}"
    )


def _row(cell: MeasuredCell, trial: Trial, has_silent: bool) -> dict[str, str]:
    """Write the load as a row of a table, with a column for links that are not counted if any trial has some."""
    load, silent = _load(trial.links)
    others = {"Not counted, between switches": f"{silent} of {len(trial.links)} links"} if has_silent else {}
    columns = ("Busiest link", "It carried", "Carried / theory", "Carried / mean link", "All links", "Packets dropped")
    told = [words.UNKNOWN] * len(columns)
    if load:
        ends, sizes = f"{load.busiest.source} to {load.busiest.target}", [load.most, load.total]
        carried, total = map(words.amount, sizes)
        ratios = [load.over_theory or words.UNKNOWN, load.over_mean or words.UNKNOWN]
        told = [ends, carried, *ratios, total, f"{load.drops:,}"]
    return {"Trial": words.marked(words.name(trial), cell, JCT), **dict(zip(columns, told, strict=True)), **others}
