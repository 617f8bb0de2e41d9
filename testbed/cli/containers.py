"""``testbed image``: what containers are made from."""

from __future__ import annotations

from testbed.cli.output import AsJson, print_json


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
