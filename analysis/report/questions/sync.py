"""How near is synchronisation to what the links allow, and what does each part of it add to an iteration?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import GST, ITERATIONS
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, notes
from testbed.analysis.report.question import Key, Panel, Question, column
from testbed.analysis.verdicts import GST_P95
from testbed.base.listing import shortened

MOST_POINTS = 6000
"""Iterations of all trials that are drawn as a point each; of more than that, quantiles."""
QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
DEFINED = (
    "GST of an iteration runs from the moment the last worker has its gradient to the moment the last worker has the "
    "sum. Theory is the least time in which the busiest link can carry its bytes, at the rate that packet headers "
    "leave for payload. The bound of a GST is the least time for the bytes that were still to be sent when the last "
    "worker had its gradient. If these bytes are not known, as with overlap, there is no ratio. A point's ratio is its "
    "GST divided by the trial's median bound."
)

LEAST = "#dcc988"
PARTS = (("compute_s", "computing", plot.COMPUTE), ("least_s", "least time for the bytes", LEAST), ("more_s", "", ""))
PARTS_DEFINED = (
    "A bar is an iteration, of median time. Computing lasts until the last worker has its gradient, and has the "
    "optimiser's step where workers take it. The links need the least time for the bytes that are then to be sent. "
    "The rest is what GST is longer than that, in the arm's colour."
)


def _about_excused(cells: Sequence[MeasuredCell]) -> str:
    """A sentence on the trials whose median GST is VALID and whose 95th percentile is not; empty if there are none."""
    names = [
        words.in_cell(cell)
        for cell in cells
        if any(trial.valid_in(GST) and not trial.valid_in(GST_P95) for trial in cell.finished)
    ]
    if not names:
        return ""
    return (
        f" A check failed or was not made in trials of {words.listed(names)}. Their median GST is VALID, but their "
        "95th percentile is not: single iterations may be too long."
    )


def against_theory(study: Study) -> Question | None:
    """GST against theory: every iteration where there is no axis, medians along it else."""
    groups = study.having(is_measured)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    if study.along:
        frame, panels, how = _along(study, groups, cells)
    else:
        frame, panels, how = _spread(study, groups, cells)
    warmup = max(trial.warmup for cell in cells for trial in cell.counted(GST))
    left_out = f" Iterations of the warm-up ({warmup} a trial) are left out." if warmup else ""
    theory = (Key("theory", "", plot.THEORY),) if any(cell.middle("gst_theory_s") for cell in cells) else ()
    return Question(
        "gst",
        "How close is synchronisation to the limit of the links?",
        frame,
        tuple(panels),
        (*_seen(cells), *_below_theory(believed(cells, GST)[0])),
        f"{DEFINED}{notes(cells, 'gst')} {how}{left_out}{_about_excused(cells)}",
        (*plot.legend(study.run, study.along), *theory),
    )


def is_measured(cell: MeasuredCell) -> bool:
    """Whether it has GST; commands have none."""
    return cell.middle("gst_median_s") is not None


def _along(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell]
) -> tuple[pd.DataFrame, Sequence[Panel], str]:
    """A line an arm over the axis, with its theory."""
    along = study.along
    assert along is not None  # or the caller had taken the boxes

    def seconds(group: Group, start: int) -> plot.Figure:
        traces = plot.lines(study.run, group, start, along, "gst_s", "GST, s:", GST)
        traces += plot.theory_lines(study.run, group, start, along, "gst_theory_s", GST)
        figure = plot.along_figure(traces, along, group.cells, "GST (s)")
        return plot.timed(figure, "y", frame["gst_s"].max())

    def over_theory(group: Group, start: int) -> plot.Figure:
        traces = plot.lines(study.run, group, start, along, "gst_over_bound", "GST / bound:", GST)
        return plot.along_figure(traces, along, group.cells, "GST / bound", y_from_0=False, shapes=[plot.level(1.0)])

    frame = pd.DataFrame([row(cell, plot.identity(cell, along, GST)) for cell in cells])
    panels = plot.panels("gst", groups, seconds, "time")
    if frame["gst_over_bound"].notna().any():
        panels += plot.panels("gst-ratio", groups, over_theory, "over its bound")
    return frame, panels, words.INTERVALS


def row(cell: MeasuredCell, known: dict[str, Any]) -> dict[str, Any]:
    """The medians of GST, its theory and its ratio to that, after what is ``known`` of the cell."""
    gst, over = cell.median("gst_median_s"), cell.median("gst_ratio")
    least = {"gst_theory_s": cell.middle("gst_theory_s")}
    return known | words.columns("gst_s", gst) | least | words.columns("gst_over_bound", over)


def _spread(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell]
) -> tuple[pd.DataFrame, Sequence[Panel], str]:
    """A box an arm; with points, unless there are too many."""
    total = sum(len(trial.gst_s) for cell in cells for trial in cell.counted(GST) if trial.gst_s is not None)
    make = _iterations if total <= MOST_POINTS else _quantiles
    frame, spans = plot.stacked([make(study, cell) for cell in cells])
    panels, first = [], 0
    for i, group in enumerate(groups):
        rows = spans[first : first + len(group.cells)]
        part = frame.iloc[rows[0][0] : rows[-1][1]]
        figure = plot.timed(_boxes(study, group, rows, part, "gst_s"), "x", frame["gst_s"].max())
        panels.append(Panel(f"gst-{i}", f"{group.title}: time", figure))
        if part["gst_over_bound"].notna().any():
            figure = _boxes(study, group, rows, part, "gst_over_bound")
            panels.append(Panel(f"gst-ratio-{i}", f"{group.title}: over its bound", figure))
        first += len(group.cells)
    if make is _iterations:
        return frame, panels, "Each point is an iteration; each box shows the middle half of them."
    return frame, panels, "Each box shows the middle half of the iterations, and its whiskers show 90 % of them."


def _iterations(study: Study, cell: MeasuredCell) -> pd.DataFrame:
    """A row for each iteration of each repeat."""
    rows = []
    for trial in cell.counted(GST):
        if trial.gst_s is None:
            continue
        theory, bound = trial.metrics.gst_theory_s, _bound_s(trial.metrics.gst_median_s, trial.metrics.gst_ratio)
        known = plot.identity(cell, study.along, GST, without=("trials",)) | {"repeat": trial.repeat + 1}
        rows += [
            known | {"iteration": i, "gst_s": value, "gst_theory_s": theory, "gst_over_bound": _over(value, bound)}
            for i, value in trial.gst_s.items()
        ]
    return pd.DataFrame(rows)


def _quantiles(study: Study, cell: MeasuredCell) -> pd.DataFrame:
    """Make one row: quantiles of all iterations of all repeats."""
    values = pd.concat([trial.gst_s for trial in cell.counted(GST) if trial.gst_s is not None])
    bound = _bound_s(cell.middle("gst_median_s"), cell.middle("gst_ratio"))
    row = plot.identity(cell, study.along, GST, without=("trials",))
    row |= {"iterations": len(values), "gst_theory_s": cell.middle("gst_theory_s")}
    row |= {f"gst_s_{name}": float(values.quantile(share)) for name, share in QUANTILES.items()}
    row |= {f"gst_over_bound_{name}": _over(row[f"gst_s_{name}"], bound) for name in QUANTILES}
    return pd.DataFrame([row | {"gst_s": row["gst_s_p50"], "gst_over_bound": row["gst_over_bound_p50"]}])


def _bound_s(gst_s: float | None, over: float | None) -> float | None:
    return gst_s / over if gst_s and over else None


def _over(value: float, bound_s: float | None) -> float | None:
    return value / bound_s if bound_s else None


def _boxes(study: Study, group: Group, rows: Sequence[tuple[int, int]], part: pd.DataFrame, name: str) -> plot.Figure:
    traces, shapes = [], []
    relative = name == "gst_over_bound"
    for y, (cell, span) in enumerate(zip(group.cells, rows, strict=True)):
        shade = plot.colour(study.run, cell.label)
        traces.append(_box(span, y, name, shade, "iteration" in part))
        mark = (1.0 if cell.middle("gst_ratio") else None) if relative else cell.middle("gst_theory_s")
        if mark:
            shapes.append(plot.upright(mark, y - 0.42, y + 0.42))
    drawn = [name] if "iteration" in part else [f"{name}_p5", f"{name}_p95"]
    values = [*part[drawn].to_numpy().ravel(), *(shape["x0"] for shape in shapes)]
    ends = plot.around(values) if relative else (0.0, plot.around(values, least=0.0)[1] or 1.0)
    return plot.rows_figure(traces, group.cells, "GST / bound" if relative else "GST (s)", ends, GST, shapes=shapes)


def _box(rows: tuple[int, int], y: int, name: str, shade: str, points: bool) -> plot.Trace:
    """A box of one point an iteration, or of quantiles."""
    shared = {
        "type": "box",
        "orientation": "h",
        "rows": list(rows),
        "width": 0.55,
        "line": {"color": shade, "width": 1.5},
        "fillcolor": plot.faint(shade),
    }
    if not points:
        ends = {"lowerfence": "p5", "q1": "p25", "median": "p50", "q3": "p75", "upperfence": "p95"}
        return shared | {"y": [y], "hoverinfo": "x"} | {key: column(f"{name}_{end}") for key, end in ends.items()}
    return shared | {
        "x": column(name),
        "y0": y,
        "boxpoints": "all",
        "jitter": 0.7,
        "pointpos": 0,
        "marker": {"color": shade, "size": 5, "opacity": 0.7},
        "hoveron": "points",
        "customdata": {"columns": ["arm", "repeat", "iteration"]},
        "hovertemplate": "%{customdata[0]}<br>repeat %{customdata[1]}, "
        "iteration %{customdata[2]}: %{x:.4f}<extra></extra>",
    }


def _seen(cells: Sequence[MeasuredCell]) -> list[str]:
    """Say how near the medians are to their bounds, and which cell spreads most; of each network by itself."""
    is_part = any(not cell.valid_in(GST) for cell in cells) and any(cell.valid_in(GST) for cell in cells)
    return words.by_networks(cells, GST, lambda network, of: _seen_on(network, of, is_part), "the table of all arms")


def _seen_on(network: str, cells: Sequence[MeasuredCell], is_part: bool) -> list[str]:
    """Say so of one network; a cell that alone counts of several is named."""
    near = [(found, cell) for cell in cells if (found := cell.middle("gst_ratio")) is not None]
    wide = [(spread, cell) for cell in cells if (spread := _p95_over_median(cell)) is not None]
    on = f"On {network}, " if network else ""
    sentences = []
    if near:
        low, high = min(near, key=lambda row: row[0]), max(near, key=lambda row: row[0])
        span = words.span(value for value, _ in near)
        farthest = high[1] if high[0] * low[0] >= 1 else low[1]
        far = f"; {words.in_cell(farthest)} is farthest from it" if " to " in span else ""
        of = "" if len(near) == len(cells) else f" (known of {len(near)} of {len(cells)})"
        whose = f" of {words.in_cell(low[1])}" if is_part and len(near) == 1 else ""
        sentences.append(f"{on or 'The '}{'the ' if on else ''}median GST{whose} is {span} its lower bound{of}{far}.")
    if len(wide) == 1:
        ((spread, cell),) = wide
        name, times = words.in_cell(cell), _times_median(spread, cell)
        which = f"only one of {len(cells)} 95th percentiles is VALID: that of {name}"
        sentences.append(_capital(f"{on}{which if len(cells) > 1 else f'the 95th percentile of {name}'} is {times}."))
    elif wide:
        spread, cell = max(wide, key=lambda row: row[0])
        of = on if len(wide) == len(cells) else f"{on}of the {len(wide)} whose 95th percentile is VALID, "
        name, told = words.in_cell(cell), f"its 95th percentile is {_times_median(spread, cell)}"
        sentences.append(f"{_capital(of)}{name} varies most: {told}.")
    return sentences


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _below_theory(cells: Sequence[MeasuredCell]) -> list[str]:
    """Why GST may be less than theory; nothing where it is not."""
    below = [cell for cell in cells if _is_below_theory(cell)]
    if not below:
        return []
    names = [words.in_cell(cell) for cell in below]
    bound = (
        " The bound is for the bytes that were left, so GST can be above its bound all the same."
        if any(cell.middle("gst_ratio") is not None for cell in below)
        else ""
    )
    return [
        f"Some GST of {shortened(names, words.MOST_NAMED)} is less than theory's, which is for the whole gradient: GST "
        f"begins when the last worker has its gradient, and what was sent before is not in it.{bound}"
    ]


def _is_below_theory(cell: MeasuredCell) -> bool:
    """Whether an iteration is, in a trial whose bound is less than theory, too, or not known, as with overlap."""
    for trial in cell.counted(GST):
        bound_s, theory_s = _bound_s(trial.metrics.gst_median_s, trial.metrics.gst_ratio), trial.metrics.gst_theory_s
        if trial.gst_s is None or theory_s is None or (bound_s is None and notes([cell], "gst")):
            continue
        if (bound_s is None or bound_s < theory_s) and trial.gst_s.min() < theory_s:
            return True
    return False


def _times_median(spread: float, cell: MeasuredCell) -> str:
    """Say how many times the median; of repeats, that is another number than the quotient of the table's medians."""
    return f"{words.ratio(spread)} its median{' within a trial' * (len(cell.finished) > 1)}"


def _p95_over_median(cell: MeasuredCell) -> float | None:
    """The 95th percentile of GST over its median, in the trials in which both are VALID; None where there are none."""
    found = [
        metrics.gst_p95_s / metrics.gst_median_s
        for metrics in (trial.metrics for trial in cell.finished if trial.valid_in(GST_P95))
        if metrics.gst_median_s and metrics.gst_p95_s is not None
    ]
    return median(found) if found else None


def parts(study: Study) -> Question | None:
    """A bar for each cell: computing, then what its bytes add to that, then all else."""
    groups = [] if study.along else study.having(_is_known)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    frame = pd.DataFrame(plot.identity(cell, None, _judged_by(cell)) | _parts(cell) for cell in cells)

    def figure(group: Group, start: int) -> plot.Figure:
        traces = [
            plot.bar(
                (start + y, start + y + 1),
                y,
                name,
                shade or plot.colour(study.run, cell.label),
                cell.valid_in(_judged_by(cell)),
                what or "beyond the least time",
            )
            for y, cell in enumerate(group.cells)
            for name, what, shade in PARTS
        ]
        span = plot.from_zero(frame["iteration_s"], room=1.08)
        drawn = plot.rows_figure(traces, group.cells, "of an iteration (s)", span, _judged_by)
        return plot.timed(drawn, "x", frame["iteration_s"].max())

    asked = sum(cell.middle("gst_median_s") is not None for group in study.groups for cell in group.cells)
    of = "" if len(cells) == asked else f"; known of {len(cells)} of {asked}"
    with_gst = [cell for cell in cells if cell.valid_in(GST)]
    left_out = believed(with_gst, ITERATIONS)[1]
    more = (frame["more_s"] / frame["iteration_s"]).tolist()
    shares = [(share, cell) for share, cell in zip(more, cells, strict=True) if cell not in left_out]
    keys = (Key(what, shade) for _, what, shade in PARTS if what)
    return Question(
        "overhead",
        "What does synchronisation add to an iteration?",
        frame,
        plot.panels("overhead", groups, figure),
        (
            f"Share of an iteration beyond computing and the least time for the bytes: "
            f"{words.each(shares, '{:.1%}'.format, GST)}{of}.",
            *words.not_told(with_gst, ITERATIONS),
        ),
        PARTS_DEFINED + notes(cells, "overhead"),
        (*plot.legend(study.run, None), *keys),
    )


def _judged_by(cell: MeasuredCell) -> str:
    """The number that the parts of an iteration are judged by: of the two that they are from, one that is not VALID."""
    return next((number for number in (GST, ITERATIONS) if not cell.valid_in(number)), GST)


def _is_known(cell: MeasuredCell) -> bool:
    return bool(cell.middle("iteration_median_s") and cell.middle("gst_median_s") and cell.middle("gst_ratio"))


def _parts(cell: MeasuredCell) -> dict[str, float]:
    iteration_s, gst_s, ratio = (
        cell.middle(name) or 0.0 for name in ("iteration_median_s", "gst_median_s", "gst_ratio")
    )
    least_s = min(gst_s, gst_s / ratio)
    return {
        "iteration_s": iteration_s,
        "compute_s": max(0.0, iteration_s - gst_s),
        "least_s": least_s,
        "more_s": gst_s - least_s,
    }
