"""Retransmissions: what TCP had to send twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from testbed.base.check import About, Check, not_watched
from testbed.fidelity import drops
from testbed.fidelity.seen import Seen
from testbed.perturb.registry import PERTURBATIONS

ABOUT = About(
    "retransmissions",
    sees="packets lost, by the count of segments that TCP sent again on each host and that had not arrived",
    misses="losses on transports other than TCP",
)
LOST = 0.002
"""Most of a host's TCP segments that were sent again and had not arrived: 0 to 0.1 % in good trials, 2.5 % after a link
was cut for 0.2 s."""
RESENT = 0.01
"""Most of all that were sent again. TCP does so as well when acknowledgements suddenly take longer, as behind data in a
long queue, where its timer expects them after 0.2 s. Receivers say what they had got before (RFC 2883)."""
DISTURBING = frozenset(name for name, kind in PERTURBATIONS.items() if kind.disturbs_tcp)
"""Kinds of events that change links or fill them: TCP then has to send again, as it would on such a network."""


class Segments(NamedTuple):
    """TCP segments of a host: those that were sent, those that were sent again, and those of the latter that had
    arrived."""

    sent: int
    again: int
    needless: int = 0

    @property
    def lost(self) -> int:
        """Number of segments that were sent again and had not arrived."""
        return max(0, self.again - self.needless)

    @property
    def lost_share(self) -> float:
        """Share of all sent segments that were lost."""
        return self.lost / max(1, self.sent + self.again)

    @property
    def again_share(self) -> float:
        """Share of all sent segments that were sent again."""
        return self.again / max(1, self.sent + self.again)


def checks(seen: Seen) -> Iterator[Check]:
    counted = [line for line in seen.done if line["sent_segments"] is not None]
    links = seen.trial.spec.links
    asked = links.loss > 0 or links.reorder > 0 or bool(DISTURBING & seen.happened) or drops.asked(seen)
    if seen.done or seen.samples is None:
        yield judge(of_hosts(counted, seen.job.processes), asked)


def of_hosts(counted: Iterable[Mapping[str, Any]], node_of: Mapping[str, int]) -> dict[str, Segments]:
    """Return the segments of each host, by the name of the process there that counted for longest. All processes of a
    host count the same segments, and of a few that one saw in a moment, a single lost one is a large share."""
    longest: dict[int | str, Mapping[str, Any]] = {}
    for line in sorted(counted, key=lambda line: line["sent_segments"]):
        longest[node_of.get(line["name"], line["name"])] = line
    return {
        line["name"]: Segments(
            line["sent_segments"] or 0, line["resent_segments"] or 0, line.get("needless_segments") or 0
        )
        for line in longest.values()
    }


def judge(segments: Mapping[str, Segments], asked: bool = False) -> Check:
    """Judge the host with the largest share of TCP segments that were lost, or, if one sent too many again, that host.

    ``asked`` says that links were changed on purpose so that TCP has to; then it is told and not judged.
    """
    if not segments:
        return not_watched(ABOUT, LOST, "of segments", "no process counted TCP's segments")
    worst = max(segments, key=lambda name: segments[name].lost_share)
    busiest = max(segments, key=lambda name: segments[name].again_share)
    name, share, most = worst, segments[worst].lost_share, LOST
    if share <= LOST and segments[busiest].again_share > RESENT:
        name, share, most = busiest, segments[busiest].again_share, RESENT
    one = segments[name]
    had_arrived = f"; {one.again - one.lost:,} had arrived" if one.again > one.lost else ""
    detail = f"{name} sent {one.again_share:.2%} of its segments again ({one.again:,}{had_arrived}), the most of all"
    return Check(ABOUT.name, share, most, "of segments", asked or share <= most, detail, asked)
