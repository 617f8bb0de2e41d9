"""What TCP had to send twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from testbed.base.check import About, Check
from testbed.fidelity import drops
from testbed.fidelity.seen import Seen

ABOUT = About(
    "retransmissions",
    sees="packets lost, by the count of segments that TCP sent again on each host",
    misses="losses on transports other than TCP",
)
RESENT = 0.002
"""Most of a host's TCP segments that were sent again: 0 to 0.1 % in good trials (late acknowledgements), 2.5 % after a
link was cut for 0.2 s."""
DISTURBING = frozenset({"rates", "rate", "queue", "impair", "down", "freeze", "kill", "background", "circuits"})
"""Kinds of events that change links or fill them: TCP then has to send again, as it would on such a network."""


def checks(seen: Seen) -> Iterator[Check]:
    counted = [line for line in seen.done if line["sent_segments"] is not None]
    links = seen.trial.spec.links
    asked = links.loss > 0 or links.reorder > 0 or bool(DISTURBING & seen.happened) or drops.asked(seen)
    if seen.done:
        yield judge({line["name"]: (line["sent_segments"], line["resent_segments"]) for line in counted}, asked)


def judge(segments: Mapping[str, tuple[int, int]], asked: bool = False) -> Check:
    """The host that sent the largest share of its TCP segments again; by name, (sent, sent again).

    ``asked`` says that links were changed on purpose so that TCP has to; then it is told and not judged.
    """
    if not segments:
        return Check(ABOUT.name, None, RESENT, "of segments", True, "not watched")
    shares = {name: again / max(1, sent + again) for name, (sent, again) in segments.items()}
    name = max(shares, key=shares.__getitem__)
    again = segments[name][1]
    detail = f"{name} sent {shares[name]:.2%} of its segments again ({again:,}), the most of all"
    ok = asked or shares[name] <= RESENT
    return Check(ABOUT.name, shares[name], RESENT, "of segments", ok, detail, asked)
