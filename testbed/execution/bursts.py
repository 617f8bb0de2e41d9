"""Bursts that measure a trial's links before its processes start, where these cannot do it: programs of which nothing
is known, and jobs that do not wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.base.python import module_command
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import supervise
from testbed.lab.base import Lab
from testbed.lab.programs import Launch, Program
from testbed.topologies.addressing import plan
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.trial.ports import SYNC_PORT
from testbed.workloads import kinds
from testbed.workloads.bursts.probing import ProbingJob
from testbed.workloads.sync.flows import neighbours

MARK = "before"
"""Mark of the files of these processes: the trial's own have the same names."""
MOST_PROBED_BYTES = 2**20
"""Bytes that a process writes at most which measures a host's links: a line for each of its NICs."""


def probers(trial: Trial, files: Files, congestion_control: str) -> list[Launch]:
    """Write the jobs of processes that measure the links, one a host, which meet along a ring; return their
    launches."""
    topology, files = trial.topology, replace(files, stage=MARK)
    addresses = plan(topology)
    bursts = job_files.probes(topology, addresses, link_settings(trial.spec))
    found = []
    for number, ring in enumerate(job_files.meeting_rings(topology)):
        path = files.plan(f"bursts{number}")
        kinds.save(ring, path)
        for node in ring.workers:
            name = topology.nodes[node].name
            job = ProbingJob(
                node=node,
                forest=str(path),
                peers=tuple(
                    job_files.peer(addresses, node, other, SYNC_PORT + min(node, other))
                    for other in neighbours(ring, node)
                ),
                probes=bursts.get(node, ()),
                congestion_control=congestion_control,
                start_timeout_s=trial.spec.start_timeout_s,
                timeout_s=trial.spec.timeout_s,
                samples=str(files.samples(name)),
            )
            job.save(files.job(name))
            words = tuple(module_command("testbed.workloads.bursts.probing", str(files.job(name))))
            program = Program(words, {}, str(files.work))
            found.append(Launch(name, node, str(files.job(name)), str(files.log(name)), program))
    return found


def measured(trial: Trial, lab: Lab, files: Files, launches: Sequence[Launch]) -> list[dict[str, Any]]:
    """Start the processes of :func:`probers`, if there are any, and wait for them; return their ``probe`` lines, each
    with its process's name.

    Raises:
        TrialError: one of them failed, or did not end.
    """
    if not launches:
        return []
    lab.launch(launches)
    files = replace(files, stage=MARK)
    samples = {one.process: files.samples(one.process) for one in launches}
    signs = supervise.Growth(lab, files, [*samples], trial.spec.timeout_s, trial.spec.start_timeout_s)
    supervise.wait(lab, Feed(samples, MOST_PROBED_BYTES), files, signs)
    return [
        {**line, "name": one.process}
        for one in launches
        for line in endings.read_checked(files.samples(one.process), MOST_PROBED_BYTES)
        if line["kind"] == "probe"
    ]
