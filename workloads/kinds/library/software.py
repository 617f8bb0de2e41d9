"""Libraries as the part of their kind that says what they need on a machine, and how their ranks meet and wait."""

from __future__ import annotations

from testbed.workloads.kinds.library import installed
from testbed.workloads.kinds.library.plan import library_of
from testbed.workloads.kinds.parts import Software
from testbed.workloads.sync.forest import Forest

MEETING_PORT = 9_500
"""Port at which rank 0 listens, if the library wants that: beside the ports of :mod:`testbed.trial.job_files`."""


class LibrarySoftware(Software[Forest]):
    """The library that a plan names."""

    def require(self, plan: Forest) -> None:
        installed.require(library_of(plan))

    def meeting_port(self, plan: Forest) -> int | None:
        return MEETING_PORT

    def needs_agent(self, plan: Forest) -> bool:
        return installed.needs_agent(library_of(plan))

    def uses_torch(self, plan: Forest) -> bool:
        return installed.imports_torch(library_of(plan))

    def polling(self, plan: Forest) -> str:
        library = library_of(plan)
        return library.name if library.polls else ""
