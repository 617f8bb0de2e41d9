"""The keys of ``links``: rate, delay, loss and queue of every link."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Rate, Share, Size, Time, Whole, refuse
from testbed.lab.base import Impairment, LinkSettings


class Links(Group):
    """How fast, far and wide each link is."""

    rate_bps: Rate = Field(alias="rate", examples=["200 Mbit/s"])
    """Rate of each host's link, each way. A profile's ``scale`` divides it."""
    delay_s: Time = Field(0.0, alias="delay")
    """One way over one link, so host to host through a switch and back is four times that. ``scale`` does not divide
    it."""
    jitter_s: Time = Field(0.0, alias="jitter")
    """Standard deviation of the delay, which has a normal distribution. Packets keep their order."""
    loss: Share = Field(0.0, examples=["1 %"])
    """Probability that a packet is lost, on each link and in each direction by itself."""
    reorder: Share = Field(0.0, examples=["1 %"])
    """Share of the packets that are not delayed, and so overtake others. It needs a delay."""
    queue_bytes: Size = Field(LinkSettings.queue_bytes, alias="queue")
    """Room for packets that wait at each end of a link. Packets that do not fit are dropped."""
    mtu: Whole = Field(1500, ge=576, le=9000)
    """Largest packet, in bytes."""
    congestion_control: Literal["cubic", "reno", "bbr"] | None = None
    """TCP's, on all hosts. The default is reno where the kernel has it. ``env.json`` records which one ran."""

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
