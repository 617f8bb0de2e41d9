"""The sentences at the head of a report: what arms took beside the first, and of which trials that is said.

Arms are ranked only on the network of the first arm, with as many workers. What arms took on another network is said as
such, and ranks nobody. ``docs/decisions/ranked-on-one-network.md`` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeAlias

from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Place, Run
from testbed.analysis.report import words
from testbed.analysis.report.cells import (
    MeasuredCell,
    Network,
    Pair,
    believed,
    cells,
    is_known,
    network_text,
)
from testbed.analysis.verdicts import CALLED, SIMULATED, UNWATCHED, joint_verdict
from testbed.base.listing import shortened

SAME_AS_FIRST = 0.995
"""From this ratio on an arm is not called faster at all: it would be written as 1.00×, or more."""
TIMES = {ratios.GST: "synchronisation time", ratios.JCT: "job completion time"}


Pairs: TypeAlias = Sequence[Pair]


def pairs(run: Run) -> Pairs:
    """Every cell that has another one to be compared with."""
    finished: dict[Place | None, MeasuredCell] = {cell.place: cell for cell in cells(run) if cell.finished}
    both = [(finished.get(run.reference_of(*cell.place)), cell) for cell in finished.values()]
    return [Pair(first, cell) for first, cell in both if first is not None and first is not cell]


@dataclass(frozen=True)
class Finding:
    """The cells that the headline of a run is from.

    Attributes:
        number: what arms are compared by: GST, of commands JCT, and samples per second where only numbers of workers
            that differ are left.
        ranked: pairs on one network with as many workers.
        apart: pairs whose ratio is said, but which are not ranked: on another network, or with other workers.
        alone: without any pair, the cells of the arm that is told by itself.
    """

    run: Run
    number: str
    ranked: tuple[Pair, ...] = ()
    apart: tuple[Pair, ...] = ()
    alone: tuple[MeasuredCell, ...] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return (*self.ranked, *self.apart)

    @cached_property
    def used(self) -> tuple[MeasuredCell, ...]:
        """The cells that it speaks of, those of the first arm among them."""
        both = [cell for pair in self.pairs for cell in (pair.first, pair.cell)]
        return tuple({cell.place: cell for cell in (*both, *self.alone)}.values())

    @property
    def is_valid(self) -> bool:
        """Whether any of it is VALID: of what is compared, both sides."""
        told = [pair.is_valid(self.number) for pair in self.pairs]
        return any(told or [cell.valid_in(self.number) for cell in self.alone])


def found(run: Run) -> Finding:
    """The cells that the headline is from: the VALID ones, or all where none are."""
    every = pairs(run)
    for number in (ratios.GST, ratios.JCT, ratios.THROUGHPUT):
        by_samples = number == ratios.THROUGHPUT
        known = [pair for pair in every if pair.is_by_samples == by_samples and pair.over(number) is not None]
        known = [pair for pair in known if pair.is_valid(number)] or known
        if known:
            ranked = tuple(pair for pair in known if not by_samples and pair.is_on_one_network)
            return Finding(run, number, ranked, tuple(pair for pair in known if pair not in ranked))
    return _alone(run)


def finding(run: Run) -> str:
    """The run in short (:func:`lead`), and what that leaves out."""
    return " ".join(filter(None, [lead(run), left_out(run)]))


def lead(run: Run) -> str:
    """The arm of the first arm's network that synchronised fastest, beside the first; and what the arms of other
    networks took beside it, each by itself. Where arms have other numbers of workers, the samples per second of each.
    Of jobs that shared a network, each beside the job of its name. Where no two can be compared, one arm by itself."""
    return " ".join(filter(None, [first_sentence(run), elsewhere(run)]))


def first_sentence(run: Run) -> str:
    """The first sentence of the lead, which a page shows large. Where no arm of its network is faster than the first
    arm by a difference that is worth telling, it begins with the arms of other networks."""
    if not run.finished:
        return "No trial finished, so there is nothing to compare."
    told = found(run)
    if told.number == ratios.THROUGHPUT:
        said = [
            f"{label} trained {words.span(_ratio(pair, told.number) for pair in of)} as many samples a second as "
            f"{_first_of(told.run, of)}, with {ratios.workers(of[0].cell.numbers)} workers in place of "
            f"{ratios.workers(of[0].first.numbers)}{_at(told, of)}"
            for label, of in _by_label(told.apart).items()
        ]
        return f"{shortened(said, words.MOST_NAMED, '; ', 'more arms')}."
    fastest = _fastest(told)
    if not fastest:
        return _elsewhere(told) or _by_itself(told)
    if _is_faster(told):
        return f"{_took(told, fastest)}.{_ties(told, fastest)}"
    return _with_nothing_faster(told, fastest)


def elsewhere(run: Run) -> str:
    """The sentence of the lead that comes after a faster arm, on arms of other networks; empty where there is none."""
    told = found(run) if run.finished else None
    return _elsewhere(told) if told and _is_faster(told) else ""


def left_out(run: Run) -> str:
    """The sentence that names the arms and settings that the finding leaves out, and why; empty where there are
    none."""
    if not run.finished:
        return ""
    told = found(run)
    every = {cell.place: cell for cell in cells(run)}
    used = {cell.place for cell in told.used}
    places = {cell: run.reference_of(*cell) for cell in every}
    compared_with = {place for cell, place in places.items() if place != cell}
    left: dict[str, Counter[str]] = {}
    for cell in every.values():
        place = places[cell.place]
        has_own = place is not None and place != cell.place
        is_lonely = place is None and not _is_first(run, cell.place)
        is_first_alone = cell.label == run.first and cell.place not in compared_with and not run.has_jobs
        if cell.place in used or not (has_own or is_lonely or is_first_alone or told.alone):
            continue
        if has_own:
            why = cause(every.get(place) if place is not None else None, cell, told.number)
        elif not cell.finished:
            why = "failed"
        elif told.alone:  # a doubt is no reason if the arm in the headline is not VALID, either
            doubt = cell.doubt_in(told.number) if told.is_valid else ""
            why = f"{doubt} in {CALLED[told.number]}" if doubt else "nothing to compare with"
        else:
            why = f"{words.against(run)} has no single setting like its own" if is_lonely else "nothing beside it"
        left.setdefault(why, Counter())[cell.label] += 1
    settings = {**_settings(run, with_first=True), **({} if told.alone else _settings(run))}
    said = []
    for why, counts in left.items():
        labels = [f"{label}{_share(count, settings[label])}" for label, count in counts.items()]
        said.append(f"{shortened(labels, words.MOST_NAMED, rest='more arms')} ({why})")
    return f"Left out: {'; '.join(said)}." if said else ""


def _is_first(run: Run, place: Place) -> bool:
    """Whether it is a place of the first arm, or of a first job, that is relative to nothing."""
    return run.reference_of(*place) is None and place[0] in run.firsts.values()


def _settings(run: Run, *, with_first: bool = False) -> Counter[str]:
    """Count at how many settings each arm has trials; of the first arm none, unless it is asked for."""
    places = [cell.place for cell in cells(run)]
    firsts = {place for place in places if run.reference_of(*place) == place or _is_first(run, place)}
    return Counter(label for label, setting in places if with_first or (label, setting) not in firsts)


def _share(count: int, settings: int) -> str:
    return f" at {count} of {settings} settings" if settings > 1 else ""


def cause(first: MeasuredCell | None, cell: MeasuredCell, number: str) -> str:
    """The reason why no number of a cell is said beside ``first``, the cell that its ratios are relative to."""
    if not cell.finished:
        return "failed"
    if first is None or not first.finished:
        return f"{first.label} failed" if first else "nothing to compare with"
    pair = Pair(first, cell)
    if pair.is_by_samples != (number == ratios.THROUGHPUT):
        return "another number of workers"
    if not pair.did_alike:
        return "other work"
    doubtful = next((one for one in (cell, first) if not one.valid_in(number)), None)
    if doubtful is None:
        return "no pair of trials"
    whose = "" if doubtful is cell else f"{doubtful.label} "
    return f"{whose}{doubtful.doubt_in(number)} in {CALLED[number]}"


def _fastest(told: Finding) -> Pairs:
    """The pairs of the arm that took least on the first arm's network; empty where there are none. Arms are ranked at
    the settings that all of them have: an arm that also ran at an easy setting is not the fastest for that."""
    arms = list(_by_label(told.ranked).values())
    faster = [of for of in arms if _middle(told, of) < 1 - ratios.WORTH_TELLING]
    ranked = faster or arms
    shared = set.intersection(*({pair.first.setting for pair in of} for of in ranked)) if ranked else set()
    alike = [[pair for pair in of if pair.first.setting in shared] or of for of in ranked]
    ranks = [(_middle(told, both), _middle(told, of)) for both, of in zip(alike, ranked, strict=True)]
    first = min(range(len(ranks)), key=ranks.__getitem__, default=None)
    return () if first is None else (ranked if faster else alike)[first]


def _is_faster(told: Finding) -> bool:
    """Whether an arm of its network is faster than the first arm, by a difference that is worth telling."""
    fastest = _fastest(told)
    return bool(fastest) and _middle(told, fastest) < 1 - ratios.WORTH_TELLING


def _with_nothing_faster(told: Finding, closest: Pairs) -> str:
    label, first = closest[0].cell.label, _first_of(told.run, closest)
    took = f"{words.span(_ratio(pair, told.number) for pair in closest)}"
    at, is_slower = _at(told, closest), _middle(told, closest) >= SAME_AS_FIRST
    settings, *each = [{pair.first.setting for pair in of} for of in (closest, *_by_label(told.ranked).values())]
    # Arms are compared with each other only where all of them are, and some ran elsewhere, too.
    if at and all(settings <= own for own in each) and any(settings < own for own in each):
        at += ", where every arm is compared"
    came = "came closest with" if is_slower else "took"
    if told.apart:
        verb = "took" if len(_by_label(told.ranked)) == 1 else came
        where = "on the same network" if any(pair.has_as_many for pair in told.apart) else "with as many workers"
        return f"{_elsewhere(told)[:-1]}; {where}, {label} {verb} {took}{at}.{_ties(told, closest)}"
    by = "" if is_slower else f"more than {100 * ratios.WORTH_TELLING:g} % "
    did = f"synchronised {by}faster" if told.number == ratios.GST else f"finished {by}faster"
    if told.run.has_jobs:
        return f"No job {did} than in the first arm; {label} took {took} the time of {first}{at}."
    is_whole = len(told.ranked) == sum(_settings(told.run).values())
    whose = "No arm" if is_whole else "No arm that is compared here"
    is_mixed = any(_ratio(pair, told.number) < 1 - ratios.WORTH_TELLING for pair in told.ranked)
    often = " at more than half of its settings" if is_mixed else ""
    return f"{whose} {did} than {first}{often}; {label} {came} {took} its time{at}.{_ties(told, closest)}"


def is_slower(ratio: Interval) -> bool:
    """Whether a time over another one shows that it is longer: it would not be written as 1.00×, and its interval does
    not include 1×."""
    return ratio.value > 1 / SAME_AS_FIRST and (ratio.low > 1 or not is_known(ratio))


def _ties(told: Finding, fastest: Pairs) -> str:
    """The sentence that names the other arms which show no difference from the fastest one at all of its settings;
    empty where there are none."""
    best = {pair.cell.setting: pair.cell for pair in fastest}
    tied = []
    for label, of in _by_label(told.ranked).items():
        both = [Pair(best[pair.cell.setting], pair.cell) for pair in of if pair.cell.setting in best]
        each = [pair.over(told.number) for pair in both]
        alike = [ratio for ratio in each if ratio and not (is_slower(ratio) or is_slower(ratio.inverse))]
        if label != fastest[0].cell.label and len(alike) == len(best):
            tied.append(label)
    shows = "shows" if len(tied) == 1 else "show"
    return f" {words.named(tied)} {shows} no difference from {fastest[0].cell.label}." if tied else ""


def _elsewhere(told: Finding) -> str:
    """The times of each arm of another network, or with other workers, which rank nobody; empty where there are
    none."""
    by_place: dict[str, list[str]] = {}
    for of in _by_label(told.apart).values():
        by_place.setdefault(_place(told, of), []).append(_took(told, of))
    said = [f"{place}, {took}" if i == 0 else took for place, each in by_place.items() for i, took in enumerate(each)]
    text = shortened(said, words.MOST_NAMED, "; ", "more arms")
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _place(told: Finding, of: Pairs) -> str:
    """``with 3 workers in place of 2``, or, of an arm with as many workers as the first, ``on another network``."""
    if all(pair.has_as_many for pair in of):
        alike = [pair for pair in told.apart if pair.has_as_many]
        networks = {pair.cell.network[:2] for pair in alike} - {pair.first.network[:2] for pair in alike}
        return "on another network" if len(networks) == 1 else "on other networks"
    counts = {(ratios.workers(pair.cell.numbers), ratios.workers(pair.first.numbers)) for pair in of}
    if len(counts) > 1:
        return "with another number of workers"
    [(own, first)] = counts
    return f"with {own} {'worker' if own == '1' else 'workers'} in place of {first}"


def _took(told: Finding, of: Pairs) -> str:
    """``BML took 0.50× the synchronisation time of PS, and 0.85× its job completion time``."""
    label, first = of[0].cell.label, _first_of(told.run, of)
    span = words.span(_ratio(pair, told.number) for pair in of)
    took = f"{label} took {span} the {TIMES[told.number]} of {first}{_at(told, of)}"
    if told.number == ratios.JCT:
        return took
    # Of pairs that are VALID in JCT as well, if they are in GST: a sentence has no mark at one of two numbers.
    known = [pair for pair in of if pair.over(ratios.JCT) is not None]
    jct = [_ratio(pair, ratios.JCT) for pair in known if pair.is_valid(ratios.JCT) or not pair.is_valid(ratios.GST)]
    if not jct:
        return f"{took} (their job completion times cannot be compared)"
    at = f" at {len(jct)} of these {len(of)} settings" if len(jct) < len(of) else ""
    return f"{took}, and {words.span(jct)} its job completion time{at}"


def _at(told: Finding, of: Pairs) -> str:
    """`` at 2 of 6 settings``, where it is not all at which the arm, or the others beside it, have trials."""
    settings = max(_settings(told.run)[of[0].cell.label], len({pair.first.setting for pair in told.ranked}))
    return _share(len(of), settings) if len(of) < settings else ""


def _middle(told: Finding, of: Pairs) -> float:
    return median(_ratio(pair, told.number) for pair in of)


def _ratio(pair: Pair, number: str) -> float:
    found = pair.over(number)
    assert found is not None  # others are not compared
    return found.value


def _by_label(of: Pairs) -> dict[str, list[Pair]]:
    told: dict[str, list[Pair]] = {}
    for pair in of:
        told.setdefault(pair.cell.label, []).append(pair)
    return told


def _first_of(run: Run, of: Pairs) -> str:
    """The name of the arm or job that ratios are relative to."""
    return of[0].first.label if run.has_jobs else run.first


def _alone(run: Run) -> Finding:
    """The arm that is told where no two can be compared: the first that has anything VALID."""
    every = [cell for cell in cells(run) if cell.finished]
    if not every:
        return Finding(run, ratios.GST)
    label = next((cell.label for cell in every if cell.valid_in(_number_of(cell))), every[0].label)
    own = [cell for cell in every if cell.label == label]
    number = _number_of(own[0])
    return Finding(run, number, alone=believed([cell for cell in own if _number_of(cell) == number], number)[0])


def _number_of(cell: MeasuredCell) -> str:
    """The number that is told of a cell by itself: of a command it is JCT."""
    return ratios.JCT if cell.middle("gst_median_s") is None else ratios.GST


def _by_itself(told: Finding) -> str:
    """An arm alone: its time, and how far it is from its lower bound."""
    own = told.alone
    who = words.in_cell(own[0]) if len(own) == 1 else own[0].label
    where = f", at {len(own)} settings" if len(own) > 1 else ""
    metric = "gst_median_s" if told.number == ratios.GST else "jct_s"
    times_s = [value for cell in own if (value := cell.middle(metric)) is not None]
    if not times_s:
        return f"{who} finished{where}; there is nothing to compare it with."
    took, medians = words.reach(times_s, words.seconds), "medians" if len(own) > 1 else "median"
    if told.number == ratios.JCT:
        return f"{who} took {took}{where}."
    over_bound = [value for cell in own if (value := cell.middle("gst_ratio")) is not None]
    at_most = f", {words.span(over_bound)} its lower bound" if over_bound else ""
    return f"{who} synchronised in {took} ({medians}){at_most}{where}."


def is_believable(run: Run) -> bool:
    """Whether the finding rests on a VALID trial, or on two where it compares."""
    return not run.finished or found(run).is_valid


def unreliable(run: Run) -> str:
    """``Not reliable: GST is INVALID (failed checks: CPU steal).``, or, if none is INVALID, ``Not reliable: JCT is
    UNWATCHED (checks not made: stalls).``; of simulated ones ``GST is SIMULATED.``; empty if the finding can be relied
    on. Otherwise no trial of the finding is VALID in the number, because an arm is not compared with one that is not
    VALID if it is VALID itself."""
    if is_believable(run):
        return ""
    told = found(run)
    number = told.number
    judged = [trial for cell in told.used for trial in cell.counted(number) if number in trial.numbers]
    numbers = [trial.numbers[number] for trial in judged]
    verdict = joint_verdict(one.verdict for one in numbers)
    why = Counter(check for one in numbers for check in (one.unwatched if verdict == UNWATCHED else one.spoilt_by))
    names = shortened([check for check, _ in why.most_common()], words.MOST_NAMED)
    lead = "" if verdict == SIMULATED else "Not reliable: "
    checks = "checks not made" if verdict == UNWATCHED else "failed checks"
    return f"{lead}{CALLED[number]} is {verdict}{f' ({checks}: {names})' if names else ''}."


def unlike(run: Run) -> str:
    """The sentences on arms that ran on another network, or did other work, than the first, and on what follows for
    ratios; empty where all are alike. Of an arm that did so at several settings, the first is told."""
    every, sentences = pairs(run), []
    differing = [pair for pair in every if not pair.is_on_one_network]
    if differing:
        each = [f"{words.named(labels)} ran on {network}" for network, labels in _by_network(run).items()]
        told = shortened(each, words.MOST_NAMED, "; ", "more networks")
        sentences.append(f"Networks differ, so arms are ranked only within each: {told}.")
    if any(pair.is_by_samples for pair in differing):
        sentences.append("Arms with different numbers of workers are compared only by samples per second.")
    first_of = {pair.cell.label: pair for pair in reversed(every) if not pair.did_alike}
    each = [
        f"{label} did {ratios.work_text(ratios.works(first_of[label].cell.numbers))}, "
        f"{first_of[label].first.label} {ratios.work_text(ratios.works(first_of[label].first.numbers))}"
        for label in run.labels
        if label in first_of
    ]
    if each:
        told = shortened(each, words.MOST_NAMED, "; ", "more arms")
        sentences.append(f"Not compared, because they did other work: {told}.")
    return " ".join(sentences)


def _by_network(run: Run) -> dict[str, list[str]]:
    """The arms of each network, which is said once with all rates that were swept."""
    rates: dict[tuple[str, int], dict[str, dict[str, None]]] = {}
    networks: dict[tuple[str, int], Network] = {}
    for cell in cells(run):
        if cell.finished:
            key = cell.network.topology, cell.network.workers
            networks.setdefault(key, cell.network)
            rates.setdefault(key, {}).setdefault(cell.label, {})[cell.swept_rate or cell.network.rates_text] = None
    told: dict[str, list[str]] = {}
    for key, by_label in rates.items():
        is_one_rate = len({rate for own in by_label.values() for rate in own}) == 1
        for label, own in by_label.items():
            at = "" if is_one_rate else words.named([rate for rate in own if rate])
            told.setdefault(network_text(networks[key], at), []).append(label)
    return told
