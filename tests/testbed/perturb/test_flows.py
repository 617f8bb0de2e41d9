"""Ports of flows that compete with a trial's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from testbed.perturb.kinds.base import MOST
from testbed.perturb.kinds.traffic import MOST_FLOWS, flow
from testbed.trial.job_files import PROBE_PORT


def ports(number: int) -> list[int]:
    """Ports of all sinks that one perturbation may have."""
    context: Any = SimpleNamespace(number=number, addresses=SimpleNamespace(flow=lambda *_: ("10.0.0.1", "10.0.0.2")))
    return [int(flow(context, (0, 1), place=place)[0].arguments[2]) for place in range(MOST_FLOWS)]


def test_no_two_sinks_of_a_trial_have_the_same_port() -> None:
    """A trial has the perturbations of the experiment, and those of its arm."""
    every = [port for number in range(2 * MOST) for port in ports(number)]
    assert len(set(every)) == len(every)
    assert max(every) < PROBE_PORT
