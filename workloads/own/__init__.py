"""Models and data of a user's own: ``./net.py:Net(classes=10)``, ``torchvision.resnet18``, ``./data.py:load``,
``mnist(path=...)``, ``cifar10(path=...)``.

Problem: planning needs the sizes of the layers, every worker needs the module and the samples, in every lab, and a
process of the harness must train as the workers do. A user's loader may take long, read files that no container sees,
download, or draw by chance.

Chosen: while a trial is planned, one process (:mod:`testbed.workloads.own.prepare`) runs the user's code, checks that
model and data fit each other, and leaves files: the samples as arrays, the initial weights, and the Python files that
the model is made from. Trials get copies of these files (:mod:`testbed.workloads.own.prepared`), which workers map into
memory (:mod:`testbed.workloads.own.placed`). So the loader runs once, workers share the samples' memory, and what is
edited while a run goes on changes nothing in it.

Rejected: loading in each worker, which multiplies time and memory, and needs the data on each host; pickling the
module, which classes within functions forbid; tracing it (torch.export), which many modules do not pass.
"""

from __future__ import annotations

from testbed.topologies.load import is_in_file

TORCHVISION = "torchvision."
FORMATS = ("mnist", "cifar10")
"""Data sets that are read from files of the user's."""


def is_own_model(text: str) -> bool:
    """Whether a spec's ``model`` is not one of ours."""
    name = text.partition("(")[0].strip()
    return is_in_file(name) or name.startswith(TORCHVISION)


def is_own_data(text: str) -> bool:
    """Whether a spec's ``dataset`` is not one of ours."""
    name = text.partition("(")[0].strip()
    return is_in_file(name) or name in FORMATS
