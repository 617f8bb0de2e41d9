"""Network where trials of one arm run at one point of a sweep, and what happens to it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.lab.base import BUCKET_PACKETS, BUCKET_S, LARGE_PACKET_BYTES, LinkSettings
from testbed.perturb.kinds.base import Perturbation
from testbed.spec import Arm, Spec
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import ETHERNET_BYTES, Shaper, goodput


@dataclass(frozen=True)
class Network:
    """Network of one arm of an experiment at one point of a sweep.

    Attributes:
        spec: the whole spec at this point.
        folder: the spec's directory.
        topology_text: text that rebuilds the topology from the working directory.
    """

    arm: Arm
    spec: Spec
    folder: Path
    topology_text: str
    topology: Topology

    @property
    def perturbations(self) -> list[Perturbation]:
        """Perturbations of the network: the experiment's, then the arm's."""
        return [*self.spec.perturb, *self.arm.perturb]

    @property
    def draws_seed(self) -> int:
        """The seed of what its perturbations draw."""
        if self.spec.draws == "same":
            return self.spec.seed
        return int.from_bytes(hashlib.sha256(f"{self.spec.seed} {self.arm.title}".encode()).digest()[:4])

    @property
    def jitter(self) -> list[Mapping[int, float]]:
        """Standard deviations (s), by host, of what each perturbation adds to the steps of a synchronisation."""
        return [sigma_s for one in self.perturbations if (sigma_s := one.step_sigma_s(self.topology))]

    @property
    def settings_met(self) -> list[LinkSettings]:
        """Settings with which its links are to be emulated: at first, and while each of its perturbations lasts."""
        first = link_settings(self.spec, self.spec.links.congestion_control)
        asked = [impairment for one in self.perturbations if (impairment := one.impairment)]
        # A lab that can have a delay vary can have one: settings have no delay of their own, for links have.
        met = (replace(first, jitter_s=one.delay_s + one.jitter_s, loss=one.loss, reorder=one.reorder) for one in asked)
        return [first, *met]

    @property
    def shaper(self) -> Shaper:
        """Model of its shaped links: what they let pass before their rates count."""
        return shaper(link_settings(self.spec), self.topology)

    @property
    def sends_once(self) -> bool:
        """Whether every packet is sent once, over the one connection that two neighbours have: TCP may send packets
        again as larger ones."""
        return link_settings(self.spec).is_calm and not self.topology.is_parallel

    @property
    def slowest_bps(self) -> float:
        """The rate of its slowest link."""
        return min(link.rate_bps for link in self.topology.links)

    @property
    def goodput(self) -> float:
        """Share of a link's rate that is payload."""
        return goodput(self.spec.links.mtu)


def lab_rate_bps(spec: Spec) -> int:
    """Return the rate of the hosts' links in the lab: as the spec says, divided by the workload's scale."""
    return round(spec.links.rate_bps / spec.workload.scale)


def shaper(settings: LinkSettings, topology: Topology) -> Shaper:
    """Return the model of a shaped link of any lab: what it lets pass before its rate counts. Large packets have 64 KiB
    or more, as on machines, whose NICs are left as they are.

    A ring of two at 100 Mbit/s synchronised 310 kB in 0.79 to 0.90 of bytes over rate: a bucket and a packet of 64 KiB
    are a quarter of them.
    """
    factor = goodput(settings.mtu)
    bucket_bytes = BUCKET_PACKETS * (settings.mtu + ETHERNET_BYTES)
    packet_bytes = settings.small_queue_bytes or max(LARGE_PACKET_BYTES[0], settings.packet_bytes(topology))
    return Shaper(factor, BUCKET_S, bucket_bytes, packet_bytes / factor)


def link_settings(spec: Spec, congestion_control: str | None = None) -> LinkSettings:
    """Return how the lab emulates links, beyond the rate and delay that each has; ``congestion_control`` is every
    node's default.

    They are disturbed in all arms if they are in one, so that all arms meet the same settings.
    """
    links = spec.links
    perturbations = [*spec.perturb, *(one for arm in spec.arms for one in arm.perturb)]
    return LinkSettings(
        mtu=links.mtu,
        queue_bytes=links.queue_bytes,
        jitter_s=links.jitter_s,
        loss=links.loss,
        reorder=links.reorder,
        seed=spec.seed,
        congestion_control=congestion_control,
        mark_at_bytes=links.ecn.mark_at_bytes if links.ecn else None,
        small_queue_bytes=links.small_queue_bytes,
        full_packet_bytes=links.full_packet_bytes,
        disturbed=any(one.drops_packets or one.disturbs_tcp for one in perturbations),
    )
