"""The kind of a script under a scheme: its collectives go along the scheme's trees, whenever it asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from testbed.base.check import Check
from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Asked, Expected, Refusal, Told
from testbed.workloads.kinds.forest.kind import AloneSharing, ForestKind
from testbed.workloads.kinds.parts import Carrier, OwnChecks, OwnSamples, Scripts, Simulation, Table, Unknown, Wording
from testbed.workloads.kinds.script import checks
from testbed.workloads.kinds.script.plan import Scripted, library_of
from testbed.workloads.sync.chunk_size import CALL_BYTES, CHUNK_BYTES, suiting
from testbed.workloads.sync.cost import Shaper
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, messages

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.kinds.measures import Measures
    from testbed.workloads.kinds.ranks import Account, Collected, RankRows
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.exchange import Moved
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

_COMPUTES = Refusal(
    "a script computes by itself, and testbed cannot slow it down from within", "slow its host down with kind: hog"
)
_COUNTS = Refusal("a script's iterations are not known before it runs", "write a time, such as at: 3 s")
_STAYS = Refusal("a script's connections stay where they are", "leave circuits as they are in this experiment")


class Ranks(Scripts[Forest]):
    """Ranks whose backend is ours, along the trees of a scheme, or Gloo's."""

    def wrap(self) -> None:
        from testbed.workloads.kinds.script.backend.initialise import wrap

        wrap()

    def library(self, plan: Forest) -> str:
        return library_of(plan)

    def account(
        self, plan: Forest, topology: Topology, ranks: Sequence[RankRows], warmup: int, shaper: Shaper
    ) -> Account:
        from testbed.workloads.kinds.script.account import account

        return account(plan, topology, ranks, warmup, shaper)

    def moved(
        self, plan: Forest, ranks: Sequence[int], asked: Collected, chunk_bytes: int
    ) -> tuple[Sequence[Moved], str]:
        from testbed.workloads.kinds.script.ways import moved

        return moved(plan, ranks, asked, chunk_bytes)


class ScriptChecks(OwnChecks[Forest]):
    """Checks of what the ranks of a script tell of its collectives."""

    abouts = checks.ABOUTS

    def judge(self, plan: Forest, told: Told, expected: Expected) -> Iterable[Check]:
        return checks.checks(told)


class ScriptUnknown(Unknown[Forest]):
    """Facts about what a script asks for."""

    def bytes(self, plan: Forest) -> str:
        if not library_of(plan):
            return ""
        return "which bytes Gloo moves in collectives besides allreduce is not ours to say"

    def load(self, plan: Forest) -> str:
        return "what a script computes and asks for is known only when it runs"


class ScriptSamples(OwnSamples):
    """Samples that are made of what ranks tell of each collective."""

    @cached_property
    def measures(self) -> Measures:
        from testbed.workloads.kinds.script.measures import ScriptMeasures

        return ScriptMeasures()


NOTES = {
    "gst": "GST of a script begins when the last rank has asked for the last sum of an iteration. It ends when "
    "the last rank has it. Sums that were asked for earlier are on their way before.",
    "jct": "JCT of a script under a scheme runs from the beginning of its first iteration to the end of the last "
    "one. Set-up, which comes before, is a number of its own: from the start of the first process, with imports, "
    "data, the process group and the copy of the weights. The first iteration begins as long before its last sum "
    "as later ones do, by the median. Records without a set-up are of an earlier version, and their JCT has most "
    "of it.",
}


class ScriptTable(Table[Forest]):
    """Messages of an AllReduce, for the whole gradient at once. Which collectives a script asks for is not known."""

    def messages(self, plan: Forest, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        from testbed.workloads.kinds.script.collectives.calls import Call, What
        from testbed.workloads.kinds.script.collectives.shapes import pieces

        return messages(*pieces(plan, Call(What.ALLREDUCE, "float32", gradient.floats, "sum"), chunk_bytes))


class ScriptKind(ForestKind):
    """Trials of any script that torchrun could start, over a backend of ours for ``torch.distributed``."""

    name = "script"
    run_by = Scripted
    scripts = Ranks()
    own_checks = ScriptChecks()
    table = ScriptTable()
    simulation: Simulation[Forest] = Simulation()
    connections = None
    sharing = AloneSharing()
    repair = None
    carrier = Carrier("it carries one already")
    unknown = ScriptUnknown()
    own_samples = ScriptSamples(numbers=("exposed_s", "hidden_s", "setup_busy_s", "sum_error", "nonfinite"))
    wording = Wording(NOTES)

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        """Accept everything: none of the options for workers of ours applies to a script."""

    def cannot(self, plan: Forest) -> Mapping[str, Refusal]:
        return {"computing": _COMPUTES, "steps": _COMPUTES, "iterations": _COUNTS, "circuits": _STAYS}

    def keepers(self, plan: Forest) -> Sequence[int]:
        return ()

    def meet(self, plan: Forest) -> Sequence[int]:
        return plan.workers

    def chunk_bytes(self, plan: Forest, gradient_bytes: float, slowest_bps: float) -> int:
        is_in_slots = plan.window > 0  # whose memory a larger chunk would multiply
        return suiting(slowest_bps, CHUNK_BYTES[1] if is_in_slots else CALL_BYTES)  # ranks shorten them for each call

    def chunks(self, plan: Forest, gradient: Any, chunk_bytes: int) -> int:
        return 0

    def prepare(self) -> None:
        """Do nothing: ranks are no children of the process that calls this; a server imports what it needs when it
        joins."""

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        assert part is None  # ranks are not workers of ours
        from testbed.workloads.kinds.script.engine.server import join

        session: Session = join(job, plan, called_off)
        return session


KIND = ScriptKind()
