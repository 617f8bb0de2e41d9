"""The ``netns`` lab: a network in private kernel namespaces of this machine.

Each name is imported when it is first used, so that :mod:`testbed.lab.netns.place` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.lab.netns.lab import NetnsLab
    from testbed.lab.netns.on_nodes.attached import Attached
else:
    _MODULES = {"Attached": "on_nodes.attached", "NetnsLab": "lab"}

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Attached", "NetnsLab"]
