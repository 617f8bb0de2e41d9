"""How soon did the model reach the same accuracy, how did that rise (MLfabric, fig. 7), and how did the loss fall?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.goal import Quality, goal, quality, reached_s
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Place, Setting, Trial
from testbed.analysis.report import headline, plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, by_network, interval, is_known, notes
from testbed.analysis.report.cells import cells as every_cell
from testbed.analysis.report.question import Panel, Question
from testbed.base.listing import counted, shortened

Curves: TypeAlias = Sequence[tuple[MeasuredCell, pd.DataFrame]]
Reached: TypeAlias = tuple[float, MeasuredCell, float]
"""When a cell reached the goal of its setting (s), and that goal."""

SAME_LOSS = 1e-3
"""Losses of two arms that differ by less than this, relatively, are called the same."""
MOST_POINTS = 200
"""Points of a line; of more iterations they are evenly spaced."""
MOST_PANELS = 12
MOST_SETTINGS = 6
"""Settings whose learning curves are drawn, each in two panels."""
BATCHES, TIME = "mini_batches", "time_s"
AXES = {BATCHES: "mini-batches of a worker", TIME: "time since the trial's start (s)"}
SAME, DIFFERENT, ELSEWHERE = "had the same losses; ", "had different losses; ", "had losses in different iterations; "
_ALIKE = {SAME: "the same", DIFFERENT: "different", ELSEWHERE: "in different iterations", "": words.UNKNOWN}

GOAL_DEFINED = (
    "{defined} The {noun} counts only for trials that ended with that process's weights. The goal at a setting is the "
    "highest {noun} that every trial with {a_noun} reached there. Time runs from the trial's start to the end of the "
    "last worker's iteration."
)
CURVES_DEFINED = (
    "{defined} A point is an iteration; of updates, as many applied ones as there are workers. Mini-batches are those "
    "that a worker had computed by then, on average: dropped updates are among them. Time runs from the trial's start "
    "to the end of the last worker's iteration. With several repeats, the one with the median JCT is drawn."
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
    reached: dict[Place, tuple[float, list[float]]] = {}
    for members in study.settings:
        reached |= _reached(members)
    groups = study.having(lambda cell: cell.place in reached)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    rows = []
    for cell in cells:
        aim, times_s = reached[cell.place]
        rows.append(plot.identity(cell, study.along, JCT) | {"goal": aim} | words.columns("time_s", interval(times_s)))
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


def _reached(cells: Sequence[MeasuredCell]) -> dict[Place, tuple[float, list[float]]]:
    """Find the highest accuracy that all cells of a setting reached which have some, and when their repeats did (s)."""
    found = {
        cell.place: [
            list(zip(curve["time_s"], curve["quality"], strict=True))
            for trial in cell.counted(JCT)
            if (curve := accuracy_curve(trial)) is not None
        ]
        for cell in cells
    }
    aim = goal(curve for curves in found.values() for curve in curves)
    if aim is None:
        return {}
    return {place: (aim, [reached_s(curve, aim) for curve in curves]) for place, curves in found.items() if curves}


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
    by_setting: Mapping[Setting, Sequence[Reached]], told: Sequence[MeasuredCell], times: Mapping[Place, Interval]
) -> list[str]:
    """Say how often each arm was first, among the cells that are ranked."""
    first: dict[str, list[str]] = {}
    for found in by_setting.values():
        for network, members in by_network([cell for _, cell, _ in found if cell in told]).items():
            if len(members) > 1:
                first.setdefault(network, []).append(_first(members, times))
    sentences = [
        f"{f'On {network}, of' if network else 'Of'} {counted(len(labels), 'setting')} where several arms "
        f"are ranked, {words.firsts(labels, 'reached the goal first in')}."
        for network, labels in first.items()
    ]
    return words.of_networks([[sentence] for sentence in sentences])


def _first(members: Sequence[MeasuredCell], times: Mapping[Place, Interval]) -> str:
    """Label of the first cell; empty if another one would be written as 1.00× its time, or their intervals overlap."""
    best, *others = sorted(members, key=lambda cell: times[cell.place].value)
    least = times[best.place]
    is_first = all(
        time.value > least.value / headline.SAME_AS_FIRST and (time.low > least.high or not is_known(time))
        for time in (times[cell.place] for cell in others)
    )
    return best.label if is_first else ""


def _by_setting(cells: Sequence[MeasuredCell], rows: Sequence[dict[str, Any]]) -> dict[Setting, list[Reached]]:
    found: dict[Setting, list[Reached]] = {}
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


def _drawn(study: Study, curve_of: Callable[[Trial | None], pd.DataFrame | None]) -> list[Curves]:
    """The curves of the typical trials of each setting that has some."""
    found = [
        [(cell, curve) for cell in cells if (curve := curve_of(cell.typical)) is not None] for cells in study.settings
    ]
    return [curves for curves in found if curves]


def _with_arms(curves: Sequence[Curves]) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """One table of all curves, after the columns that say of which arm they are, and the rows of each."""
    tables = []
    for cell, curve in (one for of in curves for one in of):
        known = plot.identity(cell, None, JCT, without=("trials",))
        tables.append(curve.assign(**known)[[*known, *curve]])
    return plot.stacked(tables)


def _setting(curves: Curves) -> str:
    return words.where(curves[0][0]).removesuffix(": ") or "Every arm"


def by_iteration_and_time(study: Study) -> Question | None:
    """Two panels for each of the first settings, with a line an arm."""
    shown = _drawn(study, _accuracy_by_batches)
    if not shown:
        return None
    every = [one for curves in shown for one in curves]
    good = quality_of([cell for cell, _ in every])
    frame, spans = _with_arms(shown[:MOST_SETTINGS])
    panels, first = [], 0
    for i, curves in enumerate(shown[:MOST_SETTINGS]):
        rows = spans[first : first + len(curves)]
        first += len(curves)
        panels += [
            Panel(
                f"learning-curves-{i}-{axis}",
                f"{_setting(curves)}: by {noun}",
                _curves_figure(study, curves, rows, axis, good),
            )
            for axis, noun in ((BATCHES, "mini-batches"), (TIME, "time"))
        ]
    more = f" Drawn are the first {MOST_SETTINGS} of {len(shown)} settings." if len(shown) > MOST_SETTINGS else ""
    return Question(
        "learning-curves",
        f"How did the {good.noun} rise?",
        frame,
        tuple(panels),
        room.rest(every, room.of_pair, where="the trials' JSON"),
        CURVES_DEFINED.format(defined=good.defined) + more,
        plot.dashes(study.run),
        tuple(_curve_row(cell, curve, good) for cell, curve in room.chosen(every, room.of_pair)),
    )


def _accuracy_by_batches(trial: Trial | None) -> pd.DataFrame | None:
    """``iteration``, ``mini_batches``, ``time_s`` and ``quality``; None where it is not known."""
    curve = None if trial is None else accuracy_curve(trial)
    if trial is None or trial.samples is None or curve is None:
        return None
    done = metrics.mini_batches(trial.samples)
    return thinned(curve.assign(mini_batches=done).rename_axis("iteration").reset_index())


def _curves_figure(
    study: Study, curves: Curves, rows: Sequence[tuple[int, int]], axis: str, good: Quality
) -> plot.Figure:
    traces = [
        plot.curve(
            *(study.run, cell.label, at, axis, "quality"),
            customdata={"columns": ["arm", *AXES]},
            hovertemplate=f"%{{customdata[0]}}<br>%{{customdata[1]:.4g}} mini-batches, %{{customdata[2]:.4g}} s: "
            f"{good.noun} %{{y:{good.form}}}<extra></extra>",
        )
        for (cell, _), at in zip(curves, rows, strict=True)
    ]
    is_share = good.form.endswith("%")
    title = good.noun if is_share else f"log-{good.noun} of a token (nats)"
    figure = plot.lines_figure(traces, AXES[axis], title, x_from_0=True, y_from_0=False)
    figure["layout"]["yaxis"] |= {"tickformat": ".0%"} if is_share else {}
    return figure if axis == BATCHES else plot.timed(figure, "x", _longest_s([curves]))


def _longest_s(shown: Sequence[Curves]) -> float:
    return max(float(curve["time_s"].max()) for curves in shown for _, curve in curves)


def _curve_row(cell: MeasuredCell, curve: pd.DataFrame, good: Quality) -> dict[str, str]:
    """Write where an arm ended."""
    last = curve.iloc[-1]
    return {
        "Arm": words.row_name(cell, JCT),
        f"{good.noun.capitalize()} in the end": good.text(float(last["quality"])),
        "Mini-batches of a worker": f"{last[BATCHES]:.3g}",
        "Time": words.seconds(float(last[TIME])),
    }


def loss(study: Study) -> Question | None:
    """Loss over time: a panel for each of the first settings, with a line an arm."""
    shown = _drawn(study, loss_curve)
    if not shown:
        return None
    drawn = [
        [(cell, thinned(curve).reset_index()[["iteration", "time_s", "loss"]]) for cell, curve in curves]
        for curves in shown[:MOST_PANELS]
    ]
    frame, spans = _with_arms(drawn)
    rows, panels = iter(spans), []
    for i, curves in enumerate(drawn):
        traces = [
            plot.curve(
                *(study.run, cell.label, next(rows), "time_s", "loss"),
                customdata={"columns": ["arm", "iteration"]},
                hovertemplate="%{customdata[0]}<br>iteration %{customdata[1]}, %{x:.4g} s: loss %{y:.4f}"
                "<extra></extra>",
            )
            for cell, _ in curves
        ]
        figure = plot.lines_figure(traces, AXES[TIME], "training loss (cross-entropy)", x_from_0=True, y_from_0=False)
        panels.append(Panel(f"loss-{i}", _setting(curves), plot.timed(figure, "x", _longest_s(shown))))
    cells = [cell for curves in shown for cell, _ in curves]
    more = f" Drawn are the first {MOST_PANELS} of {len(shown)} settings." if len(shown) > MOST_PANELS else ""
    return Question(
        "loss",
        "How did the loss fall?",
        frame,
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


def _loss_seen(study: Study, shown: Sequence[Curves]) -> list[str]:
    """Say at each setting whether the arms went through the same losses, and when each reached what all reached.

    Without computing time there are no steps either, and too few iterations do not help: then nothing was reached.
    """
    known = {cell.place for curves in shown for cell, _ in curves}
    lacking = [words.in_cell(cell) for cell in every_cell(study.run) if cell.place not in known]
    without = [f"Without losses: {shortened(lacking, words.MOST_NAMED)}."] if lacking else []
    who = "the arms that have losses" if lacking else "every arm"
    if len(shown) == 1:
        return [_sentence(_fallen(shown[0], who)), *without]
    same = sum(_same_losses(curves) == SAME for curves in shown)
    told = [_sentence(f"{who} had the same losses in {same} of {len(shown)} settings.")] if same else []
    return [*told, *without]


def _loss_row(curves: Curves) -> dict[str, str]:
    """Write what :func:`_fallen` says, as a row."""
    row = {"Setting": words.setting(curves[0][0]), "Losses of the arms": _ALIKE[_same_losses(curves)]}
    stuck = [cell.label for cell, curve in curves if not _falls(curve["loss"])]
    if stuck:
        return row | {"Loss": f"did not fall for {words.named(stuck)}", "Took": words.UNKNOWN}
    goal, times = _goal(curves)
    begin, goal_text = _begin(curves), f"{goal:#.3g}"
    fell = f"{begin} at first; all reached {goal_text}" if " to " in begin else f"{begin} to {goal_text}"
    return row | {"Loss": fell, "Took": words.each(times, words.seconds, JCT)}


def _begin(curves: Curves) -> str:
    """The first loss of every arm, or the least and the greatest of them."""
    return words.reach([float(curve["loss"].iloc[0]) for _, curve in curves], "{:#.3g}".format)


def _goal(curves: Curves) -> tuple[float, list[tuple[float, MeasuredCell]]]:
    """The lowest loss that all reached, and when each did (s)."""
    goal = max(float(curve["loss"].min()) for _, curve in curves)
    return goal, [(float(curve.loc[curve["loss"] <= goal, "time_s"].iloc[0]), cell) for cell, curve in curves]


def _fallen(curves: Curves, who: str) -> str:
    same = _same_losses(curves)
    same = f"{who if same == SAME else who.replace('every arm', 'the arms')} {same}" if same else ""
    lead = words.where(curves[0][0]) + same
    stuck = [cell.label for cell, curve in curves if not _falls(curve["loss"])]
    if stuck:
        whose = f" of {words.named(stuck)}" if len(stuck) < len(curves) else ""
        return f"{lead}the loss{whose} did not fall."
    goal, times = _goal(curves)
    begin, took = _begin(curves), words.each(times, words.seconds, JCT)
    fell = f"the loss, {begin} at first, fell" if " to " in begin else f"the loss fell from {begin}"
    ends = sorted(float(curve["loss"].iloc[-1]) for _, curve in curves)
    is_back = f"{ends[-1]:#.3g}" != f"{goal:#.3g}" and ends[-1] > goal
    end = " to ".join(dict.fromkeys(f"{loss:#.3g}" for loss in (ends[0], ends[-1])))
    return f"{lead}{fell} to {goal:#.3g} in {took}." + (f" At the end it was {end}." if is_back else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _falls(losses: pd.Series[float]) -> bool:
    return bool(losses.min() < (1 - SAME_LOSS) * losses.iloc[0])


def _same_losses(curves: Curves) -> str:
    first, *others = [curve["loss"] for _, curve in curves]
    if not others:
        return ""
    if any(not other.index.equals(first.index) for other in others):
        return ELSEWHERE
    return SAME if all(((other - first).abs() <= SAME_LOSS * first.abs()).all() for other in others) else DIFFERENT
