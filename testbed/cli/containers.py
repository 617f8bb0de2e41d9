"""``testbed image`` and ``clean``: what containers are made from, and what killed runs have left of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json
from testbed.columns import columns


def image(as_json: AsJson = False) -> None:
    """Make the image that hosts of the lab docker are started from.

    From this machine, without a registry: programs, Python and testbed are mounted into containers, read-only.
    """
    from testbed.lab.docker import image as images
    from testbed.lab.docker.daemon import Daemon

    name = images.make(Daemon())
    if as_json:
        print_json({"image": name})
    else:
        print(f"{name} is made: testbed run SPEC --backend docker")


def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what killed runs have left on this machine, and with --yes remove it.

    Only what carries testbed's own mark, of a process that is gone. The lab netns leaves nothing.
    """
    from testbed import leftovers

    found, unseen = leftovers.find()
    if yes:
        leftovers.remove(found)
    if as_json:
        print_json({"removed": yes, "left": [asdict(one) for one in found], "not_looked_at": unseen})
        return
    if found:
        rows = [(one.lab, one.name, one.state, f"process {one.owner_pid}") for one in found]
        print(columns(("lab", "what", "state", "left by"), rows, left=4))
        print(f"\n{len(found)} removed" if yes else "\nremove them: testbed clean --yes")
    else:
        print("nothing is left over")
    for reason in unseen:
        print(f"not looked at: {reason}")
