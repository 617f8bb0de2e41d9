"""Settings and machines that a run depended on besides its spec; and in what runs that stand side by side differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from testbed.analysis.record.happened import Event, Loss, Recovery
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.base.listing import counted, shortened
from testbed.base.units import size_text

Pairs = tuple[tuple[str, str], ...]

MOST_TRIALS, MOST_EVENTS, MOST_NAMES = 24, 60, 8
"""Entries that a page lists at most: trials to which something was done, events of each, trials with the same
network."""
_APART = ("schema", "lab", "packages", "sysctls")
SPEC_ASIDE = frozenset({"schema", "folder", "overrides", "most_rounds"})
"""Fields that say how the spec was given or run, not what it asks for."""
ENVIRONMENT_ASIDE = frozenset({"schema", "lab", "seed"})
"""Fields of an environment that are there for each trial, or in the spec."""
Difference = tuple[str, tuple[str, ...]]
"""A setting and what it is in each run."""


def environment(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """The machine, its kernel's settings and the packages, each as (name, value) pairs."""
    known = run.environment
    machine = {key: value for key, value in known.items() if key not in _APART}
    if isinstance(machine.get("memory_bytes"), int):
        machine["memory"] = size_text(machine.pop("memory_bytes"))
    parts = (("Machine", machine), ("Kernel settings", known.get("sysctls")), ("Packages", known.get("packages")))
    return tuple((title, tuple(flat(value))) for title, value in parts if value)


def events(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """List what was done to each trial while it ran: when, what, and how late where that is to be seen; and how the
    others went on when nodes had died."""
    found = []
    for trial in run.trials:
        told = (*map(_event, trial.events), *map(_recovery, trial.recoveries), *map(_loss, trial.losses))
        left = len(told) - MOST_EVENTS
        told = (*told[:MOST_EVENTS], ("more", f"{left} events, in the trial's JSON")) if left > 0 else told
        found += [(words.name(trial), told)] if told else []
    left = len(found) - MOST_TRIALS
    more = ((f"{left} more trials", (("more", "in the trials' JSON"),)),) if left > 0 else ()
    return (*found[:MOST_TRIALS], *more)


def _recovery(recovery: Recovery) -> tuple[str, str]:
    lost = ", ".join(recovery.without)
    how_long = "no worker was left" if recovery.recovered_s is None else f"done after {recovery.recovered_s:.2f} s"
    what = f"{recovery.world} workers go on from iteration {recovery.first} ({how_long}) with {recovery.scheme}"
    return _moment(recovery.called_s), f"without {lost}, {what}" if lost else f"no worker made progress: {what}"


def _loss(loss: Loss) -> tuple[str, str]:
    how_long = "not known" if loss.recovered_s is None else f"{loss.recovered_s:.2f} s later"
    lost = f"; {counted(len(loss.lost_updates), 'update')} lost with it" if loss.lost_updates else ""
    return _moment(
        loss.noticed_s
    ), f"the others noticed that {loss.node} was lost; weights changed next: {how_long}{lost}"


def _event(event: Event) -> tuple[str, str]:
    if event.error is not None:
        return _moment(event.planned_s), f"{event.kind}: {event.what} (failed: {event.error})"
    if event.is_unplanned and event.begun_s is not None and event.done_s is not None:
        return _moment(event.begun_s), f"{event.kind}: {event.what} (for {event.done_s - event.begun_s:.1f} s)"
    if event.planned_s is None or event.done_s is None:
        return "never", f"{event.kind}: {event.what} (the trial ended first)"
    late_s = event.done_s - event.planned_s
    how = f"in effect after {late_s * 1e3:.1f} ms"
    if event.takes_s and event.begun_s is not None:
        waited = "" if event.free_s is None else f"could begin {event.free_s - event.planned_s:.2f} s later, "
        how = f"{waited}took {event.done_s - event.begun_s:.3f} s of {event.takes_s:g} s"
    return _moment(event.planned_s), f"{event.kind}: {event.what} ({how})"


def _moment(time_s: float | None) -> str:
    return "not known" if time_s is None else f"{abs(time_s):.2f} s"


def labs(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """List what the kernel said each trial's network was; trials whose networks were the same share an entry. Of a
    trial in simulated time no kernel said anything."""
    alike: dict[Pairs, list[str]] = {}
    for trial, lab in (run.environment.get("lab") or {}).items():
        if lab and lab.keys() - {"lab"}:
            rest = {key: value for key, value in lab.items() if key != "sysctls"}
            nodes = {
                name: ", ".join(f"{value} (at {count})" for value, count in values.items())
                for name, values in (lab.get("sysctls") or {}).items()
            }
            alike.setdefault((*flat(rest), *flat(nodes)), []).append(trial)
    return tuple((shortened(trials, MOST_NAMES), pairs) for pairs, trials in alike.items())


def flat(value: Mapping[str, Any], prefix: str = "", nothing: str = "not known") -> Iterator[tuple[str, str]]:
    """Nested settings as (dotted name, text) pairs; None is ``nothing``."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping):
            yield from flat(inner, f"{name}.", nothing)
        elif isinstance(inner, list) and inner and all(isinstance(item, Mapping) for item in inner):
            for i, item in enumerate(inner):
                yield from flat(item, f"{name}.{i}.", nothing)
        else:
            yield name, _text(inner, nothing)


def _text(value: Any, nothing: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return nothing
    if isinstance(value, list):
        return ", ".join(_text(one, nothing) for one in value) or "none"
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())


def of_specs(runs: Sequence[Run]) -> tuple[Difference, ...]:
    """Settings in which the specs differ; arms that have the same label by what they differ in, others as a whole."""
    arms = [{str(arm.get("label")): arm for arm in run.resolved.get("arms") or ()} for run in runs]
    several = {label for label in set().union(*arms) if sum(label in arm for arm in arms) > 1}
    return _different([_settings(run, own, several) for run, own in zip(runs, arms, strict=True)])


def of_environments(runs: Sequence[Run]) -> tuple[Difference, ...]:
    """List how machines, kernels and packages differ."""
    known = [{key: value for key, value in run.environment.items() if key not in ENVIRONMENT_ASIDE} for run in runs]
    return _different([dict(flat(one)) for one in known])


def _settings(run: Run, arms: Mapping[str, Mapping[str, Any]], several: Collection[str]) -> dict[str, str]:
    found = {key: value for key, value in run.resolved.items() if key not in SPEC_ASIDE | {"arms"}}
    for label, arm in arms.items():
        own = {key: value for key, value in arm.items() if key != "label"}
        found[f"arm {label}"] = own if label in several else f"{arm.get('scheme')} on {arm.get('topology')}"
    return dict(flat(found, nothing="none"))


def _different(settings: Sequence[Mapping[str, Any]]) -> tuple[Difference, ...]:
    names = dict.fromkeys(name for setting in settings for name in setting)
    found = [(name, tuple(setting.get(name, words.UNKNOWN) for setting in settings)) for name in names]
    return tuple((name, values) for name, values in found if len(set(values)) > 1)
