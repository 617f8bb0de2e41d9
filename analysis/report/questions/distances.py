"""Question about probes: how far from each other did hosts find themselves, and which groups came of it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from testbed.analysis.numbers.repeats import GST
from testbed.analysis.record.happened import Found
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.question import Panel, Question
from testbed.topologies.build import build
from testbed.topologies.call import parse
from testbed.topologies.cloud import Places, places
from testbed.workloads.locality.paia import paia

MOST_DRAWN = 4
MOST_HOSTS = 64
"""Limit on the hosts of a heat map."""
UNITS = {"latency": ("ms", 1.0), "bandwidth": ("ms a Mbit", 1e6)}
"""Unit of a probe's distances, and the factor to it; the measurements of other probes are not of pairs of hosts."""
GROUP = "#22577a"
DEFINED = (
    "Colours are the distances that hosts probed before the trial trained: the round trip of a packet, or the time "
    "that a bit takes at the rate of a burst while all pairs of a round send. Blank pairs have none. Frames are the "
    "groups that a trial found and ran with, or the racks that the cloud hides from schemes. In the order of ranks, a "
    "frame has neighbouring ranks of one rack. PAIA is the share of triplets of hosts whose distances tell right "
    "which of two hosts is nearer to the third, among those that differ by rack or row. Drawn is one trial of each "
    "arm, in the middle by JCT."
)
Groups = Sequence[Sequence[str]]


def probed(study: Study) -> Question | None:
    """Draw heat maps of the distances between hosts, in the order of groups or ranks and in that of hidden racks."""
    every: dict[str, tuple[MeasuredCell, Trial, Found]] = {}
    for cell in study.cells:
        if (trial := cell.typical) is None:
            continue
        for entry in (each for told in trial.found if told.job == trial.job for each in _tables(told)):
            is_square = all(len(row) == len(entry.measured) for row in entry.measured.values())
            if entry.probe in UNITS and entry.measured and is_square:
                every.setdefault(f"{words.name(trial)} {entry.probe}", (cell, trial, entry))
    shown = [drawn for drawn in every.values() if len(drawn[2].measured) <= MOST_HOSTS][:MOST_DRAWN]
    if not every:
        return None
    frame, spans = plot.stacked([_table(trial, entry) for _, trial, entry in shown or every.values()])
    panels = []
    for number, ((_, trial, entry), rows) in enumerate(zip(shown, spans, strict=False)):
        hidden = _hidden(trial)
        groups_of = {
            "found groups": [] if entry.search else _groups(entry),
            "ranks": _neighbours(entry, hidden),
            "hidden racks": _racks(entry, hidden),
        }
        for place, (order, groups) in enumerate(groups_of.items()):
            if groups:
                told = f"{words.title(trial, GST)}: {entry.probe}, hosts in the order of {order}"
                panels.append(Panel(f"distances-{number}-{place}", told, _figure(entry, groups, rows)))
    more = f" Drawn are {len(shown)} of {len(every)} tables of distances." if len(every) > len(shown) else ""
    return Question(
        "distances",
        "How far from each other did hosts find themselves?",
        frame,
        tuple(panels),
        (),
        DEFINED + more,
        told=tuple(_row(*each) for each in every.values()),
    )


def _tables(entry: Found) -> Iterator[Found]:
    """Yield what was found with a table of distances each: ``linear`` has two beside each other."""
    if entry.probe != "linear":
        yield entry
        return
    for first, probe in ((0, "latency"), (len(entry.measured), "bandwidth")):
        rows = {name: row[first : first + len(entry.measured)] for name, row in entry.measured.items()}
        yield replace(entry, probe=probe, measured=rows)


def _table(trial: Trial, entry: Found) -> pd.DataFrame:
    """Return a row for each pair of hosts."""
    factor = UNITS[entry.probe][1]
    known = {"arm": trial.label, "batch": trial.batch, "probe": entry.probe}
    rows = [
        known | {"from": a, "to": b, "distance_s": None if a == b or distance is None else distance * factor}
        for a, distances in entry.measured.items()
        for b, distance in zip(entry.measured, distances, strict=True)
    ]
    return pd.DataFrame(rows).astype({"distance_s": float})


def _groups(entry: Found) -> Groups:
    """Return the groups that were found, and the hosts in none of them."""
    call = parse(str(entry.settings.get("scheme", "")) or "ring", "ring")
    value = call.arguments.get("groups")
    groups = [[*map(str, group)] for group in value if isinstance(group, tuple)] if isinstance(value, tuple) else []
    others = [name for name in entry.measured if not any(name in group for group in groups)]
    return [*groups, others] if others else groups


def _neighbours(entry: Found, hidden: Places | None) -> Groups:
    """Return the hosts by rank where an order was found, cut where the hidden rack changes."""
    order = [name for name in entry.search.order if name in entry.measured] if entry.search else []
    place = {name: hidden.racks[host] if hidden else 0 for host, name in enumerate(entry.measured)}
    return [[*names] for _, names in groupby(order, place.__getitem__)]


def _racks(entry: Found, hidden: Places | None) -> Groups:
    """Return the hosts of each hidden rack; none where no rack is hidden."""
    names = list(entry.measured)
    return [[names[host] for host in rack] for rack in hidden.groups] if hidden else ()


def _hidden(trial: Trial) -> Places | None:
    if parse(trial.topology, "star").name != "cloud":
        return None
    return places(build(trial.topology, rate_bps=10**9))


def _figure(entry: Found, groups: Groups, rows: tuple[int, int]) -> plot.Figure:
    unit = UNITS[entry.probe][0]
    trace = plot.heat(
        *(rows, "to", "from", "distance_s", unit),
        hoverongaps=False,
        hovertemplate=f"%{{y}} and %{{x}}: %{{z:.3g}} {unit}<extra></extra>",
    )
    trace["z"] |= {"times": 1000}
    frames, first = [], 0
    for group in groups:
        low, high = first - 0.5, first + len(group) - 0.5
        line = {"color": GROUP, "width": 2}
        frames.append({"type": "rect", "x0": low, "x1": high, "y0": low, "y1": high, "line": line})
        first += len(group)
    order = [name for group in groups for name in group]
    layout: dict[str, Any] = {
        "xaxis": plot.categories(order, title={"text": "host"}),
        "yaxis": plot.categories(order, autorange="reversed"),
        "shapes": frames,
    }
    return plot.finished([trace], layout, 110 + 18 * max(8, len(order)))


def _row(cell: MeasuredCell, trial: Trial, entry: Found) -> dict[str, str]:
    """Describe the probes of a trial, and how accurate they are if that is known."""
    groups, hidden = _groups(entry), _hidden(trial)
    racks = _racks(entry, hidden)
    distances = np.array([[np.nan if d is None else d for d in row] for row in entry.measured.values()])
    told = paia([*zip(hidden.rows, hidden.racks, strict=True)], distances) if hidden else float("nan")
    alike = {frozenset(group) for group in groups} == {frozenset(rack) for rack in racks}
    return {
        "Trial": words.marked(words.name(trial), cell, GST),
        "Probe": entry.probe,
        "Took": words.seconds(entry.took_s),
        "Pairs without a distance": f"{int(np.isnan(distances).sum()) // 2}",
        "Groups": words.UNKNOWN if entry.search else f"{len(groups)}",
        "Groups are the racks": ("yes" if alike else "no") if hidden and not entry.search else words.UNKNOWN,
        "PAIA": f"{told:.3f}" if told == told else words.UNKNOWN,
    }
