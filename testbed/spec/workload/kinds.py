"""Kinds of workload that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator

from testbed.base.groups import keys_of, kind_of, tag, tagged
from testbed.base.plugins import with_plugged
from testbed.spec.workload.base import Workload
from testbed.spec.workload.command import Command
from testbed.spec.workload.lda import Lda
from testbed.spec.workload.profile import Profile
from testbed.spec.workload.trace import ExecutionTrace
from testbed.spec.workload.train import Train

_BUILT_IN = (Train, Profile, Lda, Command, ExecutionTrace)
KINDS: dict[str, type[Workload]] = with_plugged("workloads", {kind_of(one): one for one in _BUILT_IN})
"""The kinds of workload, by the name that ``kind`` gives; each entry point ``testbed.workloads`` is such a class."""


def _kind(value: object) -> Any:
    """Tag of the union below for a workload: its ``kind``; without one, the first kind that has most of its keys. A
    value that is no group of keys is refused as one of the default kind."""
    if isinstance(value, dict) and "kind" not in value:
        return tag(min(KINDS, key=lambda kind: len(value.keys() - keys_of(KINDS[kind]))))
    return tag(str(value["kind"] if isinstance(value, dict) else getattr(value, "kind", "train")))


if TYPE_CHECKING:
    AnyWorkload = Train | Profile | Lda | Command | ExecutionTrace
else:
    AnyWorkload = Annotated[tagged(KINDS.values()), Discriminator(_kind)]
