"""Workers on real SSH hosts, which are namespaces of this machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.base.errors import HostError
from testbed.base.python import code_command
from testbed.spread import ssh
from testbed.spread.dask import Dask
from testbed.spread.ssh import Ssh
from tests.packages import ROOT
from tests.rehearsal.rehearsal import Rehearsal

from ..lab.baremetal.conftest import skip_without_hosts
from .test_spread import until

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    skip_without_hosts()
    with Rehearsal(tmp_path_factory.mktemp("hosts"), hosts=2) as hosts:
        yield hosts


def workers_on(hosts: Rehearsal) -> list[str]:
    """Command lines of what is left of workers."""
    told = [
        subprocess.run(hosts.on(host, ["ps", "ax", "-o", "args"]), capture_output=True, text=True) for host in (0, 1)
    ]
    return [line for said in told for line in said.stdout.splitlines() if "dask" in line or "spawn_main" in line]


def test_each_host_of_an_inventory_has_a_worker_until_the_end(hosts: Rehearsal) -> None:
    engine = Ssh(str(hosts.write_inventory(outside=True)), trusts_network=False)
    try:
        assert sorted(engine.workers()) == hosts.names
        asked = {name: engine.send(name, platform.node) for name in hosts.names}
        assert {name: future.result(60) for name, future in asked.items()} == {one: one for one in hosts.names}
        assert workers_on(hosts)
    finally:
        engine.close()
    until(lambda: not workers_on(hosts), 10.0)


HOLD = "import socket; held = socket.create_server(('127.0.0.1', 0)); print(held.getsockname()[1], flush=True); input()"


@pytest.mark.parametrize("place", range(3), ids=["scheduler there", "worker there", "worker here"])
def test_a_worker_whose_port_somebody_took_begins_again(
    hosts: Rehearsal, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    free, given = ssh.free_ports, list[list[int]]()
    command = code_command(HOLD) if place == 2 else hosts.on(0, code_command(HOLD))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        held = int(holder.stdout.readline())

        def ports(count: int) -> list[int]:
            given.append(free(count))
            if len(given) == 1:  # those of the first host
                given[0][place] = held
            return given[-1]

        monkeypatch.setattr(ssh, "free_ports", ports)
        engine = Ssh(str(hosts.write_inventory(outside=True)), trusts_network=False)
        try:
            assert sorted(engine.workers()) == hosts.names
            assert len(given) == 3
        finally:
            engine.close()
            holder.communicate("\n")
    until(lambda: not workers_on(hosts), 10.0)


def test_workers_end_when_the_process_is_killed_that_started_them(hosts: Rehearsal) -> None:
    inventory = hosts.write_inventory(outside=True)
    code = f"from testbed.spread.ssh import Ssh; Ssh({str(inventory)!r}, False); print('there', flush=True); input()"
    with subprocess.Popen(
        code_command(code),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        assert workers_on(hosts)
        process.kill()
        until(lambda: not workers_on(hosts), 10.0)


def test_a_host_without_testbed_is_named(hosts: Rehearsal) -> None:
    inventory = hosts.write_inventory(
        lambda by_name: by_name["node2"].update(testbed_python="/nowhere/python"), outside=True
    )
    with pytest.raises(HostError, match=r"node2 starts no worker: .*/nowhere/python"):
        Ssh(str(inventory), trusts_network=False)
    until(lambda: not workers_on(hosts), 10.0)


def test_a_worker_needs_the_resource(tmp_path: Path) -> None:
    options = {
        "processes": False,
        "protocol": "tcp",
        "dashboard_address": None,
        "threads_per_worker": 1,
        "local_directory": str(tmp_path),
    }
    with distributed.LocalCluster(n_workers=1, host="127.0.0.1", **options) as cluster:
        address = cluster.scheduler_address.rpartition("//")[2]
        with pytest.raises(HostError, match=f"no worker of dask://{address} has the resource testbed") as refused:
            Dask(address, trusts_network=False)
        assert refused.value.fix == 'start them so: dask worker SCHEDULER --resources "testbed=1"'
