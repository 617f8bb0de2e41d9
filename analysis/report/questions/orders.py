"""Question about orders of ranks: does an order that should cost less synchronise in less time?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import GST
from testbed.analysis.record.happened import FoundOrder
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study, believed
from testbed.analysis.report.question import Panel, Question, column
from testbed.analysis.report.questions.sync import is_measured

MOST_DRAWN = 6
LEAST_ORDERS = 3
"""Number of orders below which a rank correlation says nothing."""
_MODEL = re.compile(r"\b(cost|model|bytes|base)=([^,()\s]+)")
DEFINED = (
    "Compared are arms that differ in their order of ranks alone. Predicted is the cost that the order was chosen by, "
    "from what hosts probed before the trial; of an arm without an order, what the order of numbers costs. Random "
    "and written orders have none. If a trial was repeated, both numbers are medians. Spearman's coefficient is 1 if "
    "orders that should cost more always take longer, and 0 if the cost says nothing. A curve shows the share of "
    "orders whose GST is at most that."
)


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
        tables.append(_table(by_time, share_at_most=shares))
        rows = (first, first := first + len(by_time))
        panels.append(Panel(f"orders-{number}-times", f"{orders.name}: GST by order", _curve(study, by_time, rows)))
        models = orders.models
        for place, (model, costs) in enumerate(models.items()):
            tables.append(_table([cell for cell, _ in costs], model=model, cost_s=[cost_s for _, cost_s in costs]))
            drawn, first = _scatter(study, costs, first), first + len(costs)
            panels.append(
                Panel(f"orders-{number}-cost-{place}", f"{orders.name}: GST by predicted cost, {model}", drawn)
            )
        told += [_row(orders, model, costs) for model, costs in (models or {words.UNKNOWN: []}).items()]
    labels = {cell.label for orders in every for cell in orders.cells}
    shown = panels[:MOST_DRAWN]
    more = f" Drawn are {len(shown)} of {len(panels)} figures." if len(panels) > len(shown) else ""
    return Question(
        "orders",
        "Does an order of ranks that should cost less take less time?",
        pd.concat(tables, ignore_index=True),
        tuple(shown),
        tuple(words.not_told([cell for orders in every for cell in orders.cells], GST)),
        f"{DEFINED} {words.INTERVALS}{more}",
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


def _table(cells: Sequence[MeasuredCell], **more: Any) -> pd.DataFrame:
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
                "symbol": "circle" if cell.valid_in(GST) else "x",
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


def _row(orders: _Orders, model: str, costs: Sequence[tuple[MeasuredCell, float]]) -> dict[str, str]:
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
