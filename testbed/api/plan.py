"""Plan of an experiment: what it would do, without doing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.columns import Layout, columns
from testbed.experiment import planning
from testbed.experiment.selection import ALL, Wanted
from testbed.spec import load

__all__ = ["Plan", "Wanted", "plan"]


@dataclass(frozen=True)
class Plan:
    """Plan of an experiment: ``facts`` are what ``testbed plan --json`` says."""

    facts: dict[str, Any]

    def text(self, lay_out: Layout = columns) -> str:
        """Text of ``testbed plan``, its table laid out by ``lay_out``."""
        return planning.text(self.facts, lay_out)

    def __str__(self) -> str:
        return self.text()


def plan(spec: Path, overrides: Sequence[str] = (), wanted: Wanted = ALL, inventory: Path | None = None) -> Plan:
    """Check an experiment, with settings changed as after ``--set``, and predict; nothing is touched.

    Args:
        wanted: the arms, points and trials to plan, if not all.
        inventory: an Ansible inventory, of a lab that takes one; its machines are not asked.

    Raises:
        SpecError: the spec or the inventory cannot be read, or makes no sense.
        UsageError: an override is not ``key=value``, or ``wanted`` leaves no trial.
    """
    source = load(spec, overrides)
    return Plan(planning.plan(source, wanted.of(source), inventory))
