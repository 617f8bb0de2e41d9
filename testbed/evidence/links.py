"""Bytes of a trial's links: what the kernel counted, and what theory expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np

from testbed.lab.measurements import Counters
from testbed.trial.model import Trial
from testbed.trial.phases import Phase, link_bytes

LinkRecord = TypedDict(
    "LinkRecord",
    {
        "link": int,
        "from": str,
        "to": str,
        "rate_bps": int,
        "bytes": int | None,
        "other_bytes": int,
        "drops": int | None,
        "refused": int,
        "theory_bytes": int | None,
        "extra_bytes": int,
    },
)
"""Part of a trial's JSON about a directed link: ``bytes`` and ``drops`` are None where the lab does not count it, and
``theory_bytes`` where nobody knows them. ``other_bytes`` are those of bursts and background flows, which ``bytes`` has
not, and ``extra_bytes`` what TCP may have added: acknowledgements, and what it sent again; of scripts also headers of
messages, and what PyTorch's store sent. ``refused`` packets are drops for which a core of the machine had no room."""


def link_records(
    trial: Trial,
    phases: Sequence[Sequence[Phase]],
    counters: Iterable[Counters],
    other_bytes: Mapping[int, float],
    extra_bytes: Mapping[int, float],
) -> list[LinkRecord]:
    """Describe, for each directed link, what the kernel counted during training and what theory expects, headers
    included.

    ``phases`` are those of each job.
    ``other_bytes`` is the part of the count, by directed link, of bursts and of background flows, and ``extra_bytes``
    what TCP may have added on that link: acknowledgements, and what it sent again.
    """
    topology = trial.topology
    theory = np.sum([link_bytes(one) for one in phases], axis=0) / trial.network.goodput
    known = all(job.knows_bytes for job in trial.jobs)
    counted = {count.directed_link: count for count in counters}
    found: list[LinkRecord] = []
    for link in range(2 * len(topology.links)):
        count, others = counted.get(link), other_bytes.get(link, 0.0)
        found.append(
            {
                "link": link,
                "from": topology.nodes[topology.tail(link)].name,
                "to": topology.nodes[topology.head(link)].name,
                "rate_bps": topology.links[link // 2].rate_bps,
                "bytes": max(0, round(count.bytes - others)) if count else None,
                "other_bytes": round(others),
                "drops": count.drops if count else None,
                "refused": count.refused if count else 0,
                "theory_bytes": round(theory[link]) if known else None,
                "extra_bytes": round(extra_bytes.get(link, 0.0)),
            }
        )
    return found


def counters_between(before: Iterable[Counters], after: Iterable[Counters]) -> list[Counters]:
    """Subtract the kernel's counts of two readings."""
    return [
        Counters(
            now.directed_link,
            now.bytes - then.bytes,
            now.packets - then.packets,
            now.drops - then.drops,
            now.refused - then.refused,
        )
        for then, now in zip(before, after, strict=True)
    ]
