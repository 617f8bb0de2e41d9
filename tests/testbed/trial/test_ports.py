"""Ports of connections between processes, of which a node may have several."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.ports import SYNC_PORT, Ports
from testbed.workloads.kinds.process import Process, merged, named, process

from ..conftest import SPEC

COMPUTE = "workload.compute={mode: paced, pace: {2: 10 ms}}"


def listeners(processes: dict[str, Process], ports: Ports) -> list[tuple[int, int]]:
    """The (node, port) of each end that listens."""
    ends = [(each, processes[other]) for each in processes.values() for other in each.meets]
    assert all(ports.of(each, other) == ports.of(other, each) for each, other in ends), "both ends agree"
    return [(other.node, ports.of(each, other)) for each, other in ends if each.node < other.node]


@pytest.mark.parametrize("scheme", ["ring", "ps", "mlfabric_a"])
def test_where_each_node_has_one_process_with_connections_ports_are_by_node(scheme: str) -> None:
    spec = read(SPEC, "spec.yaml", Path(), [f"arms=[{{topology: star(hosts=5), scheme: {scheme}}}]", COMPUTE])
    trial, *_ = trials(spec)
    ends = [(each, trial.members[other]) for each in trial.members.values() for other in each.meets]
    assert ends
    assert all(trial.ports.of(each, other) == SYNC_PORT + min(each.node, other.node) for each, other in ends)
    assert trial.ports.range == range(SYNC_PORT, SYNC_PORT + len(trial.topology.nodes))


def box(workers: int, cores: int) -> dict[str, Process]:
    """Workers that each meet all processes of a box, which has one for each core."""
    names = [f"box.{core}" for core in range(cores)]
    hosts = [f"h{node}" for node in range(workers)]
    return named(
        [
            *(process(name, node, "worker", node, names) for node, name in enumerate(hosts)),
            *(process(name, workers, "core", meets=hosts) for name in names),
        ],
        "",
    )


def test_each_process_of_a_box_listens_at_ports_of_its_own() -> None:
    processes = box(workers=3, cores=4)
    ports = Ports(processes, 5)
    listed = listeners(processes, ports)
    assert len(set(listed)) == len(listed) == 12
    assert sorted(port for _, port in listed) == [
        *range(SYNC_PORT, SYNC_PORT + 3),
        *range(SYNC_PORT + 5, SYNC_PORT + 14),
    ]
    assert {port for _, port in listed} <= set(ports.range)


def test_hosts_with_processes_of_several_jobs_and_a_worker_beside_a_server_have_no_port_twice() -> None:
    """Each host of a job has a worker and a server, and each worker meets all servers of other hosts."""

    def job(hosts: range) -> list[Process]:
        servers, workers = ([f"h{node}{end}" for node in hosts] for end in (".server", ""))
        others = {node: [name for name in servers if name != f"h{node}.server"] for node in hosts}
        return [
            *(process(name, node, "worker", node, others[node]) for node, name in zip(hosts, workers, strict=True)),
            *(
                process(name, node, "server", meets=[worker for worker in workers if f"{worker}.server" != name])
                for node, name in zip(hosts, servers, strict=True)
            ),
        ]

    processes = merged([named(job(range(4)), "a"), named(job(range(4)), "b")])
    listed = listeners(processes, Ports(processes, 4))
    assert len(set(listed)) == len(listed) == 2 * 2 * 6
