"""What the module testbed_host finds out about a host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ["numpy", "torch", "sklearn"]
LIBRARY = Path(__file__).parents[2] / "playbooks/library"


@pytest.mark.parametrize(
    ("said", "found"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda = '12.6'", "12.6"), ("cuda: Optional[str] = None", "None")],
)
def test_a_pytorch_for_cuda_is_told_without_importing_it(tmp_path: Path, said: str, found: str) -> None:
    pytest.importorskip("ansible")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise AssertionError('this takes seconds')\n")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.13.0'\ndebug = False\n{said}\n")
    assert told("cuda_torch()", tmp_path) == found


def test_what_of_ours_is_there_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ansible")
    for name in ("code-12ab/testbed/workloads/worker.py", "code-half/testbed/experiment/run.py", "venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("#!/bin/sh\necho torch\n")
        (tmp_path / name).chmod(0o755)
    here, nowhere = str(tmp_path), str(tmp_path / "nowhere")
    expression = f"[(code(home), missing(home)) for home in ({here!r}, {nowhere!r})]"
    assert told(expression, tmp_path) == str([(["12ab"], ["torch"]), ([], NEEDED)])


@pytest.mark.parametrize(
    ("made", "refused"),
    [((), False), (("file",), True), (("file", ".testbed"), False), ((".testbed",), False)],
)
def test_a_directory_that_somebody_else_made_is_refused(tmp_path: Path, made: tuple[str, ...], refused: bool) -> None:
    pytest.importorskip("ansible")
    home = tmp_path / "home"
    home.mkdir()
    for name in made:
        (home / name).touch()
    looks = [f"refuse_others_home(module, {str(path)!r})" for path in (home, tmp_path / "not there")]
    said = told("module.said", tmp_path, "\n".join([MODULE, *looks]))
    assert said == str([f"{home} is there already, and testbed did not make it"] if refused else [])


MODULE = """
import types
module = types.SimpleNamespace(said=[])
module.fail_json = lambda msg, fix: module.said.append(msg)
"""

BRIDGED = """
mount -t sysfs none /sys && ip link set lo up && ip link add br0 type bridge && ip link add eth1 type veth peer eth2
ip link set eth1 master br0 && ip link set br0 up
ip address add 10.9.9.1/24 dev br0 && ip address add 10.9.9.2/24 dev br0
ip -6 address add fd00::2/64 dev br0 nodad && exec "$@"
"""
"""A host that is reached by a bridge, of which eth1 is a port; eth2 is not."""


@pytest.mark.lab
@pytest.mark.parametrize("address", ["10.9.9.1", "10.9.9.2", "fd00::2", "fe80::1%br0"])
def test_what_is_below_the_interface_of_the_ssh_connection_carries_it(address: str) -> None:
    """For the playbooks' module, and for the agent; an address that no interface has may be any one's."""
    pytest.importorskip("ansible")
    if os.geteuid():
        pytest.skip("needs root")
    code = f"""
import sys; sys.path.insert(0, {str(LIBRARY)!r})
import testbed_host
from testbed.base.errors import HostError
from testbed.lab.baremetal.nics.readback import ssh_interfaces

print(sorted(testbed_host.carry_ssh(testbed_host.ssh_address()) or []))
try:
    print(sorted(ssh_interfaces({{"10.9.9.1": "br0", "10.9.9.2": "br0"}})))
except HostError as error:
    print(error.problem)
"""
    words = ["unshare", "-n", "-m", "sh", "-c", BRIDGED, "sh", sys.executable, "-c", code]
    environment = {**os.environ, "SSH_CONNECTION": f"10.9.9.9 5 {address} 22"}
    done = subprocess.run(words, env=environment, cwd=LIBRARY.parents[1], capture_output=True, text=True, check=True)
    known = address != "fe80::1%br0"
    module, agent = done.stdout.splitlines()
    assert module == ("['br0', 'eth1']" if known else "[]")
    assert agent == ("['br0', 'eth1']" if known else NOBODYS)


NOBODYS = "none of its NICs has the address of the SSH connection, fe80::1, so that it may be any of them"


def told(expression: str, path: Path, before: str = "") -> str:
    """What an expression over the module is, ``before`` done, in a Python that imports from ``path``, too."""
    code = [f"import sys; sys.path[:0] = {[str(path), str(LIBRARY)]}", "from testbed_host import *", before]
    code += [f"print({expression})"]
    return subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True
    ).stdout.strip()
