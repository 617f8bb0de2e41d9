"""Monitor of the hosts' CPUs while a trial runs."""

from __future__ import annotations

import math
from contextlib import suppress

from testbed.base.errors import LabError
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog


class FleetMonitor:
    """Monitor of the hosts, as :class:`testbed.machine.monitor.Monitor`; ``log`` is that of the host with the least
    time to spare."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __enter__(self) -> FleetMonitor:
        self._fleet.logs.clear()
        self._fleet.process_logs.clear()
        self._fleet.ask(HostRequests.watch(True))
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(LabError):  # who is lost is told of elsewhere
            self._fleet.ask(HostRequests.watch(False))

    @property
    def log(self) -> CpuLog:
        return min(self._fleet.logs.values(), key=_spare, default=CpuLog())

    @property
    def processes(self) -> ProcessLog:
        """Merge the logs of all hosts: a time in which any host was not looked at counts as not looked at."""
        logs = list(self._fleet.process_logs.values())
        return ProcessLog(
            of={name: one for log in logs for name, one in log.of.items()},
            looks=min((log.looks for log in logs), default=0),
            begun_s=max((log.begun_s for log in logs), default=0.0),
            looked_s=min((log.looked_s for log in logs), default=0.0),
            gaps=[gap for log in logs for gap in log.gaps],
        )


def _spare(log: CpuLog) -> float:
    """Idle share over all of a log, less the share of the time for which a quota kept processes from cores."""
    total_s, took_s = log.total_s[-1] - log.total_s[0], log.at_s[-1] - log.at_s[0]
    if not total_s or not took_s:
        return 1.0
    throttled_s = log.throttled_s[-1] - log.throttled_s[0]
    return (log.idle_s[-1] - log.idle_s[0]) / total_s - (0.0 if math.isnan(throttled_s) else throttled_s / took_s)
