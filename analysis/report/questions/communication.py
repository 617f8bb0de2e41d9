"""How long did scripts wait for their collectives, and how fast were these?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from testbed.analysis.numbers.repeats import GST, JCT
from testbed.analysis.record.trial import Collective
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study
from testbed.analysis.report.question import Key, Question, column
from testbed.base.units import rate_text

MOST_SHOWN = 6
"""Kinds and sizes of collectives of an arm in the table: those that moved most."""
MOST_ROWS, MOST_CELLS = 24, 24
"""Most rows of the table of collectives, and most arms at settings in it: each of these has at least one row."""
GLOO = "gloo"
"""The scheme whose losses those of other arms are put beside."""
EXPOSED_DEFINED = (
    "Exposed is the time of an iteration for which collectives held a script, in its calls and its waits. Hidden "
    "is the time for which they were on their way while the script did something else. DDP's waits are not seen: "
    "they count from a rank's last bucket to its last sum, without what a communication hook computes in between."
    " Both are means over the ranks, and medians over the iterations after the warm-up. Set-up is the time from the "
    "start of the first process to the beginning of the first iteration. Of it, first collective is what the first "
    "collective took from the last rank's call until its first chunk had come on all ranks. Apart from Gloo's is the "
    "largest difference between the losses of an iteration and those of the arm with the scheme gloo, as a share "
    "of the latter. The losses are means over the ranks whose losses both arms have."
)
COLLECTIVES_DEFINED = (
    "Of each arm, the kinds and sizes of collectives that moved most bytes. Time is the median from the last rank that "
    "asked for a collective to the last rank that had it. A sum that is on its way with others takes longer. algbw is "
    "size over time, and busbw is algbw times the factor that nccl-tests has for the kind of collective. The limit is "
    "what the busiest link takes for the bytes. A word in brackets is what moved a collective that the arm's scheme "
    "does not move."
)


def exposed(study: Study) -> Question | None:
    """A bar a cell with exposed and hidden communication, and a table with losses beside Gloo's."""
    cells = [cell for cell in study.cells if _typical(cell) is not None]
    if not cells:
        return None
    groups = study.having(lambda cell: _typical(cell) is not None and cell.middle("exposed_s") is not None)
    rows = []
    for cell in (cell for group in groups for cell in group.cells):
        waited = {name: cell.middle(name) or 0.0 for name in ("exposed_s", "hidden_s")}
        rows.append(plot.identity(cell, study.along, GST) | waited | {"both_s": sum(waited.values())})
    frame = pd.DataFrame(rows)
    told = [_row(study, cell) for cell in room.chosen(cells)]
    columns = [name for name in told[0] if any(row[name] != words.UNKNOWN for row in told)]
    return Question(
        "exposed",
        "How long did scripts wait for communication?",
        frame,
        plot.panels("exposed", groups, lambda group, start: _figure(study, group, start, frame)) if groups else (),
        (*room.rest(cells, where="results.csv"), *_left_out(cells), *_slow_rows(cells)),
        EXPOSED_DEFINED,
        (*plot.legend(study.run, study.along), Key("hidden", plot.COMPUTE)),
        tuple({name: row[name] for name in columns} for row in told),
    )


def _typical(cell: MeasuredCell) -> Trial | None:
    """Return a cell's typical trial, if that is of a script that shows iterations. Even so its waits may be unknown."""
    trial = cell.typical_in(GST)
    if trial is None:
        return None
    told = trial.metrics.exposed_s is not None or (trial.samples is not None and "exposed_s" in trial.samples)
    return trial if told else None


def _left_out(cells: Sequence[MeasuredCell]) -> tuple[str, ...]:
    """List which numbers of scripts are not all there, or not used."""
    told = [(cell, left_out) for cell in cells if cell.typical for left_out in cell.typical.left_out]
    found = [f"{words.where(cell)}{cell.label}: {left_out}." for cell, left_out in told]
    more = [f"{len(found) - words.MOST_ROWS:,} more are in the trials' JSON."] if len(found) > words.MOST_ROWS else []
    return (*found[: words.MOST_ROWS], *more)


def _slow_rows(cells: Sequence[MeasuredCell]) -> list[str]:
    """Say of which arms Python made the rows of sums, because nothing compiled was there, once for each reason."""
    arms: dict[str, dict[str, None]] = {}
    for cell in cells:
        for trial in cell.finished:
            if trial.slow_rows:
                arms.setdefault(trial.slow_rows, {})[cell.label] = None
    return [f"{words.named(list(labels))}: {why}." for why, labels in arms.items()]


def _figure(study: Study, group: Group, start: int, frame: pd.DataFrame) -> plot.Figure:
    traces: list[plot.Trace] = []
    for y, cell in enumerate(group.cells):
        row, valid = (start + y, start + y + 1), cell.valid_in(GST)
        traces.append(plot.bar(row, y, "exposed_s", plot.colour(study.run, cell.label), valid, "exposed"))
        hidden = {"x": column("hidden_s")}
        traces.append(plot.bar(row, y, "both_s", plot.COMPUTE, valid, "with hidden", **hidden))
    figure = plot.rows_figure(traces, group.cells, "of an iteration (s)", plot.from_zero(frame["both_s"]), GST)
    return plot.timed(figure, "x", float(frame["both_s"].max()))


def _row(study: Study, cell: MeasuredCell) -> dict[str, str]:
    samples = cell.middle("throughput_sps")
    return {
        "Arm": words.row_name(cell, GST),
        "Iteration": words.seconds(cell.middle("iteration_median_s")),
        "Exposed": words.seconds(cell.middle("exposed_s")),
        "Hidden": words.seconds(cell.middle("hidden_s")),
        "Set-up": words.seconds(cell.middle("setup_s")),
        "Of it, first collective": words.seconds(cell.middle("connect_s")),
        "Samples/s": words.UNKNOWN if samples is None else f"{samples:.4g}",
        "Losses apart from Gloo's": _apart(study, cell),
    }


def _apart(study: Study, cell: MeasuredCell) -> str:
    """The largest difference of a cell's losses from those of Gloo's arm at the same setting, as a share; and how many
    were compared, if not all. Means of an iteration are over the ranks that both know."""
    trials = (_typical(other) for other in study.cells if other.setting == cell.setting)
    of_gloo = next((trial for trial in trials if trial is not None and _scheme(trial) == GLOO), None)
    mine, theirs = _losses(_typical(cell)), _losses(of_gloo)
    if mine is None or theirs is None:
        return words.UNKNOWN
    both = pd.DataFrame({"mine": mine, "theirs": theirs}).dropna()
    means = both.groupby("iteration").mean()
    apart = ((means["mine"] - means["theirs"]).abs() / means["theirs"].abs()).dropna()
    if apart.empty:
        return words.UNKNOWN
    most = max(len(mine), len(theirs))
    compared = "" if len(both) == most else f" ({len(both):,} of {most:,} losses)"
    return (f"{float(apart.max()):.1e}" if apart.any() else "0") + compared


def _losses(trial: Trial | None) -> pd.Series[float] | None:
    """Return the losses that are known, by rank and iteration."""
    if trial is None or trial.samples is None:
        return None
    losses = pd.to_numeric(trial.samples.set_index(["rank", "iteration"])["loss"], errors="coerce").dropna()
    return None if losses.empty else losses


def collectives(study: Study) -> Question | None:
    """A table with the collectives of each arm that moved most, no figure."""
    found = [(cell, trial) for cell in study.cells if (trial := cell.typical) is not None and trial.collectives]
    if not found:
        return None
    shown = [(cell, one) for cell, trial in found for one in _largest(trial)]
    in_table = room.chosen(found, room.of_pair, MOST_CELLS)
    told = tuple(_told(study, cell, trial, one) for cell, trial in in_table for one in _largest(trial, len(found)))
    kinds = sum(collective.bytes > 0 for _, trial in found for collective in trial.collectives)
    more = (
        f"The table has {len(told):,} of {kinds:,} rows: of each arm, the kinds and sizes that moved most bytes"
        f"{room.without(found, room.of_pair, MOST_CELLS)}. All are in the trials' JSON."
    )
    without_iterations = [cell for cell, _ in found if _typical(cell) is None]
    return Question(
        "collectives",
        "How fast were the collectives of scripts?",
        pd.DataFrame({"arm": cell.label, "batch": cell.batch, **cell.point, **vars(one)} for cell, one in shown),
        (),
        (*([more] if len(told) < kinds else []), *_left_out(without_iterations)),  # the question before has the others'
        COLLECTIVES_DEFINED,
        (),
        told,
    )


def _largest(trial: Trial, cells: int = 1) -> Sequence[Collective]:
    """Choose the collectives that moved most bytes: fewer where a table has rows of many cells, but at least one."""
    ordered = sorted(trial.collectives, key=lambda one: -one.bytes * one.count)
    return [one for one in ordered if one.bytes][: max(1, min(MOST_SHOWN, MOST_ROWS // cells))]


def _told(study: Study, cell: MeasuredCell, trial: Trial, collective: Collective) -> dict[str, str]:
    return {
        "Arm": words.row_name(cell, JCT),
        "Collective": f"{collective.op} of {words.amount(collective.bytes)}{_by(study, trial, collective)}",
        "Count": f"{collective.count:,}",
        "Time": words.seconds(collective.median_s),
        "algbw": _rate(collective.algbw_bps),
        "busbw": _rate(collective.busbw_bps),
        "Time / limit": words.ratio(collective.median_s / collective.least_s) if collective.least_s else words.UNKNOWN,
    }


def _by(study: Study, trial: Trial, collective: Collective) -> str:
    """Name what moved a collective if that is not the arm's scheme (which may be Gloo); of Gloo's sums, say which ones
    the spec compares."""
    if collective.by in ("scheme", _scheme(trial)):
        return ""
    workload = study.run.resolved.get("workload")
    every = workload.get("check") if isinstance(workload, Mapping) else None
    like = [
        each
        for each in trial.collectives
        if each.by == "scheme" and each.op == collective.op and each.ranks == collective.ranks
    ]
    is_comparison = every and collective.by == GLOO and collective.bytes in {each.bytes for each in like}
    return f" ({collective.by}: the comparison of check: {every})" if is_comparison else f" ({collective.by})"


def _scheme(trial: Trial) -> str:
    return trial.scheme.partition("(")[0]


def _rate(rate_bps: float | None) -> str:
    return words.UNKNOWN if rate_bps is None else words.unbroken(rate_text(float(f"{rate_bps:.3g}")))
