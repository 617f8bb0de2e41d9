"""The kind of schemes that other people's libraries run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.base.errors import SchemeError, SpecError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Asked, Refusal
from testbed.workloads.kinds.forest.kind import ForestKind, own_order
from testbed.workloads.kinds.forest.sharing import AloneSharing
from testbed.workloads.kinds.library import installed
from testbed.workloads.kinds.library.plan import Library, library_of
from testbed.workloads.kinds.library.simulation import GlooSimulation
from testbed.workloads.kinds.library.software import LibrarySoftware
from testbed.workloads.kinds.parts import Carrier, Unknown
from testbed.workloads.kinds.process import Process
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant


class LibraryCarrier(Carrier[Forest]):
    """The backend of a library that PyTorch brings."""

    def for_scripts(self, plan: Forest, topology: Topology) -> Forest:
        library = library_of(plan).name
        if library != "gloo":
            raise SchemeError(
                f"scheme {plan.scheme} cannot carry a script: Open MPI is not a backend of this PyTorch",
                fix="take gloo, which PyTorch brings, or a scheme of testbed's such as ring",
            )
        return scripted(plan, library)


class LibraryUnknown(Unknown[Forest]):
    """Facts about what a library does by itself."""

    def bytes(self, plan: Forest) -> str:
        library = library_of(plan)
        if library.exact:
            return ""
        return f"which bytes {library.name} moves in its algorithm {library.algorithm} is not ours to say"

    def load(self, plan: Forest) -> str:
        return f"what {library_of(plan).name} takes of the cores is not measured"


class LibraryKind(ForestKind):
    """Schemes that a library runs. Its bytes are compared with the forest's; processes connect as the library likes."""

    name = "library"
    run_by = Library
    connections = None
    sharing = AloneSharing()
    simulation = GlooSimulation()
    tools = installed.OPENMPI
    software = LibrarySoftware()
    carrier = LibraryCarrier()
    unknown = LibraryUnknown()

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        if asked.priority:
            raise own_order(plan, "priority: layer", "a library sends")
        if asked.overlap == "both":
            raise own_order(plan, "overlap: both", "a library sends")
        if installed.needs_agent(library_of(plan)) and not asked.has_agent:
            raise SpecError(
                f"scheme {library_of(plan).name}: mpirun reaches the other hosts by ssh from the first one, and the "
                f"lab {asked.lab} has connections from the controller only",
                fix="take gloo or a scheme of testbed's on machines, or the lab netns or docker for openmpi",
            )

    def describe(self, plan: Forest) -> list[tuple[str, str]]:
        library = library_of(plan)
        what = "the forest that it follows" if library.exact else "the cheapest forest known here; its own is not known"
        return [("run by", f"{library.name}, algorithm {library.algorithm}; below is {what}")]

    def cannot(self, plan: Forest) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment, or write of: iteration"
        return {"steps": Refusal(f"{library_of(plan).name} makes its steps by itself", fix)}

    def processes(self, plan: Forest) -> Sequence[Process]:
        return [replace(process, meets=()) for process in super().processes(plan)]

    def meet(self, plan: Forest) -> Sequence[int]:
        return plan.workers

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.library.node import join

        return super().join(job, plan, part, called_off) if part is None else join(job, plan, part)


KIND = LibraryKind()
