"""Which processes of a trial may be lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment.expand import trials
from testbed.spec import read

SPEC = """
name: losses
links: {{rate: 200 Mbit/s}}
workload: {workload}
failover: 1 s
arms: [{{topology: star(hosts=6), scheme: {scheme}}}]
"""
TRAINED = "{model: lenet5, dataset: digits, batch: 2, iterations: 3, compute: {mode: paced, pace: {2: 0.1 s}}}"
TOPICS = """{kind: lda, corpus: python_reference, documents: 40, topics: 5,
  iterations: 4, compute: {mode: paced, pace: 0.2 s}}"""


@pytest.mark.parametrize(
    ("workload", "scheme", "needed"),
    [
        (TRAINED, "mlfabric_a", {"h4"}),
        (TRAINED, "mlfabric_a(divergence_updates=2)", set()),
        (TOPICS, "mlfabric_a", {"h4"}),
        (TOPICS, "mlfabric_a(divergence_updates=2)", {"h3"}),
    ],
)
def test_a_server_is_needed_by_workers_that_keep_more_than_weights(
    workload: str, scheme: str, needed: set[str]
) -> None:
    (trial,) = trials(read(SPEC.format(workload=workload, scheme=f'"{scheme}"'), "spec.yaml", Path()))
    assert trial.job.processes.keys() - trial.job.survives == needed
