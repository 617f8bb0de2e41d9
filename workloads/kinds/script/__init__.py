"""Scripts of the user's: a command by itself (:mod:`.command`), or one whose collectives go along a scheme's trees
(:mod:`.kind`). Ranks import parts of this package, so it imports nothing here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.workloads.kinds.script.kind import KIND
else:

    def __getattr__(name: str) -> Any:
        if name != "KIND":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from testbed.workloads.kinds.script.kind import KIND

        return KIND


__all__ = ["KIND"]
