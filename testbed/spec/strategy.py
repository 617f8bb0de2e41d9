"""Strategies in a spec: which hosts hold each operator of a model (:mod:`testbed.workloads.parallel.strategy`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from testbed.base.groups import refuse

EXAMPLE = "host numbers by operator: {e0: [0], rest: all}"
Given = str | dict[str, str | list[int]]


def _strategy(value: object) -> object:
    """Check a strategy as far as that is possible without knowing the model and the hosts."""
    example = f"write data, search(steps=2000), or {EXAMPLE}"
    if value == "data":
        return value
    if not isinstance(value, dict) or not value:
        raise refuse(f"{value!r} is not a strategy", example)
    for name, holders in value.items():
        if holders != "all" and not (isinstance(holders, list) and all(type(one) is int for one in holders)):
            raise refuse(f"{name}: {holders!r} is not a list of host numbers", f"write {name}: [0], or {name}: all")
    return {str(name): holders for name, holders in value.items()}


def _of_job(value: object) -> object:
    """Refuse a search for a job's strategy, for its hosts depend on the others."""
    if isinstance(value, str) and value.startswith("search"):
        raise refuse(
            "a job has no search for a strategy", f"write the one that testbed find prints: data, or {EXAMPLE}"
        )
    return value


Strategy = Annotated[Given, BeforeValidator(_strategy)]
JobStrategy = Annotated[Given, BeforeValidator(_strategy), BeforeValidator(_of_job)]
"""Strategy of one of several jobs."""


def shown(strategy: Given | None) -> str:
    """Write a strategy for people; empty where there is none."""
    if strategy is None or isinstance(strategy, str):
        return strategy or ""
    given = [f"{name}: {holders}" for name, holders in strategy.items()]
    return "{" + ", ".join(given[:4] + [f"and {len(given) - 4} more"] * (len(given) > 4)) + "}"
