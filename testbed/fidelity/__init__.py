"""Whether a trial's numbers can be believed: what the network and the machine did against what they were asked for.

A file a check. Each says what it sees, from which evidence, what it cannot see, which numbers it threatens, and beside
each limit what it was set from. Everything here judges data; nothing is measured. :mod:`.judgement` makes verdicts of
the checks.
"""

from testbed.analysis.verdicts import INVALID, SIMULATED, UNWATCHED, VALID
from testbed.base.check import Check
from testbed.fidelity.judgement import abouts, failed, judge, only_the_machine, reasons, told, verdicts
from testbed.fidelity.seen import Seen

__all__ = [
    "INVALID",
    "SIMULATED",
    "UNWATCHED",
    "VALID",
    "Check",
    "Seen",
    "abouts",
    "failed",
    "judge",
    "only_the_machine",
    "reasons",
    "told",
    "verdicts",
]
