"""Differences between runs that stand side by side: in their specs and in what they ran on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from testbed.analysis.recorded import Run
from testbed.analysis.report.settings import flat

SPEC_ASIDE = frozenset({"schema", "folder", "overrides", "most_rounds"})
"""Fields that say how the spec was given or run, not what it asks for."""
ENVIRONMENT_ASIDE = frozenset({"schema", "lab", "seed"})
"""Fields of an environment that are there for each trial, or in the spec."""
ABSENT = "–"

Difference = tuple[str, tuple[str, ...]]
"""A setting and what it is in each run."""


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
    found = [(name, tuple(setting.get(name, ABSENT) for setting in settings)) for name in names]
    return tuple((name, values) for name, values in found if len(set(values)) > 1)
