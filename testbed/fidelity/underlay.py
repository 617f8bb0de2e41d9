"""Network between the machines over which one emulated network is spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from testbed.base.check import About, Check
from testbed.base.units import rate_text
from testbed.fidelity.seen import Seen
from testbed.lab.measurements import Interruption

ABOUT = About(
    "underlay",
    sees="how much of what a machine's NIC was measured to carry, with all machines sending at once, it was used for, "
    "or could be by all of its links to other machines; packets that it dropped; times in which nothing came from "
    "another machine",
    misses="use by others within a second; drops at switches between machines, which retransmissions show",
    machine=True,
    remedy="put nodes that send to each other on one machine, or give links lower rates",
)
MOST = 0.85
"""Most of a NIC's rate that may be in use. Above it, links that seem fast enough one by one are slower together: two of
200 Mbit/s over 300 Mbit/s carried 183 Mbit/s alone, and 127 each at once, without a drop at their own queues."""
_what = itemgetter("what")


def checks(seen: Seen) -> Iterator[Check]:
    if seen.machines:
        yield judge(seen.machines, [event for event in seen.events if event["kind"] == Interruption.KIND])


def judge(machines: Sequence[Mapping[str, Any]], interruptions: Sequence[Mapping[str, Any]] = ()) -> Check:
    """Judge the NICs of machines.

    Args:
        machines: of each its ``machine``, its ``nic``, the ``rate_bps`` that was measured, what it can be used for at
            most by the links that cross (``most_bps``), the highest mean between two readings in the trial
            (``peak_bps``), and packets ``dropped``. Where no more can be used than is allowed, the peak does not count:
            it is of others.
        interruptions: events of the record in which nothing came from another machine.
    """
    shares = [one["most_bps"] / one["rate_bps"] for one in machines]
    used = [
        share if share <= MOST else one["peak_bps"] / one["rate_bps"]
        for share, one in zip(shares, machines, strict=True)
    ]
    worst = max(range(len(machines)), key=used.__getitem__)
    one, share = machines[worst], used[worst]
    of = f"{one['machine']}'s {one['nic']}, which carries {rate_text(round(one['rate_bps'], -6))}"
    detail = f"{share:.0%} of {of}" + (", if all links to other machines are full" if shares[worst] <= MOST else "")
    dropped = {found["machine"]: found["dropped"] for found in machines if found["dropped"]}
    if dropped:
        detail += "; " + ", ".join(f"{count} packets dropped at {machine}" for machine, count in dropped.items())
    for what, events in groupby(sorted(interruptions, key=_what), key=_what):
        longest_s, begun_s = max((event["done_s"] - event["begun_s"], event["begun_s"]) for event in events)
        when = f"{abs(begun_s):.1f} s {'before' if begun_s < 0 else 'after'} the start"
        detail += f"; {what} for up to {longest_s:.1f} s, from {when} on"
    fits = share <= MOST and not dropped and not interruptions
    return Check(ABOUT.name, share, MOST, "of a NIC", fits, detail, machine=True)
