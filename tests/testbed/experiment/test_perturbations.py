"""Whether perturbations fit a trial, said before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.spec import read

from ..conftest import SPEC


@pytest.mark.parametrize(
    ("perturb", "problem"),
    [
        ("{kind: jitter, of: step, sigma: 1 ms, workers: h9}", "perturb.0 (jitter): star(hosts=3) has no node 'h9'"),
        ("{kind: jitter, sigma: 1 ms, workers: h9}", "perturb.0 (jitter): star(hosts=3) has no node 'h9'"),
        ("{kind: freeze, hosts: h9}", "perturb.0 (freeze): star(hosts=3) has no node 'h9'"),
        ("{kind: background, from: h0, to: h0}", "perturb.0 (background): background traffic from h0 to itself"),
        ("{kind: slow, workers: h0, slowdown: 2}", "perturb.0 (slow): compute: none takes no time"),
        ("{kind: kill, nodes: h0, at: iteration 4}", "perturb.0 (kill): there is no iteration 4: the workload has 3"),
        ("{kind: circuits, rings: [1]}", "perturb.0 (circuits): star(hosts=3) has no patch panels"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(perturb: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        trials(read(f"{SPEC}perturb: [{perturb}]\n", "spec.yaml", Path()))
    assert f"arms.0: the experiment's {problem}" in str(caught.value)
    assert "\n  fix: " in str(caught.value)
