"""``testbed doctor --capacity``: what this machine can carry, measured and kept."""

from __future__ import annotations

import sys

from testbed.cli.output import print_json, show, teller


def measured(once: bool, as_json: bool = False) -> None:
    """Measure, unless it is to be done ``once`` and was; say what was found and where it is kept.

    Raises:
        TestbedError: it cannot be measured or kept; that nothing is carried is only told where it is to be known
            ``once``.
    """
    from testbed.api import capacity

    found = capacity.known()
    if not once or found.capacity is None:
        try:
            found = capacity.measure(teller(as_json))
        except capacity.NothingCarriedError as error:
            if not once:
                raise
            print(f"{error.problem}; {error.fix}", file=sys.stderr)  # what comes after it may still be of use
            return
    elif not as_json:
        return
    if as_json:
        print_json(capacity.as_json(found))
    else:
        show("", capacity.text(found))
