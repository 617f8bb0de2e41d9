"""Where did bytes wait?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from testbed.analysis.numbers.repeats import GST
from testbed.analysis.record.trial import LinkCount
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study, by_network
from testbed.analysis.report.question import Panel, Question, column, rounded
from testbed.analysis.tables.trial import has_queues
from testbed.base.listing import counted

MOST_PANELS = 3
MOST_LINKS = 16
MOST_COLUMNS = 80
"""Columns of a heat map at most: a cell of it is 20 bytes of the page."""
MOST_TOLD = 3
"""Links of a trial that the table names."""
MOST_LINES = 60
"""Iterations whose ends are marked."""
DEFINED = (
    "Bytes that waited at the egress of a directed link, read from the kernel again and again while the trial "
    "trained. The colour of a heat map is the most that was found in that time, as the time that these bytes take "
    "at the link's rate without perturbations. Where it is blank, the queue was empty. Thin lines are ends of "
    "iterations, unless several jobs shared the network. The mean is over the whole trial. A queue is full from 90 % "
    "of its limit on. Of each arm at each setting, the trial in the middle by JCT is considered, of those that are "
    "VALID in GST, if there are any; shown are those whose GST is furthest from its lower bound. Of their links, those "
    "with the longest mean queue are shown."
)


@dataclass(frozen=True)
class _Link:
    """Bytes that waited at a directed link in the whole trial."""

    count: LinkCount
    most_bytes: float
    mean_bytes: float
    full_s: float
    drops: int
    marks: int

    @property
    def name(self) -> str:
        return f"{self.count.source} to {self.count.target}"

    def ms(self, waiting_bytes: float) -> float:
        """Return how long (ms) so many bytes take at the link's rate."""
        return 8e3 * waiting_bytes / self.count.rate_bps


@dataclass(frozen=True)
class _Shown:
    """A trial in which something waited: its links, those of most bytes for longest first, and what the file has."""

    cell: MeasuredCell
    trial: Trial
    links: list[_Link]
    table: pd.DataFrame
    end_s: float

    @property
    def name(self) -> str:
        return words.marked(words.name(self.trial), self.cell, GST)

    @property
    def drawn(self) -> list[_Link]:
        return self.links[:MOST_LINKS]

    @property
    def caption(self) -> str:
        of = f", {len(self.drawn)} of {len(self.links)} links at which bytes waited"
        return self.name + (of if len(self.links) > len(self.drawn) else "")


def waiting(study: Study) -> Question | None:
    """A heat map of links by time for each of a few trials."""
    cells = sorted(study.cells, key=lambda cell: cell.middle("gst_ratio") or 0.0, reverse=True)
    shown = list(islice(_seen(study, cells), MOST_PANELS))
    if not shown:
        return None
    stored = {trial.stored for cell in cells for trial in cell.finished if trial.stored is not None}
    others = sum(has_queues(*each) for each in stored) - len(shown)  # jobs of one trial share a table
    left = [f"Not shown: {counted(others, 'more trial')}; queues/ has the tables of all."] if others > 0 else []
    highest = max(link.ms(link.most_bytes) for one in shown for link in one.drawn)
    frame, spans = plot.stacked([_grid(one) for one in shown])
    panels = [
        Panel(f"queues-{i}", one.caption, _figure(one, rows, highest))
        for i, (one, rows) in enumerate(zip(shown, spans, strict=True))
    ]
    told = [(one, link) for one in shown for link in one.links[:MOST_TOLD]]
    has_marks = any(link.marks for _, link in told)
    of_cell = {one.cell.place: one for one in shown}
    networks = by_network([one.cell for one in shown])
    return Question(
        "queues",
        "Where did bytes wait?",
        frame,
        tuple(panels),
        (*(_worst(network, [of_cell[cell.place] for cell in of]) for network, of in networks.items()), *left),
        DEFINED,
        told=tuple(_row(one, link) | ({"Marks": f"{link.marks:,}"} if has_marks else {}) for one, link in told),
    )


def _seen(study: Study, cells: list[MeasuredCell]) -> Iterator[_Shown]:
    for cell in study.apart(cells):
        trial = cell.typical_in(GST)
        table = None if trial is None else trial.queues
        if trial is None or table is None:
            continue
        known = {link.link: link for link in trial.links if link.rate_bps >= 1}
        table = table[table["link"].isin(list(known))]
        if table.empty:
            continue
        end_s = max(trial.metrics.jct_s or 0.0, float((table["start_s"] + table["window_s"]).max()))
        links = [
            _Link(
                known[int(str(link))],
                float(rows["most_bytes"].max()),
                float((rows["mean_bytes"] * rows["window_s"]).sum()) / end_s,
                float((rows["full_share"] * rows["window_s"]).sum()),
                int(rows["drops"].sum()),
                int(rows["marks"].sum()),
            )
            for link, rows in table.groupby("link")
        ]
        links.sort(key=lambda link: (-link.ms(link.mean_bytes), link.count.link))
        yield _Shown(cell, study.run.whole(trial), links, table, end_s)


def _grid(one: _Shown) -> pd.DataFrame:
    """The most of each link in each of a few columns of time. Zeros are left out, but not those of the first link: that
    all columns are there makes them equally wide."""
    links = one.drawn
    place = {link.count.link: i for i, link in enumerate(links)}
    table = one.table[one.table["link"].isin(list(place))]
    columns = math.ceil(min(MOST_COLUMNS, max(1.0, one.end_s / float(table["window_s"].median()))))
    width_s = one.end_s / columns
    first = np.floor(table["start_s"] / width_s).clip(0, columns - 1).to_numpy(int)
    last = (np.ceil((table["start_s"] + table["window_s"]) / width_s) - 1).clip(first, columns - 1).to_numpy(int)
    rows, waiting_bytes = table["link"].map(place).to_numpy(int), table["most_bytes"].to_numpy(float)
    most = np.zeros((len(links), columns))
    for further in range(int((last - first).max()) + 1):
        reaches = first + further <= last
        np.maximum.at(most, (rows[reaches], first[reaches] + further), waiting_bytes[reaches])
    shown = most > 0
    shown[0] = True
    at, of = np.nonzero(shown)
    known: dict[str, Any] = {"arm": one.trial.label, **one.cell.point, "repeat": one.trial.repeat + 1}
    grid = pd.DataFrame(
        {
            "link": [links[i].name for i in at],
            "time_s": (of + 0.5) * width_s,
            "most_bytes": most[at, of].astype(np.int64),
            "most_ms": [links[i].ms(count) for i, count in zip(at, most[at, of], strict=True)],
        }
    )
    return grid.assign(**known)[[*known, *grid]]


def _figure(shown: _Shown, rows: tuple[int, int], highest: float) -> plot.Figure:
    names = [link.name for link in shown.drawn]
    trace = plot.heat(
        *(rows, "time_s", "link", "most_ms", "ms"),
        text=column("most_bytes"),
        zmin=0,
        zmax=rounded(highest),
        hoverongaps=False,
        hovertemplate="%{y}, at %{x:.2f} s<br>at most %{text} B, %{z:.3g} ms at its rate<extra></extra>",
    )
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "time since the trial's start (s)"}, "showgrid": False},
        "yaxis": plot.categories(names, autorange="reversed"),
        "shapes": [
            # In the colour of the text, in dark pages too.
            {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1}, "opacity": 0.3}
            for x in map(rounded, _ends_s(shown.trial))
        ],
    }
    return plot.finished([trace], layout, 90 + 20 * max(4, len(names)))


def _ends_s(trial: Trial) -> list[float]:
    """Return when the last worker ended each iteration (s); nothing where there are too many, nobody says, or several
    jobs had iterations of their own."""
    if trial.samples is None:
        return []
    ends = trial.samples.groupby("iteration")["end_s"].max() - trial.samples["start_s"].min()
    return ends.tolist() if len(ends) <= MOST_LINES else []


def _worst(network: str, shown: Sequence[_Shown]) -> str:
    one, link = max(((one, one.links[0]) for one in shown), key=lambda both: both[1].ms(both[1].mean_bytes))
    of = f"On {network}, bytes" if network else "Bytes"
    which = f" of the {len(shown)} trials that are shown" if len(shown) > 1 else ""
    return (
        f"{of} waited longest at {link.name} in {one.name}{which}: {words.amount(link.mean_bytes)} on average, and "
        f"{words.amount(link.most_bytes)} at most, which take {words.seconds(link.ms(link.mean_bytes) / 1e3)} and "
        f"{words.seconds(link.ms(link.most_bytes) / 1e3)} at the link's rate."
    )


def _row(shown: _Shown, link: _Link) -> dict[str, str]:
    return {
        "Trial": shown.name,
        "Link": link.name,
        "Most": f"{words.amount(link.most_bytes)}, {words.seconds(link.ms(link.most_bytes) / 1e3)}",
        "Mean": f"{words.amount(link.mean_bytes)}, {words.seconds(link.ms(link.mean_bytes) / 1e3)}",
        "Full for": words.seconds(link.full_s) if link.full_s else "never",
        "Drops": f"{link.drops:,}",
    }
