"""Programs that the controller of this lab needs: Ansible, ssh, and our playbooks, which are not in the package."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from testbed.base.errors import MissingToolError
from testbed.base.extras import install
from testbed.base.python import PACKAGE

PLAYBOOKS = PACKAGE.parent / "playbooks"
INSTALL = install("baremetal")
NEEDED_BY = "an inventory, as for the lab baremetal and --on ssh://, needs"


def program(name: str) -> str:
    """Path of a program of Ansible's, beside the Python that runs testbed.

    Raises:
        MissingToolError: it is not there.
    """
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise MissingToolError(f"{NEEDED_BY} {name}, which is not installed", fix=INSTALL)
    return str(path)


def check_installed() -> None:
    """
    Raises:
        MissingToolError: Ansible, ansible-runner, ssh or the playbooks are not there.
    """
    program("ansible-playbook")
    if importlib.util.find_spec("ansible_runner") is None:
        raise MissingToolError(f"{NEEDED_BY} ansible-runner, which is not installed", fix=INSTALL)
    if shutil.which("ssh") is None:
        raise MissingToolError(f"{NEEDED_BY} ssh, which is not installed", fix="apt-get install openssh-client")
    if not PLAYBOOKS.is_dir():
        raise MissingToolError(f"there are no playbooks in {PLAYBOOKS}", fix="install testbed from its source tree")
