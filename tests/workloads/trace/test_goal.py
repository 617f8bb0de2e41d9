"""GOAL schedules: one text for all ranks."""

from __future__ import annotations

import io

import pytest

import testbed
from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.workloads.trace import goal
from testbed.workloads.trace.graph import Kind, check
from testbed.workloads.trace.transfers import transfers

TEXT = """\
// a comment
num_ranks 2

rank 0 {
  start: calc 5600 cpu 1
  s: send 8192b to 1 tag 7 cpu 0 nic 0   # another one
  r: recv 16b from 1
  recv 4b from 1 tag 1
  s requires start
  r irequires s
}
rank 1 {
l1: recv 8192b from 0 tag 7
l2: send 16b to 0
l2 requires l1
}
"""


def test_a_rank_is_read_with_what_its_operations_wait_for() -> None:
    read = goal.read(TEXT.encode(), "x.goal", 0)
    assert [(node.kind.name, node.duration_us, node.bytes, node.peer, node.tag) for node in read.nodes] == [
        ("COMP", 6, 0, -1, 0),
        ("COMM_SEND", 0, 8192, 1, 7),
        ("COMM_RECV", 0, 16, 1, 0),
        ("COMM_RECV", 0, 4, 1, 1),
    ]
    # What must have begun has what it waits for.
    assert [node.after for node in read.nodes] == [(), (1,), (1,), ()]
    assert [node.stream for node in read.nodes[:2]] == [(True, 1), (True, 0)]
    assert [node.after for node in goal.read(TEXT.encode(), "x.goal", 1).nodes] == [(), (1,)]


@pytest.mark.parametrize(
    ("scheme", "network"), [("ring", "star(hosts=4)"), ("ps", "star(hosts=5)"), ("bml", "bcube(n=2,k=2)")]
)
def test_a_scheme_that_is_written_is_read_again(scheme: str, network: str) -> None:
    _, ranks = transfers(testbed.forest(scheme, network).model, 2**16, build(network, rate_bps=10**9))
    file = io.BytesIO()
    goal.write(file, ranks, {"scheme": scheme})
    again = {rank: goal.read(file.getvalue(), "x.goal", rank).nodes for rank in ranks}
    for rank, nodes in again.items():
        number = {node.id: place for place, node in enumerate(ranks[rank], 1)}
        told = [(node.kind, node.bytes, node.peer, node.tag, node.duration_us, set(node.after)) for node in nodes]
        assert told == [
            (node.kind, node.bytes, node.peer, node.tag, node.duration_us, {number[before] for before in node.before})
            for node in ranks[rank]
        ]
    check(again, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "x.goal: is no GOAL schedule: it is cut off"),
        ("é", "x.goal: is no GOAL schedule: it is not plain text"),
        ("rank 0 {\n}", "x.goal: is no GOAL schedule: line 1 is not num_ranks and a number"),
        ("num_ranks 0", "x.goal: is no GOAL schedule: line 1 is not num_ranks and a number"),
        ("num_ranks 1\nrank 1 {\n}", "x.goal: line 2: rank 1 { begins none of 1 ranks"),
        ("num_ranks 1\nrank 0 {\nl: calc 5", "x.goal: is no GOAL schedule: it is cut off"),
        (
            "num_ranks 1\nrank 0 {\nl: put 8b to 1\n}",
            "x.goal: line 3: l: put 8b to 1 is no send, recv, calc or requires",
        ),
        ("num_ranks 1\nrank 0 {\nl: calc 1\nl: calc 1\n}", "x.goal: line 4: l is there twice"),
        ("num_ranks 1\nrank 0 {\nl: calc 1\nl requires m\n}", "x.goal: line 4: there is no m"),
        ("num_ranks 1\nrank 0 {\nsend 8b from 1\n}", "x.goal: line 3: send from"),
        ("num_ranks 1\nrank 0 {\nsend 0b to 1\n}", "x.goal: line 3: a message of 0 bytes"),
        ("num_ranks 1\nrank 0 {\nsend 1b to 1 tag 9999999999\n}", "x.goal: line 3: the tag 9999999999"),
        ("num_ranks 1\nrank 0 {\ncalc 99999999999999999\n}", "x.goal: line 3: 99999999999999999 ns, and a day is"),
        ("num_ranks 1\nrank 0 {\ncalc 1\ncalc 1\ncalc 1\n}", "x.goal: has more than 2 nodes"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        goal.read(text.encode(), "x.goal", 0, 2)
    assert caught.value.problem.startswith(told)


def test_a_rank_that_it_does_not_have_is_named() -> None:
    with pytest.raises(SpecError, match=r"there is no rank 2 of 2"):
        goal.read(TEXT.encode(), "x.goal", 2)
    assert {node.kind for node in goal.read(TEXT.encode(), "x.goal", 1).nodes} == {Kind.COMM_SEND, Kind.COMM_RECV}
