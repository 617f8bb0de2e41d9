"""Schemes as MSCCL's XML, run by an interpreter that knows nothing of forests."""

from __future__ import annotations

from collections import defaultdict, deque
from xml.etree import ElementTree

import pytest

import testbed
from testbed.base.errors import SchemeError
from testbed.workloads.trace.msccl import algorithm


def run(text: bytes) -> list[list[list[int]]]:
    """Run an algorithm to its end; return the contributions in each chunk of each rank, by the rank they are of."""
    algo = ElementTree.fromstring(text)
    ranks, chunks = int(algo.get("ngpus", 0)), int(algo.get("nchunksperloop", 0))
    buffers = [[[rank] for _ in range(chunks)] for rank in range(ranks)]
    wires: dict[tuple[int, int], deque[list[list[int]]]] = defaultdict(deque)
    blocks = {
        (int(gpu.get("id", -1)), int(tb.get("id", -1))): (int(tb.get("send", -1)), int(tb.get("recv", -1)), list(tb))
        for gpu in algo
        for tb in gpu
    }
    done = dict.fromkeys(blocks, 0)
    moved = True
    while moved:
        moved = False
        for (rank, block), (send, receive, steps) in blocks.items():
            while done[rank, block] < len(steps):
                step = steps[done[rank, block]]
                kind, first, count = step.get("type"), int(step.get("srcoff", -1)), int(step.get("cnt", -1))
                other, number = int(step.get("depid", -1)), int(step.get("deps", -1))
                if other >= 0 and done[rank, other] <= number:
                    break
                if other >= 0:
                    assert blocks[rank, other][2][number].get("hasdep") == "1"
                wire = wires[receive, rank]
                if kind == "s":
                    wires[rank, send].append([list(chunk) for chunk in buffers[rank][first : first + count]])
                elif kind in ("r", "rrc"):
                    if not wire:
                        break
                    came = wire.popleft()
                    assert len(came) == count
                    for place, chunk in enumerate(came, first):
                        buffers[rank][place] = chunk + (buffers[rank][place] if kind == "rrc" else [])
                else:
                    assert kind == "nop"
                done[rank, block] += 1
                moved = True
    assert all(done[key] == len(steps) for key, (_, _, steps) in blocks.items())
    assert not any(wires.values())
    return buffers


@pytest.mark.parametrize(
    ("scheme", "network", "chunks"),
    [
        ("ring", "star(hosts=4)", 4),
        ("tree", "star(hosts=6)", 1),
        ("double_binary_tree", "star(hosts=7)", 2),
        ("ps", "star(hosts=5)", 5),
        ("halving_doubling", "star(hosts=8)", 8),
        ("bml", "bcube(n=2,k=2)", 8),
        ("two_level", "spine_leaf(racks=2,hosts_per_rack=2,spines=1)", 4),
    ],
)
def test_every_rank_ends_with_each_contribution_once(scheme: str, network: str, chunks: int) -> None:
    made = testbed.forest(scheme, network).model
    ended = run(algorithm(made, 2**16))
    assert all(len(rank) == chunks for rank in ended)
    assert all(sorted(chunk) == list(range(len(made.workers))) for rank in ended for chunk in rank)


def test_a_ring_has_two_blocks_a_rank_and_its_steps_are_s_rrc_and_r() -> None:
    algo = ElementTree.fromstring(algorithm(testbed.forest("ring", "star(hosts=4)").model, 2**16))
    for rank, gpu in enumerate(algo):
        told = {(tb.get("send"), tb.get("recv")): [step.get("type") for step in tb] for tb in gpu}
        assert told == {
            (str((rank + 1) % 4), "-1"): ["s"] * 6,
            ("-1", str((rank - 1) % 4)): ["rrc"] * 3 + ["r"] * 3,
        }


@pytest.mark.parametrize(
    ("scheme", "network", "told"),
    [
        ("switchml", "star(hosts=4,ina=all)", "switchml adds on s0, and MSCCL has only ranks"),
        (
            "async_ps",
            "star(hosts=4)",
            "transfers of async_ps in a trial of the kind asynchronous are not known beforehand",
        ),
    ],
)
def test_others_are_refused(scheme: str, network: str, told: str) -> None:
    with pytest.raises(SchemeError) as caught:
        algorithm(testbed.forest(scheme, network).model, 2**16)
    assert caught.value.problem.startswith(told)
