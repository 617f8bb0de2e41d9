"""A process that takes a core's time: busy from SIGUSR1 to SIGUSR2, again and again, else asleep.

Usage: ``python -P -m testbed.workloads.perturbing.hog``
"""

from __future__ import annotations

import signal
import sys

SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    print("ready", flush=True)
    while True:
        while signal.sigwait(SIGNALS) != signal.SIGUSR1:
            pass
        print("busy", flush=True)
        while signal.SIGUSR2 not in signal.sigpending():
            sum(range(20_000))


if __name__ == "__main__":
    sys.exit(main())
