"""How long did the jobs take, and how much faster was each arm than the first?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import pandas as pd

from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Place
from testbed.analysis.report import headline, plot, words
from testbed.analysis.report.cells import (
    Group,
    MeasuredCell,
    Pair,
    Study,
    believed,
    by_network,
    is_known,
    names_of_networks,
    notes,
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
Speeds: TypeAlias = Mapping[Pair, Interval]
"""How many times as fast the cell of each pair is."""
KINDS = ((ratios.JCT, "JCT"), (ratios.GST, "GST"), (ratios.THROUGHPUT, "samples/s"))


def jct(study: Study) -> Question | None:
    """JCT by batch and scheme, with what of it is synchronisation."""
    timed = [cell for cell in study.cells if cell.middle("jct_s")]
    if not timed:
        return None
    frame = pd.DataFrame(
        {
            **plot.identity(cell, study.along, ratios.JCT),
            **words.columns("jct_s", cell.median("jct_s")),
            **{name: cell.middle(name) for name in ("compute_s", "sync_s")},
        }
        for group in study.groups
        for cell in group.cells
    )
    longest = plot.from_zero_with_intervals(frame, "jct_s")
    is_split = frame["compute_s"].notna().any()
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
        f"{JCT_DEFINED if is_split else COMMAND_DEFINED}{notes(timed, 'jct')}{SAME_DEFINED} {words.INTERVALS}",
        legend,
        _jct_told(study),
    )


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

    @cached_property
    def number(self) -> str:
        """Number by which they are ranked: JCT, or samples per second where some lost workers."""
        every = (*self.cells, *self.others)
        return ratios.THROUGHPUT if any(Pair(every[0], cell).is_by_samples for cell in every) else ratios.JCT

    @cached_property
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
        found = Pair(self.best, cell).over(self.number)
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
            unlike = tuple(cell for cell in rest if not Pair(first, cell).did_alike)
            alike = [cell for cell in cells if cell not in unlike]
            by = Ranking(tuple(alike), (), (), "").number
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
    pair = study.pair(ranking.best)
    found = pair.over(pair.by) if pair else None
    what = "samples/s" if pair and pair.is_by_samples else "JCT"
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
    best, by_time, pair = ranking.best, ranking.number == ratios.JCT, study.pair(ranking.best)
    compared = pair.over(ranking.number) if pair and pair.first in ranking.cells else None
    against = f", {words.ratio(compared.value)} of {pair.first.label}" if pair and compared else ""
    shares = _shares(ranking, "{:.0%} of JCT")
    share = f" Synchronisation is {shares}." if shares else ""
    time = words.seconds(_middle(best)) + words.between(best.median("jct_s"), words.seconds)
    trained = f"{_middle(best, 'throughput_sps'):,.0f}" if not by_time else ""
    if len(ranking.cells) == 1:
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
    pairs = {cell.place: pair for cell in study.cells if (pair := study.pair(cell)) and _is_told(pair)}
    groups = study.having(lambda cell: cell.place in pairs)
    drawn = [pairs[cell.place] for group in groups for cell in group.cells]
    if not drawn:
        return None
    compared = {pair: pair.speed_up for pair in drawn if pair.speed_up}
    unlike = any(pair.is_by_samples for pair in drawn)
    kinds = KINDS if unlike else KINDS[:2]
    frame = pd.DataFrame([_speed_row(study, pair, [kind for kind, _ in kinds]) for pair in drawn])
    panels, start = [], 0
    for i, group in enumerate(groups):
        for kind, title in kinds:
            rows = frame.iloc[start : start + len(group.cells)]
            if rows[f"{kind}_speed_up"].notna().any():
                figure = _speed_figure(study, group, start, rows, kind, title)
                panels.append(Panel(f"speed-{kind}-{i}", f"{group.title}: {title}", figure))
        start += len(group.cells)
    return Question(
        "speed-up",
        f"How much faster than {'' if study.run.has_jobs else 'the first arm, '}{words.against(study.run)}?",
        frame,
        tuple(panels),
        (
            *_speed_seen(study, compared),
            *_speed_doubts(compared),
            *_without_speed_up(study),
            *words.about_intervals([pair.cell for pair in compared], ratios.JCT),
        ),
        f"{SPEED_DEFINED}{SAMPLES if unlike else ''}{APART if study.run.parts else ''} {words.INTERVALS}",
        plot.legend(study.run, study.along),
        _speed_told(study, compared),
    )


def _is_told(pair: Pair) -> bool:
    return any(_speed_in(pair, kind) for kind, _ in KINDS)


def _without_speed_up(study: Study) -> list[str]:
    """Say which arms have no speed-up, and why."""
    every = {cell.place: cell for cell in every_cell(study.run)}
    causes: dict[str, list[str]] = {}
    for cell in every.values():
        place = study.run.reference_of(*cell.place)
        if place is None:
            if cell.label not in study.run.firsts.values():
                lonely = f"{words.against(study.run)} has no single setting like its own"
                causes.setdefault(lonely, []).append(words.in_cell(cell))
            continue
        pair = study.pair(cell)
        if place == cell.place or (cell.finished and pair and pair.speed_up):
            continue
        number = pair.by if pair and cell.finished else ratios.JCT
        causes.setdefault(headline.cause(every.get(place), cell, number), []).append(words.in_cell(cell))
    told = [f"{shortened(names, words.MOST_NAMED)} ({cause})" for cause, names in causes.items()]
    return [f"No speed-up of {'; '.join(told)}."] if told else []


def _speed_told(study: Study, compared: Speeds) -> tuple[dict[str, str], ...]:
    """A row for each of several settings, unless these or the arms are many."""
    labels = dict.fromkeys(pair.cell.label for pair in compared)
    told = {words.setting(pair.cell) for pair in compared}
    settings = [each for each in dict.fromkeys(map(words.setting, study.cells)) if each in told]
    if not 1 < len(settings) <= words.MOST_ROWS or len(labels) > words.MOST_NAMED:
        return ()
    texts = {}
    for pair, speed in compared.items():
        doubt = pair.cell.doubt_in(pair.by)
        texts[pair.cell.label, words.setting(pair.cell)] = _times(speed) + (f" ({doubt})" if doubt else "")
    return tuple(
        {"Times as fast": setting} | {label: texts.get((label, setting), words.UNKNOWN) for label in labels}
        for setting in settings
    )


def _speed_doubts(compared: Speeds) -> list[str]:
    """Say which arms' speed-up is shown although nothing of it is VALID."""
    causes: dict[str, list[str]] = {}
    for pair in compared:
        doubt = pair.cell.doubt_in(pair.by)
        cause = f"Neither arm of the ratio is VALID in {CALLED[pair.by]} for"
        if doubt and doubt != SIMULATED:
            causes.setdefault(cause, []).append(words.in_cell(pair.cell))
    simulated = [words.in_cell(pair.cell) for pair in compared if pair.cell.doubt_in(pair.by) == SIMULATED]
    if simulated:
        causes["The ratio is SIMULATED for"] = simulated
    return [f"{what} {shortened(names, words.MOST_NAMED, '; ')}." for what, names in causes.items()]


def _speed_in(pair: Pair, kind: str) -> Interval | None:
    """Return how many times as fast it is by one number. Times are compared of arms with as many workers as the
    first."""
    if kind == ratios.THROUGHPUT:
        return pair.over(kind)
    found = None if pair.is_by_samples else pair.over(kind)
    return found and found.inverse


def _speed_row(study: Study, pair: Pair, kinds: Sequence[str]) -> dict[str, Any]:
    row = plot.identity(pair.cell, study.along, pair.by)
    if pair.is_of_one_run:
        row["pairs"] = len(ratios.matched(pair.first.numbers, pair.cell.numbers, pair.by)[0])
    for kind in kinds:
        row |= words.columns(f"{kind}_speed_up", _speed_in(pair, kind))
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


def _speed_seen(study: Study, compared: Speeds) -> list[str]:
    """Each arm's speed-up, or of many settings the range of each arm's; and which are not told apart from none."""
    by_label: dict[str, list[Pair]] = {}
    for pair in compared:
        by_label.setdefault(pair.cell.label, []).append(pair)
    if _speed_told(study, compared):
        sentences = []
    elif len(by_label) > words.MOST_NAMED:
        networks = by_network([pair.cell for pair in compared])
        speeds = {pair.cell.place: speed for pair, speed in compared.items()}
        sentences = words.of_networks([[_largest(network, of, speeds)] for network, of in networks.items()])
    else:
        sentences = [_speeds(study, label, {pair: compared[pair] for pair in of}) for label, of in by_label.items()]
    by_samples, by_jct, elsewhere = [], [], []
    for first, *_ in by_label.values():  # at the first setting of each arm
        counts = f"{ratios.workers(first.cell.numbers)}, {first.first.label} {ratios.workers(first.first.numbers)}"
        if first.is_by_samples:
            by_samples.append(f"{first.cell.label} ({counts})")
        elif not first.has_as_many:
            by_jct.append(f"{first.cell.label} ({counts})")
        elif not first.is_on_one_network:
            elsewhere.append(first.cell.label)
    are_others = any(pair.is_by_samples or not pair.has_as_many for pair in compared)
    as_many = " with as many workers" if are_others else ""
    for what, told in (
        ("Compared by samples per second, because numbers of workers differ", by_samples),
        ("Compared by JCT with other numbers of workers, as samples per second are not known", by_jct),
        (f"On another network than {words.against(study.run)}{as_many}", elsewhere),
    ):
        if told:
            sentences.append(f"{what}: {shortened(told, words.MOST_NAMED, rest='more arms')}.")
    same = [
        words.in_cell(pair.cell)
        for of in by_label.values()
        for pair in of
        if is_known(compared[pair]) and compared[pair].low <= 1 <= compared[pair].high
    ]
    if not same:
        return sentences
    return [*sentences, f"The interval of {words.named(same)} includes 1×, so no difference is shown."]


def _largest(network: str, cells: Sequence[MeasuredCell], speeds: Mapping[Place, Interval]) -> str:
    """The arm of a network that is fastest beside the first."""
    best = max(cells, key=lambda cell: speeds[cell.place].value)
    arms = len({cell.label for cell in cells})
    if len(cells) == 1:
        return f"{f'On {network}, ' if network else ''}{words.in_cell(best)} is {_times(speeds[best.place])} as fast."
    of = f"{f'Of {arms} arms on' if arms > 1 else 'On'} {network}, the" if network else "The"
    return f"{of} largest speed-up is that of {words.in_cell(best)}: {_times(speeds[best.place])}."


def _speeds(study: Study, label: str, of: Speeds) -> str:
    if len(of) > words.MOST_NAMED:
        values = [speed.value for speed in of.values()]
        span = f"{words.ratio(min(values))} to {words.ratio(max(values))}"
        return f"{label} is {span} as fast, at {len(of)} settings."
    times = [
        f"{_times(speed)} as fast" + (f" at {words.setting(pair.cell)}" if len(study.settings) > 1 else "")
        for pair, speed in of.items()
    ]
    return f"{label} is {words.listed(times)}."


def _times(found: Interval) -> str:
    return words.ratio(found.value) + words.between(found, words.ratio)
