"""The ``netns`` lab: a network in private kernel namespaces of this machine."""

from testbed.lab.netns.attached import Attached
from testbed.lab.netns.lab import NetnsLab

__all__ = ["Attached", "NetnsLab"]
