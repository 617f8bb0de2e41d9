"""How soon did the model reach the same accuracy, and how did the loss fall?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.goal import Quality, goal, quality, reached_s
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Place, Trial
from testbed.analysis.report import headline, plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, by_network, interval, is_known, notes
from testbed.analysis.report.cells import cells as every_cell
from testbed.analysis.report.question import Panel, Question
from testbed.base.listing import counted, shortened

SAME_LOSS = 1e-3
"""Losses of two arms that differ by less than this, relatively, are called the same."""
MOST_POINTS = 200
"""Points of a line; of more iterations they are evenly spaced."""
MOST_PANELS = 12
SAME, DIFFERENT, ELSEWHERE = "had the same losses; ", "had different losses; ", "had losses in different iterations; "
_ALIKE = {SAME: "the same", DIFFERENT: "different", ELSEWHERE: "in different iterations", "": words.UNKNOWN}

GOAL_DEFINED = (
    "{defined} The {noun} counts only for trials that ended with that process's weights. The goal at a setting is the "
    "highest {noun} that every trial with {a_noun} reached there. Time runs from the trial's start to the end of the "
    "last worker's iteration."
)
LOSS_DEFINED = (
    "Loss is the {loss}, as the mean over the workers, at the moment "
    "the last worker ends that iteration. Time runs from the trial's start. With several repeats, the one with the "
    "median JCT is drawn."
)


def loss_curve(trial: Trial | None) -> pd.DataFrame | None:
    """Return, by iteration, ``time_s``, when the last worker ended it, and ``loss``, the mean over the workers; None
    where there is no loss, as in profiles."""
    if trial is None or trial.samples is None or trial.samples.empty:
        return None
    samples = metrics.rounds(trial.samples)
    samples = samples.assign(loss=pd.to_numeric(samples["loss"], errors="coerce"))
    curve = pd.DataFrame(
        {"time_s": metrics.ends_s(trial.samples), "loss": samples.groupby("iteration")["loss"].mean()}
    ).dropna()
    return None if curve.empty else curve


def accuracy_curve(trial: Trial) -> pd.DataFrame | None:
    """Return, by iteration, ``time_s`` as :func:`loss_curve` and ``quality``; None where it is not known."""
    known = trial.accuracy.own_curve
    if trial.samples is None or not known:
        return None
    by_iteration = pd.Series({int(iteration): value for iteration, value in known}, dtype=float)
    curve = pd.DataFrame({"time_s": metrics.ends_s(trial.samples), "quality": by_iteration}).dropna()
    return None if curve.empty else curve


def accuracy(study: Study) -> Question | None:
    """Time to accuracy of each cell, with intervals."""
    reached: dict[int, tuple[float, list[float]]] = {}
    for members in study.settings:
        reached |= _reached(members)
    groups = study.having(lambda cell: id(cell) in reached)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    rows = [_time_row(study, cell, *reached[id(cell)]) for cell in cells]
    frame, good = pd.DataFrame(rows), quality_of(cells)
    span = plot.from_zero_with_intervals(frame, "time_s")
    noun = {"noun": good.noun, "a_noun": f"{'an' if good.noun[0] in 'aeiou' else 'a'} {good.noun}"}
    return Question(
        "accuracy",
        f"How soon did the model reach the same {good.noun}?",
        frame,
        plot.panels("accuracy", groups, lambda group, start: _time_figure(study, group, start, frame, span)),
        (*_accuracy_seen(cells, rows), *_left_out(study), *words.about_intervals(cells, JCT)),
        f"{GOAL_DEFINED.format(defined=good.defined, **noun)}{notes(cells, 'accuracy')} {words.INTERVALS}",
        plot.legend(study.run, study.along),
        _accuracy_told(cells, rows),
    )


def quality_of(cells: Sequence[MeasuredCell]) -> Quality:
    """Return the quality that tells how good the weights of these arms are, which have one workload."""
    return next((trial.accuracy.quality for cell in cells for trial in cell.finished), quality(None))


def _reached(cells: Sequence[MeasuredCell]) -> dict[int, tuple[float, list[float]]]:
    """Find, for each cell of a setting that has accuracies, the highest that all of them reached, and when each repeat
    did (s)."""
    found = {
        id(cell): [
            list(zip(curve["time_s"], curve["quality"], strict=True))
            for trial in cell.counted(JCT)
            if (curve := accuracy_curve(trial)) is not None
        ]
        for cell in cells
    }
    aim = goal(curve for curves in found.values() for curve in curves)
    if aim is None:
        return {}
    return {key: (aim, [reached_s(curve, aim) for curve in curves]) for key, curves in found.items() if curves}


def _time_row(study: Study, cell: MeasuredCell, goal: float, times_s: Sequence[float]) -> dict[str, Any]:
    return plot.identity(cell, study.along, JCT) | {"goal": goal} | words.columns("time_s", interval(times_s))


def _time_figure(study: Study, group: Group, start: int, frame: pd.DataFrame, span: tuple[float, float]) -> plot.Figure:
    title = "time to the goal (s)"
    if study.along:
        traces = plot.lines(study.run, group, start, study.along, "time_s", "goal reached, s:", JCT)
        figure = plot.along_figure(traces, study.along, group.cells, title)
        return plot.timed(figure, "y", frame["time_s"].max())
    traces = []
    for y, cell in enumerate(group.cells):
        row = frame.iloc[start + y]
        has = pd.notna(row["time_s_high"])
        more = {"error_x": plot.error("time_s")} if has else {}
        shade = plot.colour(study.run, cell.label)
        traces.append(
            plot.bar((start + y, start + y + 1), y, "time_s", shade, cell.valid_in(JCT), "goal reached after", **more)
        )
        traces.append(plot.number(float(row["time_s"]), float(row["time_s_high" if has else "time_s"]), y, span))
    return plot.timed(plot.rows_figure(traces, group.cells, title, span, JCT), "x", frame["time_s"].max())


def _accuracy_seen(cells: Sequence[MeasuredCell], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Say when each arm reached the goal, or, of several settings, which arm of each network did so first how often."""
    by_setting = _by_setting(cells, rows)
    if len(by_setting) > 1:
        told, _ = believed(cells, JCT)
        times = {
            cell.place: Interval(row["time_s"], row["time_s_low"] or -math.inf, row["time_s_high"] or math.inf)
            for cell, row in zip(cells, rows, strict=True)
        }
        return [*_firsts(by_setting, told, times), *words.not_told(cells, JCT, "Not ranked")]
    return [
        f"{words.where(found[0][1])}{quality_of(cells).text(found[0][2])} was reached after "
        f"{words.each([(time, cell) for time, cell, _ in found], words.seconds, JCT)}."
        for found in by_setting.values()
    ]


def _firsts(
    by_setting: Mapping[Any, Sequence[tuple[float, MeasuredCell, float]]],
    told: Sequence[MeasuredCell],
    times: Mapping[Place, Interval],
) -> list[str]:
    """Say how often each arm was first, among the cells that are ranked."""
    first: dict[str, list[str]] = {}
    for found in by_setting.values():
        for network, members in by_network([cell for _, cell, _ in found if cell in told]).items():
            if len(members) > 1:
                first.setdefault(network, []).append(_first(members, times))
    return words.of_networks(
        [
            [
                f"{f'On {network}, of' if network else 'Of'} {counted(len(labels), 'setting')} where several arms "
                f"are ranked, {words.firsts(labels, 'reached the goal first in')}."
            ]
            for network, labels in first.items()
        ]
    )


def _first(members: Sequence[MeasuredCell], times: Mapping[Place, Interval]) -> str:
    """Label of the first cell; empty if another one would be written as 1.00× its time, or their intervals overlap."""
    best, *others = sorted(members, key=lambda cell: times[cell.place].value)
    least = times[best.place]
    is_first = all(
        time.value > least.value / headline.SAME_AS_FIRST and (time.low > least.high or not is_known(time))
        for time in (times[cell.place] for cell in others)
    )
    return best.label if is_first else ""


def _by_setting(
    cells: Sequence[MeasuredCell], rows: Sequence[dict[str, Any]]
) -> dict[Any, list[tuple[float, MeasuredCell, float]]]:
    """Collect, by setting, when each cell reached the goal of its setting (s), and that goal."""
    found: dict[Any, list[tuple[float, MeasuredCell, float]]] = {}
    for cell, row in zip(cells, rows, strict=True):
        found.setdefault(cell.setting, []).append((row["time_s"], cell, row["goal"]))
    return found


def _accuracy_told(cells: Sequence[MeasuredCell], rows: Sequence[dict[str, Any]]) -> tuple[dict[str, str], ...]:
    """A row for each of several settings, unless they are many."""
    by_setting, good = _by_setting(cells, rows), quality_of(cells)
    if not 1 < len(by_setting) <= words.MOST_ROWS:
        return ()
    return tuple(
        {
            "Setting": words.setting(found[0][1]),
            good.noun.capitalize(): good.text(found[0][2]),
            "Reached after": words.each([(time, cell) for time, cell, _ in found], words.seconds, JCT),
        }
        for found in by_setting.values()
    )


def _left_out(study: Study) -> list[str]:
    """Why arms whose weights were checked have no accuracy over time."""
    apart = [
        cell.label for cells in study.settings for cell in cells if any(t.accuracy.apart for t in cell.counted(JCT))
    ]
    if not apart:
        return []
    whose = words.listed(list(dict.fromkeys(apart)))
    why = "because of rounding, their weights differ from the single process's"
    return [f"Trials of {whose} have no accuracy over time: {why}."]


def loss(study: Study) -> Question | None:
    """Loss over time: a panel for each of the first settings, with a line an arm."""
    shown = [
        [(cell, curve) for cell in cells if (curve := loss_curve(cell.typical)) is not None] for cells in study.settings
    ]
    shown = [curves for curves in shown if curves]
    if not shown:
        return None
    longest_s = max(float(curve["time_s"].max()) for curves in shown for _, curve in curves)
    tables, panels, start = [], [], 0
    for i, curves in enumerate(shown[:MOST_PANELS]):
        traces = []
        for cell, curve in curves:
            table = thinned(curve)
            known = {key: value for key, value in plot.identity(cell, None, JCT).items() if key != "trials"}
            tables.append(table.reset_index().assign(**known)[[*known, "iteration", "time_s", "loss"]])
            traces.append(
                plot.curve(
                    *(study.run, cell.label, (start, start + len(table)), "time_s", "loss"),
                    customdata={"columns": ["arm", "iteration"]},
                    hovertemplate="%{customdata[0]}<br>iteration %{customdata[1]}, %{x:.4g} s: loss %{y:.4f}"
                    "<extra></extra>",
                )
            )
            start += len(table)
        figure = plot.lines_figure(
            traces, "time since the trial's start (s)", "training loss (cross-entropy)", x_from_0=True, y_from_0=False
        )
        figure = plot.timed(figure, "x", longest_s)
        panels.append(Panel(f"loss-{i}", words.where(curves[0][0]).removesuffix(": ") or "Every arm", figure))
    cells = [cell for curves in shown for cell, _ in curves]
    more = f" Drawn are the first {MOST_PANELS} of {len(shown)} settings." if len(shown) > MOST_PANELS else ""
    return Question(
        "loss",
        "How did the loss fall?",
        pd.concat(tables, ignore_index=True),
        tuple(panels),
        tuple(_loss_seen(study, shown)),
        f"{LOSS_DEFINED.format(loss=quality_of(cells).loss)}{notes(cells, 'accuracy')}{more}",
        plot.dashes(study.run),
        tuple(map(_loss_row, shown)) if 1 < len(shown) <= words.MOST_ROWS else (),
    )


def thinned(curve: pd.DataFrame) -> pd.DataFrame:
    """Thin a curve to at most :data:`MOST_POINTS` rows, the first and the last among them."""
    if len(curve) <= MOST_POINTS:
        return curve
    return curve.iloc[[round(i * (len(curve) - 1) / (MOST_POINTS - 1)) for i in range(MOST_POINTS)]]


def _loss_seen(study: Study, shown: Sequence[Sequence[tuple[MeasuredCell, pd.DataFrame]]]) -> list[str]:
    """Say at each setting whether the arms went through the same losses, and when each reached what all reached.

    Without computing time there are no steps either, and too few iterations do not help: then nothing was reached.
    """
    known = {cell.place for curves in shown for cell, _ in curves}
    lacking = [words.in_cell(cell) for cell in every_cell(study.run) if cell.place not in known]
    without = [f"Without losses: {shortened(lacking, words.MOST_NAMED)}."] if lacking else []
    if len(shown) == 1:
        return [_fallen(shown[0], "every arm" if not without else "the arms that have losses"), *without]
    same = sum(_same_losses([curve["loss"] for _, curve in curves]) == SAME for curves in shown)
    which = "Every arm" if not without else "The arms that have losses"
    return [*([f"{which} had the same losses in {same} of {len(shown)} settings."] if same else []), *without]


def _loss_row(curves: Sequence[tuple[MeasuredCell, pd.DataFrame]]) -> dict[str, str]:
    """Write what :func:`_fallen` says, as a row."""
    same = _same_losses([curve["loss"] for _, curve in curves])
    row = {"Setting": words.setting(curves[0][0]), "Losses of the arms": _ALIKE[same]}
    stuck = [cell.label for cell, curve in curves if not _falls(curve["loss"])]
    if stuck:
        return row | {"Loss": f"did not fall for {words.named(stuck)}", "Took": words.UNKNOWN}
    goal, times = _goal(curves)
    begin, goal_text = _begin(curves), f"{goal:#.3g}"
    fell = f"{begin} at first; all reached {goal_text}" if " to " in begin else f"{begin} to {goal_text}"
    return row | {"Loss": fell, "Took": words.each(times, words.seconds, JCT)}


def _begin(curves: Sequence[tuple[MeasuredCell, pd.DataFrame]]) -> str:
    """The first loss of every arm, or the least and the greatest of them."""
    return words.reach([float(curve["loss"].iloc[0]) for _, curve in curves], "{:#.3g}".format)


def _goal(
    curves: Sequence[tuple[MeasuredCell, pd.DataFrame]],
) -> tuple[float, list[tuple[float, MeasuredCell]]]:
    """The lowest loss that all reached, and when each did (s)."""
    goal = max(float(curve["loss"].min()) for _, curve in curves)
    return goal, [(float(curve.loc[curve["loss"] <= goal, "time_s"].iloc[0]), cell) for cell, curve in curves]


def _fallen(curves: Sequence[tuple[MeasuredCell, pd.DataFrame]], who: str) -> str:
    where = words.where(curves[0][0])
    same = _same_losses([curve["loss"] for _, curve in curves])
    same = f"{who if same == SAME else who.replace('every arm', 'the arms')} {same}" if same else ""
    stuck = [cell.label for cell, curve in curves if not _falls(curve["loss"])]
    if stuck:
        whose = f" of {words.named(stuck)}" if len(stuck) < len(curves) else ""
        return _sentence(f"{where}{same}the loss{whose} did not fall.")
    goal, times = _goal(curves)
    begin, took = _begin(curves), words.each(times, words.seconds, JCT)
    fell = f"the loss, {begin} at first, fell" if " to " in begin else f"the loss fell from {begin}"
    ends = sorted(float(curve["loss"].iloc[-1]) for _, curve in curves)
    is_back = f"{ends[-1]:#.3g}" != f"{goal:#.3g}" and ends[-1] > goal
    end = " to ".join(dict.fromkeys(f"{loss:#.3g}" for loss in (ends[0], ends[-1])))
    return _sentence(
        f"{where}{same}{fell} to {goal:#.3g} in {took}." + (f" At the end it was {end}." if is_back else "")
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _falls(losses: pd.Series[float]) -> bool:
    return bool(losses.min() < (1 - SAME_LOSS) * losses.iloc[0])


def _same_losses(losses: Sequence[pd.Series[float]]) -> str:
    if len(losses) < 2:
        return ""
    first = losses[0]
    if any(not other.index.equals(first.index) for other in losses):
        return ELSEWHERE
    return SAME if all(((other - first).abs() <= SAME_LOSS * first.abs()).all() for other in losses) else DIFFERENT
