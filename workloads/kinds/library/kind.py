"""The kind of schemes that other people's libraries run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.base.errors import MissingToolError, SchemeError, SpecError
from testbed.base.extras import pip
from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Asked, Refusal, Tool
from testbed.workloads.kinds.forest.kind import AloneSharing, ForestKind, own_order
from testbed.workloads.kinds.library.plan import Library, library_of
from testbed.workloads.kinds.library.simulation import GlooSimulation
from testbed.workloads.kinds.parts import Carrier, Software, Unknown
from testbed.workloads.kinds.process import Process
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant


OPENMPI = (
    Tool("mpirun", "the scheme openmpi", "sudo apt-get install openmpi-bin"),
    Tool("mpi4py", "the scheme openmpi", f"{pip()} install mpi4py", is_package=True),
)
MEETING_PORT = 9_500
"""Port at which rank 0 listens, if the library wants that: beside the ports of :mod:`testbed.trial.job_files`."""


class LibrarySoftware(Software[Forest]):
    """The library that a plan names."""

    def require(self, plan: Forest) -> None:
        for tool in OPENMPI if library_of(plan).name == "openmpi" else ():
            if not tool.is_there:
                raise MissingToolError(f"scheme openmpi needs {tool.name}, which is not installed", fix=tool.fix)

    def meeting_port(self, plan: Forest) -> int | None:
        return MEETING_PORT

    def needs_agent(self, plan: Forest) -> bool:
        return library_of(plan).name == "openmpi"

    def uses_torch(self, plan: Forest) -> bool:
        return library_of(plan).name == "gloo"  # even where ranks train nothing

    def polling(self, plan: Forest) -> str:
        library = library_of(plan)
        return library.name if library.polls else ""


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
    tools = OPENMPI
    software = LibrarySoftware()
    carrier = LibraryCarrier()
    unknown = LibraryUnknown()

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        if asked.priority:
            raise own_order(plan, "priority: layer", "a library sends")
        if asked.overlap == "both":
            raise own_order(plan, "overlap: both", "a library sends")
        if self.software.needs_agent(plan) and not asked.has_agent:
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
        if part is None:
            return super().join(job, plan, part, called_off)
        library = library_of(plan)
        table = cut(plan, job.buckets[-1][1], job.buckets, job.chunk_bytes)
        if library.name == "gloo":  # a process needs one of these imports
            from testbed.workloads.kinds.library.gloo import Gloo

            return Gloo(job, library, table, part.gradient)
        from testbed.workloads.kinds.library.openmpi import OpenMpi

        return OpenMpi(job, library, table, part.gradient)


KIND = LibraryKind()
