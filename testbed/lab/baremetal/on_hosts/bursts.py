"""Bursts between hosts, one host's part: receives some, or sends some; runs on the host, in a process of its own."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from testbed.workloads.bursts.probe import finish, receive, send
from testbed.workloads.job import Probe

_End = TypeVar("_End")


def main(
    sends: Sequence[Mapping[str, Any]],
    receives: Sequence[Mapping[str, Any]],
    ready: int,
    result: Path,
    inside: Callable[[int], AbstractContextManager[object]],
) -> int:
    """Write a byte to ``ready`` when bursts can come, and a line of JSON for each burst received, by its place in the
    list, to ``result``. Return 0, or raise the exception that testbed.workloads.bursts.probe has."""
    selector = selectors.DefaultSelector()

    def begin(how: Callable[[Probe, selectors.BaseSelector], _End], one: Mapping[str, Any]) -> _End:
        asked = dict(one)
        with inside(asked.pop("node", 0)):
            return how(Probe(**asked), selector)

    receivers = [begin(receive, one) for one in receives]
    senders = [begin(send, one) for one in sends]
    os.write(ready, b"1")
    os.close(ready)
    finish(selector, max(one["duration_s"] for one in [*sends, *receives]))
    for sender in senders:
        sender.end()
    lines = [{"burst": number, "rate_bps": one.arrivals.rate_bps} for number, one in enumerate(receivers)]
    result.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0
