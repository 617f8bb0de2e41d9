"""Schedule of a trial, made from perturbations: what is to be changed in the lab, and when. Pure data; nothing is
touched here.

Where two perturbations change the same property of a link, the later event wins; one that ends puts back what the
link was built with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from testbed.perturb.events import Event, Helper
from testbed.perturb.kinds.base import Context, Perturbation


@dataclass(frozen=True)
class Schedule:
    """Everything that is to happen: streams of events, each in the order of time, perhaps without end, and the
    processes that must wait for them."""

    streams: tuple[Iterator[Event], ...] = ()
    helpers: tuple[Helper, ...] = ()


def schedule(perturbations: Sequence[Perturbation], context: Context, *, while_probed: bool = False) -> Schedule:
    """Plan everything that is to happen to a trial.

    Args:
        perturbations: the spec's and the arm's; those of computing are :mod:`testbed.perturb.stragglers`'.
        context: of the first of them.
        while_probed: plan only what is there while hosts probe each other, too.

    Raises:
        SpecError: something is named that there is not, or a rate is above the link's own, or not one that the lab can
            have.
    """
    streams: list[Iterator[Event]] = []
    helpers: list[Helper] = []
    for number, one in enumerate(perturbations):
        if while_probed and not one.while_probed:
            continue
        own = replace(context, number=number)
        helpers += one.helpers(own)
        events = one.events(own)
        if events != ():  # something happens in the lab
            streams.append(iter(events))
    return Schedule(tuple(streams), tuple(helpers))


def background_pairs(perturbations: Sequence[Perturbation], context: Context) -> list[tuple[int, int]]:
    """List the nodes at both ends of what each helper sends, in the order of helpers: the lab needs routes for it.

    Raises:
        SpecError: as :func:`schedule`.
    """
    helpers = (helper for i, one in enumerate(perturbations) for helper in one.helpers(replace(context, number=i)))
    return [(helper.node, helper.sends_to) for helper in helpers if helper.sends_to is not None]
