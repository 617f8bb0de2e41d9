"""What netem is told that the batched encoder of :mod:`shaping` does not say: as ``tc`` commands, which are data.

A plain delay is two numbers, and the encoder sets a thousand of them in a tenth of a second. Jitter needs the table of the
normal distribution that iproute2 ships, and no library packs netem's seed, so the rest is left to ``tc``.
"""

from __future__ import annotations

from testbed.lab.base import Impairment
from testbed.lab.netns.shaping import CLASS_HANDLE, NETEM_HANDLE

KEEPS_ORDER = "34gbit"
"""With a rate, netem lets no packet pass the one before it (``netem_enqueue`` in the kernel's net/sched/sch_netem.c adds to
the time of the last one); at the largest that every version takes, a full packet takes 0.4 us."""


def command(interface: str, limit: int, impairment: Impairment, seed: int | None) -> list[str]:
    """``tc`` words that give an interface's class this impairment, whatever it had before.

    ``limit`` is the queue's in packets; ``seed`` is None where ``tc`` cannot say it.
    """
    words = ["qdisc", "replace", "dev", interface, "parent", handle(CLASS_HANDLE), "handle", handle(NETEM_HANDLE)]
    words += ["netem", "limit", str(limit), "delay", _time(impairment.delay_s)]
    if impairment.jitter_s:
        words += [_time(impairment.jitter_s), "distribution", "normal"]
    if impairment.loss:
        words += ["loss", "random", _share(impairment.loss)]
    if impairment.reorder:
        words += ["reorder", _share(impairment.reorder), "gap", "1"]
    words += ["rate", KEEPS_ORDER]
    return words if seed is None else [*words, "seed", str(seed)]


def handle(number: int) -> str:
    """As ``tc`` writes it: ``1:1``."""
    major, minor = number >> 16, number & 0xFFFF
    return f"{major:x}:{minor:x}" if minor else f"{major:x}:"


def _time(seconds: float) -> str:
    return f"{round(seconds * 1e9)}ns"


def _share(share: float) -> str:
    return f"{share * 100:.10g}%"
