"""A script's collectives over a scheme: real ranks on this machine, real connections, and results that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.execution import rank_lines
from tests.workloads.kinds.script.backend.ranks import Ranks

SCRIPT = Path(__file__).with_name("random_calls.py")


@pytest.mark.parametrize(
    ("topology", "scheme", "off"), [("star(hosts=4)", "ring", "0"), ("star(hosts=4,ina=all)", "switchml", "1e-4")]
)
def test_random_collectives_give_what_they_must(topology: str, scheme: str, off: str, tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, topology, scheme, check=7)
    for status, said in ranks.fork(SCRIPT, "80", "1", off):
        assert status == 0, said
    for rank in range(ranks.world):
        rows = rank_lines.rows(rank_lines.read(ranks.samples(f"h{rank}")), rank, rank)
        assert rows is not None
        assert {call.by for call in rows.calls} >= {"scheme", "gloo", "direct"}
        assert rows.compared
        assert max(one.largest for one in rows.compared) < 1e-3


def test_groups_that_are_destroyed_are_gone_and_servers_serve_one_default_group(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "star(hosts=3,ina=all)", "switchml")
    statuses, said = zip(*ranks.fork(SCRIPT.with_name("many_groups.py")), strict=True)
    assert statuses == (1, 1, 1), "\n".join(said)
    for rank in range(3):
        (error,) = (line for line in rank_lines.read(ranks.samples(f"h{rank}")) if line["kind"] == "error")
        assert (error["error"], error["fix"]) == (
            "the script makes its default process group again, and s0 added for the scheme until the first one was "
            "destroyed",
            "keep the process group to the end, and make others with new_group()",
        )


def test_calls_of_other_kinds(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "star(hosts=4)", "ring")
    statuses, said = zip(*ranks.fork(SCRIPT.with_name("other_calls.py")), strict=True)
    assert statuses == (0, 1, 0, 0), "\n".join(said)
    assert [text.splitlines()[-1] for rank, text in enumerate(said) if rank != 1] == ["told"] * 3
    assert "ValueError: enough" in said[1]
    rows = rank_lines.rows(rank_lines.read(ranks.samples("h0")), 0, 0)
    assert rows is not None
    assert [where for _, _, where in rows.nonfinite] == ["sum"]


@pytest.mark.parametrize("mover", ["ring", "gloo"])
def test_an_error_that_a_script_catches_ends_no_other_collective_and_is_told(mover: str, tmp_path: Path) -> None:
    """What a tensor can hold is as with Gloo, which the script runs over, too."""
    ranks = Ranks(tmp_path, "star(hosts=3)", "ring")
    ranks.library = "" if mover == "ring" else mover
    for status, said in ranks.fork(SCRIPT.with_name("caught.py"), "alone" if mover == "ring" else "once"):
        assert status == 0, said
    rows = [rank_lines.rows(rank_lines.read(ranks.samples(f"h{rank}")), rank, rank) for rank in range(3)]
    told = [[(one.op, one.sequence is not None) for one in each.failed] for each in rows if each is not None]
    messages = [("send", mover == "gloo"), ("recv", mover == "gloo"), ("all_to_all", mover == "gloo")]
    refused = [("allreduce", False)] if mover == "ring" else []
    lonely = [("allreduce", True)] if mover == "ring" else []
    overlapping = [(op, True) for op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "all_gather")]
    assert told == [
        [*messages, ("allreduce", True), *refused, *lonely, *(2 * refused)],
        [*overlapping, *messages, *refused, *lonely],
        [*messages, *refused, *lonely],
    ]
