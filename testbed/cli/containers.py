"""``testbed image``: what containers are made from."""

from __future__ import annotations

from testbed.cli.output import AsJson, print_json


def image(as_json: AsJson = False) -> None:
    """Make the image from which the lab docker starts hosts.

    It is made from this machine, without a registry. Programs, Python and testbed are mounted into containers,
    read-only.
    """
    from testbed.lab.docker import image as images
    from testbed.lab.docker.daemon import Daemon

    name = images.make(Daemon())
    if as_json:
        print_json({"image": name})
    else:
        print(f"{name} is made: testbed run SPEC --backend docker")
