"""The harness: specs, trials, labs, fidelity, run directories, the command line, and the interface for Python programs.

::

    run = testbed.run("mine.yaml", set={"links.rate": "100 Mbit/s"})    # or a dict in place of the file
    run.table                                                           # pandas: a row for each trial
    testbed.load("runs/mine-...")                                       # the same of a run that is there
    testbed.compare("baseline.json", run)
    testbed.forest("bml", testbed.topology("bcube(n=3,k=2)")).least_gst_s
    testbed.find("dlrm", servers=16, degree=6).arm                      # circuits for a job, by TopoOpt's finder
    testbed.order("costs.csv", "ring").order                            # hosts by rank, in which a ring costs least
    with testbed.up("mine.yaml") as lab: lab.exec("h0", "ping -c 1 h1")

Each name is imported when it is first used, so ``import testbed`` takes no time: every ``import torch`` does it, by the
entry point in ``testbed/autoload.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed import errors as errors
    from testbed.api.comparison import Comparison, compare
    from testbed.api.finding import Finding, find
    from testbed.api.forest import Forest, forest
    from testbed.api.hybrid import Hybrid
    from testbed.api.lab import Lab, up
    from testbed.api.order import RankOrder, order
    from testbed.api.results import Run, Trial, load
    from testbed.api.run import run
    from testbed.api.topology import Topology, topology
    from testbed.base.marks import log, mark
else:
    _MODULES = {
        "api.comparison": ("Comparison", "compare"),
        "api.finding": ("Finding", "find"),
        "api.forest": ("Forest", "forest"),
        "api.hybrid": ("Hybrid",),
        "api.lab": ("Lab", "up"),
        "api.order": ("RankOrder", "order"),
        "api.results": ("Run", "Trial", "load"),
        "api.run": ("run",),
        "api.topology": ("Topology", "topology"),
        "base.marks": ("log", "mark"),
    }

    def __getattr__(name: str) -> object:
        if name == "errors":
            return import_module("testbed.errors")
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"testbed.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Comparison",
    "Finding",
    "Forest",
    "Hybrid",
    "Lab",
    "RankOrder",
    "Run",
    "Topology",
    "Trial",
    "compare",
    "errors",
    "find",
    "forest",
    "load",
    "log",
    "mark",
    "order",
    "run",
    "topology",
    "up",
]
