"""Holding one arm's network up for a person to poke at."""

from __future__ import annotations

from itertools import permutations

from testbed import up
from testbed.errors import UsageError
from testbed.jobs import host_pairs
from testbed.lab.base import LinkSettings
from testbed.lab.choice import LabName, opener
from testbed.spec import Source
from testbed.spec.explain import nearest
from testbed.trial import Network
from testbed.trials import trials

ALL_PAIRS_HOSTS = 64
"""Up to this many hosts, every pair gets a route; beyond, those that the scheme uses."""


def pick(source: Source, arm: str | None) -> Network:
    """The arm with that label or number (from 0), or the first.

    Raises:
        SpecError: the experiment cannot be.
        UsageError: there is no such arm.
    """
    networks = {trial.label: trial.network for trial in trials(source)}
    if arm is None:
        return next(iter(networks.values()))
    if arm in networks:
        return networks[arm]
    if arm.isdecimal() and int(arm) < len(networks):
        return list(networks.values())[int(arm)]
    raise UsageError(f"--arm {arm}: there is no such arm", fix=nearest(arm, list(networks)))


def hold(network: Network, settings: LinkSettings, lab_name: LabName, *, command_line: bool = False) -> None:
    """Build the network and answer ``testbed exec`` until interrupted, or until the user leaves the lab's command line.

    Raises:
        UsageError: this user holds a lab already, or the lab has no command line.
        LabError, PrivilegeError: it cannot be built.
    """
    topology = network.topology
    few = topology.host_count <= ALL_PAIRS_HOSTS
    pairs = permutations(topology.hosts, 2) if few else host_pairs(network)
    if command_line and lab_name != "mininet":
        raise UsageError(
            f"--cli: the lab {lab_name} has no command line", fix="take --backend mininet, or testbed exec"
        )
    with opener(lab_name)(every_address=few) as lab:
        doorway = up.Doorway(lab, topology)
        lab.up(topology, settings, pairs)
        print(_summary(network), flush=True)
        if command_line:
            lab.command_line((0, 1, 2)).wait()
        else:
            doorway.serve()


def _summary(network: Network) -> str:
    topology = network.topology
    names = [node.name for node in topology.nodes]
    last = names[topology.host_count - 1]
    kind = "patch panel" if topology.panels else "switch"
    many = "" if len(topology.switches) == 1 else "s" if topology.panels else "es"
    switches = f"{len(topology.switches)} {kind}{many}"
    return (
        f"{topology.expression} is up: hosts {names[0]} to {last}, {switches}\n"
        f"  from another terminal: testbed exec {names[0]} -- ping -c 3 {last}\n"
        f"  Ctrl-C takes it down"
    )
