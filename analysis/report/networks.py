"""The network of a trial, as far as its record tells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from testbed.analysis.recorded import Trial
from testbed.base.errors import TestbedError, TopologyError
from testbed.topologies.build import build, comes_with_us
from testbed.topologies.model import Topology
from testbed.topologies.parameters import at_most
from testbed.topologies.recorded import from_links

Floats = NDArray[np.float64]


def network(trial: Trial) -> Topology:
    """Build a trial's network: of a user's own, which would run code that the run names, as the links were recorded.

    Raises:
        SpecError, TopologyError: it cannot be.
    """
    rate_bps = int(trial.links[0].rate_bps)
    if comes_with_us(trial.topology):
        # What was recorded has so many links; the expression, which somebody else may have written, may have any.
        with at_most(len(trial.links) // 2):
            return build(trial.topology, rate_bps=rate_bps)
    there = sorted(trial.links, key=lambda one: one.link)
    if [one.link for one in there] != list(range(len(there))):
        raise TopologyError("its links are not numbered from 0 on", fix="run it again")
    return from_links(trial.topology.partition("(")[0], [(one.source, one.target) for one in there[::2]], rate_bps)


def numbered(trial: Trial) -> Topology | None:
    """Build a trial's network with nodes and links numbered as in the trial; None where that is not known: of a network
    of a user's own, nobody wrote down which node has which number."""
    if not trial.links or not comes_with_us(trial.topology):
        return None
    try:
        found = network(trial)
    except TestbedError:  # what was recorded cannot be
        return None
    ends = {one.link: (one.source, one.target) for one in trial.links}
    known = {
        link: (found.nodes[found.tail(link)].name, found.nodes[found.head(link)].name)
        for link in range(2 * len(found.links))
    }
    return found if ends == known else None


def names(trial: Trial) -> Mapping[int, str]:
    """Return the nodes' names by number; none where they are not known."""
    found = numbered(trial)
    return {} if found is None else {i: node.name for i, node in enumerate(found.nodes)}


def course(trial: Trial, link: int) -> tuple[Floats, Floats]:
    """From when on (s) a directed link had which rate (bit/s); the first from before the start."""
    rate_bps = next(one.rate_bps for one in trial.links if one.link == link)
    is_blocked = False
    found = [(-np.inf, rate_bps)]
    changes = [event for event in trial.events if event.done_s is not None and event.error is None]
    for event in sorted(changes, key=lambda one: one.done_s or 0.0):
        rate_bps = event.rates_bps.get(link, rate_bps)
        is_blocked = event.blocked.get(link, is_blocked)
        found.append((event.done_s or 0.0, 0.0 if is_blocked else rate_bps))
    moments_s, rates_bps = zip(*found, strict=True)
    return np.array(moments_s), np.array(rates_bps)
