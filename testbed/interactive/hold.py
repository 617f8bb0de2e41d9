"""Hold one arm's network up for a person to poke at."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from itertools import permutations

from testbed.base.errors import LabError, UsageError
from testbed.base.listing import counted
from testbed.experiment.expand import first_trials
from testbed.experiment.selection import label_of
from testbed.interactive import reach
from testbed.lab.choice import places
from testbed.lab.place import Opening
from testbed.spec import Source
from testbed.topologies.model import Topology
from testbed.trial.job_files import host_pairs
from testbed.trial.model import Trial
from testbed.trial.network import link_settings

ALL_PAIRS_HOSTS = 64
"""The most hosts of which every pair gets a route; beyond, those that the scheme uses do."""


def pick(source: Source, arm: str | None) -> Trial:
    """Choose a trial of the arm with that label or number (from 0), or of the first; of a sweep, at its first point.

    Raises:
        SpecError: the experiment cannot be.
        UsageError: there is no such arm.
    """
    found: dict[str, Trial] = {}
    for trial in first_trials(source):
        found.setdefault(trial.label, trial)
    return found[label_of(arm, list(found))] if arm is not None else next(iter(found.values()))


def hold(
    trial: Trial,
    opening: Opening,
    *,
    command_line: bool = False,
    for_program: bool = False,
) -> None:
    """Build a trial's network and answer ``testbed exec`` until interrupted, or until the user leaves the lab's command
    line. ``opening`` has what the spec does not say. A program that holds a lab (``for_program``) is told of it in
    JSON, and the lab goes when standard input ends, as it does with that program.

    Raises:
        UsageError: this user holds a lab already, or the lab only plays trials or has no command line.
        LabError, PrivilegeError: it cannot be built, or the folder where exec finds it is another user's.
    """
    topology, spec, place = trial.topology, trial.spec, trial.spec.place
    few = topology.host_count <= ALL_PAIRS_HOSTS
    pairs = list(permutations(topology.hosts, 2)) if few else host_pairs(trial)
    if place.plays:
        problem = f"the lab {spec.lab} only plays trials: nothing can be started in it"
        options = dict.fromkeys(one.option for one in places().values() if not one.plays)
        raise UsageError(problem, fix=f"take {' or '.join(options)}")
    if command_line and not place.has_command_line:
        having = [one.option for one in places().values() if one.has_command_line]
        problem = f"--cli: the lab {spec.lab} has no command line"
        raise UsageError(problem, fix=f"take {', '.join([*having, 'or testbed exec'])}")
    settings = link_settings(spec)
    if not place.forwards:
        pairs = [pair for pair in pairs if _direct(topology, *pair)]
    with (
        place.open(replace(opening, options=spec.lab_options, every_address=few)) as lab,
        closing(reach.Doorway(lab, topology)) as doorway,
    ):
        lab.require(topology, settings)
        lab.up(topology, settings, pairs)
        told = {"topology": topology.expression, "nodes": [node.name for node in topology.nodes]}
        print(json.dumps(told) if for_program else _summary(topology), flush=True)
        if command_line:
            place.command_line(lab)
        else:
            try:
                doorway.serve(until=sys.stdin.fileno() if for_program else None)
            except LabError:
                lab.exits()  # says what has ended, where that is known
                raise


def _direct(topology: Topology, src: int, dst: int) -> bool:
    """Whether traffic between two hosts passes no third host."""
    return all(
        topology.head(link) in topology.switches for path in topology.paths(src, dst) for link in path.links[:-1]
    )


def _summary(topology: Topology) -> str:
    names = [node.name for node in topology.nodes]
    last = names[topology.host_count - 1]
    kind = "patch panel" if topology.panels else "switch"
    switches = counted(len(topology.switches), kind)
    return (
        f"{topology.expression} is up: hosts {names[0]} to {last}, {switches}\n"
        f"  from another terminal: testbed exec {names[0]} -- ping -c 3 {last}\n"
        f"  Ctrl-C takes it down"
    )
