"""Engine that moves the bytes of a script's collectives: many at a time, whose sizes are known only when they come."""

from testbed.workloads.kinds.script.engine.rank import Group, RankEngine, join

__all__ = ["Group", "RankEngine", "join"]
