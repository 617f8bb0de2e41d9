"""Bursts between hosts, one host's part: receives some, or sends some; runs on the host, in a process of its own."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.workloads.bursts.probe import finish, receive, send
from testbed.workloads.job import Probe


def main(sends: Sequence[Mapping[str, Any]], receives: Sequence[Mapping[str, Any]], ready: int, result: Path) -> int:
    """Write a byte to ``ready`` when bursts can come, and a line of JSON for each burst received, by its place in the
    list, to ``result``. Return 0, or raise the exception that testbed.workloads.bursts.probe has."""
    selector = selectors.DefaultSelector()
    receivers = [receive(Probe(**one), selector) for one in receives]
    senders = [send(Probe(**one), selector) for one in sends]
    os.write(ready, b"1")
    os.close(ready)
    finish(selector, max(one["duration_s"] for one in [*sends, *receives]))
    for sender in senders:
        sender.end()
    lines = [{"burst": number, "rate_bps": one.arrivals.rate_bps} for number, one in enumerate(receivers)]
    result.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0
