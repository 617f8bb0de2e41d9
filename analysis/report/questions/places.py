"""Questions about where hosts are: how far from each other did they find themselves, which groups came of it, and does
an order of ranks that should cost less synchronise in less time?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from testbed.analysis.numbers.repeats import GST
from testbed.analysis.record.happened import Found, FoundOrder
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study, believed
from testbed.analysis.report.question import CROSS, Panel, Question, column
from testbed.analysis.report.questions.sync import is_measured
from testbed.topologies.build import build
from testbed.topologies.call import parse
from testbed.topologies.cloud import Places, places
from testbed.workloads.locality.distances import paia

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
MOST_ORDERS = 6
LEAST_ORDERS = 3
"""Number of orders below which a rank correlation says nothing."""
_MODEL = re.compile(r"\b(cost|model|bytes|base)=([^,()\s]+)")
ORDERS_DEFINED = (
    "Compared are arms that differ in their order of ranks alone. Predicted is the cost that the order was chosen by, "
    "from what hosts probed before the trial; of an arm without an order, what the order of numbers costs. Random "
    "and written orders have none. If a trial was repeated, both numbers are medians. Spearman's coefficient is 1 if "
    "orders that should cost more always take longer, and 0 if the cost says nothing. A curve shows the share of "
    "orders whose GST is at most that."
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


@dataclass(frozen=True)
class _Orders:
    """Cells that differ in their order alone, and the cost models that orders were found by."""

    name: str
    cells: tuple[MeasuredCell, ...]
    asked: tuple[str, ...]

    @property
    def models(self) -> dict[str, list[tuple[MeasuredCell, float]]]:
        """By model, the orders whose cost (s) is known."""
        costs: dict[str, list[tuple[MeasuredCell, float]]] = {}
        by_number: dict[str, list[float]] = {}
        for cell, order in zip(self.cells, self.asked, strict=True):
            if searches := [*_searches(cell)]:
                model = ", ".join(f"{key}={value}" for key, value in sorted(_MODEL.findall(order))) or "model=latency"
                costs.setdefault(model, []).append((cell, median(search.cost_s for search in searches)))
                by_number.setdefault(model, []).extend(search.by_number_s for search in searches)
        without = [cell for cell, order in zip(self.cells, self.asked, strict=True) if not order]
        return {model: each + [(cell, median(by_number[model])) for cell in without] for model, each in costs.items()}


def by_cost(study: Study) -> Question | None:
    """Draw GST by predicted cost, and the distribution of GST over orders."""
    every = [*_compared(study)]
    if not every:
        return None
    tables, panels, told, first = [], [], [], 0
    for number, orders in enumerate(every):
        by_time = sorted(orders.cells, key=_gst_s)
        shares = [(rank + 1) / len(by_time) for rank in range(len(by_time))]
        tables.append(_times(by_time, share_at_most=shares))
        rows = (first, first := first + len(by_time))
        panels.append(Panel(f"orders-{number}-times", f"{orders.name}: GST by order", _curve(study, by_time, rows)))
        models = orders.models
        for place, (model, costs) in enumerate(models.items()):
            tables.append(_times([cell for cell, _ in costs], model=model, cost_s=[cost_s for _, cost_s in costs]))
            drawn, first = _scatter(study, costs, first), first + len(costs)
            panels.append(
                Panel(f"orders-{number}-cost-{place}", f"{orders.name}: GST by predicted cost, {model}", drawn)
            )
        told += [_order_row(orders, model, costs) for model, costs in (models or {words.UNKNOWN: []}).items()]
    labels = {cell.label for orders in every for cell in orders.cells}
    shown = panels[:MOST_ORDERS]
    more = f" Drawn are {len(shown)} of {len(panels)} figures." if len(panels) > len(shown) else ""
    return Question(
        "orders",
        "Does an order of ranks that should cost less take less time?",
        pd.concat(tables, ignore_index=True),
        tuple(shown),
        tuple(words.not_told([cell for orders in every for cell in orders.cells], GST)),
        f"{ORDERS_DEFINED} {words.INTERVALS}{more}",
        tuple(key for key in plot.legend(study.run, None) if key.label in labels),
        tuple(told),
    )


def _compared(study: Study) -> Iterator[_Orders]:
    """Yield cells at one setting whose arms have the same settings but for their order, which some have."""
    arms = {str(arm.get("label")): arm for arm in study.run.resolved.get("arms") or ()}
    alike: dict[Any, list[tuple[MeasuredCell, str]]] = {}
    for cell in filter(is_measured, study.cells):
        arm = arms.get(cell.label, {"label": cell.label})
        rest = {key: value for key, value in arm.items() if key not in ("label", "order")}
        order = arm.get("order") or ""
        key = (cell.setting, cell.part, cell.network, cell.trials[0].scheme, json.dumps(rest, sort_keys=True))
        alike.setdefault(key, []).append((cell, order if isinstance(order, str) else json.dumps(order)))
    several = len({key[0] for key in alike}) > 1
    for members in alike.values():
        if len(members) > 1 and any(order for _, order in members):
            cells, asked = zip(*members, strict=True)
            trial, at = cells[0].trials[0], words.setting(cells[0]) if several else ""
            yield _Orders(f"{trial.scheme} on {trial.topology}" + (f", {at}" if at else ""), cells, asked)


def _searches(cell: MeasuredCell) -> Iterator[FoundOrder]:
    """Yield what is known of the orders that were found in the trials that GST is from."""
    return (entry.search for trial in cell.counted(GST) for entry in trial.found if entry.search)


def _gst_s(cell: MeasuredCell) -> float:
    return cell.middle("gst_median_s") or 0.0


def _times(cells: Sequence[MeasuredCell], **more: Any) -> pd.DataFrame:
    known = [plot.identity(cell, None, GST) | words.columns("gst_s", cell.median("gst_median_s")) for cell in cells]
    values: dict[str, Any] = {"model": "", "cost_s": float("nan"), "share_at_most": float("nan")}
    return pd.DataFrame(known).assign(**values | more)


def _marks(study: Study, cells: Iterable[MeasuredCell], first: int, **more: Any) -> list[plot.Trace]:
    """Return a mark for each cell, of a row of the table each."""
    return [
        {
            **{"type": "scatter", "mode": "markers", "name": plot.text(cell.label), "rows": [row, row + 1]},
            "marker": {
                **{"size": 9, "color": plot.colour(study.run, cell.label)},
                "symbol": "circle" if cell.valid_in(GST) else CROSS,
            },
            "customdata": {"columns": ["arm", "verdict"]},
            **more,
        }
        for row, cell in enumerate(cells, first)
    ]


def _curve(study: Study, cells: Sequence[MeasuredCell], rows: tuple[int, int]) -> plot.Figure:
    ends = {"x": column("gst_s"), "y": column("share_at_most")}
    line = {"color": plot.COMPUTE, "width": 1.5, "shape": "hv"}
    steps = {"type": "scatter", "mode": "lines", "rows": list(rows), **ends, "line": line, "hoverinfo": "skip"}
    hover = "%{customdata[0]} (%{customdata[1]})<br>GST %{x:.4g} s: %{y:.0%} of orders<extra></extra>"
    traces = [steps, *_marks(study, cells, rows[0], **ends, hovertemplate=hover)]
    figure = plot.lines_figure(traces, "GST (s)", "share of orders", x_from_0=True)
    figure["layout"]["yaxis"] |= {"tickformat": ".0%"}
    return plot.timed(figure, "x", _gst_s(cells[-1]))


def _scatter(study: Study, costs: Sequence[tuple[MeasuredCell, float]], first: int) -> plot.Figure:
    ends = {"x": column("cost_s"), "y": column("gst_s"), "error_y": plot.error("gst_s")}
    hover = "%{customdata[0]} (%{customdata[1]})<br>predicted %{x:.4g} s, GST %{y:.4g} s<extra></extra>"
    cells = [cell for cell, _ in costs]
    traces = _marks(study, cells, first, **ends, hovertemplate=hover)
    figure = plot.lines_figure(traces, "predicted cost (s)", "GST (s)", x_from_0=True)
    figure = plot.timed(figure, "x", max(cost_s for _, cost_s in costs))
    return plot.timed(figure, "y", max(map(_gst_s, cells)))


def _order_row(orders: _Orders, model: str, costs: Sequence[tuple[MeasuredCell, float]]) -> dict[str, str]:
    from scipy.stats import spearmanr  # here, for it takes longer to import than all of the report

    times_s = [_gst_s(cell) for cell in believed(orders.cells, GST)[0]]
    counted = believed([cell for cell, _ in costs], GST)[0]
    points = [(cost_s, _gst_s(cell)) for cell, cost_s in costs if cell in counted]
    differ = min((len({*values}) for values in zip(*points, strict=True)), default=0) >= LEAST_ORDERS
    return {
        "Orders of": orders.name,
        "Orders": f"{len(orders.cells)}",
        "Fastest": words.seconds(min(times_s)),
        "Slowest": words.seconds(max(times_s)),
        "Slowest / fastest": words.ratio(max(times_s) / min(times_s)),
        "Cost by": model,
        "Orders with a cost": f"{len(points)}",
        "Spearman's coefficient": f"{spearmanr(points).statistic:.2f}" if differ else words.UNKNOWN,
    }
