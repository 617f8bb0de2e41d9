"""How long did the jobs take, and how much faster was each arm than the first?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.report import headline, plot, words
from testbed.analysis.report.cells import (
    Group,
    MeasuredCell,
    Study,
    are_paired,
    believed,
    by_network,
    did_alike,
    faster,
    faster_by,
    is_known,
    names_of_networks,
    notes,
    over,
)
from testbed.analysis.report.cells import cells as every_cell
from testbed.analysis.report.question import Key, Panel, Question, column
from testbed.analysis.verdicts import CALLED, SIMULATED
from testbed.base.listing import counted, shortened

JCT_DEFINED = (
    "JCT runs from the moment the first worker starts its first iteration to the moment the last worker ends its "
    "last. Compute is the part of each iteration until the last worker has its gradient, synchronisation the rest."
)
COMMAND_DEFINED = (
    "JCT of a command runs from the moment its first rank is started to the moment its last rank has ended, start-up "
    "included."
)
SAME_DEFINED = (
    " Arms show no difference if the ratio of their JCTs would be written as 1.00×, or if its interval includes 1×."
)
SPEED_DEFINED = (
    "A speed-up is the first arm's time divided by the arm's time. Trials with the same setting and repeat, which ran "
    "one after the other, are pairs; the median of all pairs is shown. Only VALID trials count. If neither arm has "
    "one, all of their trials count. There is no speed-up if no pair is left, if only one of the two arms has a VALID "
    "trial, or if scripts did different numbers of iterations or of sums."
)
SAMPLES = (
    " An arm with another number of workers than the first arm trains another number of samples in an iteration. Its "
    "speed-up is its samples per second, divided by the first arm's."
)
APART = " Trials of different runs are not pairs: the speed-up of an arm of another run is the ratio of the medians."
KINDS = ((ratios.JCT, "JCT"), (ratios.GST, "GST"), (ratios.THROUGHPUT, "samples/s"))


def jct(study: Study) -> Question | None:
    """JCT by batch and scheme, with what of it is synchronisation."""
    timed = [cell for cell in study.cells if cell.middle("jct_s")]
    if not timed:
        return None
    rows = [_jct_row(study, cell) for group in study.groups for cell in group.cells]
    frame = pd.DataFrame(rows)
    longest = plot.from_zero_with_intervals(frame, "jct_s")
    is_split = frame["compute_s"].notna().any()
    updates = notes(timed, "jct")
    legend = plot.legend(study.run, study.along)
    if is_split and not study.along:
        parts = (Key(f"{key.label}, synchronisation", key.colour) for key in legend)
        legend = (Key("compute", plot.COMPUTE), *parts)
    return Question(
        "jct",
        "How long did the jobs take?",
        frame,
        plot.panels("jct", study.groups, lambda group, start: _jct_figure(study, group, start, frame, longest)),
        (*_jct_seen(study), *words.about_intervals(timed, ratios.JCT)),
        f"{JCT_DEFINED if is_split else COMMAND_DEFINED}{updates}{SAME_DEFINED} {words.INTERVALS}",
        legend,
        _jct_told(study),
    )


def _jct_row(study: Study, cell: MeasuredCell) -> dict[str, Any]:
    middle = {name: cell.middle(name) for name in ("compute_s", "sync_s")}
    return plot.identity(cell, study.along, ratios.JCT) | words.columns("jct_s", cell.median("jct_s")) | middle


def _jct_figure(study: Study, group: Group, start: int, frame: pd.DataFrame, span: tuple[float, float]) -> plot.Figure:
    if study.along:
        traces = plot.lines(study.run, group, start, study.along, "jct_s", "JCT, s:", ratios.JCT)
        figure = plot.along_figure(traces, study.along, group.cells, "JCT (s)")
        return plot.timed(figure, "y", frame["jct_s"].max())
    traces = []
    for y, cell in enumerate(group.cells):
        row, shade = (start + y, start + y + 1), plot.colour(study.run, cell.label)
        value = cell.median("jct_s")
        if value is None:
            continue
        rest: dict[str, Any] = {"error_x": plot.error("jct_s")} if is_known(value) else {}
        if pd.notna(frame["compute_s"].iloc[row[0]]):
            traces.append(plot.bar(row, y, "compute_s", plot.COMPUTE, cell.valid_in(ratios.JCT), "compute"))
            rest["x"] = column("jct_s", minus="compute_s")
        what = "synchronisation" if "x" in rest else "JCT"
        traces.append(plot.bar(row, y, "jct_s", shade, cell.valid_in(ratios.JCT), what, **rest))
        traces.append(plot.number(value.value, value.high if is_known(value) else value.value, y, span))
    figure = plot.rows_figure(traces, group.cells, "JCT (s)", span, ratios.JCT)
    return plot.timed(figure, "x", frame["jct_s"].max())


@dataclass(frozen=True)
class Ranking:
    """Cells of one setting on one network with as many workers each, which did the same work.

    Attributes:
        cells: those that are ranked: the VALID ones, or all where none is.
        others: those that are not, because they are not VALID.
        unlike: those that are not, because they did other work.
        network: what it is called, where the setting has cells on other networks, too; else nothing.
    """

    cells: tuple[MeasuredCell, ...]
    others: tuple[MeasuredCell, ...]
    unlike: tuple[MeasuredCell, ...]
    network: str

    @property
    def number(self) -> str:
        """Number by which they are ranked: JCT, or samples per second where some lost workers."""
        every = (*self.cells, *self.others)
        return ratios.JCT if all(faster_by(every[0], cell) == ratios.JCT for cell in every) else ratios.THROUGHPUT

    @property
    def best(self) -> MeasuredCell:
        if self.number == ratios.JCT:
            return min(self.cells, key=_middle)
        return max(self.cells, key=partial(_middle, metric="throughput_sps"))

    @cached_property
    def firsts(self) -> tuple[MeasuredCell, ...]:
        """The best cell, and those of which no difference from it is shown."""
        return tuple(cell for cell in self.cells if cell is self.best or not self._is_behind(cell))

    def _is_behind(self, cell: MeasuredCell) -> bool:
        """Whether it would not be written as 1.00× the best, and the interval of that ratio does not include 1."""
        found = over(self.best, cell, self.number)
        if found is None:  # no two of their repeats are pairs
            metric = "jct_s" if self.number == ratios.JCT else "throughput_sps"
            found = Interval(_middle(cell, metric) / _middle(self.best, metric), -math.inf, math.inf)
        return headline.is_slower(found if self.number == ratios.JCT else found.inverse)

    @property
    def winner(self) -> str:
        """Label of the best cell; empty if another one shows no difference from it."""
        return self.best.label if len(self.firsts) == 1 else ""

    @property
    def label(self) -> str:
        """Labels of the first cells."""
        return words.named([cell.label for cell in self.firsts])


def _jct_seen(study: Study) -> list[str]:
    """Say which arm of each network was the fastest, of the VALID ones if any is, and how much of each arm's time is
    synchronisation."""
    rankings = _rankings(study)
    if len(study.settings) == 1:
        return [*(_first_of(study, ranking) for ranking in rankings), *_failed(study)]
    contests: dict[str, list[Ranking]] = {}
    for ranking in rankings:
        if len(ranking.cells) > 1 and ranking.best.doubt_in(ranking.number) in ("", SIMULATED):
            contests.setdefault(ranking.network, []).append(ranking)
    told = [[_contests(network, of)] for network, of in contests.items()]
    doubts = [ranking.best.doubt_in(ranking.number) for ranking in rankings]
    where = "settings on a network" if any(ranking.network for ranking in rankings) else "settings"
    left = [
        f"At {count} of {len(rankings)} {where}, {what}."
        for count, what in (
            (sum(bool(ranking.others) for ranking in rankings), "arms that are not VALID are not ranked"),
            (sum(bool(ranking.unlike) for ranking in rankings), "arms that did other work are not ranked"),
            (doubts.count(SIMULATED), "all is SIMULATED"),
            (len(doubts) - doubts.count("") - doubts.count(SIMULATED), "no arm is VALID"),
        )
        if count
    ]
    return [*words.of_networks(told, "the table of all arms"), *left, *_failed(study)]


def _failed(study: Study) -> list[str]:
    """Say which arms are not there because all their trials failed."""
    failed = [cell for cell in every_cell(study.run) if not cell.finished]
    names = shortened([words.in_cell(cell) for cell in failed], words.MOST_NAMED)
    return [f"Not there, because {'it' if len(failed) == 1 else 'they'} failed: {names}."] if failed else []


def _contests(network: str, rankings: Sequence[Ranking]) -> str:
    """Say which arm was first how often, where several arms are ranked."""
    did = "finished first in" if all(ranking.number == ratios.JCT for ranking in rankings) else "was fastest in"
    if len(rankings) == 1:
        only = f"{words.setting(rankings[0].best)}{f' on {network}' if network else ''}"
        what = (
            f"{rankings[0].label} {did.removesuffix(' in')}" if rankings[0].winner else "the fastest show no difference"
        )
        return f"At {only}, the only setting where several arms are ranked, {what}."
    counts = words.firsts([ranking.winner for ranking in rankings], did)
    settings = f"{counted(len(rankings), 'setting')} where several arms are ranked"
    return f"{f'On {network}, of' if network else 'Of'} {settings}, {counts}."


def _rankings(study: Study) -> list[Ranking]:
    """The cells of each setting that have a JCT, by network; of each network those that did the same work as the first
    of them."""
    named = names_of_networks(study.cells)
    found = []
    for members in study.settings:
        networks: dict[str, list[MeasuredCell]] = {}
        for cell in members:
            if cell.middle("jct_s"):
                networks.setdefault(named[cell.network], []).append(cell)
        for network, cells in networks.items():
            first, *rest = cells  # whose own repeats may differ in their work
            alike = [first, *(cell for cell in rest if did_alike(first, cell))]
            by = Ranking(tuple(alike), (), (), "").number
            unlike = tuple(cell for cell in rest if not did_alike(first, cell))
            found.append(Ranking(*believed(alike, by), unlike, network if len(networks) > 1 else ""))
    return found


def _jct_told(study: Study) -> tuple[dict[str, str], ...]:
    """A row for each network at each of several settings, unless they are many."""
    rankings = _rankings(study)
    if len(study.settings) == 1 or not 1 < len(rankings) <= words.MOST_ROWS:
        return ()
    names = names_of_networks(study.cells)
    has_network = any(ranking.network for ranking in rankings)
    return tuple(
        {
            "Setting": words.setting(ranking.best),
            **({"Network": ranking.network or names[ranking.best.network]} if has_network else {}),
            "Fastest arm": _fastest(ranking),
            "Its JCT": words.seconds(_middle(ranking.best))
            + words.between(ranking.best.median("jct_s"), words.seconds),
            f"Relative to {words.against(study.run)}": _against(study, ranking),
            "Synchronisation's share of JCT": _shares(ranking) or words.UNKNOWN,
        }
        for ranking in rankings
    )


def _fastest(ranking: Ranking) -> str:
    """Return the label of the fastest arm, with a mark if it is the only one that could be, or is not VALID."""
    doubt = ranking.best.doubt_in(ranking.number)
    only = "VALID " if ranking.others else "comparable " if ranking.unlike else ""
    marks = [f"the only {only}one"] if len(ranking.cells) == 1 else [] if ranking.winner else ["no difference shown"]
    marks += [doubt] if doubt else []
    return f"{ranking.label} ({', '.join(marks)})" if marks else ranking.label


def _against(study: Study, ranking: Ranking) -> str:
    """``0.61× the JCT``; a dash where it cannot be said."""
    best = ranking.best
    first = study.first(best)
    if first is None or first is best:
        return words.UNKNOWN
    number = faster_by(first, best)
    found = over(first, best, number)
    what = "JCT" if number == ratios.JCT else "samples/s"
    return f"{words.ratio(found.value)} the {what}" if found else words.UNKNOWN


def _shares(ranking: Ranking, form: str = "{:.0%}") -> str:
    """Say how much of each arm's JCT is synchronisation; nothing where that is not known."""
    shares = [(sync / _middle(cell), cell) for cell in ranking.cells if (sync := cell.middle("sync_s")) is not None]
    return words.each(shares, form.format, ratios.JCT) if shares else ""


def _middle(cell: MeasuredCell, metric: str = "jct_s") -> float:
    value = cell.middle(metric)
    assert value is not None  # callers left the others out
    return value


def _first_of(study: Study, ranking: Ranking) -> str:
    best, by_time = ranking.best, ranking.number == ratios.JCT
    first, found = study.first(best), best.median("jct_s")
    is_compared = first in ranking.cells and first is not best
    compared = over(first, best, ranking.number) if first and is_compared else None
    against = f", {words.ratio(compared.value)} of {first.label}" if first and compared else ""
    shares = _shares(ranking, "{:.0%} of JCT")
    share = f" Synchronisation is {shares}." if shares else ""
    time = words.seconds(_middle(best)) + words.between(found, words.seconds)
    is_contest = len(ranking.cells) > 1
    trained = f"{_middle(best, 'throughput_sps'):,.0f}" if not by_time else ""
    if not is_contest:
        lead = f"{best.label}: JCT is {time}"
    elif not ranking.winner:
        what = "finished first and show" if by_time else "trained the most samples a second and show"
        took = f"took {time}" if by_time else f"trained {trained}"
        is_whole = len(ranking.firsts) == len(ranking.cells)
        lead = f"{ranking.label} {'show' if is_whole else what} no difference; {best.label} {took}"
    elif by_time:
        lead = f"{best.label} finished first, in {time}{against}"
    else:
        lead = f"{best.label} trained the most samples a second, {trained}{against}"
    places = [*filter(None, [words.setting(best)]), *([f"on {ranking.network}"] if ranking.network else [])]
    place = f"{', '.join(places)}: " if places else ""
    return f"{place[:1].upper()}{place[1:]}{lead}.{share}{_unranked(ranking)}"


def _unranked(ranking: Ranking) -> str:
    """Say which arms are not ranked, or that none of the ranked ones is VALID."""
    called, told = CALLED[ranking.number], []
    for cells, why in ((ranking.others, f"not VALID in {called}"), (ranking.unlike, "they did other work")):
        labels = shortened([cell.label for cell in cells], words.MOST_NAMED)
        told += [f" Not ranked, because {why}: {labels}."] if cells else []
    if not ranking.best.valid_in(ranking.number):
        told.append(f" {words.none_valid(ranking.cells, ranking.number)}")
    return "".join(told)


def speed_up(study: Study) -> Question | None:
    """How many times as fast as the first arm, for JCT and for GST; for samples per second where workers differ."""
    others = study.having(lambda cell: any(_speed_in(study, cell, kind) for kind, _ in KINDS))
    drawn = [cell for group in others for cell in group.cells]
    compared = [cell for cell in drawn if _speed(study, cell)]
    if not drawn:
        return None
    unlike = [cell for cell in drawn if not _is_by_time(study, cell)]
    kinds = KINDS if unlike else KINDS[:2]
    frame = pd.DataFrame([_speed_row(study, cell, [kind for kind, _ in kinds]) for cell in drawn])
    panels, start = [], 0
    for i, group in enumerate(others):
        for kind, title in kinds:
            rows = frame.iloc[start : start + len(group.cells)]
            if rows[f"{kind}_speed_up"].notna().any():
                figure = _speed_figure(study, group, start, rows, kind, title)
                panels.append(Panel(f"speed-{kind}-{i}", f"{group.title}: {title}", figure))
        start += len(group.cells)
    every = {cell.place: cell for cell in every_cell(study.run)}
    causes: dict[str, list[str]] = {}
    for cell in every.values():
        place = study.run.reference_of(*cell.place)
        if place is None and cell.label not in study.run.firsts.values():
            causes.setdefault(f"{words.against(study.run)} has no single setting like its own", []).append(
                words.in_cell(cell)
            )
        if place is None or place == cell.place or (cell.finished and _speed(study, cell)):
            continue
        first = every.get(place)
        number = faster_by(first, cell) if first and first.finished and cell.finished else ratios.JCT
        causes.setdefault(headline.cause(first, cell, number), []).append(words.in_cell(cell))
    told = [f"{shortened(names, words.MOST_NAMED)} ({cause})" for cause, names in causes.items()]
    return Question(
        "speed-up",
        f"How much faster than {'' if study.run.has_jobs else 'the first arm, '}{words.against(study.run)}?",
        frame,
        tuple(panels),
        (
            *_speed_seen(study, compared),
            *_speed_doubts(study, compared),
            *([f"No speed-up of {'; '.join(told)}."] if told else []),
            *words.about_intervals(compared, ratios.JCT),
        ),
        f"{SPEED_DEFINED}{SAMPLES if unlike else ''}{APART if study.run.parts else ''} {words.INTERVALS}",
        plot.legend(study.run, study.along),
        _speed_told(study, compared),
    )


def _speed_told(study: Study, compared: Sequence[MeasuredCell]) -> tuple[dict[str, str], ...]:
    """A row for each of several settings, unless these or the arms are many."""
    labels, told = ({cell.label: 0 for cell in compared}, {words.setting(cell) for cell in compared})
    settings = [each for each in dict.fromkeys(map(words.setting, study.cells)) if each in told]
    if not 1 < len(settings) <= words.MOST_ROWS or len(labels) > words.MOST_NAMED:
        return ()
    texts = {
        (cell.label, words.setting(cell)): _times(speed) + (f" ({doubt})" if doubt else "")
        for cell in compared
        for doubt in [cell.doubt_in(_by(study, cell))]
        if (speed := _speed(study, cell))
    }
    return tuple(
        {"Times as fast": setting} | {label: texts.get((label, setting), words.UNKNOWN) for label in labels}
        for setting in settings
    )


def _speed_doubts(study: Study, compared: Sequence[MeasuredCell]) -> list[str]:
    """Say which arms' speed-up is shown although nothing of it is VALID."""
    doubtful = [cell for cell in compared if not cell.valid_in(_by(study, cell))]
    simulated = [cell for cell in doubtful if cell.doubt_in(_by(study, cell)) == SIMULATED]
    doubtful = [cell for cell in doubtful if cell not in simulated]
    told = [
        (f"Neither arm of the ratio is VALID in {CALLED[number]} for", [c for c in doubtful if _by(study, c) == number])
        for number in dict.fromkeys(_by(study, cell) for cell in doubtful)
    ]
    return [
        f"{what} {shortened([words.in_cell(cell) for cell in cells], words.MOST_NAMED, '; ')}."
        for what, cells in (*told, ("The ratio is SIMULATED for", simulated))
        if cells
    ]


def _by(study: Study, cell: MeasuredCell) -> str:
    first = study.first(cell)
    assert first is not None  # or it has no speed-up
    return faster_by(first, cell)


def _speed(study: Study, cell: MeasuredCell) -> Interval | None:
    """Return how many times as fast as the first arm a cell is; None of the first arm itself."""
    first = study.first(cell)
    return None if first is None or first is cell else faster(first, cell)


def _speed_in(study: Study, cell: MeasuredCell, kind: str) -> Interval | None:
    """Return how many times as fast it is by one number. Times are compared of arms with as many workers as the
    first."""
    first = study.first(cell)
    is_time = kind != ratios.THROUGHPUT
    if first is None or first is cell or (is_time and not _is_by_time(study, cell)):
        return None
    found = over(first, cell, kind)
    return found.inverse if found and is_time else found


def _is_by_time(study: Study, cell: MeasuredCell) -> bool:
    first = study.first(cell)
    return first is None or faster_by(first, cell) == ratios.JCT


def _speed_row(study: Study, cell: MeasuredCell, kinds: Sequence[str]) -> dict[str, Any]:
    first = study.first(cell)
    assert first is not None  # or it has no speed-up
    row = plot.identity(cell, study.along, faster_by(first, cell))
    if are_paired(first, cell):
        row["pairs"] = len(ratios.matched(first.numbers, cell.numbers, faster_by(first, cell))[0])
    for kind in kinds:
        row |= words.columns(f"{kind}_speed_up", _speed_in(study, cell, kind))
    return row


def _speed_figure(study: Study, group: Group, start: int, rows: pd.DataFrame, kind: str, title: str) -> plot.Figure:
    name, axis = f"{kind}_speed_up", f"{title}: times as fast"
    if study.along:
        traces = plot.lines(study.run, group, start, study.along, name, "times as fast:", kind)
        return plot.along_figure(traces, study.along, group.cells, axis, y_from_0=False, shapes=[plot.level(1.0)])
    traces = []
    for y, cell in enumerate(group.cells):
        shade = plot.colour(study.run, cell.label)
        traces.append(plot.dot((start + y, start + y + 1), y, name, shade, cell.valid_in(kind), "times as fast:"))
    most = plot.FARTHEST * rows[name].max()
    ends = [*rows[name], *rows[f"{name}_low"], *(min(high, most) for high in rows[f"{name}_high"].dropna())]
    span = plot.around([1.0, *ends], least=0.05)
    one = plot.upright(1.0, -0.5, len(group.cells) - 0.5)
    return plot.rows_figure(traces, group.cells, axis, span, kind, shapes=[one])


def _speed_seen(study: Study, compared: list[MeasuredCell]) -> list[str]:
    """Each arm's speed-up, or of many settings the range of each arm's; and which are not told apart from none."""
    by_label: dict[str, list[tuple[MeasuredCell, Interval]]] = {}
    for cell in compared:
        found = _speed(study, cell)
        assert found is not None  # callers left the others out
        by_label.setdefault(cell.label, []).append((cell, found))
    if _speed_told(study, compared):
        sentences = []
    elif len(by_label) > words.MOST_NAMED:
        networks = by_network(compared).items()
        sentences = words.of_networks([[_largest(study, network, cells)] for network, cells in networks])
    else:
        sentences = [_speeds(study, label, found_in) for label, found_in in by_label.items()]
    are_others = any(_is_by_samples(study, cell) or _has_other_workers(study, cell) for cell in compared)
    as_many = " with as many workers" if are_others else ""
    for what, is_so in (
        ("Compared by samples per second, because numbers of workers differ", _is_by_samples),
        (
            "Compared by JCT with other numbers of workers, as samples per second are not known",
            _has_other_workers,
        ),
        (f"On another network than {words.against(study.run)}{as_many}", _is_elsewhere),
    ):
        told = [_beside(study, cells) for cells in by_label.values() if is_so(study, cells[0][0])]
        if told:
            sentences.append(f"{what}: {shortened(told, words.MOST_NAMED, rest='more arms')}.")
    same = [
        cell for cells in by_label.values() for cell, found in cells if is_known(found) and found.low <= 1 <= found.high
    ]
    if not same:
        return sentences
    whose = words.named([words.in_cell(cell) for cell in same])
    return [*sentences, f"The interval of {whose} includes 1×, so no difference is shown."]


def _largest(study: Study, network: str, cells: Sequence[MeasuredCell]) -> str:
    """The arm of a network that is fastest beside the first."""
    speeds = [(found, cell) for cell in cells if (found := _speed(study, cell))]
    most, best = max(speeds, key=lambda pair: pair[0].value)
    arms = len({cell.label for _, cell in speeds})
    if len(speeds) == 1:
        return f"{f'On {network}, ' if network else ''}{words.in_cell(best)} is {_times(most)} as fast."
    of = f"{f'Of {arms} arms on' if arms > 1 else 'On'} {network}, the" if network else "The"
    return f"{of} largest speed-up is that of {words.in_cell(best)}: {_times(most)}."


def _is_by_samples(study: Study, cell: MeasuredCell) -> bool:
    return not _is_by_time(study, cell)


def _has_other_workers(study: Study, cell: MeasuredCell) -> bool:
    """Whether it has another number of workers than the first arm, and is compared by JCT all the same."""
    first = study.first(cell)
    return _is_by_time(study, cell) and first is not None and first.network.workers != cell.network.workers


def _is_elsewhere(study: Study, cell: MeasuredCell) -> bool:
    """Whether it has as many workers as the first arm, on another network."""
    first = study.first(cell)
    is_by_time = _is_by_time(study, cell) and not _has_other_workers(study, cell)
    return is_by_time and first is not None and first.network != cell.network


def _beside(study: Study, found_in: Sequence[tuple[MeasuredCell, Interval]]) -> str:
    """An arm and its network or workers, with those of the first arm at the same setting."""
    cell = found_in[0][0]
    first = study.first(cell)
    assert first is not None  # or it has no speed-up
    if not _is_by_time(study, cell) or _has_other_workers(study, cell):
        return f"{cell.label} ({ratios.workers(cell.numbers)}, {first.label} {ratios.workers(first.numbers)})"
    return cell.label


def _speeds(study: Study, label: str, found_in: list[tuple[MeasuredCell, Interval]]) -> str:
    if len(found_in) > words.MOST_NAMED:
        values = [found.value for _, found in found_in]
        span = f"{words.ratio(min(values))} to {words.ratio(max(values))}"
        return f"{label} is {span} as fast, at {len(found_in)} settings."
    if len(study.settings) == 1:
        return f"{label} is {_times(found_in[0][1])} as fast."
    return (
        f"{label} is {words.listed(f'{_times(found)} as fast at {words.setting(cell)}' for cell, found in found_in)}."
    )


def _times(found: Interval) -> str:
    return words.ratio(found.value) + words.between(found, words.ratio)
