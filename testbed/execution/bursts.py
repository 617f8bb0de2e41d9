"""Processes that measure a trial's links before its own start: bursts, where these cannot do it (programs of which
nothing is known, and jobs that do not wait for each other), and what :mod:`.probing` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import supervise
from testbed.lab.base import Lab
from testbed.lab.programs import Launch
from testbed.topologies.addressing import plan
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.trial.ports import SYNC_PORT
from testbed.workloads import kinds
from testbed.workloads.bursts.probing import MeetingJob, ProbingJob
from testbed.workloads.sync.flows import neighbours

MARK = "before"
"""Mark of the files of these processes: the trial's own have the same names."""
MOST_PROBED_BYTES = 2**20
"""Bytes that a process writes at most which measures a host's links: a line for each of its NICs, or for each host."""

Own = Callable[[Sequence[int]], Mapping[int, Mapping[str, Any]]]
"""Function of hosts that meet which returns the fields of each one's job, beside those of the meeting."""


def probers(trial: Trial, files: Files, congestion_control: str) -> list[Launch]:
    """Write the jobs of processes that send bursts over all links, one a host; return their launches."""
    bursts = job_files.probes(trial.topology, plan(trial.topology), link_settings(trial.spec))
    return launches(
        trial,
        replace(files, stage=MARK),
        congestion_control,
        ProbingJob,
        lambda hosts: {host: {"rounds": (bursts.get(host, ()),)} for host in hosts},
    )


def launches(trial: Trial, files: Files, congestion_control: str, kind: type[MeetingJob], own: Own) -> list[Launch]:
    """Write the jobs of processes, one a host, which meet along a ring of all hosts that reach each other; return their
    launches."""
    addresses = plan(trial.topology)
    made = []
    for number, ring in enumerate(job_files.meeting_rings(trial.topology)):
        path = files.plan(f"{files.stage}{number}")
        kinds.save(ring, path)
        for node, fields in own(ring.workers).items():
            name = trial.topology.nodes[node].name
            kind(
                node=node,
                forest=str(path),
                peers=tuple(
                    job_files.peer(addresses, node, other, SYNC_PORT + min(node, other))
                    for other in neighbours(ring, node)
                ),
                congestion_control=congestion_control,
                start_timeout_s=trial.spec.start_timeout_s,
                timeout_s=trial.spec.timeout_s,
                samples=str(files.samples(name)),
                **fields,
            ).save(files.job(name))
            made.append(Launch(name, node, str(files.job(name)), str(files.log(name)), torch=False))
    return made


def measured(trial: Trial, lab: Lab, files: Files, launches: Sequence[Launch]) -> list[dict[str, Any]]:
    """Start the processes of :func:`launches`, if there are any, and wait for them; return the lines of what they
    measured, each with its process's name.

    Raises:
        TrialError: one of them failed, or did not end.
    """
    if not launches:
        return []
    lab.launch(launches)
    samples = {one.process: files.samples(one.process) for one in launches}
    signs = supervise.Growth(lab, files, [*samples], trial.spec.timeout_s, trial.spec.start_timeout_s)
    supervise.wait(lab, Feed(samples, MOST_PROBED_BYTES), files, signs)
    return [
        {**line, "name": one.process}
        for one in launches
        for line in endings.read_checked(files.samples(one.process), MOST_PROBED_BYTES)
        if line["kind"] in ("probe", "echo")
    ]
