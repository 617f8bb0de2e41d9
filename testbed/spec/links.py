"""The keys of ``links``: rate, delay, loss and queue of every link, and what some links have of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Rate, Share, Size, Time, Whole, refuse
from testbed.lab.base import LARGE_PACKET_BYTES, Impairment, LinkSettings


class OwnLinks(Group):
    """What some links have of their own, in place of what all have. ``TARGET`` names them: all links of a node
    (``h0``), the link of one NIC (``h0:eth1``), those between two nodes (``h0-s0``), those of a rack's hosts
    (``rack 0``), or those up to the switches of a level (``level 1``). The narrower name wins: link, NIC, node, rack,
    level, and then what all links have. Rate and delay are decided separately."""

    rate_bps: Rate | None = Field(None, alias="rate", examples=["100 Mbit/s"])
    """Their rate in each direction, in bit/s. A profile's ``scale`` divides it. By default a wider name decides."""
    delay_s: Time | None = Field(None, alias="delay", examples=["5 ms"])
    """Their delay in one direction. By default a wider name decides."""

    @model_validator(mode="after")
    def _says_something(self) -> OwnLinks:
        if self.rate_bps is None and self.delay_s is None:
            raise refuse("it says nothing about these links", "give rate or delay, or remove it")
        return self


class Ecn(Group):
    """Marking by ECN (RFC 3168): a packet is marked if the queue that it enters is long. TCP then slows down before
    packets are lost. The kernel needs the module ``sch_red``, of Linux 5.7 or later."""

    mark_at_bytes: Size = Field(100_000, alias="mark_at", examples=["100 kB"])
    """The length of the queue from which packets are marked. The default is more than the 64 KiB that the kernel hands
    down at once. DCTCP's authors mark at 65 packets on links of 10 Gbit/s (Alizadeh et al. 2010)."""


def marking(value: object) -> object:
    """Convert ``true`` to all defaults, and ``false`` to no marking."""
    return ({} if value else None) if isinstance(value, bool) else value


class Links(Group):
    """Rate, delay, loss and queue of each link. A key that is none of these names links that differ
    (``links.TARGET``)."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, OwnLinks] = Field(init=False)
    others: ClassVar[type[Group]] = OwnLinks

    rate_bps: Rate = Field(alias="rate", examples=["200 Mbit/s"])
    """The rate of each host's link in each direction, in bit/s. A profile's ``scale`` divides it."""
    delay_s: Time = Field(0.0, alias="delay")
    """The delay of one link in one direction. A round trip between two hosts through one switch takes four times as
    long. ``scale`` does not change it."""
    jitter_s: Time = Field(0.0, alias="jitter")
    """The standard deviation of the delay. The delay of a packet has a normal distribution. Packets keep their
    order."""
    loss: Share = Field(0.0, examples=["1 %"])
    """The probability that a link loses a packet. It is drawn for each link and direction separately."""
    reorder: Share = Field(0.0, examples=["1 %"])
    """The share of the packets that are not delayed and so overtake others. It needs a ``delay`` or a ``jitter``."""
    queue_bytes: Size = Field(LinkSettings.queue_bytes, alias="queue")
    """The size of the queue at each end of a link. Packets that do not fit are dropped."""
    mtu: Whole = Field(1500, ge=576, le=9000)
    """The size of the largest packet, in bytes, without the Ethernet header."""
    congestion_control: Literal["cubic", "reno", "bbr", "dctcp"] | None = None
    """TCP's congestion control on all hosts. The default is ``reno`` if the kernel has it, otherwise the kernel's own
    default. ``env.json`` records it."""
    ecn: Annotated[Ecn | None, BeforeValidator(marking)] = Field(None, examples=["true"])
    """Whether queues mark packets by ECN, and from which length on. ``true`` takes the defaults. TCP then asks for ECN
    on all connections. By default queues do not mark."""
    small_queue_bytes: Size | None = Field(None, alias="small_queues", examples=["16 KiB"])
    """The most that a connection may have in its host's queue at a time (TCP Small Queues), and the largest packet that
    it hands there at once (GSO). By default the kernel decides: packets have up to 64 KiB, which take a link of
    100 Mbit/s 5 ms, and each connection of a host may have two or more in the queue. Small values take more processor
    time."""
    full_packet_bytes: Size | None = Field(None, alias="full_packets", examples=["16 KiB"])
    """The size up to which TCP fills a large packet if it has that much to send (GSO). By default a packet has what its
    connection sends in about 1 ms. If there are hundreds of connections, larger packets take less processor time."""

    @property
    def own(self) -> Mapping[str, OwnLinks]:
        """Links that are not like all others, by target."""
        return self.__pydantic_extra__ or {}

    @model_validator(mode="after")
    def _can_be(self) -> Links:
        if self.loss == 1:
            raise refuse("a loss of 100 % lets no packet pass", "give less than 100 %")
        for delay_s in (self.delay_s, *(one.delay_s for one in self.own.values() if one.delay_s is not None)):
            try:
                Impairment(delay_s, self.jitter_s, self.loss, self.reorder)
            except SpecError as error:
                raise refuse(error.problem, error.fix or "") from None
        if self.queue_bytes < self.mtu:
            raise refuse(
                f"a queue of {self.queue_bytes:,} B has no room for a packet of {self.mtu:,} B",
                f"give a queue of {self.mtu} B or more",
            )
        if self.small_queue_bytes is not None and not self.mtu <= self.small_queue_bytes <= LARGE_PACKET_BYTES[0]:
            raise refuse(
                f"small_queues is {self.small_queue_bytes:,} B, and a packet has {self.mtu:,} B",
                f"give small_queues from {self.mtu} B to {LARGE_PACKET_BYTES[0] // 1024} KiB, or leave it out",
            )
        most_bytes = self.small_queue_bytes or LARGE_PACKET_BYTES[0]
        if self.full_packet_bytes is not None and not self.mtu <= self.full_packet_bytes <= most_bytes:
            raise refuse(
                f"full_packets is {self.full_packet_bytes:,} B: large packets have {self.mtu:,} to {most_bytes:,} B",
                f"give full_packets from {self.mtu} B to {most_bytes} B, or leave it out",
            )
        if self.ecn and self.ecn.mark_at_bytes >= self.queue_bytes:
            raise refuse(
                f"a queue of {self.queue_bytes:,} B never gets as long as {self.ecn.mark_at_bytes:,} B, at which it "
                "would mark",
                "give ecn a smaller mark_at, or links a larger queue",
            )
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_asked(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out keys that nobody asked for: trials that ran before there were such keys stay the same."""
        found: dict[str, Any] = dump(self)
        later = ("ecn", "small_queues", "small_queue_bytes", "full_packets", "full_packet_bytes")
        return {key: value for key, value in found.items() if key not in later or value is not None}
