"""Every exit code of the command line, and which error leads to which."""

from __future__ import annotations

from testbed.base.errors import IncomparableError, TestbedError, TrialError

OK = 0
TRIAL_FAILED = 1
BAD_SPEC_OR_USAGE = 2
REGRESSION = 3
UNDECIDED = 4
"""Exit code of a comparison with nothing comparable, or inconclusive."""
INTERRUPTED = 130  # 128 + SIGINT, the shell's convention


def code_for(error: TestbedError) -> int:
    """Exit code of an error: 1 for what failed while running, 4 for what cannot be compared, 2 for what should not have
    been asked."""
    if isinstance(error, IncomparableError):
        return UNDECIDED
    return TRIAL_FAILED if isinstance(error, TrialError) else BAD_SPEC_OR_USAGE
