"""The network in a record: links as they were asked for, measured and used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import SHARE, NotNegative, Part, Text, optional, required, unread


class Probe(Part):
    """A burst that measured a link before the training."""

    name = unread(str, "node that received a burst before the training")
    port_address = unread(str, "of the port that it received it on")
    rate_bps = unread(float, "rate at which the burst arrived")
    asked_bps = unread(float, "rate that the link was given")


class RoundTrip(Part):
    """The round trip between two nodes of the idle network."""

    source = unread(str, "node that sent", key="from")
    target = unread(str, "node that answered", key="to")
    least_s = unread(float, "least round trip that the links' delays allow")
    most_s = unread(float, "longest that they explain")
    median_s = unread(float, "median that was measured on the idle network")


@dataclass(frozen=True)
class LinkCount(Part):
    """The kernel's counts at the egress of one directed link, None where the lab does not make the link and cannot
    count, and the bytes that theory expects."""

    link: int = required("number of the directed link: 2 i and 2 i + 1 are the two directions of cable i")
    source: str = required("node that sends on it", key="from")
    target: str = required("node that receives", key="to")
    rate_bps: NotNegative = required("its rate")
    bytes: int | None = required("counted by the kernel at its egress while the trial trained, headers included")
    other_bytes = unread(int, "bursts and background flows, which `bytes` does not have")
    drops: int | None = optional("dropped at its egress", "packets")
    refused = unread(int, "of these, those for which a core of the machine had no room: no queue was full", "packets")
    theory_bytes: NotNegative | None = optional("what the scheme's plan says for `bytes`")
    extra_bytes = unread(int, "what TCP may have added: acknowledgements, and what it sent again")

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Drops are counted where bytes are."""
        return {**raw, "drops": None if raw.get("bytes") is None else raw.get("drops") or 0}


@dataclass(frozen=True)
class PairCount(Part):
    """The bytes that one server of a hybrid trial has sent another in the whole trial."""

    source: str = required("server that sent", key="from")
    target: str = required("server that received", key="to")
    bytes: int = required("counted by the sender in the whole trial, without headers")
    theory_bytes: int = required("what the strategy's plan says for `bytes`")
    mp_bytes: int = required("of these, outputs of operators and gradients of outputs")


class QueueReadings(Part):
    """How the queues at egresses were read; what waited there is in a table of its own."""

    readings = unread(int, "how often the queues were read", "readings", is_checked=True)
    cost_s = unread(NotNegative, "how long all readings took", is_checked=True)
    problem = unread(Text, "why the readings ended early", is_checked=True)


class LinkSettings(Part):
    """The links that the spec asks for."""

    rate_bps = unread(float, "rate of a link")
    delay_s = unread(float, "delay of a link, one way")
    jitter_s = unread(float, "jitter of the delay")
    loss = unread(float, "packets that are lost", SHARE)
    reorder = unread(float, "packets that are reordered", SHARE)
    mtu = unread(int, "largest packet", "B")
    queue_bytes = unread(int, "length of the queue at each egress")
    congestion_control = unread(str, "congestion control that the spec asks for; null for the machine's own")
    mark_at_bytes = unread(int, "length of a queue from which on it marks packets", key="ecn.mark_at_bytes")
    small_queue_bytes = unread(int, "most of a connection in its host's queue; null for the kernel's own rule")
    full_packet_bytes = unread(int, "size up to which TCP fills a large packet; null for the kernel's own rule")
    named_rate_bps = unread(float, "rate of the links of that name; null for that of all", key="*.rate_bps")
    named_delay_s = unread(float, "delay of the links of that name; null for that of all", key="*.delay_s")
