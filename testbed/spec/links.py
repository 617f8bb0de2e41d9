"""The keys of ``links``: rate, delay, loss and queue of every link."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Rate, Share, Size, Time, Whole, refuse
from testbed.lab.base import Impairment, LinkSettings


class Links(Group):
    """Rate, delay, loss and queue of each link."""

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
    congestion_control: Literal["cubic", "reno", "bbr"] | None = None
    """TCP's congestion control on all hosts. The default is ``reno`` if the kernel has it, otherwise the kernel's own
    default. ``env.json`` records it."""

    @model_validator(mode="after")
    def _can_be(self) -> Links:
        try:
            Impairment(self.delay_s, self.jitter_s, self.loss, self.reorder)
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        if self.queue_bytes < self.mtu:
            raise refuse(
                f"a queue of {self.queue_bytes:,} B has no room for a packet of {self.mtu:,} B",
                f"give a queue of {self.mtu} B or more",
            )
        return self
