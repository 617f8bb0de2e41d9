"""``impair``: links that delay, lose or reorder packets for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Share, Time, refuse
from testbed.lab.base import Impairment
from testbed.perturb import targets
from testbed.perturb.events import Event
from testbed.perturb.kinds.base import Context, OfLinks, Timed


class Impair(Timed, OfLinks):
    """Links delay, lose or reorder packets for a while. These settings take the place of those before."""

    kind: Literal["impair"]
    delay_s: Time = Field(0.0, alias="delay", examples=["5 ms"])
    """The delay of one link in one direction."""
    jitter_s: Time = Field(0.0, alias="jitter")
    """The standard deviation of the delay. Packets keep their order."""
    loss: Share = Field(0.0, examples=["1 %"])
    """The probability that a packet is lost."""
    reorder: Share = Field(0.0, examples=["1 %"])
    """The share of the packets that are not delayed and so overtake others."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    @property
    def impairment(self) -> Impairment:
        """Impairment as the lab takes it."""
        return Impairment(self.delay_s, self.jitter_s, self.loss, self.reorder)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            impairment = self.impairment
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        if not impairment:
            raise refuse("it impairs nothing", "give a delay, jitter, loss or reorder")
        return self

    def events(self, context: Context) -> Sequence[Event]:
        topology, own = context.topology, context.links
        links = self.directed(topology)
        before = {
            link: Impairment(topology.links[link // 2].delay_s, own.jitter_s, own.loss, own.reorder) for link in links
        }
        begin, *end = self.window(f"{targets.labels(topology, links)} with {self.impairment}")
        return [
            replace(begin, impairments=dict.fromkeys(links, self.impairment)),
            *(replace(event, impairments=before) for event in end),
        ]
